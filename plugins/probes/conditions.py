"""What several probes ask of a task's conditions."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from harness import Batch, Condition, Curve, Metric, Subject, Task
from harness.statistics import BRIEF, ENOUGH, GOOD, settled


def first_group(task: Task) -> list[Condition]:
    """The conditions of the task's first series, which is its main one, from near to far."""
    return next(iter(in_order(task).values()))


def in_order(task: Task) -> dict[str, list[Condition]]:
    """The conditions of each group, the first group first, from near to far."""
    groups: dict[str, list[Condition]] = {}
    for condition in task.conditions():
        groups.setdefault(condition.group, []).append(condition)
    return {group: sorted(conditions, key=lambda condition: condition.x) for group, conditions in groups.items()}


def reference(conditions: Sequence[Condition]) -> Condition:
    """The farthest condition that training covered; the nearest one if it covered none."""
    inside = [condition for condition in conditions if condition.inside]
    return max(inside, key=lambda condition: condition.x) if inside else conditions[0]


def unit_of(axis: str) -> str:
    """The unit of a place on an axis: `tokens` for `distance (tokens)`; the axis itself if it says none."""
    name, _, unit = axis.rpartition(" (")
    return unit.removesuffix(")") if name and unit.endswith(")") else axis


def skill(metric: Metric, value: float) -> float:
    """The share of the way from chance (0) to perfect (1); NaN for a metric that states no such scale."""
    if metric.chance is None or metric.best is None or metric.chance == metric.best:
        return math.nan
    return (value - metric.chance) / (metric.best - metric.chance)


def told(metric: Metric, value: float) -> float:
    """The skill for verdicts. What is worse than chance is a wrong answer only where the metric is a share: the loss of
    a model that knows nothing is easily worse than that of a guess, and then the skill is 0."""
    reached = skill(metric, value)
    return max(reached, 0.0) if metric.unit != "share" and reached == reached else reached


def levels(metric: Metric) -> dict[str, float]:
    """What a score is to be compared with: chance, and the best there is."""
    known = {"chance": metric.chance, "best": metric.best}
    return {name: value for name, value in known.items() if value is not None}


def skill_error(metric: Metric, error: float) -> float:
    """A standard error as a share of the way from chance to perfect."""
    return abs(skill(metric, error) - skill(metric, 0.0))


def learned(subject: Subject, metric: Metric, value: float, error: float) -> str | None:
    """The words that forbid a verdict on how the model finds its answers, since it does not find them; None if it does,
    or if the metric has no scale from chance to perfect to tell.

    `has not learned` below half of that way; `near the threshold` within two standard errors of it; `not enough to say`
    where that is too wide; `trained too briefly` for any of these after less than half of the recommended training.
    """
    if math.isnan(skill(metric, 0.0)):
        return None
    if math.isnan(value):
        return "not a number"
    words = settled(
        lambda values: "" if values[0] >= GOOD else "has not learned",
        [skill(metric, value)],
        [skill_error(metric, error)],
    )
    return BRIEF if words and subject.budget < ENOUGH else words or None


def marks(batch: Batch) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
    """Cue and query positions of a batch that marks them (the need `cue`)."""
    assert batch.cue is not None
    assert batch.query is not None
    return batch.cue, batch.query


def with_cue_before(subject: Subject, condition: Condition, examples: int) -> Batch | None:
    """Of the first `examples` marked ones, those whose cue stands before the query, if there are any; else those where
    it is the query; None where none is marked."""
    batch = subject.marked(condition, examples)
    if batch is None:
        return None
    cue, query = marks(batch)
    before = cue < query
    return batch[before] if before.any() and not before.all() else batch


def curve(
    name: str,
    unit: str,
    task: Task,
    conditions: Collection[Condition],
    y: Sequence[float],
    errors: Sequence[float] | None = None,
    *,
    y_label: str,
    x_label: str | None = None,
    headline: bool = True,
    scale: Literal["linear", "log"] = "linear",
    metric: Metric | None = None,
) -> Curve:
    """A curve along conditions.

    Args:
        name, unit, y_label, headline, scale: of the curve.
        task: whose conditions they are.
        conditions: one for each place, from near to far.
        y: a value for each of them.
        errors: their standard errors.
        x_label: what lies along the axis, if it is not what the task says.
        metric: what the values are to be compared with, chance and the best there is.
    """
    return Curve(
        name=name,
        unit=unit,
        x=[condition.x for condition in conditions],
        y=list(y),
        x_label=x_label or task.axis,
        y_label=y_label,
        inside=[condition.inside for condition in conditions],
        standard_errors=None if errors is None else list(errors),
        scale=scale,
        levels=levels(metric) if metric else {},
        headline=headline,
    )


def examples_used(subject: Subject, batches: Mapping[Condition, Batch | None], examples: int) -> Iterator[Curve]:
    """How many examples of each condition a probe of marked tokens could use; nothing where that is all it wanted.

    Args:
        batches: what it used of each condition, in the task's order; None where there was nothing.
        examples: the most that it takes of a condition.
    """
    used = {condition: 0 if batch is None else len(batch) for condition, batch in batches.items()}
    if any(count < min(len(subject.batch(condition)), examples) for condition, count in used.items()):
        counts, y_label = [*map(float, used.values())], "examples with the tokens that are looked at"
        yield curve("examples_used", "examples", subject.task, used, counts, y_label=y_label)


def cue_mask(batch: Batch) -> Bool[Tensor, "batch time"]:
    """True at each example's cue."""
    cue, _ = marks(batch)
    return torch.arange(batch.tokens.shape[1], device=cue.device) == cue[:, None]


def uniform_share(batch: Batch) -> float:
    """The attention from the query to each position, of a head that looks everywhere alike (mean over examples)."""
    _, query = marks(batch)
    return (1 / (query + 1).double()).mean().item()


def roles_before(batch: Batch, roles: Sequence[str]) -> dict[str, Bool[Tensor, "batch time"]]:
    """For each role that occurs up to the query, where it is; the query's own token counts."""
    if batch.roles is None or not roles:
        return {}
    _, query = marks(batch)
    positions = torch.arange(batch.tokens.shape[1], device=query.device)
    visible = batch.mask & (positions <= query[:, None])
    masks = {name: (batch.roles == index) & visible for index, name in enumerate(roles)}
    return {name: mask for name, mask in masks.items() if mask.any()}
