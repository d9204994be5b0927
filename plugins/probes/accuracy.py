"""How well a model answers under each condition of its task, and what kind of failure it is."""

import math
from collections.abc import Iterator

from harness_plugins.probes.conditions import skill
from harness_plugins.probes.scores import Scores, scores, skill_error

from harness import Curve, Metric, Scalar, Subject
from harness.statistics import diagnose


def accuracy(subject: Subject) -> Iterator[Curve | Scalar]:
    """Every metric of the task per condition (score, loss, bits, ...), and the worst score inside and beyond the
    trained range.

    A curve per metric and group of conditions (`accuracy`, `accuracy (same)`, ...); a scalar where a group has one
    condition. `worst_inside` carries the diagnosis, which tells a model that never learned from one that forgets with
    distance (`harness.statistics.diagnose`). Where a model cannot take a length there is no score (NaN), and `limit`
    says why.
    """
    task = subject.task
    groups = dict.fromkeys(condition.group for condition in task.conditions())
    for index, group in enumerate(groups):
        found = scores(subject, [condition for condition in task.conditions() if condition.group == group])
        for name, metric in task.metrics.items():
            values, errors = found.of(name), found.errors_of(name)
            headline = name == task.headline
            if not headline and all(map(math.isnan, values)):
                continue  # the metric is not defined under these conditions
            label = name if index == 0 else f"{name} ({group})"
            if len(values) == 1:
                yield Scalar(name=label, unit=metric.unit, value=values[0], standard_error=errors[0])
            else:
                yield Curve(
                    name=label,
                    unit=metric.unit,
                    x=[condition.x for condition in found.conditions],
                    y=values,
                    x_label=task.axis,
                    y_label=name,
                    inside=[condition.inside for condition in found.conditions],
                    standard_errors=errors,
                    headline=headline,
                )
            if headline and index == 0:
                yield from _worst(subject, found, metric)
        if found.reason:
            label = "limit" if index == 0 else f"limit ({group})"
            yield Scalar(name=label, unit=task.axis, value=found.limit, verdict=found.reason, headline=index == 0)


def _worst(subject: Subject, found: Scores, metric: Metric) -> Iterator[Scalar]:
    name = subject.task.headline
    values, errors = found.of(name), found.errors_of(name)
    inside = [condition.inside for condition in found.conditions]
    verdict = None
    if not math.isnan(skill(metric, 0.0)):
        skills = [skill(metric, value) for value in values]
        verdict = diagnose(skills, inside, [skill_error(metric, error) for error in errors], subject.budget)
    worst = min if metric.higher_is_better else max
    for label, wanted in (("worst_inside", True), ("worst_beyond", False)):
        chosen = [
            (value, error)
            for value, error, flag in zip(values, errors, inside, strict=True)
            if flag == wanted and not math.isnan(value)
        ]
        if chosen:
            value, error = worst(chosen)
            words = verdict if wanted else None
            yield Scalar(name=label, unit=metric.unit, value=value, standard_error=error, verdict=words, headline=True)
        elif any(flag == wanted for flag in inside):
            words = verdict if wanted else None
            yield Scalar(name=label, unit=metric.unit, value=math.nan, verdict=words, headline=True)
