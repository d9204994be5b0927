"""How well a model answers under each condition of its task, and what kind of failure it is."""

import math
from collections.abc import Iterator, Mapping, Sequence

from harness_plugins.probes.conditions import curve, in_order, levels, skill, skill_error, told, unit_of
from harness_plugins.probes.scores import Series, scores, worst

from harness import Curve, Matrix, Metric, Scalar, Subject, Task
from harness.statistics import BRIEF, MEANINGS, NEAR, NOT_ENOUGH, diagnose

SHORT = "too short for it"
WORDS = {**MEANINGS, SHORT: "the model cannot take the lengths of the trained range (limit says why)"}
"""What the verdicts mean."""

LEARNED = ("learned", "does not extrapolate")
WORSE = {
    SHORT: SHORT,
    "not a number": "not a number",
    "answers wrongly": "answers wrongly",
    "never learned": "partly learned",
    "forgets with distance": "partly learned",
    "partly learned": "partly learned",
    BRIEF: BRIEF,
    NOT_ENOUGH: NOT_ENOUGH,
    NEAR: NEAR,
}
"""What is to be said of a model that learned a task's first group, if this is said of another one; the worst first."""


def accuracy(subject: Subject) -> Iterator[Curve | Scalar | Matrix]:
    """Every metric of the task per condition (score, loss, bits, ...), and the worst score inside and beyond the
    trained range.

    A curve per metric and group of conditions (`accuracy`, `accuracy (same)`, ...); a scalar where a group has one
    condition. Where the groups are a second axis (`Task.group_axis`) there is a matrix, too: `accuracy by pairs`.

    `worst_inside` is the worst of all groups. It carries the diagnosis of the first one, which tells a model that never
    learned from one that forgets with distance (`harness.statistics.diagnose`); or, of a model that learned that group,
    the worst that is to be said of another one within the trained range. Where a model cannot take a length there is no
    score (NaN), and `limit` says why.
    """
    task = subject.task
    groups = {group: scores(subject, conditions) for group, conditions in in_order(task).items()}
    if task.group_axis and len(groups) > 1:
        yield _grid(task, groups)
    for index, (group, found) in enumerate(groups.items()):
        for name, metric in task.metrics.items():
            values, errors = found.of(name), found.errors_of(name)
            headline = name == task.headline
            if not headline and all(map(math.isnan, values)):
                continue  # the metric is not defined under these conditions
            label = name if index == 0 else f"{name} ({group})"
            if len(values) == 1:
                scale = levels(metric)
                yield Scalar(name=label, unit=metric.unit, value=values[0], standard_error=errors[0], levels=scale)
            else:
                yield curve(
                    label,
                    metric.unit,
                    task,
                    found.conditions,
                    values,
                    errors,
                    y_label=name,
                    headline=headline,
                    metric=metric,
                )
            if headline and index == 0:
                yield from _worst(subject, list(groups.values()), metric)
        if found.reason:
            label = "limit" if index == 0 else f"limit ({group})"
            yield Scalar(
                name=label, unit=unit_of(task.axis), value=found.limit, verdict=found.reason, headline=index == 0
            )


def _grid(task: Task, groups: Mapping[str, Series]) -> Matrix:
    """The headline score of every group at every place; NaN where there is no such condition."""
    metric, places = task.metrics[task.headline], sorted({c.x for found in groups.values() for c in found.conditions})
    values = {
        group: {c.x: value for c, value in zip(found.conditions, found.of(task.headline), strict=True)}
        for group, found in groups.items()
    }
    return Matrix(
        name=f"{task.headline} by {task.group_axis}",
        unit=metric.unit,
        values=[[values[group].get(x, math.nan) for x in places] for group in groups],
        rows=list(groups),
        columns=[f"{x:g}" for x in places],
        row_label=task.group_axis,
        column_label=task.axis,
        about=f"{task.headline} by {task.group_axis} and {task.axis}",
    )


def _worst(subject: Subject, groups: Sequence[Series], metric: Metric) -> Iterator[Scalar]:
    places = [place for found in groups for place in found.places(subject.task.headline)]
    for label, wanted in (("worst_inside", True), ("worst_beyond", False)):
        if chosen := [(value, error) for condition, value, error in places if condition.inside == wanted]:
            value, error = worst(chosen, metric)
            words = _diagnosis(subject, groups, metric) if wanted else None
            meaning = WORDS[words] if words else None
            yield Scalar(
                name=label,
                unit=metric.unit,
                value=value,
                standard_error=error,
                verdict=words,
                meaning=meaning,
                levels=levels(metric),
                headline=True,
            )


def _diagnosis(subject: Subject, groups: Sequence[Series], metric: Metric) -> str | None:
    """What the scores of the first group say, unless another group within the trained range says less."""
    if math.isnan(skill(metric, 0.0)):
        return None
    name = subject.task.headline

    def said(scores: Series, everywhere: bool) -> str:
        taken = [condition for condition, _, _ in scores.places(name)]
        if any(condition.inside and condition not in taken for condition in scores.conditions):
            return SHORT
        places = [i for i, condition in enumerate(scores.conditions) if everywhere or condition.inside]
        values, errors = scores.of(name), scores.errors_of(name)
        return diagnose(
            [told(metric, values[i]) for i in places],
            [scores.conditions[i].inside for i in places],
            [skill_error(metric, errors[i]) for i in places],
            subject.budget,
        )

    first = said(groups[0], everywhere=True)
    if first in (*LEARNED, NEAR):
        others = [said(each, everywhere=False) for each in groups[1:]]
        return next((words for other, words in WORSE.items() if other in others), first)
    return first
