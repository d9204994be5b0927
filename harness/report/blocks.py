"""The report as a document: what is said, in which order, whatever it is written as."""

from collections import Counter
from collections.abc import Callable, Sequence
from textwrap import shorten

from harness.report.curves import TABLES
from harness.report.grouping import IN_WORDS, Group, Row, group
from harness.report.layout import Column
from harness.report.legend import legend
from harness.report.numbers import count, spread, with_error
from harness.report.settings import settings_blocks
from harness.report.verdicts import claim_blocks
from harness.report.writers import Block, Heading, Items, Paragraph, Table, Verbatim, in_ascii
from harness.schema import Record, Scalar
from harness.statistics import FEW_SEEDS, current, name_seeds, summarise
from harness.suites import Suite

LONGEST_REASON = 400
"""Characters of a reason or error message; the JSON has all of it, with the traceback."""


def document(
    records: Sequence[Record],
    suite: Suite | None = None,
    sections: Sequence[tuple[str, str]] = (),
    *,
    ascii: bool = False,
    compact: bool = False,
) -> list[Block]:
    """Overview, settings, warnings, a section for each probe, task and stage, how to read it, claims, further sections.

    Args:
        records: any records.
        suite: the suite they come from.
        sections: titled text to append.
        ascii: draw curves in ASCII.
        compact: put all that is said of a claim into one cell, for narrow pages.
    """
    kept, older = current(records)
    groups = group(kept, suite)
    blocks: list[Block] = [Heading(f"Results of {suite.name}" if suite and suite.name != "run" else "Results", 1)]
    if suite and suite.summary:
        blocks.append(Paragraph(suite.summary))
    blocks.append(Paragraph(_overview(kept, older)))
    if kept:
        blocks += settings_blocks(kept, suite)
    if warnings := _said(kept, lambda record: record.warnings):
        blocks += [Heading("Warnings"), Items(warnings)]
    results = [block for each in groups for block in _group(each, ascii)]
    blocks += results
    if items := legend(groups, [block for block in results if isinstance(block, Table)]):
        blocks += [Heading("How to read this"), Items(items)]
    if notes := _said(kept, lambda record: ["pretrained, not trained"] * record.pretrained + record.notes):
        blocks += [Heading("Notes"), Items(notes)]
    if suite and suite.claims:
        blocks += claim_blocks(suite, kept, compact=compact)
    for title, text in sections:
        blocks += [Heading(title), Verbatim(text)]
    return [in_ascii(block) for block in blocks] if ascii else blocks


def _overview(kept: list[Record], older: int) -> str:
    if not kept:
        return "There are no records: nothing has been measured yet."
    outcomes = Counter(record.status for record in kept)
    parts = [f"{outcomes[status]:,} {status}" for status in ("ok", "skipped", "failed") if outcomes[status]]
    outcome = "all ok" if outcomes["ok"] == len(kept) else ", ".join(parts)
    text = f"{count(len(kept), 'record')}: {outcome}."
    if older:
        text += f" {count(older, 'older record')} of the same cells not shown (measured again since)."
    return text


def _said(kept: list[Record], of: Callable[[Record], list[str]]) -> list[str]:
    """What records say of their model on their task, once; with the seeds it concerns, if these are not all."""
    seeds: dict[str, set[int]] = {}
    said: dict[tuple[str, str], set[int]] = {}
    for record in kept:
        trial = f"{record.model.called} on {record.task.called}"
        seeds.setdefault(trial, set()).add(record.seed)
        for text in of(record):
            said.setdefault((trial, text), set()).add(record.seed)
    return [
        f"{trial}{'' if found == seeds[trial] else f', {name_seeds(found)}'}: {shorten(text, LONGEST_REASON)}"
        for (trial, text), found in said.items()
    ]


def _group(group: Group, ascii: bool) -> list[Block]:
    blocks: list[Block] = [Heading(f"{group.probe} on {group.task}, {_when(group)}")]
    if group.measured:
        blocks.append(_summary_table(group))
    for kind, tables in TABLES.items():
        blocks += [table for name in group.names(kind) for table in tables(name, group.measured, ascii)]
    if missing := _not_measured(group.rows):
        blocks += [Paragraph("Not measured:"), Items(missing)]
    return blocks


def _when(group: Group) -> str:
    records = [record for row in group.rows for record in row.records]
    if group.stage == "trained" and all(record.training.steps == 0 for record in records):
        return "pretrained" if all(record.pretrained for record in records) else "without training (0 steps)"
    return IN_WORDS[group.stage]


def _summary_table(group: Group) -> Table:
    """A row for each model: size, settings in which rows differ, seeds, and the single numbers with what they mean. And
    the versions of torch, if there are several: ids do not have it, since an upgrade would train everything again for
    numbers that mostly differ in their last digits, as they do between processors."""
    rows = group.measured
    columns = [
        Column("model", [row.marked for row in rows], "label"),
        Column("parameters", ["" if row.parameters is None else f"{row.parameters:,}" for row in rows]),
    ]
    columns += [Column(name, [row.conditions[name] for row in rows]) for name in rows[0].conditions]
    versions = [sorted({record.provenance.torch for record in row.ok}) for row in rows]
    if len({version for found in versions for version in found}) > 1:
        columns.append(Column("torch", [", ".join(found) for found in versions], "text"))
    if not all(row.once for row in rows):
        columns.append(Column("seeds", [_seeds(row) for row in rows]))
    scalars = {name: [row.find(Scalar, name) for row in rows] for name in group.names(Scalar)}
    for name, found in scalars.items():
        unit = next(s.unit for each in found for s in each)
        numbers = [_number(row, each) for row, each in zip(rows, found, strict=True)]
        columns.append(Column(f"{name} ({unit})" if unit else name, numbers))
        if any(s.verdict for each in found for s in each):
            columns.append(Column("verdict", [_words(each) for each in found], "text"))
    warning = f"1 seed is not a result; run more with --seeds {FEW_SEEDS}."
    # a pretrained model has no seed of its own: another one only draws other examples
    single = [row for row in rows if len(row.ok) == 1 and not row.ok[0].pretrained]
    notes = [warning] if len(single) == len(rows) else [f"{row.label}: {warning}" for row in single]
    return Table(columns, notes=notes)


def _number(row: Row, scalars: list[Scalar]) -> str:
    summary = summarise(scalar.value for scalar in scalars)
    return with_error(summary, [scalar.standard_error for scalar in scalars]) if row.once else spread(summary)


def _seeds(row: Row) -> str:
    if row.once:
        return "once"
    return str(len(row.ok)) if len(row.ok) == len(row.records) else f"{len(row.ok)} of {len(row.records)}"


def _words(scalars: list[Scalar]) -> str:
    """`learned 2/3, never learned 1/3`, one to a line where cells have lines; without numbers if there is one seed."""
    verdicts = Counter(s.verdict for s in scalars if s.verdict)
    if len(scalars) == 1:
        return next(iter(verdicts), "")
    return ",\n".join(f"{words} {n}/{len(scalars)}" for words, n in verdicts.most_common())


def _not_measured(rows: list[Row]) -> list[str]:
    """One line for each model and reason, however many seeds it struck."""
    struck: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        for record in row.records:
            if record.status != "ok":
                error = record.error
                why = f"skipped: {record.reason}" if error is None else f"failed: {error.type}: {error.message}"
                struck.setdefault((row.label, shorten(why, LONGEST_REASON)), []).append(record.seed)
    return [f"{label}, {name_seeds(seeds)} {why}" for (label, why), seeds in struck.items()]
