"""Attention patterns of single examples, small enough to be kept in records and looked at."""

from collections.abc import Iterator, Mapping

import torch
from harness_plugins.probes.conditions import marks
from jaxtyping import Float
from torch import Tensor

from harness import Batch, Condition, Pattern, Subject
from harness.attention import look

MOST_TOKENS = 32
"""Longer examples are not kept: nobody looks at them token by token."""

MOST_NUMBERS = 40_000
"""Weights of one example (250 kB of a record); where all heads have more, those that look at the cue most stay."""

DIGITS = 4
"""Decimal places."""


def patterns(subject: Subject, batches: Mapping[Condition, Batch], examples: int) -> Iterator[Pattern]:
    """The patterns of the first examples of the longest condition that is short enough; none where all are too long."""
    short = [(condition, batch) for condition, batch in batches.items() if batch.tokens.shape[1] <= MOST_TOKENS]
    if not short or not examples:
        return
    _, batch = max(short, key=lambda item: item[1].tokens.shape[1])
    batch = batch[:examples]
    seen = look(subject.model, batch.tokens)
    found = [
        (layer, pattern)
        for layer, pattern in zip(seen.layers(batch.tokens), seen.patterns, strict=True)
        if not layer.misfit
    ]
    if not found:
        return
    names = [name for layer, _ in found for name in layer.head_names]
    weights = torch.cat([pattern for _, pattern in found], dim=1).detach().float().cpu()
    cue, query = (each.cpu() for each in marks(batch))
    for index in range(len(batch)):
        own, at = weights[index], (int(cue[index]), int(query[index]))
        heads = _most(own, *at)
        yield Pattern(
            name="pattern" if index == 0 else f"pattern_{index + 1}",
            tokens=subject.task.token_names(batch.tokens[index].cpu()),
            heads=[names[head] for head in heads],
            weights=[[_row(row) for row in own[head]] for head in heads],
            cue=at[0],
            query=at[1],
        )


def _most(weights: Float[Tensor, "head time time"], cue: int, query: int) -> list[int]:
    """The heads that are kept, in order."""
    heads, time, _ = weights.shape
    room = max(1, MOST_NUMBERS // (time * time))
    if heads <= room:
        return list(range(heads))
    return sorted(weights[:, query, cue].argsort(descending=True, stable=True)[:room].tolist())


def _row(row: Float[Tensor, " key"]) -> list[float]:
    """Up to the last key that has any weight."""
    last = int(row.nonzero().max()) + 1 if row.any() else 0
    return [round(weight, DIGITS) for weight in row[:last].tolist()]
