"""How well a model answers under each condition of its task, and what kind of failure it is."""

import math
from collections.abc import Iterator

from harness_plugins.probes.conditions import skill

from harness import Condition, Curve, Metric, Scalar, Subject
from harness.statistics import diagnose


def accuracy(subject: Subject) -> Iterator[Curve | Scalar]:
    """Every metric of the task per condition (score, loss, bits, ...), and the worst score inside and beyond the
    trained range.

    A curve per metric and group of conditions (`accuracy`, `accuracy (same)`, ...); a scalar where a group has one
    condition. `worst_inside` carries the diagnosis, which tells a model that never learned from one that forgets with
    distance (`harness.statistics.diagnose`).
    """
    task = subject.task
    groups = dict.fromkeys(condition.group for condition in task.conditions())
    for index, group in enumerate(groups):
        conditions = [condition for condition in task.conditions() if condition.group == group]
        results = [task.summarise(subject.scores(condition)) for condition in conditions]
        for name, metric in task.metrics.items():
            values = [result[name] for result in results]
            if all(math.isnan(value) for value in values):
                continue  # the metric is not defined under these conditions
            label = name if index == 0 else f"{name} ({group})"
            headline = name == task.headline
            if len(conditions) == 1:
                yield Scalar(name=label, unit=metric.unit, value=values[0])
            else:
                yield Curve(
                    name=label,
                    unit=metric.unit,
                    x=[condition.x for condition in conditions],
                    y=values,
                    x_label=task.axis,
                    y_label=name,
                    inside=[condition.inside for condition in conditions],
                    headline=headline,
                )
            if headline and index == 0:
                yield from _worst(values, conditions, metric)


def _worst(values: list[float], conditions: list[Condition], metric: Metric) -> Iterator[Scalar]:
    worst = min if metric.higher_is_better else max
    inside = [condition.inside for condition in conditions]
    skills = [skill(metric, value) for value in values]
    verdict = None if all(map(math.isnan, skills)) else diagnose(skills, inside, chance=0.0)
    for name, wanted in (("worst_inside", True), ("worst_beyond", False)):
        chosen = [value for value, flag in zip(values, inside, strict=True) if flag == wanted]
        if chosen:
            yield Scalar(
                name=name,
                unit=metric.unit,
                value=worst(chosen),
                verdict=verdict if wanted else None,
                headline=True,
            )
