"""The report as a document: what is said, in which order, whatever it is written as."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from textwrap import shorten

from harness.measurements import TIMES, Scalar
from harness.report.card_table import BEST, card_blocks, explained
from harness.report.cards import Card, cards
from harness.report.elements import Block, Heading, Items, Paragraph, Table, Verbatim, drawn, in_ascii, in_safety
from harness.report.grid_table import grid_blocks
from harness.report.grouping import IN_WORDS, Group, Row, group, names, spelled_out
from harness.report.layout import Column
from harness.report.learnability import Learnability, at_their_best, learnability
from harness.report.legend import legend
from harness.report.numbers import spread, with_error
from harness.report.overview import overview_blocks
from harness.report.settings import settings_blocks
from harness.report.tables import TABLES
from harness.report.verdicts import claim_blocks
from harness.safe import bounded, visible
from harness.schema import Record
from harness.seeds import FEW_SEEDS, current, identity, name_seeds, summarise
from harness.suites import Suite
from harness.written import count

LONGEST_REASON = 400
"""Characters of a reason or error message; the JSON has all of it, with the traceback."""


def document(
    records: Sequence[Record],
    suite: Suite | None = None,
    sections: Iterable[object] = (),
    note: str = "",
    *,
    ascii: bool = False,
    compact: bool = False,
) -> list[Block]:
    """Overview, settings, warnings, a section for each probe, task and stage, how to read it, claims, further sections.

    Args:
        records: any records.
        suite: the suite they come from.
        sections: titled text to append, as pairs; what is none is told in its place.
        note: what to say of all records, before any of them.
        ascii: draw curves in ASCII.
        compact: put all that is said of a claim into one cell, for narrow pages.
    """
    parts = drawn(lambda: _parts(records, suite, sections, note, ascii, compact))
    blocks = [*map(in_safety, parts)]
    return [*map(in_ascii, blocks)] if ascii else blocks


def _parts(
    records: Sequence[Record], suite: Suite | None, sections: Iterable[object], note: str, ascii: bool, compact: bool
) -> Iterator[Block]:
    """Part by part, each of which may fail without the others."""
    yield Heading(f"Results of {suite.name}" if suite and suite.name != "run" else "Results", 1)
    if suite and suite.summary:
        yield Paragraph(suite.summary)
    if note:
        yield Paragraph(note)
    every, older = current(records)
    learnt = cache(lambda: learnability(every, suite))  # called where it may fail
    grid = bool(suite and suite.grid)
    kept = _of_one_code(every, learnt)
    groups = group(kept, suite)
    shown = _at_best(groups, learnt) if grid else groups
    found = _cards(shown)
    yield from drawn(lambda: overview_blocks(learnt()))
    yield from drawn(lambda: card_blocks(found, BEST if grid else ""))
    yield Paragraph(_overview(every, older))
    yield from drawn(lambda: _settings(kept, shown, suite))
    yield from drawn(lambda: grid_blocks(learnt(), best_only=grid))
    yield from drawn(lambda: _titled("Warnings", _said(kept, lambda record: record.warnings)))
    results = [block for each, own in zip(shown, groups, strict=True) for block in _group(each, own.rows, ascii)]
    yield from results
    tables = [block for block in results if isinstance(block, Table)]
    yield from drawn(lambda: _titled("How to read this", _items([*explained(found), *legend(shown, tables)])))
    yield from drawn(lambda: _titled("Notes", _said(kept, _notes)))
    yield from drawn(lambda: _titled("Labels", _items(_labels(kept))))
    if suite and suite.claims:
        yield from drawn(lambda: claim_blocks(suite, every, compact=compact))
    for section in sections:
        yield from drawn(partial(_section, section))


def _of_one_code(records: list[Record], learnt: Callable[[], list[Learnability]]) -> list[Record]:
    """Those that are compared: without what other code of a model or task gave, before it was edited."""
    try:
        edited = {id(record) for each in learnt() for record in each.older}
    except Exception:  # which is told where it would be shown
        return records
    return [record for record in records if id(record) not in edited]


def _at_best(groups: list[Group], learnt: Callable[[], list[Learnability]]) -> list[Group]:
    try:
        return at_their_best(groups, learnt())
    except Exception:  # as above
        return groups


def _cards(groups: Sequence[Group]) -> list[Card]:
    try:
        return cards(groups)
    except Exception:  # of numbers that are none of a probe's own; the tables show what they are
        return []


def _labels(kept: list[Record]) -> list[str]:
    """Labels that are shorter than what a user types."""
    return [f"{label} = {bounded(full, LONGEST_REASON)}" for label, full in spelled_out(kept).items()]


def _settings(kept: list[Record], groups: Sequence[Group], suite: Suite | None) -> Iterator[Block]:
    if kept:
        yield from settings_blocks(kept, suite, [r for each in groups for row in each.rows for r in row.records])
        if single := _single(groups):
            yield Paragraph(single)


def _titled(title: str, blocks: list[Block]) -> list[Block]:
    """Nothing where there is nothing to say."""
    return [Heading(title), *blocks] if blocks else []


def _items(items: list[str]) -> list[Block]:
    return [Items(items)] if items else []


def _notes(record: Record) -> list[str]:
    return ["pretrained, not trained"] * record.pretrained + record.notes


def _section(section: object) -> Iterator[Block]:
    """What a plugin adds."""
    match section:
        case (str(title), str(text)):
            yield from (Heading(title), Verbatim(text))
        case _:
            raise TypeError(
                f"a section is a pair of texts, its title and what stands under it; received {section!r:.80}"
            )


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


def _single(groups: Sequence[Group]) -> str:
    """Which models have no second seed to compare with, all or by name; "" for none."""
    rows = [(row, group.task) for group in groups for row in group.measured if not _timed(row)]
    # a pretrained model has no seed of its own: another one only draws other examples
    seeded = {f"{row.label} on {task}": len(row.records) for row, task in rows if not row.ok[0].pretrained}
    single = [trial for trial, seeds in seeded.items() if seeds == 1]
    if not single:
        return ""
    whose = "" if len(single) == len(seeded) else f" of {', of '.join(single)}"
    return f"One seed only{whose}: the spread over seeds is unknown; --seeds {FEW_SEEDS}."


def _timed(row: Row) -> bool:
    """Whether what was measured is time, which the machine decides and no seed."""
    return any(m.unit in TIMES for record in row.ok for m in record.measurements)


def _said(kept: list[Record], of: Callable[[Record], list[str]]) -> list[Block]:
    """What records say of their model on their task, once: with the seeds it concerns, if these are not all; of all
    models on a task together, if they say the same; several things of one model under its name."""
    called = {kind: names(kept, kind) for kind in ("model", "task")}
    seeds: dict[str, dict[str, set[int]]] = {}
    said: dict[tuple[str, str], dict[str, set[int]]] = {}
    for record in kept:
        task, model = called["task"][identity(record.task)], called["model"][identity(record.model)]
        seeds.setdefault(task, {}).setdefault(model, set()).add(record.seed)
        for text in of(record):
            said.setdefault((task, text), {}).setdefault(model, set()).add(record.seed)
    texts: dict[str, list[str]] = {}
    for (task, text), models in said.items():
        if len(models) > 1 and models == seeds[task]:
            whose = [f"all models on {task}"]
        else:
            some = {
                model: "" if found == seeds[task][model] else f", {name_seeds(found)}"
                for model, found in models.items()
            }
            whose = [f"{model} on {task}{only}" for model, only in some.items()]
        for each in whose:
            texts.setdefault(each, []).append(shorten(text, LONGEST_REASON))
    single = [f"{whose}: {own[0]}" for whose, own in texts.items() if len(own) == 1]
    several = {whose: own for whose, own in texts.items() if len(own) > 1}
    blocks: list[Block] = [Items(single)] if single else []
    return blocks + [block for whose, own in several.items() for block in (Paragraph(f"{whose}:"), Items(own))]


def _group(group: Group, every: list[Row], ascii: bool) -> Iterator[Block]:
    """Tables of a group; what was not measured is told of every row, also of those that it is shown without."""
    yield Heading(f"{group.probe} on {group.task}, {_when(group)}")
    if group.measured:
        yield from drawn(lambda: [_summary_table(group)])
    for kind, tables in TABLES.items():
        yield from drawn(partial(tables, group.names(kind), group.measured, ascii))
    if missing := _not_measured(every):
        yield from (Paragraph("Not measured:"), Items(missing))


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
        columns.append(Column("torch", [visible(", ".join(found)) for found in versions], "text"))
    if not all(row.once for row in rows):
        columns.append(Column("seeds", [_seeds(row) for row in rows]))
    scalars = {name: [row.find(Scalar, name) for row in rows] for name in group.names(Scalar)}
    for name, found in scalars.items():
        unit = next(s.unit for each in found for s in each)
        numbers = [_number(row, each) for row, each in zip(rows, found, strict=True)]
        columns.append(Column(f"{name} ({unit})" if unit else name, numbers))
        if any(s.verdict for each in found for s in each):
            columns.append(Column("verdict", [_words(each) for each in found], "text"))
    return Table(columns)


def _number(row: Row, scalars: list[Scalar]) -> str:
    summary = summarise(scalar.value for scalar in scalars)
    return with_error(summary, [scalar.standard_error for scalar in scalars]) if row.once else spread(summary)


def _seeds(row: Row) -> str:
    if row.once:
        return "fixed"
    return str(len(row.ok)) if len(row.ok) == len(row.records) else f"{len(row.ok)} of {len(row.records)}"


def _words(scalars: list[Scalar]) -> str:
    """`learned 2/3, never learned 1/3`, one to a line where cells have lines; without numbers if there is one seed."""
    verdicts = Counter(visible(s.verdict) for s in scalars if s.verdict)
    if len(scalars) == 1:
        return next(iter(verdicts), "")
    return ",\n".join(f"{words} {n}/{len(scalars)}" for words, n in verdicts.most_common())


def _not_measured(rows: list[Row]) -> list[str]:
    """One line for each reason, and the seeds that it struck, however many these and the models are."""
    struck: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        for record in row.records:
            if record.status != "ok":
                error = record.error
                why = f"skipped: {record.reason}" if error is None else f"failed: {error.type}: {error.message}"
                struck.setdefault((row.label, shorten(why, LONGEST_REASON)), []).append(record.seed)
    alike: dict[tuple[str, str], list[str]] = {}
    for (label, why), seeds in struck.items():
        alike.setdefault((name_seeds(seeds), why), []).append(label)
    return [f"{', '.join(labels)}, {seeds} {why}" for (seeds, why), labels in alike.items()]
