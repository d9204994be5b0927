"""Recurrent modules of PyTorch in a model, in every form that they have, and what tests of states compare."""

# The call of a module gives Any.
# mypy: no-warn-return-any

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from harness.recurrence import replaced, states_of

BATCH, TIME, WIDTH, HIDDEN = 5, 9, 3, 4

EXACT = 1e-12


def largest(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


class Wrapped(nn.Module):
    """Anything that maps vectors to (outputs, state), with a readout; `batch time width` whatever the module wants."""

    def __init__(self, rnn: nn.RNNBase, lengths: Tensor | None = None, hx: Any = None, *, sort: bool = False) -> None:
        super().__init__()
        self.inside = nn.ModuleDict({"deep": rnn})
        self.lengths, self.hx, self.sort = lengths, hx, sort
        self.final: Any = None

    def forward(self, x: Tensor) -> Tensor:
        rnn = self.inside["deep"]
        assert isinstance(rnn, nn.RNNBase)
        if self.lengths is not None:
            packed = pack_padded_sequence(x, self.lengths, batch_first=True, enforce_sorted=self.sort)
            out, self.final = rnn(packed, self.hx)
            return pad_packed_sequence(out, batch_first=True)[0]
        given = x if rnn.batch_first else x.transpose(0, 1)
        out, self.final = rnn(given) if self.hx is None else rnn(given, hx=self.hx)
        return out if rnn.batch_first else out.transpose(0, 1)


def wrapped(
    kind: str, *, lengths: Tensor | None = None, given: bool = False, sort: bool = False, **options: Any
) -> Wrapped:
    """A module in float64 with drawn weights, in a model."""
    torch.manual_seed(0)
    options = {"num_layers": 2, "batch_first": True, **options}
    name, _, nonlinearity = kind.partition(" ")
    if nonlinearity:
        options["nonlinearity"] = nonlinearity
    rnn: nn.RNNBase = getattr(nn, name)(WIDTH, HIDDEN, **options, dtype=torch.float64)
    hx = None
    if given:
        count = rnn.num_layers * (2 if rnn.bidirectional else 1)
        h = torch.randn(count, BATCH, rnn.proj_size or HIDDEN, dtype=torch.float64)
        hx = (h, torch.randn(count, BATCH, HIDDEN, dtype=torch.float64)) if name == "LSTM" else h
    return Wrapped(rnn, lengths, hx, sort=sort).eval()


def vectors(time: int = TIME) -> Tensor:
    return torch.randn(BATCH, time, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


KINDS = ("RNN tanh", "RNN relu", "LSTM", "GRU")

FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "one layer": {"num_layers": 1},
    "time first": {"batch_first": False},
    "no bias": {"bias": False},
    "bidirectional": {"bidirectional": True},
    "dropout": {"dropout": 0.5},
    "given state": {"given": True},
    "both, given": {"given": True, "bidirectional": True, "batch_first": False},
    "packed": {"lengths": torch.tensor([3, 9, 1, 9, 4])},
    "packed, sorted": {"lengths": torch.tensor([9, 7, 7, 2, 1]), "sort": True},
    "packed, both, given": {"lengths": torch.tensor([3, 9, 1, 9, 4]), "given": True, "bidirectional": True},
}


def is_cut(model: nn.Module, x: Tensor, other: Tensor, after: int) -> None:
    mixed = torch.cat([other[:, : after + 1], x[:, after + 1 :]], 1)
    with torch.no_grad():
        own, wanted = model(x), model(mixed)
    states = {layer.name: layer.after(after) for layer in states_of(model, other)}
    with torch.no_grad(), replaced(model, states, after=after):
        found = model(x)
    assert largest(found[:, after + 1 :], wanted[:, after + 1 :]) < EXACT
    assert (
        torch.equal(found[:, : after + 1], own[:, : after + 1])
        or largest(found[:, : after + 1], own[:, : after + 1]) < EXACT
    )
    with torch.no_grad():
        assert torch.equal(model(x), own), "nothing stays behind"


class Leaky(nn.Module):
    """Two leaky integrators, one upon the other, that offer their state: a list for its layers, with a counter."""

    wrong_from = TIME + 1

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mix = nn.Linear(WIDTH, HIDDEN, dtype=torch.float64)

    def initial_state(self, batch_size: int) -> Any:
        zero = torch.zeros(batch_size, HIDDEN, dtype=torch.float64)
        return [(zero, torch.zeros(batch_size, dtype=torch.long)), {"cell": zero, "hidden": 2 * zero}]

    def step(self, x: Tensor, state: Any) -> Any:
        (first, count), second = state
        first = 0.5 * first + self.mix(x)
        cell = 0.9 * second["cell"] + first
        hidden = cell.tanh() + second["hidden"] + 0.1 * (count >= self.wrong_from)[:, None]
        state = [(first, count + 1), {"cell": cell, "hidden": hidden}]
        return hidden, state, [{}, {"forget": torch.full_like(cell, 0.9)}]

    def forward(self, x: Tensor) -> Tensor:
        first = cell = hidden = torch.zeros(len(x), HIDDEN, dtype=torch.float64)
        outputs = []
        for each in self.mix(x).unbind(1):
            first = 0.5 * first + each
            cell = 0.9 * cell + first
            hidden = torch.tanh(cell) + hidden
            outputs.append(hidden)
        return torch.stack(outputs, 1)
