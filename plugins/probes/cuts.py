"""Run many attention cuts on the same examples, prove them, and score what is left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from harness_plugins.probes.conditions import marks
from harness_plugins.probes.looks import Looks, joined, look_at_query
from jaxtyping import Bool, Float, Int
from torch import Tensor

from harness import Batch, Subject
from harness.attention import Layer, check_cut, cut, edges_after, observe

ATTENTION_AT_ONCE = 2**26
"""The most numbers in the attention pattern of one layer in one forward pass."""


@dataclass(frozen=True)
class Cut:
    """One intervention on every example of a batch.

    Args:
        name: how tables call it.
        keys: the tokens that are cut, per example; an example without any does not count.
        query_only: cut them for the query alone, instead of all later queries.
        where: the layers and heads; all that can be cut if not given.
    """

    name: str
    keys: Bool[Tensor, "batch time"]
    query_only: bool = False
    where: Bool[Tensor, "layer head"] | None = None


@dataclass(frozen=True)
class Scores:
    """What examples reached: the task's metrics, and the standard error of each over the examples."""

    metrics: Mapping[str, float]
    errors: Mapping[str, float]

    @classmethod
    def of(cls, subject: Subject, scores: Mapping[str, Tensor], rows: Bool[Tensor, " batch"] | None = None) -> "Scores":
        """From the task's numbers per example, of some of the examples."""
        chosen = scores if rows is None else {name: values[rows] for name, values in scores.items()}
        return cls(subject.task.summarise(chosen), subject.task.standard_errors(chosen))


@dataclass(frozen=True)
class CutResult:
    """What a cut did, on the examples that have something to cut.

    Args:
        scores: under the cut.
        untouched: the same examples without it.
        effect: largest change of the outputs at the query, in the outputs' unit.
        leak: largest change after the cut tokens when they are swapped under the cut; 0 proves the cut.
        before: the same before the cut tokens; 0 if the model is causal.
        opened: largest change before the last token when that one is swapped under the cut, in a model that sees no
            future without it; 0 unless the cut opens the future.
    """

    scores: Scores
    untouched: Scores
    effect: float
    leak: float
    before: float
    opened: float

    @property
    def unproven(self) -> str:
        """Why the cut proves nothing; "" if it does what it says."""
        if self.leak != 0:
            return "not proven: the cut leaks"
        return "not proven: the cut opens the future" if self.opened != 0 else ""


@dataclass(frozen=True)
class Untouched:
    """The same examples without a cut, computed in the same way.

    Args:
        scores: what they reach.
        per_example: the task's numbers per example.
        at_query: outputs at the query.
        looks: where the query looks.
    """

    scores: Scores
    per_example: Mapping[str, Tensor]
    at_query: Float[Tensor, "batch out"]
    looks: Looks


def run_untouched(subject: Subject, batch: Batch) -> Untouched:
    """One observed forward pass over the examples."""
    parts, outputs_at_query, looks = [], [], []
    for piece in batch.split(rows_at_once(subject, batch)):
        _, query = marks(piece)
        with observe() as seen:
            outputs = subject.forward(piece)
        parts.append(subject.task.score(outputs, piece))
        outputs_at_query.append(outputs[torch.arange(len(piece), device=query.device), query])
        looks.append(look_at_query(seen, piece))
    per_example = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return Untouched(Scores.of(subject, per_example), per_example, torch.cat(outputs_at_query), joined(looks))


def run_cuts(
    subject: Subject,
    batch: Batch,
    untouched: Untouched,
    cuts: Sequence[Cut],
    layers: Sequence[Layer],
    proofs: int,
    generator: torch.Generator,
) -> dict[str, CutResult]:
    """All cuts on all examples, as many at once as fit into a forward pass; each proven on `proofs` examples.

    Costs one forward pass over the examples for each cut, and five over the proofs.

    Args:
        layers: every attention call of the model; those with a misfit stay whole.
        generator: of the tokens that are swapped in to prove a cut, and of nothing else.
    """
    together = _Together.of(batch, cuts, layers)
    size = rows_at_once(subject, batch, together.where.shape[2])
    scores, changes = _scored(subject, batch, untouched, together, size)
    proven = _proven(subject, batch, together, size, proofs, generator)
    outcomes = {}
    for index, each in enumerate(cuts):
        has = each.keys.any(1)
        outcomes[each.name] = CutResult(
            scores=Scores.of(subject, {name: values[index] for name, values in scores.items()}, has),
            untouched=Scores.of(subject, untouched.per_example, has),
            effect=changes[index].max().item(),
            **proven[index],
        )
    return outcomes


