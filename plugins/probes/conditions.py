"""What several probes ask of a task's conditions."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from harness import Batch, Condition, Metric, Task


def first_group(task: Task) -> list[Condition]:
    """The conditions of the task's first series, which is its main one."""
    conditions = task.conditions()
    return [condition for condition in conditions if condition.group == conditions[0].group]


def reference(conditions: Sequence[Condition]) -> Condition:
    """The farthest condition that training covered; the nearest one if it covered none."""
    inside = [condition for condition in conditions if condition.inside]
    return max(inside, key=lambda condition: condition.x) if inside else conditions[0]


def skill(metric: Metric, value: float) -> float:
    """The share of the way from chance (0) to perfect (1); NaN for a metric that states no such scale."""
    if metric.chance is None or metric.best is None or metric.chance == metric.best:
        return math.nan
    return (value - metric.chance) / (metric.best - metric.chance)


def marked(batch: Batch) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
    """Cue and query positions of a batch that marks them (the need `cue`)."""
    assert batch.cue is not None
    assert batch.query is not None
    return batch.cue, batch.query


def cue_mask(batch: Batch) -> Bool[Tensor, "batch time"]:
    """True at each example's cue."""
    cue, _ = marked(batch)
    return torch.arange(batch.tokens.shape[1], device=cue.device) == cue[:, None]


def uniform_share(batch: Batch) -> float:
    """The attention from the query to each position, of a head that looks everywhere alike (mean over examples)."""
    _, query = marked(batch)
    return (1 / (query + 1).double()).mean().item()


def roles_before(batch: Batch, roles: Sequence[str]) -> dict[str, Bool[Tensor, "batch time"]]:
    """For each role that occurs up to the query, where it is; the query's own token counts."""
    if batch.roles is None or not roles:
        return {}
    _, query = marked(batch)
    positions = torch.arange(batch.tokens.shape[1], device=query.device)
    visible = batch.mask & (positions <= query[:, None])
    masks = {name: (batch.roles == index) & visible for index, name in enumerate(roles)}
    return {name: mask for name, mask in masks.items() if mask.any()}


def named_heads(shape: Sequence[int]) -> list[str]:
    """Every head by name, counted from 1 as in the literature: `layer 1 head 2`."""
    return [f"layer {layer} head {head}" for layer, heads in enumerate(shape, 1) for head in range(1, heads + 1)]
