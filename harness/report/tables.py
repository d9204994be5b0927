"""Tables of measurements over seeds: those of every kind but the single number, which stands in a summary."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from harness.measurements import Curve, Matrix, Measured, Pattern, Point, Scalar, format_place
from harness.report.elements import Table
from harness.report.grouping import Row
from harness.report.layout import Column
from harness.report.numbers import known_error, number
from harness.report.sparkline import bounds, sparkline
from harness.schema import Record
from harness.seeds import Summary, summarise
from harness.written import count

Key = tuple[float | str, int]
"""A place, and how many places of the same name come before it (words repeat in a sentence)."""

BELOW = ("±", "min", "max", "10 %", "90 %")
"""What lines under a model's medians say, in the column `seeds`: the standard error; the lowest and highest seed, or of
many seeds these quantiles."""

MOST_ROWS = 40
"""Of a matrix; the rest is left to CSV."""


def curve_tables(names: list[str], rows: list[Row], ascii: bool) -> Iterator[Table]:
    """One for all curves along the same places in the same unit, but for those that single numbers repeat."""
    tables: dict[Any, list[str]] = {}
    for name in names:
        if not all(_in_summary(record, name) for row in rows for record in row.ok):
            curve = next(curve for row in rows for curve in row.find(Curve, name))
            tables.setdefault((curve.unit, curve.x_label, tuple(curve.x), curve.scale), []).append(name)
    return (_curve_table(each, rows, ascii) for each in tables.values())


def _in_summary(record: Record, name: str) -> bool:
    """Whether a curve has a single place, and a single number says as much (or there is no such curve)."""
    own = [m for m in record.measurements if isinstance(m, Curve) and m.name == name]
    scalars = {(m.unit, m.value) for m in record.measurements if isinstance(m, Scalar) and m.headline}
    return all(len(curve.y) == 1 and (curve.unit, curve.y[0]) in scalars for curve in own)


def _curve_table(names: list[str], rows: list[Row], ascii: bool) -> Table:
    """A column for each place; for each curve and model the median, and the lowest and highest seed where they differ;
    for a model that was measured once its standard error instead."""
    found = [(name, row, curves) for name in names for row in rows if (curves := row.find(Curve, name))]
    firsts = {name: curves[0] for name, _, curves in reversed(found)}
    first = firsts[names[0]]
    every = _by_key([curve for _, _, curves in found for curve in curves])
    places = [x for x, _ in every]
    beyond = {entry.x for entries in every.values() for entry in entries if entry.inside is False}

    entries = [[own.get(key, []) for key in every] for own in (_by_key(curves) for _, _, curves in found)]
    summaries = [[summarise(entry.value for entry in each) for each in line] for line in entries]
    log = first.scale == "log"
    low, high = bounds((s.median for each in summaries for s in each), log=log)
    if first.unit == "share":
        low, high = low if log else min(0.0, low), max(1.0, high)
    lines: list[tuple[str, str, str, list[str], str]] = []
    notes = ["* beyond the trained range"] if beyond else []
    for (name, row, curves), measured, each in zip(found, entries, summaries, strict=True):
        word = "fixed" if row.once else "median" if len(curves) > 1 else "1 seed"
        shape = sparkline([s.median for s in each], low, high, log=log, ascii=ascii)
        lines.append((name, row.marked, word, [_cell(s) for s in each], shape))
        lines += [("", "", *line, "") for line in _below(row.once, measured, each, first.unit)]
        notes += _nan_notes(row.label if len(names) == 1 else f"{name}, {row.label}", each, places)
    which_curve, labels, which, cells, shapes = map(list, zip(*lines, strict=True))
    columns = [Column("curve", which_curve, "label")] if len(names) > 1 else []
    columns.append(Column("model", labels, "label"))
    if set(BELOW) & set(which):
        columns.append(Column("seeds", which, "label"))
    for index, x in enumerate(places):
        header = format_place(x) + ("*" if x in beyond else "")
        columns.append(Column(header, [line[index] for line in cells], thin=isinstance(x, float)))
    if len(places) > 1 and isinstance(places[0], float):
        columns.append(Column("shape\n(log)" if log else "shape", shapes, "shape"))
    unit = "" if first.unit == "ratio" and " / " in first.y_label else first.unit
    called = [_called(name, firsts[name].y_label) for name in names]
    if len(names) > 1:
        notes += [each for each in called if ": " in each]
        called = names
    return Table(columns, _title(", ".join(called), unit, first.x_label), notes)


def _below(
    once: bool, entries: list[list[Point]], summaries: list[Summary], unit: str
) -> Iterator[tuple[str, list[str]]]:
    """The lines under the medians that say something new, each with its word."""
    if once:
        errors = [[entry.standard_error for entry in each] for each in entries]
        known = [known_error(summary, each) for summary, each in zip(summaries, errors, strict=True)]
        if not all(map(math.isnan, known)):
            yield "±", ["" if math.isnan(error) else number(error) for error in known]
    low, high = ("10 %", "90 %") if any(summary.many for summary in summaries) else ("min", "max")
    for word, values in ((low, [s.low for s in summaries]), (high, [s.high for s in summaries])):
        pairs = list(zip(values, summaries, strict=True))
        if any(_visible(value, summary.median, unit) for value, summary in pairs):
            yield word, [number(value) if summary.n else "" for value, summary in pairs]


def _by_key(curves: list[Curve]) -> dict[Key, list[Point]]:
    """The numbers at every place on the axis: numbers in order, names as they come."""
    found: dict[Key, list[Point]] = {}
    for curve in curves:
        seen: Counter[float | str] = Counter()
        places: Sequence[float | str] = curve.x
        for x, entry in zip(places, curve.points(), strict=True):
            found.setdefault((x, seen[x]), []).append(entry)
            seen[x] += 1
    named = any(isinstance(x, str) for x, _ in found)
    return found if named else dict(sorted(found.items(), key=lambda item: float(item[0][0])))


def _cell(summary: Summary) -> str:
    return number(summary.median) if summary.n or summary.nan else ""


def _visible(value: float, median: float, unit: str) -> bool:
    """More than one per cent away from the median, or 0.01 for a share."""
    return value != median and abs(value - median) > 0.01 * (1.0 if unit == "share" else abs(median))


def _nan_notes(label: str, summaries: list[Summary], places: list[float | str]) -> list[str]:
    at = [format_place(x) for x, s in zip(places, summaries, strict=True) if s.nan and s.n]
    if not at:
        return []
    more = f" and {len(at) - 5} more" if len(at) > 5 else ""
    return [f"{label}: some seeds are NaN at {', '.join(at[:5])}{more}; the numbers are of the others"]


def matrix_tables(names: list[str], rows: list[Row], ascii: bool) -> Iterator[Table]:
    """One for each matrix and model."""
    return (_matrix_table(name, row, found) for name in names for row in rows if (found := row.find(Matrix, name)))


def pattern_tables(names: list[str], rows: list[Row], ascii: bool) -> Iterator[Table]:
    """One for each pattern and model: where its query looks in the first seed, since examples differ."""
    return (
        _matrix_table(name, row, [found[0].at_query()])
        for name in names
        for row in rows
        if (found := row.find(Pattern, name))
    )


def _matrix_table(name: str, row: Row, found: list[Matrix]) -> Table:
    """The median over seeds of one model's matrix, and where its seeds differ most."""
    first = found[0]
    alike = [matrix for matrix in found if (matrix.rows, matrix.columns) == (first.rows, first.columns)]
    summaries = [
        [summarise(matrix.values[i][j] for matrix in alike) for j in range(len(first.columns))]
        for i in range(len(first.rows))
    ]
    columns = [Column(first.row_label, first.rows[:MOST_ROWS], "label")]
    columns += [
        Column(header, [_cell(line[j]) for line in summaries[:MOST_ROWS]]) for j, header in enumerate(first.columns)
    ]
    notes = []
    if len(first.rows) > MOST_ROWS:
        notes.append(f"{MOST_ROWS} of {len(first.rows)} rows shown; all of them: --format csv")
    if len(alike) < len(found):
        notes.append(f"{count(len(found) - len(alike), 'seed')} with other rows or columns not shown: --format csv")
    cells = [(s, (first.rows[i], first.columns[j])) for i, line in enumerate(summaries) for j, s in enumerate(line)]
    widest, where = max(cells, key=lambda cell: _range(cell[0]), default=(summarise([]), ("", "")))
    if _visible(widest.maximum, widest.minimum, first.unit):
        notes.append(f"Seeds differ most at {', '.join(where)}: {number(widest.minimum)}..{number(widest.maximum)}")
    seeds = "" if row.once else f"median of {len(alike)} seeds" if len(alike) > 1 else "1 seed"
    axes = " by ".join(filter(None, (first.row_label, first.column_label)))
    how = ", ".join(filter(None, (first.unit, seeds)))
    return Table(columns, f"{name}: {row.marked}, {first.about or axes}{f' ({how})' if how else ''}", notes)


def _range(summary: Summary) -> float:
    difference = summary.maximum - summary.minimum
    return -1.0 if math.isnan(difference) else difference


def _called(name: str, what: str) -> str:
    """`loss: cross-entropy`; what is said twice is said once."""
    said = name.replace("_", " ").lower()
    return name if what.split(" (")[0].lower() in said else f"{name}: {what}"


def _title(text: str, unit: str, axis: str) -> str:
    """`accuracy (share) by distance (tokens)`, `loss: cross-entropy (nats), by distance`; an axis without a name is not
    mentioned."""
    said = unit and re.search(rf"\b{re.escape(unit)}\b", text.partition(": ")[2])
    by = f"{',' if ': ' in text else ''} by {axis}" if axis else ""
    return f"{text}{f' ({unit})' if unit and not said and f'({unit})' not in text else ''}{by}"


TABLES: dict[type[Measured], Callable[[list[str], list[Row], bool], Iterator[Table]]] = {
    Curve: curve_tables,
    Matrix: matrix_tables,
    Pattern: pattern_tables,
}
"""Of each kind, in this order: from the names of measurements, the rows of a group, and whether to draw in ASCII."""
