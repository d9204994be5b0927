"""States of recurrent models at chosen positions: seen, and exchanged between examples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from harness_plugins.probes.conditions import marks
from harness_plugins.probes.cuts import CutResult, Scores, with_others
from jaxtyping import Bool, Float, Int
from torch import Tensor

from harness import Batch, Skip, Subject
from harness.recurrence import StateLayer, observe, replaced

Carried = Mapping[str, Float[Tensor, "_ _"]]
"""By the name of the layer, what is carried on after a position of each example (`batch width`): states, then cells."""

Mix = Callable[[Float[Tensor, "batch width"], Float[Tensor, "batch width"]], Float[Tensor, "batch width"]]
"""From an example's own state and its partner's to the one with which the model goes on."""


@dataclass(frozen=True)
class Looked:
    """Examples as they are, computed step by step.

    Args:
        scores: what they reach.
        per_example: the task's numbers per example.
        at_query: outputs at the query.
        layers: every layer that was seen, of the first examples; those with a misfit stand in no other field.
        carried: what stands after the position that was asked for.
    """

    scores: Scores
    per_example: Mapping[str, Tensor]
    at_query: Float[Tensor, "batch out"]
    layers: Sequence[StateLayer]
    carried: Carried


@dataclass(frozen=True)
class Swap:
    """An exchange of states: every example goes on from its partner's state, or from a part of it.

    Args:
        name: how tables call it.
        partner: the other example.
        counts: which examples have one.
        mixes: what becomes of each layer's state; one that is not named stays the example's own.
    """

    name: str
    partner: Int[Tensor, " batch"]
    counts: Bool[Tensor, " batch"]
    mixes: Mapping[str, Mix]

    def states(self, own: Carried, others: Carried, rows: Int[Tensor, " rows"]) -> Carried:
        """With what the model goes on.

        Args:
            own: states of these rows.
            others: states of all examples.
            rows: the examples.
        """
        partner = self.partner[rows]
        return {
            name: self.mixes[name](state, others[name][partner]) if name in self.mixes else state
            for name, state in own.items()
        }


@dataclass(frozen=True)
class SwapResult(CutResult):
    """What an exchange did: as of a cut (the scores are against each example's own answer), and `follows`, the scores
    against the partner's answer."""

    follows: Scores


def look(subject: Subject, batch: Batch, after: Int[Tensor, " batch"]) -> Looked:
    """One pass over the examples, step by step.

    Raises:
        Skip: a layer reads backward, or none has a state after each position.
    """
    parts, at_query, carried = [], [], []
    layers: Sequence[StateLayer] = ()
    for piece, places in zip(batch.split(size := rows_at_once(subject, batch)), after.split(size), strict=True):
        with observe(subject.model, differentiable=True) as seen:  # its outputs are those of the steps
            outputs = subject.forward(piece)
        layers = layers or seen.layers
        parts.append(subject.task.score(outputs, piece))
        at_query.append(outputs_at_query(outputs, piece))
        carried.append({layer.name: layer.after(places) for layer in _readable(seen.layers)})
    if any(each.keys() != carried[0].keys() for each in carried):
        raise Skip("the model runs other recurrent layers in different passes")
    per_example = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return Looked(
        Scores.of(subject, per_example),
        per_example,
        torch.cat(at_query),
        layers,
        {name: torch.cat([each[name] for each in carried]) for name in carried[0]},
    )


def _readable(layers: Sequence[StateLayer]) -> list[StateLayer]:
    if backward := next((layer.name for layer in layers if layer.direction == "backward"), None):
        raise Skip(f"{backward} reads from the end: no state stands between what came before and what comes after")
    if found := [layer for layer in layers if not layer.misfit]:
        return found
    raise Skip(f"no layer has a state after each position: {layers[0].misfit}" if layers else "no state was seen")


def run_swaps(
    subject: Subject,
    batch: Batch,
    whole: Looked,
    swaps: Sequence[Swap],
    answered: Callable[[Swap], Batch],
    proofs: int,
    generator: torch.Generator,
) -> dict[str, SwapResult]:
    """All exchanges after the cue, on all examples, by name; each proven on the first `proofs` of them.

    Costs one pass over the examples, step by step, for each exchange, and two and a bit over the proofs.

    Args:
        whole: the same examples as they are, with the states after the cue.
        answered: the batch with the answers of the partners.
        generator: of the tokens that are swapped in to prove an exchange, and of nothing else.
    """
    found: dict[str, list[tuple[dict[str, Tensor], dict[str, Tensor], Tensor]]] = {swap.name: [] for swap in swaps}
    theirs = {swap.name: answered(swap) for swap in swaps}
    everyone = torch.arange(len(batch), device=batch.tokens.device)
    for rows in everyone.split(max(1, rows_at_once(subject, batch) // len(swaps))):
        piece = batch[rows]
        outputs = _exchanged(
            subject, piece, {name: state[rows] for name, state in whole.carried.items()}, whole, swaps, rows
        )
        for swap, each in zip(swaps, outputs, strict=True):
            change = (outputs_at_query(each, piece) - whole.at_query[rows]).abs().amax(1)
            score = subject.task.score
            found[swap.name].append((score(each, piece), score(each, theirs[swap.name][rows]), change))
    leaks, before = _proven(subject, batch, whole, swaps, everyone[:proofs], generator)
    results = {}
    for swap, leak, earlier in zip(swaps, leaks, before, strict=True):
        own, others, changes = zip(*found[swap.name], strict=True)

        def scored(parts: Sequence[dict[str, Tensor]], counts: Tensor = swap.counts) -> Scores:
            return Scores.of(subject, {name: torch.cat([part[name] for part in parts]) for name in parts[0]}, counts)

        results[swap.name] = SwapResult(
            scores=scored(own),
            untouched=Scores.of(subject, whole.per_example, swap.counts),
            effect=torch.cat(changes)[swap.counts].max().item(),
            leak=leak,
            before=earlier,
            opened=0.0,
            follows=scored(others),
        )
    return results


def _exchanged(
    subject: Subject, piece: Batch, own: Carried, whole: Looked, swaps: Sequence[Swap], rows: Int[Tensor, " rows"]
) -> tuple[Float[Tensor, "rows time out"], ...]:
    """The outputs under each exchange, all in one pass.

    Args:
        piece: the examples, perhaps with other tokens.
        own: their states.
        rows: which ones of all they are.
    """
    cue, _ = marks(piece)
    states = [swap.states(own, whole.carried, rows) for swap in swaps]
    given = {name: torch.cat([each[name] for each in states]) for name in own}
    tokens = piece.tokens.repeat(len(swaps), *[1] * (piece.tokens.ndim - 1))
    with torch.no_grad(), replaced(subject.model, given, after=cue.repeat(len(swaps))):
        outputs: Tensor = subject.model(tokens)
    each: tuple[Tensor, ...] = outputs.split(len(piece))
    return each


def _proven(
    subject: Subject,
    batch: Batch,
    whole: Looked,
    swaps: Sequence[Swap],
    rows: Int[Tensor, " rows"],
    generator: torch.Generator,
) -> tuple[list[float], list[float]]:
    """How far the outputs after the cue, and before it, still move under each exchange when the cue is another one."""
    piece = batch[rows]
    cue, _ = marks(piece)
    positions = torch.arange(piece.tokens.shape[1], device=cue.device)
    others = with_others(subject, piece.tokens, positions == cue[:, None], generator)
    pair = [piece, replace(piece, tokens=others)]
    one, other = (_exchanged(subject, each, look(subject, each, cue).carried, whole, swaps, rows) for each in pair)
    moved = [(a - b).abs().amax(2) for a, b in zip(one, other, strict=True)]

    def largest(where: Bool[Tensor, "rows time"]) -> list[float]:
        return [each.where(where, 0.0).max().item() for each in moved]

    return largest(positions > cue[:, None]), largest(positions < cue[:, None])


def rows_at_once(subject: Subject, batch: Batch) -> int:
    """How many sequences fit into a pass."""
    return max(1, subject.chunk_tokens // max(1, batch.tokens.shape[1]))


def outputs_at_query(outputs: Float[Tensor, "batch time out"], batch: Batch) -> Float[Tensor, "batch out"]:
    """The outputs at each example's query."""
    _, query = marks(batch)
    return outputs[torch.arange(len(batch), device=query.device), query]
