"""Run many attention cuts on the same examples, prove them, and score what is left."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from harness_plugins.probes.conditions import marked
from jaxtyping import Bool, Float
from torch import Tensor

from harness import Batch, Subject
from harness.attention import check_cut, cut, edges_after, observe

ATTENTION_AT_ONCE = 2**26
"""The most numbers in the attention pattern of one layer in one forward pass."""


@dataclass(frozen=True)
class Cut:
    """One intervention on every example of a batch.

    Args:
        name: how tables call it.
        keys: the tokens that are cut, per example.
        query_only: cut them for the query alone, instead of all later queries.
        where: the layers and heads; all if not given.
    """

    name: str
    keys: Bool[Tensor, "batch time"]
    query_only: bool = False
    where: Bool[Tensor, "layer head"] | None = None


@dataclass(frozen=True)
class Outcome:
    """What a cut did.

    Args:
        metrics: the task's metrics under the cut.
        effect: largest change of the outputs at the query, in the outputs' unit.
        leak: largest change after the cut tokens when they are swapped under the cut; 0 proves the cut.
        before: the same before the cut tokens; 0 if the model is causal.
    """

    metrics: dict[str, float]
    effect: float
    leak: float
    before: float


@dataclass(frozen=True)
class Untouched:
    """The same examples without a cut, computed in the same way.

    Args:
        metrics: the task's metrics.
        at_query: outputs at the query.
        looks: per layer, the attention weights at the query.
    """

    metrics: dict[str, float]
    at_query: Float[Tensor, "batch out"]
    looks: list[Float[Tensor, "batch head key"]]


def run_untouched(subject: Subject, batch: Batch) -> Untouched:
    """One observed forward pass over the examples."""
    scores, outputs_at_query, looks = [], [], []
    for piece in batch.split(rows_at_once(subject, batch)):
        _, query = marked(piece)
        rows = torch.arange(len(piece), device=query.device)
        with observe() as seen:
            outputs = subject.forward(piece)
        scores.append(subject.task.score(outputs, piece))
        outputs_at_query.append(outputs[rows, query])
        looks.append([pattern[rows, :, query] for pattern in seen.patterns])
    metrics = subject.task.summarise({name: torch.cat([part[name] for part in scores]) for name in scores[0]})
    return Untouched(metrics, torch.cat(outputs_at_query), [torch.cat(layer) for layer in zip(*looks, strict=True)])


def run_cuts(
    subject: Subject, batch: Batch, untouched: Untouched, cuts: Sequence[Cut], shape: Sequence[int], proofs: int
) -> dict[str, Outcome]:
    """All cuts on all examples, as many at once as fit into a forward pass; each proven on `proofs` examples.

    Costs one forward pass over the examples for each cut, and three over the proofs.
    """
    examples, length = batch.tokens.shape[:2]
    _, query = marked(batch)
    device = batch.tokens.device
    everywhere = torch.tensor([[head < heads for head in range(max(shape))] for heads in shape])
    keys = torch.stack([each.keys for each in cuts])
    where = torch.stack([everywhere if each.where is None else each.where for each in cuts])
    query_only = torch.tensor([each.query_only for each in cuts], device=device)
    positions = torch.arange(length, device=device)

    def edges(which: Tensor, rows: Tensor) -> Bool[Tensor, "rows query key"]:
        later = edges_after(keys[which, rows], length)
        at_query = positions == query[rows][:, None]
        return later & (at_query | ~query_only[which][:, None])[:, :, None]

    which_cut = torch.arange(len(cuts), device=device).repeat_interleave(examples)
    which_row = torch.arange(examples, device=device).repeat(len(cuts))
    size = rows_at_once(subject, batch, max(shape))
    parts: list[dict[str, Tensor]] = []
    change: list[Tensor] = []
    for which, rows in zip(which_cut.split(size), which_row.split(size), strict=True):
        piece = batch[rows]
        with cut(edges(which, rows), where[which.cpu()]):
            outputs = subject.forward(piece)
        parts.append(subject.task.score(outputs, piece))
        at_query = outputs[torch.arange(len(rows), device=device), query[rows]]
        change.append((at_query - untouched.at_query[rows]).abs().amax(1))
    scores = {name: torch.cat([part[name] for part in parts]).split(examples) for name in parts[0]}
    changes = torch.cat(change).split(examples)

    proven = [(index, row) for index in range(len(cuts)) for row in _provable(keys[index], proofs)]
    which = torch.tensor([index for index, _ in proven], device=device)
    rows = torch.tensor([row for _, row in proven], device=device)
    leaks, befores = [], []
    for part in torch.arange(len(proven)).split(size):
        which_now, tokens = which[part], batch.tokens[rows[part]]
        swapped = _swapped(subject, tokens, keys[which_now, rows[part]])
        check = check_cut(subject.model, tokens, swapped, edges(which_now, rows[part]), where[which_now.cpu()])
        leaks.append(check.leak)
        befores.append(check.before)
    leak, before = torch.cat(leaks), torch.cat(befores)
    return {
        each.name: Outcome(
            metrics=subject.task.summarise({name: values[index] for name, values in scores.items()}),
            effect=changes[index].max().item(),
            leak=leak[which == index].max().item(),
            before=before[which == index].max().item(),
        )
        for index, each in enumerate(cuts)
    }


def rows_at_once(subject: Subject, batch: Batch, heads: int = 16) -> int:
    """How many sequences fit into a pass whose attention is held in the open: time x time numbers for each head."""
    length = batch.tokens.shape[1]
    return max(1, min(subject.chunk_tokens // length, ATTENTION_AT_ONCE // (length * length * heads)))


def _provable(keys: Bool[Tensor, "batch time"], proofs: int) -> list[int]:
    """The first examples that have something to cut."""
    rows: list[int] = keys.any(1).nonzero().squeeze(1)[:proofs].tolist()
    return rows


def _swapped(subject: Subject, tokens: Tensor, keys: Bool[Tensor, "batch time"]) -> Tensor:
    """Other tokens at the keys, drawn at random: a proof holds for any."""
    kinds = subject.task.interface.input_size
    if tokens.is_floating_point():
        noise = torch.randn(tokens.shape, generator=subject.generator).to(tokens)
        return torch.where(keys[..., None], tokens + noise, tokens)
    shift = torch.randint(1, kinds, tokens.shape, generator=subject.generator).to(tokens.device)
    return torch.where(keys, (tokens + shift) % kinds, tokens)
