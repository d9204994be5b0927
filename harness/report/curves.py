"""Tables of curves and matrices over seeds."""

import math

from harness.report.grouping import Row
from harness.report.layout import Column
from harness.report.numbers import number, place
from harness.report.sparkline import bounds, sparkline
from harness.report.writers import Table
from harness.schema import Curve, Matrix
from harness.statistics import Summary, summarise

MOST_ROWS = 40
"""Of a matrix; the rest is left to CSV."""


def curve_table(name: str, rows: list[Row], *, ascii: bool = False) -> Table:
    """A column for each place; for each model its median, and the lowest and highest seed where they differ."""
    found = [(row, row.find(Curve, name)) for row in rows]
    found = [(row, curves) for row, curves in found if curves]
    first = found[0][1][0]
    every = [curve for _, curves in found for curve in curves]
    places = list(dict.fromkeys(x for curve in every for x in curve.x))
    if all(isinstance(x, float) for x in places):
        places.sort()
    beyond = {x for c in every for x, inside in zip(c.x, c.inside or [True] * len(c.x), strict=True) if not inside}

    labels: list[str] = []
    which: list[str] = []
    cells: list[list[str]] = []
    shapes: list[str] = []
    notes = ["* beyond the trained range"] if beyond else []
    summaries = [_by_place(curves, places) for _, curves in found]
    log = first.scale == "log"
    low, high = bounds((s.median for each in summaries for s in each), log=log)
    if first.unit == "share":
        low, high = (low, 1.0) if log else (0.0, 1.0)
    for (row, curves), each in zip(found, summaries, strict=True):
        labels.append(row.label)
        which.append("median" if len(curves) > 1 else f"seed {row.ok[0].seed}")
        cells.append([_cell(s) for s in each])
        shapes.append(sparkline([s.median for s in each], low, high, log=log, ascii=ascii))
        for word, values in (("min", [s.minimum for s in each]), ("max", [s.maximum for s in each])):
            line = [number(v) if _visible(v, s.median, first.unit) else "" for v, s in zip(values, each, strict=True)]
            if any(line):
                labels.append("")
                which.append(word)
                cells.append(line)
                shapes.append("")
        notes += _nan_notes(row.label, each, places)
    columns = [Column("model", labels, "label")]
    if {"min", "max"} & set(which):
        columns.append(Column("over seeds", which, "label"))
    for index, x in enumerate(places):
        header = place(x) + ("*" if x in beyond else "")
        columns.append(Column(header, [line[index] for line in cells], thin=isinstance(x, float)))
    if len(places) > 1 and isinstance(places[0], float):
        columns.append(Column("shape (log)" if log else "shape", shapes, "shape"))
    return Table(columns, _title(name, first.y_label, first.unit, f"by {first.x_label}"), notes)


def _by_place(curves: list[Curve], places: list[float | str]) -> list[Summary]:
    values: dict[float | str, list[float]] = {x: [] for x in places}
    for curve in curves:
        for x, y in zip(curve.x, curve.y, strict=True):
            values[x].append(y)
    return [summarise(values[x]) for x in places]


def _cell(summary: Summary) -> str:
    return number(summary.median) if summary.n or summary.nan else ""


def _visible(value: float, median: float, unit: str) -> bool:
    """More than one per cent away from the median, or 0.01 for a share."""
    return value != median and abs(value - median) > 0.01 * (1.0 if unit == "share" else abs(median))


def _nan_notes(label: str, summaries: list[Summary], places: list[float | str]) -> list[str]:
    at = [
        f"{place(x)} ({s.nan} of {s.n + s.nan} seeds)" for x, s in zip(places, summaries, strict=True) if s.nan and s.n
    ]
    return [f"{label}: NaN at {', '.join(at)}, left out of the numbers above"] if at else []


def matrix_table(name: str, row: Row) -> Table:
    """The median over seeds of one model's matrix, and where its seeds differ most."""
    matrices = row.find(Matrix, name)
    first = matrices[0]
    values: dict[tuple[str, str], list[float]] = {}
    for matrix in matrices:
        for line, numbers in zip(matrix.rows, matrix.values, strict=True):
            for column, value in zip(matrix.columns, numbers, strict=True):
                values.setdefault((line, column), []).append(value)
    summaries = {key: summarise(numbers) for key, numbers in values.items()}
    lines = list(dict.fromkeys(line for line, _ in values))
    notes = []
    if len(lines) > MOST_ROWS:
        notes.append(f"{MOST_ROWS} of {len(lines)} rows shown; all of them: --format csv")
        lines = lines[:MOST_ROWS]
    columns = [Column(first.row_label, lines, "label")]
    for header in dict.fromkeys(column for _, column in values):
        columns.append(Column(header, [_cell(summaries.get((line, header), summarise([]))) for line in lines]))
    widest = max(summaries, key=lambda key: _range(summaries[key]))
    if _visible(summaries[widest].maximum, summaries[widest].minimum, first.unit):
        low, high = number(summaries[widest].minimum), number(summaries[widest].maximum)
        notes.append(f"Seeds differ most at {', '.join(widest)}: {low}..{high}")
    seeds = f"{row.label}, median of {len(matrices)} seeds" if len(matrices) > 1 else f"{row.label}, 1 seed"
    title = _title(name, first.row_label, first.unit, f"by {first.column_label}: {seeds}")
    return Table(columns, title, notes)


def _range(summary: Summary) -> float:
    difference = summary.maximum - summary.minimum
    return -1.0 if math.isnan(difference) else difference


def _title(name: str, what: str, unit: str, axis: str) -> str:
    """`accuracy (share) by distance (tokens)`; what is said twice is said once."""
    text = name if what.split(" (")[0].lower() == name.lower() else f"{name}: {what}"
    return f"{text}{f' ({unit})' if unit and f'({unit})' not in text else ''} {axis}"
