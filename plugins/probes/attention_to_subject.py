"""Does the model look at the right place? The share of attention that goes from the query to the cue."""

from collections.abc import Iterator
from typing import ClassVar

import torch
from harness_plugins.probes.conditions import (
    first_group,
    marked,
    named_heads,
    reference,
    roles_before,
    uniform_share,
)
from harness_plugins.probes.cuts import rows_at_once
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor

from harness import Batch, Condition, Curve, Matrix, Scalar, Subject
from harness.attention import attention_patterns


class AttentionToSubject:
    """Attention from the query to the cue (the subject of a verb, the key of a recall sequence) and to every role.

    Shares are means over examples of a head's attention weights at the query, which sum to 1 over the positions that
    it may look at. A head that looks everywhere alike gives each position the uniform share, 1 over their number.
    Where a head looks is not what the model relies on: see the probe `edge_cut`.

    Measures:
        share_on_cue: per layer and head and per condition; the last row is the uniform share.
        share_by_role: per layer and head, for each role, at the farthest condition that training covered.
        sharpest_share: share of the head that looks at the cue most, per condition; the head is chosen on one half of
            the examples of the farthest trained condition, all shares of this curve are taken on the other half.
        sharpest_head: its share at that condition; the verdict names it, so that tables show whether seeds agree.
        times_uniform: that share as a multiple of the uniform one.

    Args:
        examples: sequences per condition.
    """

    needs: ClassVar = ("cue", "attention")

    def __init__(self, *, examples: PositiveInt = 128) -> None:
        self.examples = examples

    def __call__(self, subject: Subject) -> Iterator[Scalar | Curve | Matrix]:
        conditions = first_group(subject.task)
        farthest = reference(conditions)
        rows = {condition: query_rows(subject, self._batch(subject, condition)) for condition in conditions}
        heads = named_heads([layer.shape[1] for layer in rows[farthest]])
        shares = {c: self._on_cue(subject, c, rows[c]) for c in conditions}  # each: example head
        uniform = {c: uniform_share(self._batch(subject, c)) for c in conditions}
        half = len(shares[farthest]) // 2 or 1
        sharpest = int(shares[farthest][:half].mean(0).argmax())

        axis = subject.task.axis
        yield Matrix(
            name="share_on_cue",
            unit="share",
            values=[
                *([shares[c][:, head].mean().item() for c in conditions] for head in range(len(heads))),
                [uniform[c] for c in conditions],
            ],
            rows=[*heads, "uniform"],
            columns=[str(c) for c in conditions],
            row_label="attention at the query",
            column_label=axis,
        )
        yield from self._by_role(subject, self._batch(subject, farthest), rows[farthest], heads)
        on_others = {c: shares[c][half:, sharpest] if len(shares[c]) > half else shares[c][:, sharpest] for c in shares}
        yield Curve(
            name="sharpest_share",
            unit="share",
            x=[c.x for c in conditions],
            y=[on_others[c].mean().item() for c in conditions],
            x_label=axis,
            y_label="share on the cue, sharpest head",
            inside=[c.inside for c in conditions],
            headline=True,
        )
        share = on_others[farthest].mean().item()
        yield Scalar(name="sharpest_head", unit="share", value=share, verdict=heads[sharpest], headline=True)
        yield Scalar(name="times_uniform", unit="ratio", value=share / uniform[farthest], headline=True)

    def _batch(self, subject: Subject, condition: Condition) -> Batch:
        return subject.batch(condition)[: self.examples]

    def _on_cue(
        self, subject: Subject, condition: Condition, rows: list[Float[Tensor, "batch head key"]]
    ) -> Float[Tensor, "batch heads"]:
        cue, _ = marked(self._batch(subject, condition))
        examples = torch.arange(len(cue), device=cue.device)
        return torch.cat([layer[examples, :, cue] for layer in rows], dim=1)

    def _by_role(
        self, subject: Subject, batch: Batch, rows: list[Float[Tensor, "batch head key"]], heads: list[str]
    ) -> Iterator[Matrix]:
        masks = roles_before(batch, subject.task.roles)
        if not masks:
            return
        _, query = marked(batch)
        values = [
            [(layer[:, head] * mask).sum(1).mean().item() for mask in masks.values()]
            for layer in rows
            for head in range(layer.shape[1])
        ]
        values.append([(mask.sum(1) / (query + 1)).mean().item() for mask in masks.values()])
        yield Matrix(
            name="share_by_role",
            unit="share",
            values=values,
            rows=[*heads, "uniform"],
            columns=list(masks),
            row_label="attention at the query",
            column_label="role of the token looked at",
            headline=True,
        )


def query_rows(subject: Subject, batch: Batch) -> list[Float[Tensor, "batch head key"]]:
    """Per layer, the attention weights at each example's query."""
    parts = []
    for piece in batch.split(rows_at_once(subject, batch)):
        _, query = marked(piece)
        examples = torch.arange(len(piece), device=query.device)
        parts.append([p[examples, :, query] for p in attention_patterns(subject.model, piece.tokens)])
    return [torch.cat(layer) for layer in zip(*parts, strict=True)]
