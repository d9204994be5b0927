"""A comparison as a document of headings, lists and tables, which report writers write as text, Markdown or LaTeX."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from textwrap import shorten

from harness.comparing.comparison import Comparison, counts
from harness.comparing.differences import RARE, TRAINING, Difference, Verdict, headlines, luck
from harness.comparing.pairing import CellName, Lone, Side
from harness.measurements import Curve, Matrix
from harness.report.blocks import LONGEST_REASON
from harness.report.elements import Block, Heading, Items, Paragraph, Table, drawn, in_ascii, in_safety
from harness.report.grouping import IN_WORDS
from harness.report.layout import Column
from harness.report.numbers import number
from harness.seeds import FEW_SEEDS, name_seeds
from harness.statistics import MARGIN
from harness.vocabulary import CROSSED
from harness.written import count

WORDS: dict[Verdict, str] = {
    "better": "better",
    "worse": "worse",
    "higher": "higher",
    "lower": "lower",
    "no clear difference": "unclear",
    "identical": "same",
    "undecided": "-",
    "not comparable": "-",
}
"""Every verdict, in order, and what stands for it where there is little room."""

TITLE = "Did the change help?"

MOST_LINES = 20
"""Items of one list; the rest is left to JSON."""


def document(comparison: Comparison, *, ascii: bool = False) -> list[Block]:
    """The answer in short, what has changed, then model by model, and what cannot be compared.

    Args:
        comparison: of two runs.
        ascii: whether to use no sign beyond ASCII.
    """
    blocks = [*map(in_safety, drawn(lambda: _parts(comparison)))]
    return [*map(in_ascii, blocks)] if ascii else blocks


def _parts(comparison: Comparison) -> Iterator[Block]:
    """Part by part, each of which may fail without the others."""
    rows = headlines(comparison.rows)
    yield Heading(TITLE, 1)
    yield Items([f"A: {about(comparison.a)}", f"B: {about(comparison.b)}"])
    yield Paragraph(in_short(rows))
    yield from drawn(lambda: overview(rows))
    for section in sections(comparison):
        yield from (Heading(section.title), *section.blocks)


@dataclass(frozen=True)
class Section:
    """A titled part."""

    title: str
    blocks: list[Block]
    rows: Sequence[Difference] = ()
    """What it is about, in a section of numbers."""


def sections(comparison: Comparison) -> Iterator[Section]:
    """What has changed; each model that differs; everything else. Without those that have nothing to say."""
    yield Section("What changed", [*drawn(lambda: _changed(comparison))])
    rows = headlines(comparison.rows)
    trials = {f"{model} on {task}": own for (model, task), own in by_trial(rows)}
    same = [title for title, own in trials.items() if all(row.verdict == "identical" for row in own)]
    for title, own in trials.items():
        if title not in same:
            yield Section(title, [*drawn(partial(_trial, own))], own)
    further: dict[str, Callable[[], list[Block]]] = {
        "Identical, bit for bit": lambda: _items(same if len(same) < len(trials) else []),
        "Failed or skipped": lambda: _items(_outcomes(comparison)),
        "In one run only": lambda: _items(_alone(comparison)),
        "How to read this": lambda: [Items(legend(comparison.rows, rows))],
    }
    for title, blocks in further.items():
        if found := [*drawn(blocks)]:
            yield Section(title, found)


def about(side: Side) -> str:
    """What a run is: where, how much, when."""
    days = sorted({f"{record.provenance.finished:%Y-%m-%d}" for record in side.records})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    seeds = name_seeds({record.seed for record in side.records})
    return " ".join(filter(None, (f"{side.out}, {count(len(side.records), 'record')}, {seeds}, {when}.", side.note)))


def in_short(rows: Sequence[Difference]) -> str:
    """The answer in a sentence or two."""
    if not rows:
        return "Nothing was measured in both."
    found = counts(rows)
    if found["identical"] == len(rows):
        return f"All {count(len(rows), 'number')} of the tables are identical, bit for bit."
    said = [f"{found[word]:,} {word.replace('no clear', 'without a clear')}" for word in WORDS if found[word]]
    text = f"B beside A, {count(len(rows), 'number')}: {', '.join(said)}."
    signs = [row for row in rows if row.verdict in ("better", "worse", "higher", "lower")]
    if signs:
        fewest = min(len(row.seeds) for row in signs)
        odds = round(1 / luck(fewest, fewest))
        text += f" By luck alone, {fewest} seeds agree in 1 of {odds} cases: trust what many numbers say alike."
    elif found["undecided"]:
        text += f" For a verdict, run both with at least {FEW_SEEDS} seeds (--seeds {FEW_SEEDS})."
    return text


def overview(rows: Sequence[Difference]) -> Iterator[Table]:
    """How many numbers of each model went which way."""
    trials = by_trial(rows)
    found = [counts(own) for _, own in trials]
    shown = [verdict for verdict in WORDS if any(each[verdict] for each in found)]
    tasks = [task for (_, task), _ in trials]
    columns = [Column("model", [model for (model, _), _ in trials], "label")]
    if len(set(tasks)) > 1:
        columns.append(Column("task", tasks, "label"))
    if any(scores := [main_score(own) for _, own in trials]):
        moves = [f"{s.measurement} {number(s.median_a)} -> {number(s.median_b)}" if s else "" for s in scores]
        columns.append(Column("main score", moves, "text"))
        columns.append(Column("verdict", [verdict(s) if s else "" for s in scores], "text"))
    short = {"no clear difference": WORDS["no clear difference"]}
    columns += [Column(short.get(word, word), [str(each[word] or "") for each in found]) for word in shown]
    if trials:
        yield Table(columns)


def main_score(rows: Iterable[Difference]) -> Difference | None:
    """The first single number of which it is known which way is good."""
    scores = [row for row in rows if row.direction and not row.place.called]
    return next((row for row in scores if row.cell.probe != TRAINING), scores[0] if scores else None)


def by_trial(rows: Iterable[Difference]) -> list[tuple[tuple[str, str], list[Difference]]]:
    """By model, with its way of training, and task."""
    found: dict[tuple[str, str], list[Difference]] = {}
    for row in rows:
        found.setdefault((row.cell.trained, row.cell.task), []).append(row)
    return list(found.items())


def _changed(comparison: Comparison) -> Iterator[Block]:
    """What differs apart from the numbers."""
    if not comparison.changes:
        yield Paragraph("Nothing that the records tell: the same code, settings, versions and machine.")
        return
    yield Items(
        [
            f"{called}: {'; '.join(f'{each.what} {each.a} -> {each.b}' for each in own)}"
            for called, own in groupby(comparison.changes, key=lambda change: change.called)
        ]
    )


def _trial(rows: Sequence[Difference]) -> Iterator[Block]:
    """A table of the single numbers, then one for each curve; what is identical is said in a sentence."""
    measured = [(key, list(own)) for key, own in groupby(rows, key=lambda row: (row.cell, row.measurement))]
    alike = [own for _, own in measured if all(row.verdict == "identical" for row in own)]
    differing = [own for own in (own for _, own in measured) if own not in alike]
    if single := [own[0] for own in differing if not own[0].place.called]:
        yield scalar_table(single)
    for own in differing:
        if isinstance(own[0].of, Curve):
            yield curve_table(own)
    if matrices := [_matrix(own) for own in differing if isinstance(own[0].of, Matrix)]:
        yield Items(matrices)
    if alike:
        yield Paragraph(f"Identical, bit for bit: {', '.join(named(own[0]) for own in alike)}.")


def named(row: Difference) -> str:
    """`accuracy: worst_inside`."""
    return f"{_probe(row.cell)}: {row.measurement}"


def _probe(cell: CellName) -> str:
    return f"{cell.probe} {IN_WORDS[cell.stage]}" if cell.stage == "initial" else cell.probe


def scalar_table(rows: Sequence[Difference]) -> Table:
    """A line for each single number."""
    labels = [f"{named(row)} ({row.unit})" if row.unit else named(row) for row in rows]
    columns = [
        Column("number", labels, "label"),
        Column("A", [number(row.median_a) for row in rows]),
        Column("B", [number(row.median_b) for row in rows]),
        Column("B - A", [change(row) for row in rows], "text"),
        Column("verdict", [verdict(row) for row in rows], "text"),
    ]
    notes = [note for row in rows for note in _words(row)]
    return Table(columns, notes=notes)


def change(row: Difference) -> str:
    """`+0.41 [+0.38..+0.45]`: the median of the paired differences, and their range."""
    summary = row.summary
    if not summary.n:
        return "NaN"
    middle, low, high = map(signed, (summary.median, summary.minimum, summary.maximum))
    return middle if low == high else f"{middle} [{low}..{high}]"


def signed(value: float) -> str:
    """A number with its sign, also where it is above 0."""
    return f"+{number(value)}" if value > 0 else number(value)


def verdict(row: Difference) -> str:
    """The word, with how many seeds say so, or why there is none."""
    up, down, level = row.ways
    if row.verdict in ("undecided", "not comparable"):
        return f"{row.verdict} ({row.why})"
    if row.verdict == "no clear difference":
        ways = ((up, "up"), (down, "down"), (level, "same"))
        return f"{row.verdict} ({', '.join(f'{n} {word}' for n, word in ways if n)})"
    return row.verdict if row.verdict == "identical" else f"{row.verdict} ({max(up, down)} of {len(row.seeds)})"


def _words(row: Difference) -> Iterator[str]:
    """What the probe says of the number, where it says something else now."""
    if row.said_a != row.said_b and row.said_a and row.said_b:
        old, new = (_counted(said) for said in (row.said_a, row.said_b))
        if old != new:
            yield f"{named(row)}: {old} -> {new}"


def _counted(said: Sequence[str]) -> str:
    """`learned 2/3, never learned 1/3`."""
    if len(said) == 1:
        return shorten(said[0], LONGEST_REASON)
    return ", ".join(f"{shorten(words, LONGEST_REASON)} {n}/{len(said)}" for words, n in Counter(said).most_common())


def curve_table(rows: Sequence[Difference]) -> Table:
    """A column for each place: medians, the paired difference with its range, the verdict."""
    lines: list[tuple[str, Callable[[Difference], str]]] = [
        ("A", lambda row: number(row.median_a)),
        ("B", lambda row: number(row.median_b)),
        ("B - A", lambda row: signed(row.summary.median)),
    ]
    if any(row.summary.minimum != row.summary.maximum for row in rows):
        lines += [
            ("lowest", lambda row: signed(row.summary.minimum)),
            ("highest", lambda row: signed(row.summary.maximum)),
        ]
    reasons = dict.fromkeys(row.why for row in rows if row.verdict in ("undecided", "not comparable"))
    if any(row.verdict not in ("undecided", "not comparable") for row in rows):
        lines.append(("verdict", lambda row: WORDS[row.verdict]))
    columns = [Column("", [name for name, _ in lines], "label")]
    for row in rows:
        header = row.place.called + ("*" if row.inside is False else "")
        columns.append(Column(header, [of(row) for _, of in lines], thin=isinstance(row.place.x, float)))
    first = rows[0]
    notes = ["* beyond the trained range"] if any(row.inside is False for row in rows) else []
    notes += [f"no verdict (-): {reason}" for reason in reasons]
    assert isinstance(first.of, Curve)
    along = f" by {first.of.x_label}" if first.of.x_label else ""
    return Table(columns, f"{named(first)}{f' ({first.unit})' if first.unit else ''}{along}", notes)


def _matrix(rows: Sequence[Difference]) -> str:
    """Of a matrix only how much of it differs, and where most."""
    differing = [row for row in rows if row.verdict != "identical"]
    most = max(differing, key=lambda row: abs(row.summary.median) if row.summary.n else -1.0)
    return (
        f"{named(most)}: {len(differing)} of {count(len(rows), 'number')} differ, most at {most.place.called}: "
        f"{number(most.median_a)} -> {number(most.median_b)}; all of them: --format csv"
    )


def _outcomes(comparison: Comparison) -> list[str]:
    """What became of cells that one run could not measure; of those that neither could, only how many there are."""
    items, neither = [], 0
    for each in comparison.outcomes:
        if "ok" not in (each.a, each.b):
            neither += len(each.seeds)
            continue
        run, why = ("A", each.a) if each.b == "ok" else ("B", each.b)
        items.append(f"{each.cell.called}, {name_seeds(each.seeds)}: in {run} {shorten(why, LONGEST_REASON)}")
    if neither:
        items.append(f"in both: {count(neither, 'record')}")
    return items


def _alone(comparison: Comparison) -> list[str]:
    """What one run has and the other lacks: plugins once, with how many cells; else cell by cell."""
    items = [f"only in {run}: {text}" for run, lone in _sides(comparison) for text in _lone(lone)]
    if any(each.lacks in CROSSED for _, lone in _sides(comparison) for each in lone) and all(
        lone for _, lone in _sides(comparison)
    ):
        items.append("if a name has changed, say which is which: --pair OLD=NEW")
    return items


def _sides(comparison: Comparison) -> tuple[tuple[str, list[Lone]], tuple[str, list[Lone]]]:
    return ("A", comparison.only_a), ("B", comparison.only_b)


def _lone(lone: Sequence[Lone]) -> Iterator[str]:
    plugins = Counter((each.lacks, getattr(each.cell, each.lacks)) for each in lone if each.lacks in CROSSED)
    for (kind, called), n in plugins.items():
        yield f"{kind} {called} ({count(n, 'cell')})"
    yield from (each.cell.called for each in lone if each.lacks == "cell")
    seeds: dict[tuple[tuple[int, ...], str, str], list[str]] = {}
    for each in lone:
        if each.lacks == "seeds":
            seeds.setdefault((each.seeds, each.cell.trained, each.cell.task), []).append(_probe(each.cell))
    for (own, model, task), probes in seeds.items():
        yield f"{name_seeds(own)} of {model} on {task} ({', '.join(dict.fromkeys(probes))})"


def _items(items: list[str]) -> list[Block]:
    if not items:
        return []
    more = len(items) - MOST_LINES
    return [Items([*items[:MOST_LINES], *([f"and {more} more: --format json"] if more > 0 else [])])]


def legend(rows: Sequence[Difference], shown: Sequence[Difference]) -> list[str]:
    """What stands in the tables, and only that."""
    found = counts(shown)
    items = [
        "A and B are medians over the seeds that both runs have. B - A is the median of the differences of the same "
        "seed, [lowest..highest] their range."
    ]
    if any(found[verdict] for verdict in ("better", "worse", "higher", "lower", "no clear difference")):
        items.append(
            f"A verdict needs {FEW_SEEDS} seeds, all of which differ in one direction (of many seeds, so many that a "
            f"coin would do it in less than 1 of {round(1 / RARE)} cases), by more than {MARGIN:g} standard errors "
            "where these are known."
        )
    if found["higher"] or found["lower"]:
        items.append("higher, lower: the same, of a number of which nobody says which way is good.")
    if found["no clear difference"]:
        items.append("no clear difference (unclear): seeds disagree, or differ by less than the examples leave open.")
    if found["identical"]:
        items.append("identical (same): the same numbers in every seed, bit for bit.")
    if further := sum(row.verdict != "identical" for row in rows) - sum(row.verdict != "identical" for row in shown):
        items.append(f"{count(further, 'more number')} that tables do not show differ: --format csv has all of them.")
    return items
