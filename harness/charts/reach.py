"""The four questions along one axis of distance: does it answer, does gradient reach, does it look, does it rely."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.charts.layout import Size, stack
from harness.charts.lines import Panel, Point
from harness.charts.view import NothingToDraw, View, curves, places, probe_of, tasks_of
from harness.measurements import Curve, Matrix
from harness.report.grouping import IN_WORDS, Group

FLOOR = 1e-6
"""Of gradient: less is drawn as that, and is as good as nothing."""

AT_FLOOR = "1e-6: that or less"
"""As the axis writes it."""


@dataclass(frozen=True)
class Question:
    """One panel: which curves of which probe answer it."""

    title: str
    probe: str
    ways: dict[str, str]
    """Names of curves, and what they are called where there are several."""
    y_label: str = ""
    log: bool = False


QUESTIONS = (
    Question("Does it answer?", "accuracy", {"": ""}),
    Question("Does gradient reach the cue?", "grad_reach", {"reach": ""}, "gradient, cue / query", log=True),
    Question("Does it look at the cue?", "attention_to_subject", {"sharpest_share": ""}, "share, sharpest head"),
    Question(
        "Does it rely on the cue?",
        "edge_cut",
        {"cue_cut": "cue cut", "untouched": "untouched", "sham_cut": "another position cut"},
    ),
)


def draw(view: View, size: Size) -> Any:
    """A row for each question, a column for each task that has distances."""
    groups = view.of(*(question.probe for question in QUESTIONS))
    tasks = tasks_of(groups)
    grid = [
        {
            task: panel
            for task in tasks
            if (panel := _panel(question, [g for g in groups if probe_of(g) == question.probe and g.task == task]))
        }
        for question in QUESTIONS
    ]
    grid = [row for row in grid if row]
    if not grid:
        probes = ", ".join(question.probe for question in QUESTIONS)
        raise NothingToDraw(f"none of {probes} has measured a curve along distance; add --probe accuracy, for example")
    return stack(grid, [task for task in tasks if any(task in row for row in grid)], view.looks, size)


def _panel(question: Question, groups: Sequence[Group]) -> Panel | None:
    """Of one question on one task; None where it was not asked along at least two places."""
    stages = [each for each in groups if question.log or each.stage == "trained"] or list(groups)
    several = len({each.stage for each in stages}) > 1
    points, first = [], None
    for each in sorted(stages, key=lambda each: each.stage != "trained"):
        for name, called in question.ways.items():
            name = name or _headline(each)
            way = IN_WORDS[each.stage] if several else called
            for row in each.measured:
                for seed, curve in curves(row, name):
                    found = places(curve)
                    if len(found) > 1:
                        first = first or curve
                        points += [Point(row.label, seed, x, y, way) for x, y in found]
    if first is None:
        return None
    xs: list[Any] = list(first.x)
    inside = [float(x) for x, flag in zip(xs, first.inside or [], strict=False) if flag]
    share = first.unit == "share"
    low = question.log and any(point.y < FLOOR for point in points)
    return Panel(
        f"{question.title} ({AT_FLOOR})" if low else question.title,
        points,
        first.x_label,
        question.y_label or ("score" if first.y_label.startswith("score") else first.y_label),
        log=question.log,
        floor=FLOOR if question.log else None,
        domain=(-0.04, 1.06) if share else None,
        trained=(min(inside), max(inside)) if inside else None,
        levels=first.levels,
        beside=_uniform(groups),
        ways=list(dict.fromkeys(point.way for point in points)),
    )


def _headline(group: Group) -> str:
    return next(iter(group.names(Curve)), "")


def _uniform(groups: Sequence[Group]) -> list[tuple[str, list[tuple[float, float]]]]:
    """What a head that looks everywhere alike would give to the cue."""
    for each in groups:
        for row in each.measured:
            for matrix in row.find(Matrix, "share_on_cue"):
                for curve in row.find(Curve, "sharpest_share"):
                    if "uniform" in matrix.rows and len(matrix.columns) == len(curve.x):
                        line = matrix.values[matrix.rows.index("uniform")]
                        return [("uniform", places(curve.model_copy(update={"y": line})))]
    return []
