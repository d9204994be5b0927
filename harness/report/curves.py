"""Tables of measurements over seeds: those of every kind but the single number, which stands in a summary."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from harness.measurements import Curve, Entry, Matrix, Measured, place
from harness.report.grouping import Row
from harness.report.layout import Column
from harness.report.numbers import count, known_error, number
from harness.report.sparkline import bounds, sparkline
from harness.report.writers import Table
from harness.statistics import Summary, summarise

Key = tuple[float | str, int]
"""A place, and how many places of the same name come before it (words repeat in a sentence)."""

BELOW = ("±", "min", "max")
"""What lines under a model's medians say, in the column `seeds`: the standard error, the lowest and highest seed."""

MOST_ROWS = 40
"""Of a matrix; the rest is left to CSV."""


def curve_tables(name: str, rows: list[Row], ascii: bool) -> list[Table]:
    """One, with a column for each place; for each model its median, and the lowest and highest seed where they differ;
    for one that was measured once its standard error instead."""
    found = [(row, row.find(Curve, name)) for row in rows]
    found = [(row, curves) for row, curves in found if curves]
    first = found[0][1][0]
    every = _by_key([curve for _, curves in found for curve in curves])
    places = [x for x, _ in every]
    beyond = {entry.x for entries in every.values() for entry in entries if entry.inside is False}

    entries = [[own.get(key, []) for key in every] for own in (_by_key(curves) for _, curves in found)]
    summaries = [[summarise(entry.value for entry in each) for each in line] for line in entries]
    log = first.scale == "log"
    low, high = bounds((s.median for each in summaries for s in each), log=log)
    if first.unit == "share":
        low, high = low if log else min(0.0, low), max(1.0, high)
    lines: list[tuple[str, str, list[str], str]] = []
    notes = ["* beyond the trained range"] if beyond else []
    for (row, curves), measured, each in zip(found, entries, summaries, strict=True):
        word = "once" if row.once else "median" if len(curves) > 1 else "1 seed"
        shape = sparkline([s.median for s in each], low, high, log=log, ascii=ascii)
        lines.append((row.marked, word, [_cell(s) for s in each], shape))
        below = _below(row.once, measured, each, first.unit)
        lines += [("", *line, "") for line in below if any(line[1])]
        notes += _nan_notes(row.label, each, places)
    labels, which, cells, shapes = map(list, zip(*lines, strict=True))
    columns = [Column("model", labels, "label")]
    if set(BELOW) & set(which):
        columns.append(Column("seeds", which, "label"))
    for index, x in enumerate(places):
        header = place(x) + ("*" if x in beyond else "")
        columns.append(Column(header, [line[index] for line in cells], thin=isinstance(x, float)))
    if len(places) > 1 and isinstance(places[0], float):
        columns.append(Column("shape\n(log)" if log else "shape", shapes, "shape"))
    return [Table(columns, _title(name, first.y_label, first.unit, first.x_label), notes)]


def _below(
    once: bool, entries: list[list[Entry]], summaries: list[Summary], unit: str
) -> Iterator[tuple[str, list[str]]]:
    """The lines under the medians, each with its word, blank where they would say nothing new."""
    if once:
        errors = [[entry.standard_error for entry in each] for each in entries]
        known = [known_error(summary, each) for summary, each in zip(summaries, errors, strict=True)]
        yield "±", ["" if math.isnan(error) else number(error) for error in known]
    for word, values in (("min", [s.minimum for s in summaries]), ("max", [s.maximum for s in summaries])):
        pairs = zip(values, summaries, strict=True)
        yield word, [number(v) if _visible(v, s.median, unit) else "" for v, s in pairs]


def _by_key(curves: list[Curve]) -> dict[Key, list[Entry]]:
    """The numbers at every place on the axis: numbers in order, names as they come."""
    found: dict[Key, list[Entry]] = {}
    for curve in curves:
        seen: Counter[float | str] = Counter()
        places: Sequence[float | str] = curve.x
        for x, entry in zip(places, curve.entries(), strict=True):
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
    at = [place(x) for x, s in zip(places, summaries, strict=True) if s.nan and s.n]
    if not at:
        return []
    more = f" and {len(at) - 5} more" if len(at) > 5 else ""
    return [f"{label}: some seeds are NaN at {', '.join(at[:5])}{more}; the numbers are of the others"]


def matrix_tables(name: str, rows: list[Row], ascii: bool) -> list[Table]:
    """One for each model."""
    return [_matrix_table(name, row) for row in rows if row.find(Matrix, name)]


def _matrix_table(name: str, row: Row) -> Table:
    """The median over seeds of one model's matrix, and where its seeds differ most."""
    found = row.find(Matrix, name)
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
    seeds = "" if row.once else f", median of {len(alike)} seeds" if len(alike) > 1 else ", 1 seed"
    title = _title(name, first.row_label, first.unit, first.column_label)
    return Table(columns, f"{title}: {row.marked}{seeds}", notes)


def _range(summary: Summary) -> float:
    difference = summary.maximum - summary.minimum
    return -1.0 if math.isnan(difference) else difference


def _title(name: str, what: str, unit: str, axis: str) -> str:
    """`accuracy (share) by distance (tokens)`; what is said twice is said once, an axis without a name not at all."""
    text = name if what.split(" (")[0].lower() in name.lower() else f"{name}: {what}"
    return f"{text}{f' ({unit})' if unit and f'({unit})' not in text else ''}{f' by {axis}' if axis else ''}"


TABLES: dict[type[Measured], Callable[[str, list[Row], bool], list[Table]]] = {
    Curve: curve_tables,
    Matrix: matrix_tables,
}
"""Of each kind, in this order: from the name of a measurement, the rows of a group, and whether to draw in ASCII."""
