"""Which cells hold, where their gates open, and what explains what is written meanwhile."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from harness_plugins.probes.conditions import first_group, marks, reference
from harness_plugins.probes.input_swap import distractor_mask
from harness_plugins.probes.recurrent import forward_layers
from jaxtyping import Bool, Float, Int
from pydantic import PositiveInt
from torch import Tensor

from harness import Batch, Matrix, Scalar, Skip, Subject
from harness.recurrence import StateLayer

HOLDS = 0.99
"""A cell holds if its forget gate, on average over distractors, is above this: half is left after 69 steps."""


class Gates:
    """What the gates of an LSTM or GRU do between the cue and the query; seen from outside, in any model.

    A cell keeps the share f of what it holds, and i g is written: of an LSTM, f, i and g are its forget gate, input
    gate and candidate (S. Hochreiter and J. Schmidhuber, 1997; F. A. Gers et al., 2000). Of a GRU, f is the update gate
    z, which PyTorch has as the share that stays, i is 1 - z, and g is the new state (K. Cho et al., 2014).

    A cell holds if its mean f over all distractors is above 0.99. Distractors are the tokens of that role, or, in a
    task without roles, all between cue and query. Looks at the farthest condition that training covered.

    How much of what is written at distractors is explained by what else is known there (the cue's token, the token
    itself) is the correlation ratio: the variance between the means of the classes, over the whole variance, both
    summed over cells (K. Pearson, 1905). It is 1 if the class says all, and about (classes - 1) / examples by chance,
    which the shuffled control shows: the cues of the examples, or the tokens of all positions, in another order.

    Measures:
        cells_that_hold: how many, in all layers.
        holding_forget: their mean f at distractors; NaN if there are none.
        gate_means: mean f and i of all cells, and of those that hold, at the cue, at distractors and at the query.
        written_explained: the share of the variance of i g at distractors that is explained, beside its control; NaN
            where vectors stand in place of tokens (which then have no classes), or too few classes occur.

    With several layers, each row says which one.

    Args:
        examples: sequences.
    """

    needs: ClassVar = ("state", "cue")

    def __init__(self, *, examples: PositiveInt = 256) -> None:
        self.examples = examples

    def __call__(self, subject: Subject) -> Iterator[Scalar | Matrix]:
        conditions = [each for each in first_group(subject.task) if subject.marked(each, 1) is not None]
        batch = subject.marked(reference(conditions), self.examples)
        assert batch is not None  # the need
        layers = gated(subject, batch)
        classes = Classes.of(subject, batch)
        yield from holding(layers)
        groups = {
            f"{name}, {which}" if len(layers) > 1 else which: (layer, cells)
            for name, layer in layers.items()
            for which, cells in (("all cells", torch.ones_like(layer.holds)), ("cells that hold", layer.holds))
        }
        yield Matrix(
            name="gate_means",
            unit="share",
            values=[[_mean(each[cells]) for each in layer.means.values()] for layer, cells in groups.values()],
            rows=list(groups),
            columns=list(next(iter(layers.values())).means),
            row_label="cells",
            column_label="gate and place",
            about="how far the gates are open",
            meaning="forget: the share of what a cell holds that stays; input: the share of the candidate written",
            headline=True,
        )
        yield Matrix(
            name="written_explained",
            unit="share",
            values=[classes.explain(layer.written[:, cells]) for layer, cells in groups.values()],
            rows=list(groups),
            columns=["cue", "cue, shuffled", "token", "token, shuffled"],
            row_label="cells",
            column_label="explained by",
            about="how much of the variance of what is written at distractors is explained",
            meaning="cue: which token the cue is; token: which distractor is read; shuffled: what chance explains",
            headline=True,
        )


@dataclass(frozen=True)
class Memory:
    """Gates in the words of an LSTM, `batch time cell` each: what stays, what is let in, and of what."""

    forget: Tensor
    input: Tensor
    candidate: Tensor


def gates_of(layer: StateLayer) -> Memory | None:
    """The gates of an LSTM or GRU; None for anything else."""
    gates: Mapping[str, Tensor] = layer.gates
    if {"forget", "input", "candidate"} <= gates.keys():
        return Memory(gates["forget"], gates["input"], gates["candidate"])
    if {"update", "new"} <= gates.keys():
        return Memory(gates["update"], 1 - gates["update"], gates["new"])
    return None


@dataclass(frozen=True)
class Layer:
    """What one layer does.

    Args:
        means: by gate and place, the mean of each cell.
        written: i g at every distractor, in the order of `Classes`.
        holds: True for a cell that holds.
    """

    means: dict[str, Float[Tensor, " cell"]]
    written: Float[Tensor, "distractor cell"]
    holds: Bool[Tensor, " cell"]

    @property
    def forget_at_distractors(self) -> Float[Tensor, " cell"]:
        """The mean of each cell."""
        return self.means["forget, distractors"]

    @classmethod
    def of(cls, subject: Subject, parts: list[tuple[Batch, Memory]]) -> "Layer":
        """All chunks of examples together."""
        at: dict[str, list[Tensor]] = {}
        written = []
        for batch, memory in parts:
            cue, query = marks(batch)
            rows = torch.arange(len(batch), device=cue.device)
            between = distractor_mask(batch, subject.task.roles)
            for name, gate in (("forget", memory.forget), ("input", memory.input)):
                at.setdefault(f"{name}, cue", []).append(gate[rows, cue])
                at.setdefault(f"{name}, distractors", []).append(gate[between])
                at.setdefault(f"{name}, query", []).append(gate[rows, query])
            written.append(memory.input[between] * memory.candidate[between])
        means = {place: torch.cat(gates).double().mean(0) for place, gates in at.items()}
        return cls(means, torch.cat(written).double(), means["forget, distractors"] > HOLDS)


def gated(subject: Subject, batch: Batch) -> dict[str, Layer]:
    """Every layer that has such gates, by name.

    Raises:
        Skip: there is none.
    """
    found: dict[str, list[tuple[Batch, Memory]]] = {}
    for piece in subject.chunks(batch):
        seen = forward_layers(subject.model, piece.tokens)
        for layer in seen:
            if (memory := gates_of(layer)) is not None:
                found.setdefault(layer.name, []).append((piece, memory))
    if not found:
        raise Skip(
            "no layer has the gates forget, input and candidate (an LSTM) or update and new (a GRU); "
            f"{seen[0].name} has {', '.join(seen[0].gates) or 'none'}"
        )
    return {name: Layer.of(subject, parts) for name, parts in found.items()}


def holding(layers: Mapping[str, Layer]) -> Iterator[Scalar]:
    """How many cells hold, and how well."""
    forgets = torch.cat([layer.forget_at_distractors[layer.holds] for layer in layers.values()])
    yield Scalar(
        name="cells_that_hold",
        unit="cells",
        value=len(forgets),
        about=f"cells whose forget gate (of a GRU, update gate) is above {HOLDS} at distractors, on average; there "
        f"are {sum(len(layer.holds) for layer in layers.values())}",
        headline=True,
    )
    yield Scalar(
        name="holding_forget",
        unit="share",
        value=forgets.mean().item() if len(forgets) else math.nan,
        about="the mean forget gate of these cells at distractors",
        headline=True,
    )


@dataclass(frozen=True)
class Classes:
    """What is known at each distractor: the cue of its sequence, and its own token; and the same in another order.
    None for vectors, and where fewer than two classes occur."""

    known: dict[str, Int[Tensor, " distractor"] | None]

    @classmethod
    def of(cls, subject: Subject, batch: Batch) -> "Classes":
        """The classes of all distractors of a batch."""
        if batch.tokens.is_floating_point():
            return cls(dict.fromkeys(("cue", "cue, shuffled", "token", "token, shuffled")))
        between = distractor_mask(batch, subject.task.roles)
        sequence, _ = between.nonzero(as_tuple=True)
        cue, _ = marks(batch)
        cues = batch.tokens[torch.arange(len(batch), device=cue.device), cue]
        tokens = batch.tokens[between]
        known = {
            "cue": cues[sequence],
            "cue, shuffled": shuffled(cues, subject.generator)[sequence],
            "token": tokens,
            "token, shuffled": shuffled(tokens, subject.generator),
        }
        return cls({name: each if len(each.unique()) > 1 else None for name, each in known.items()})

    def explain(self, values: Float[Tensor, "distractor cell"]) -> list[float]:
        """The share of their variance that each explains."""
        return [math.nan if each is None else explained(values, each) for each in self.known.values()]


def explained(values: Float[Tensor, "n cell"], classes: Int[Tensor, " n"]) -> float:
    """The correlation ratio: between the classes' means, over all variance; both summed over cells. NaN where nothing
    varies."""
    centred = values - values.mean(0)
    whole = centred.square().sum().item()
    _, index = classes.unique(return_inverse=True)
    counts = torch.bincount(index).to(values.dtype)
    sums = values.new_zeros(len(counts), values.shape[1]).index_add_(0, index, centred)
    between = (sums.square() / counts[:, None]).sum().item()
    return between / whole if whole else math.nan


def shuffled(classes: Int[Tensor, " n"], generator: torch.Generator) -> Int[Tensor, " n"]:
    """In another order."""
    return classes[torch.randperm(len(classes), generator=generator).to(classes.device)]


def _mean(gates: Float[Tensor, " cell"]) -> float:
    return gates.mean().item() if len(gates) else math.nan
