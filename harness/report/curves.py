"""Tables of curves and matrices over seeds."""

import math
from collections import Counter
from collections.abc import Iterator

from harness.report.grouping import Row
from harness.report.layout import Column
from harness.report.numbers import count, known_error, number, place
from harness.report.sparkline import bounds, sparkline
from harness.report.writers import Table
from harness.schema import Curve, Matrix
from harness.statistics import Summary, summarise

Key = tuple[float | str, int]
"""A place, and how many places of the same name come before it (words repeat in a sentence)."""

BELOW = ("±", "min", "max")
"""What lines under a model's medians say, in the column `seeds`: the standard error, the lowest and highest seed."""

MOST_ROWS = 40
"""Of a matrix; the rest is left to CSV."""


def curve_table(name: str, rows: list[Row], *, ascii: bool = False) -> Table:
    """A column for each place; for each model its median, and the lowest and highest seed where they differ; for one
    that was measured once its standard error instead."""
    found = [(row, row.find(Curve, name)) for row in rows]
    found = [(row, curves) for row, curves in found if curves]
    first = found[0][1][0]
    every = [curve for _, curves in found for curve in curves]
    keys = _keys(every)
    places = [x for x, _ in keys]
    beyond = {x for c in every for x, inside in zip(c.x, c.inside or [True] * len(c.x), strict=True) if not inside}

    labels: list[str] = []
    which: list[str] = []
    cells: list[list[str]] = []
    shapes: list[str] = []
    notes = ["* beyond the trained range"] if beyond else []
    summaries = [_by_key(curves, keys) for _, curves in found]
    log = first.scale == "log"
    low, high = bounds((s.median for each in summaries for s in each), log=log)
    if first.unit == "share":
        low, high = low if log else min(0.0, low), max(1.0, high)
    for (row, curves), each in zip(found, summaries, strict=True):
        labels.append(row.marked)
        which.append("once" if row.once else "median" if len(curves) > 1 else "1 seed")
        cells.append([_cell(s) for s in each])
        shapes.append(sparkline([s.median for s in each], low, high, log=log, ascii=ascii))
        for word, line in _below(row, curves, keys, each, first.unit):
            if any(line):
                labels.append("")
                which.append(word)
                cells.append(line)
                shapes.append("")
        notes += _nan_notes(row.label, each, places)
    columns = [Column("model", labels, "label")]
    if set(BELOW) & set(which):
        columns.append(Column("seeds", which, "label"))
    for index, x in enumerate(places):
        header = place(x) + ("*" if x in beyond else "")
        columns.append(Column(header, [line[index] for line in cells], thin=isinstance(x, float)))
    if len(places) > 1 and isinstance(places[0], float):
        columns.append(Column("shape\n(log)" if log else "shape", shapes, "shape"))
    return Table(columns, _title(name, first.y_label, first.unit, first.x_label), notes)


def _below(
    row: Row, curves: list[Curve], keys: list[Key], summaries: list[Summary], unit: str
) -> Iterator[tuple[str, list[str]]]:
    """The lines under the medians, each with its word, blank where they would say nothing new."""
    if row.once:
        errors: dict[Key, list[float]] = {key: [] for key in keys}
        for curve in curves:
            for key, error in zip(_own_keys(curve), curve.standard_errors or [], strict=False):
                errors[key].append(error)
        known = [known_error(summary, errors[key]) for key, summary in zip(keys, summaries, strict=True)]
        yield "±", ["" if math.isnan(error) else number(error) for error in known]
    for word, values in (("min", [s.minimum for s in summaries]), ("max", [s.maximum for s in summaries])):
        pairs = zip(values, summaries, strict=True)
        yield word, [number(v) if _visible(v, s.median, unit) else "" for v, s in pairs]


def _keys(curves: list[Curve]) -> list[Key]:
    """Every place on the axis: numbers in order, names as they come."""
    keys = list(dict.fromkeys(key for curve in curves for key in _own_keys(curve)))
    return keys if any(isinstance(x, str) for x, _ in keys) else sorted(keys, key=lambda key: float(key[0]))


def _own_keys(curve: Curve) -> list[Key]:
    seen: Counter[float | str] = Counter()
    keys: list[Key] = []
    for x in curve.x:
        keys.append((x, seen[x]))
        seen[x] += 1
    return keys


def _by_key(curves: list[Curve], keys: list[Key]) -> list[Summary]:
    values: dict[Key, list[float]] = {key: [] for key in keys}
    for curve in curves:
        for key, y in zip(_own_keys(curve), curve.y, strict=True):
            values[key].append(y)
    return [summarise(values[key]) for key in keys]


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


def matrix_table(name: str, row: Row) -> Table:
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
