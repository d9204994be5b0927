"""How training went: loss by step."""

from typing import Any

from harness.charts.layout import Size, stack
from harness.charts.lines import Panel, Point
from harness.charts.view import NothingToDraw, View, thinned
from harness.report.grouping import Row

WAYS = {"validation_loss": "validation", "loss": "training"}


def draw(view: View, size: Size) -> Any:
    """A column for each task; validation in full lines, training in broken ones."""
    rows: dict[str, dict[str, Row]] = {}
    for group in view.of(stage="trained"):
        for row in group.rows:
            rows.setdefault(group.task, {}).setdefault(row.label, row)
    panels = {task: panel for task, found in rows.items() if (panel := _panel(view, found))}
    if not panels:
        raise NothingToDraw("the run keeps no learning curves: nothing was trained, or its folder trials/ is empty")
    return stack([panels], list(panels), view.looks, size)


def _panel(view: View, rows: dict[str, Row]) -> Panel | None:
    points = [
        Point(label, record.seed, float(each["step"]), each[key], way)
        for label, row in rows.items()
        for record in row.ok
        for each in thinned(view.learning(record.trial))
        for key, way in WAYS.items()
        if key in each
    ]
    if not points:
        return None
    numbers = [point.y for point in points if point.y > 0]
    wide = max(numbers, default=1.0) > 20 * min(numbers, default=1.0)
    ways = [way for way in WAYS.values() if any(point.way == way for point in points)]
    return Panel("", points, "training step", "loss", log=wide, floor=1e-6 if wide else None, ways=ways)
