"""What a model costs as sequences get longer, on axes where powers of the length are straight lines."""

from typing import Any

from harness.charts.layout import Size, stack
from harness.charts.lines import Panel, Point
from harness.charts.view import NothingToDraw, View, curves, places
from harness.measurements import Scalar
from harness.report.grouping import Group

QUANTITIES = {
    "forward": "Time of a forward pass",
    "forward_and_backward": "Time of forward and backward",
    "memory": "Memory of a forward pass",
}


def draw(view: View, size: Size) -> Any:
    """A panel for each quantity; the exponent of time stands with the model's name."""
    groups = view.of("speed")
    if not groups:
        raise NothingToDraw("nothing was timed; add --probe speed")
    group = groups[0]
    looks = {_called(group, name): look for name, look in view.looks.items()}
    panels = {}
    for name, title in QUANTITIES.items():
        points, first = [], None
        for row in group.measured:
            for seed, curve in curves(row, name):
                first = first or curve
                points += [Point(_called(group, row.label), seed, x, y) for x, y in places(curve)]
        if first:
            panels[title] = Panel("", points, first.x_label, first.unit, log=True, log_x=True)
    return stack([panels], list(panels), looks, size, direct=False)


def _called(group: Group, label: str) -> str:
    """`lstm (time ~ length^1.0)`."""
    row = next((row for row in group.measured if row.label == label), None)
    found = sorted(scalar.value for scalar in row.find(Scalar, "time_exponent")) if row else []
    return f"{label} (time ~ length^{found[len(found) // 2]:.1f})" if found and found[0] == found[0] else label
