"""Does the model look at the right place? The share of attention that goes from the query to the cue."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
from harness_plugins.probes.conditions import (
    curve,
    examples_used,
    first_group,
    marks,
    reference,
    roles_before,
    uniform_share,
)
from harness_plugins.probes.cuts import rows_at_once
from harness_plugins.probes.looks import Looks, joined, left_out, look_at_query, readable
from harness_plugins.probes.patterns import patterns
from jaxtyping import Float
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from harness import Batch, Condition, Curve, Matrix, Pattern, Scalar, Subject
from harness.attention import look
from harness.examples import standard_error

ROUNDING = 0.01
"""How far from 1 the sum of weights may be: those of a model in half precision are rounded to 0.4 % each."""

Shares = Mapping[Condition, Float[Tensor, "batch head"]]
"""The weight on the cue, for each condition."""


class AttentionToSubject:
    """Attention from the query to the cue (the subject of a verb, the key of a recall sequence) and to every role.

    Shares are means over examples of a head's attention weights at the query, as they are: they sum to 1 over the
    positions that it may look at, or to less where a part goes to no token (a sink). A head that looks everywhere alike
    gives each position the uniform share, 1 over their number. Where a head looks is not what the model relies on: see
    the probe `edge_cut`.

    Heads are named `layer 2 head 1` where every block attends once, else by the path of the module that attends. What
    does not attend from token to token (cross-attention, an added prefix, heads folded into the examples) is left out
    and named; a model with no other layer is skipped. Examples without a cue, or with the cue after the query, and
    conditions without any other, are left out.

    Measures:
        share_on_cue: per layer and head and per condition; the last row is the uniform share.
        share_by_role: per layer and head, for each role, at the farthest condition that training covered.
        share_elsewhere: per layer and head and per condition, 1 minus the sum of the weights: what goes to no token
            (below 0: the weights sum to more than 1). Only where some weights do not sum to 1.
        sharpest_share: share of the head that looks at the cue most, per condition; the head is chosen on one half of
            the examples of the farthest trained condition, all shares of this curve are taken on the other half.
        sharpest_head: its share at that condition; the verdict names it, so that tables show whether seeds agree.
        times_uniform: that share as a multiple of the uniform one.
        layers_left_out: how many layers do not attend from token to token, if there are any; the verdict names them.
        examples_used: examples per condition, where fewer than wanted have cue and query.

        pattern: where every token of one example looks, in every head, for pages to show: of the longest condition of
            at most 32 tokens.

    Args:
        examples: sequences per condition.
        patterns: so many examples are kept whole, each at most 40,000 numbers.
    """

    needs: ClassVar = ("cue", "attention")

    def __init__(self, *, examples: PositiveInt = 128, patterns: NonNegativeInt = 1) -> None:
        self.examples = examples
        self.patterns = patterns

    def __call__(self, subject: Subject) -> Iterator[Scalar | Curve | Matrix | Pattern]:
        found = {c: subject.marked(c, self.examples) for c in first_group(subject.task)}
        batches = {c: batch for c, batch in found.items() if batch is not None}
        conditions = list(batches)
        farthest = reference(conditions)
        looks = {condition: query_looks(subject, batch) for condition, batch in batches.items()}
        layers = readable([each.layers for each in looks.values()])
        heads = [name for layer in layers if not layer.misfit for name in layer.head_names]
        rows = {c: torch.cat(looks[c].of(layers), dim=1) for c in conditions}  # each: example head key
        shares = {c: on_cue(batches[c], rows[c]) for c in conditions}  # each: example head
        uniform = {c: uniform_share(batches[c]) for c in conditions}
        axis = subject.task.axis
        yield by_condition(shares, uniform, heads, axis)
        yield from by_role(subject, batches[farthest], rows[farthest], heads)
        yield from elsewhere(rows, heads, axis)
        yield from sharpest(subject, shares, uniform, heads)
        yield from left_out(layers)
        yield from patterns(subject, batches, self.patterns)
        yield from examples_used(subject, found, self.examples)


def on_cue(batch: Batch, rows: Float[Tensor, "batch head key"]) -> Float[Tensor, "batch head"]:
    """The weight that each head gives to the cue."""
    cue, _ = marks(batch)
    return rows[torch.arange(len(cue), device=cue.device), :, cue]


def by_condition(shares: Shares, uniform: Mapping[Condition, float], heads: list[str], axis: str) -> Matrix:
    """The weight that each head gives to the cue, and the uniform share."""
    return Matrix(
        name="share_on_cue",
        unit="share",
        values=[
            *([each[:, head].mean().item() for each in shares.values()] for head in range(len(heads))),
            [uniform[condition] for condition in shares],
        ],
        rows=[*heads, "uniform"],
        columns=[str(condition) for condition in shares],
        row_label="attention at the query",
        column_label=axis,
        about=f"the query's attention to the cue, by {axis}",
    )


def by_role(
    subject: Subject, batch: Batch, rows: Float[Tensor, "batch head key"], heads: list[str]
) -> Iterator[Matrix]:
    """The weight that each head gives to all tokens of a role."""
    masks = roles_before(batch, subject.task.roles)
    if not masks:
        return
    _, query = marks(batch)
    values = [[(rows[:, head] * mask).sum(1).mean().item() for mask in masks.values()] for head in range(len(heads))]
    values.append([(mask.sum(1) / (query + 1)).mean().item() for mask in masks.values()])
    yield Matrix(
        name="share_by_role",
        unit="share",
        values=values,
        rows=[*heads, "uniform"],
        columns=list(masks),
        row_label="attention at the query",
        column_label="role of the token looked at",
        about="where the query looks, by role",
        headline=True,
    )


def elsewhere(rows: dict[Condition, Float[Tensor, "batch head key"]], heads: list[str], axis: str) -> Iterator[Matrix]:
    """What weights do not sum to 1 leave, if some do not."""
    left = {condition: 1 - each.double().sum(2) for condition, each in rows.items()}  # each: example head
    if all((each.abs() < ROUNDING).all() for each in left.values()):
        return
    yield Matrix(
        name="share_elsewhere",
        unit="share",
        values=[[each[:, head].mean().item() for each in left.values()] for head in range(len(heads))],
        rows=heads,
        columns=[str(condition) for condition in left],
        row_label="attention to no token",
        column_label=axis,
        about=f"the query's attention to no token, by {axis}",
        headline=True,
    )


def sharpest(
    subject: Subject, shares: Shares, uniform: Mapping[Condition, float], heads: list[str]
) -> Iterator[Scalar | Curve]:
    """The head that looks at the cue most, chosen on one half of the examples and measured on the other."""
    conditions = list(shares)
    farthest = reference(conditions)
    half = len(shares[farthest]) // 2 or 1
    best = int(shares[farthest][:half].mean(0).argmax())
    others = {c: each[half:, best] if len(each) > half else each[:, best] for c, each in shares.items()}
    means = {c: each.mean().item() for c, each in others.items()}
    errors = {c: standard_error(each) for c, each in others.items()}
    yield curve(
        "sharpest_share",
        "share",
        subject.task,
        conditions,
        [*means.values()],
        [*errors.values()],
        y_label="share on the cue, sharpest head",
    )
    yield Scalar(
        name="sharpest_head",
        unit="share",
        value=means[farthest],
        verdict=heads[best],
        about="the share of the head that looks at the cue most; the verdict names it",
        standard_error=errors[farthest],
        headline=True,
    )
    yield Scalar(
        name="times_uniform",
        unit="ratio",
        value=means[farthest] / uniform[farthest],
        standard_error=errors[farthest] / uniform[farthest],
        about="the share of sharpest_head as a multiple of that of a head that looks everywhere alike",
        headline=True,
    )


def query_looks(subject: Subject, batch: Batch) -> Looks:
    """Where the query of each example looks, in every layer."""
    return joined(
        [look_at_query(look(subject.model, piece.tokens), piece) for piece in batch.split(rows_at_once(subject, batch))]
    )