@dataclass(frozen=True)
class _Together:
    """Several cuts of the same examples, so that a forward pass can have rows of any of them."""

    keys: Bool[Tensor, "cut batch time"]
    where: Bool[Tensor, "cut layer head"]
    query_only: Bool[Tensor, " cut"]
    query: Int[Tensor, " batch"]

    @classmethod
    def of(cls, batch: Batch, cuts: Sequence[Cut], layers: Sequence[Layer]) -> "_Together":
        most = max(layer.heads for layer in layers)
        everywhere = torch.tensor(
            [[head < layer.heads and not layer.misfit for head in range(most)] for layer in layers]
        )
        _, query = marks(batch)
        return cls(
            keys=torch.stack([each.keys for each in cuts]),
            where=torch.stack([everywhere if each.where is None else each.where for each in cuts]),
            query_only=torch.tensor([each.query_only for each in cuts], device=query.device),
            query=query,
        )

    def edges(self, which: Int[Tensor, " row"], rows: Int[Tensor, " row"]) -> Bool[Tensor, "row query key"]:
        """What is cut where each row is one of the cuts on one of the examples."""
        length = self.keys.shape[2]
        at_query = torch.arange(length, device=rows.device) == self.query[rows][:, None]
        return edges_after(self.keys[which, rows], length) & (at_query | ~self.query_only[which][:, None])[:, :, None]


def _scored(
    subject: Subject, batch: Batch, untouched: Untouched, cuts: _Together, size: int
) -> tuple[dict[str, Sequence[Tensor]], Sequence[Tensor]]:
    """For each cut the task's numbers per example, and how far each example's output at the query moves."""
    count, examples = cuts.keys.shape[:2]
    device = batch.tokens.device
    all_cuts = torch.arange(count, device=device).repeat_interleave(examples)
    all_rows = torch.arange(examples, device=device).repeat(count)
    parts: list[dict[str, Tensor]] = []
    changes: list[Tensor] = []
    for which, rows in zip(all_cuts.split(size), all_rows.split(size), strict=True):
        piece = batch[rows]
        with cut(cuts.edges(which, rows), cuts.where[which.cpu()]):
            outputs = subject.forward(piece)
        parts.append(subject.task.score(outputs, piece))
        at_query = outputs[torch.arange(len(rows), device=device), cuts.query[rows]]
        changes.append((at_query - untouched.at_query[rows]).abs().amax(1))
    scores = {name: torch.cat([part[name] for part in parts]).split(examples) for name in parts[0]}
    return scores, torch.cat(changes).split(examples)


def _proven(
    subject: Subject, batch: Batch, cuts: _Together, size: int, proofs: int, generator: torch.Generator
) -> list[dict[str, float]]:
    """For each cut the largest `leak`, `before` and `opened` over some examples that have something to cut."""
    pairs = [(index, row) for index, keys in enumerate(cuts.keys) for row in _provable(keys, proofs)]
    which, rows = torch.tensor(pairs, device=batch.tokens.device).unbind(1)
    found: dict[str, list[Tensor]] = {"leak": [], "before": [], "opened": []}
    for now, at in zip(which.split(size), rows.split(size), strict=True):
        tokens = batch.tokens[at]
        swapped = with_others(subject, tokens, cuts.keys[now, at], generator)
        kept = subject.task.interface.separator
        check = check_cut(subject.model, tokens, swapped, cuts.edges(now, at), cuts.where[now.cpu()], kept)
        for name, values in found.items():
            values.append(getattr(check, name))
    proof = {name: torch.cat(values) for name, values in found.items()}
    return [
        {name: values[which == index].max().item() for name, values in proof.items()} for index in range(len(cuts.keys))
    ]


def rows_at_once(subject: Subject, batch: Batch, heads: int = 16) -> int:
    """How many sequences fit into a pass whose attention is held in the open: time x time numbers for each head."""
    length = batch.tokens.shape[1]
    return max(1, min(subject.chunk_tokens // length, ATTENTION_AT_ONCE // (length * length * heads)))


def _provable(keys: Bool[Tensor, "batch time"], proofs: int) -> list[int]:
    """The first examples that have something to cut."""
    rows: list[int] = keys.any(1).nonzero().squeeze(1)[:proofs].tolist()
    return rows


def with_others(
    subject: Subject, tokens: Tensor, keys: Bool[Tensor, "batch time"], generator: torch.Generator
) -> Tensor:
    """The tokens with other ones at the keys, drawn at random: a proof holds for any."""
    interface = subject.task.interface
    kinds = interface.input_size - (interface.separator is not None)
    if tokens.is_floating_point():
        noise = torch.randn(tokens.shape, generator=generator).to(tokens)
        return torch.where(keys[..., None], tokens + noise, tokens)
    shift = torch.randint(1, kinds, tokens.shape, generator=generator).to(tokens.device)
    return torch.where(keys, interface.others(tokens, shift), tokens)
