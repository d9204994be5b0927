"""Does attention find the source token that holds each answer? The alignment of a target with its source."""

from collections.abc import Iterator
from typing import ClassVar

import torch
from harness_plugins.probes.conditions import first_group, reference
from harness_plugins.probes.cuts import rows_at_once
from harness_plugins.probes.looks import Looks, joined, left_out, readable
from harness_plugins.probes.patterns import patterns
from jaxtyping import Float
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from harness import Batch, Matrix, Pattern, Scalar, Subject
from harness.attention import look
from harness.capabilities import Capabilities
from harness.examples import standard_error

NUMBERS = {
    "share_on_source": "the attention that goes from each answer's position to the token that holds it",
    "exact": "answers whose largest weight is on the token that holds them",
    "within_one": "answers whose largest weight is on that token or next to it",
}
"""What is measured of each head."""


class Alignment:
    """Attention from every position that is asked to the position that holds its answer (`Batch.source`): of a copied
    string the diagonal, of a reversed one the other diagonal.

    A recurrent encoder may keep a token in the state beside it: the largest weight is then next to the right place, so
    both are counted, and the answer may come through the recurrence altogether: whether the attention is relied on says
    the probe `edge_cut`, whose cuts leak where a state carries the token.

    Numbers are means over the positions that are asked in an example, then over examples. Heads are named as in
    `attention_to_subject`; what does not attend from position to position is left out and named, and a model with no
    other layer is skipped. So are conditions that the model cannot take, or where nothing is asked.

    Measures:
        share_on_source: per layer and head and per condition, the weight on the position that holds the answer; the
            last row is that of a head which looks everywhere alike, at the source where the model says that it sees
            one (`sees`), else at all that it sees.
        exact: per layer and head and per condition, the share of answers whose largest weight is there.
        within_one: the same, there or one position beside.
        best_head: `exact` of the head with the largest share on the source, at the farthest condition that training
            covered; the head is chosen on one half of the examples, the numbers are those of the other half. The
            verdict names it, so that tables show whether seeds agree.
        best_head_within_one, best_head_share: the other two numbers of that head.
        layers_left_out: how many layers do not attend from position to position, if there are any; the verdict names
            them.

        pattern: where every token of one example looks, in every head, for pages to show: of the longest condition of
            at most 32 tokens.

    Args:
        examples: sequences per condition.
        patterns: so many examples are kept whole, each at most 40,000 numbers.
    """

    needs: ClassVar = ("source", "attention")

    def __init__(self, *, examples: PositiveInt = 128, patterns: NonNegativeInt = 1) -> None:
        self.examples = examples
        self.patterns = patterns

    def __call__(self, subject: Subject) -> Iterator[Scalar | Matrix | Pattern]:
        batches = {c: subject.batch(c)[: self.examples] for c in first_group(subject.task)}
        batches = {c: batch for c, batch in batches.items() if subject.takes(batch) and len(_asking(batch))}
        batches = {c: _asking(batch) for c, batch in batches.items()}
        looks = {c: _looks(subject, batch) for c, batch in batches.items()}
        layers = readable([each.layers for each in looks.values()])
        heads = [name for layer in layers if not layer.misfit for name in layer.head_names]
        found = {c: torch.cat(each.of(layers), dim=1) for c, each in looks.items()}  # each: example head number
        farthest, axis = reference(list(found)), subject.task.axis
        for index, (name, about) in enumerate(NUMBERS.items()):
            rows = [[each[:, head, index].mean().item() for each in found.values()] for head in range(len(heads))]
            uniform = [[_uniform(subject, batch) for batch in batches.values()]] if index == 0 else []
            yield Matrix(
                name=name,
                unit="share",
                values=rows + uniform,
                rows=[*heads, "uniform"] if uniform else heads,
                columns=[str(c) for c in found],
                row_label="attention at the answers",
                column_label=axis,
                about=f"{about}, by {axis}",
                headline=name == "exact",
            )
        there = found[farthest]
        half = len(there) // 2
        best = int(there[: half or 1, :, 0].mean(0).argmax())
        share, exact, near = there[half:, best].T
        for name, values in (("best_head", exact), ("best_head_within_one", near), ("best_head_share", share)):
            yield Scalar(
                name=name,
                unit="share",
                value=values.mean().item(),
                standard_error=standard_error(values),
                verdict=heads[best],
                about=f"of the head that looks most at what it is asked for (the verdict names it): {_about(name)}",
                headline=name != "best_head_share",
            )
        yield from left_out(layers)
        yield from patterns(subject, {c: batch.asked() for c, batch in batches.items()}, self.patterns)


def _about(name: str) -> str:
    return NUMBERS[{"best_head": "exact", "best_head_within_one": "within_one"}.get(name, "share_on_source")]


def _asking(batch: Batch) -> Batch:
    """The examples that ask for something whose place is known."""
    if batch.source is None:
        return batch[:0]
    return batch[(batch.source >= 0).any(1)]


def _looks(subject: Subject, batch: Batch) -> Looks:
    """`NUMBERS` of each example and head, as the last axis."""
    parts = []
    for piece in batch.split(rows_at_once(subject, batch)):
        seen = look(subject.model, piece.tokens)
        layers = seen.layers(piece.tokens)
        rows = [
            None if layer.misfit else aligned(pattern, piece)
            for layer, pattern in zip(layers, seen.patterns, strict=True)
        ]
        parts.append(Looks(layers, rows))
    return joined(parts)


def aligned(pattern: Float[Tensor, "batch head time time"], batch: Batch) -> Float[Tensor, "batch head number"]:
    """`NUMBERS` of each head, as means over the positions of an example that have a source."""
    assert batch.source is not None
    asked, place = (batch.source >= 0)[:, None], batch.source.clamp(min=0)[:, None]
    heads = pattern.shape[1]
    on_source = pattern.gather(3, place[..., None].expand(-1, heads, -1, 1)).squeeze(3)
    largest, at = pattern.max(3)
    beside = (at - place).abs()
    looked = largest > 0  # the row of a query that looks nowhere has no largest weight
    each = torch.stack([on_source, ((beside == 0) & looked).float(), ((beside <= 1) & looked).float()], 3)
    return (each * asked[..., None]).sum(2) / asked.sum(2)[..., None]


def _uniform(subject: Subject, batch: Batch) -> float:
    """The share of each position for a head that looks everywhere alike."""
    assert batch.source is not None
    sees, asked = Capabilities(subject.model).sees, batch.source >= 0
    positions = torch.arange(asked.shape[1], device=asked.device).expand_as(asked)
    if sees == "source":
        seen = (subject.task.interface.target_starts(batch.tokens) - 1)[:, None].expand_as(positions)
    else:
        seen = torch.full_like(positions, positions.shape[1]) if sees == "all" else positions + 1
    shares = asked / seen
    return (shares.sum(1) / asked.sum(1)).mean().item()
