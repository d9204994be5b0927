"""States of recurrent models are seen and differentiated from outside."""

# The call of a module gives Any.
# mypy: no-warn-return-any

from typing import Any

import pytest
import torch
from recurrent import BATCH, EXACT, FORMS, HIDDEN, KINDS, TIME, WIDTH, Leaky, Wrapped, is_cut, largest, vectors, wrapped
from torch import Tensor, nn

from harness.errors import RequestError
from harness.recurrence import direct_path, jacobians, observe, replaced, states_of

CASES = [
    *((kind, form, options) for kind in KINDS for form, options in FORMS.items()),
    ("LSTM", "projected", {"proj_size": 2}),
    ("LSTM", "projected, both", {"proj_size": 2, "bidirectional": True, "given": True}),
]


@pytest.mark.parametrize(("kind", "options"), [pytest.param(k, o, id=f"{k} {f}") for k, f, o in CASES])
def test_states_are_those_of_the_module(kind: str, options: dict[str, Any]) -> None:
    """The last layer's states are its outputs, and the states after the last step those that it returns."""
    model, x = wrapped(kind, **options), vectors()
    with torch.no_grad():
        out = model(x)
    final = model.final
    layers = states_of(model, x)
    rnn: Any = model.inside["deep"]
    assert isinstance(rnn, nn.RNNBase)
    directions = 2 if rnn.bidirectional else 1
    assert len(layers) == rnn.num_layers * directions
    states = torch.cat([layer.states for layer in layers[-directions:]], -1)
    real = torch.ones(BATCH, TIME, dtype=torch.bool)
    if model.lengths is not None:
        real = torch.arange(TIME) < model.lengths[:, None]
    assert largest(states[real], out[real]) < EXACT
    h, c = final if kind == "LSTM" else (final, None)
    for index, layer in enumerate(layers):
        last = 0 if layer.direction == "backward" else TIME - 1
        assert largest(layer.states[:, last], h[index]) < EXACT
        if c is None:
            assert layer.cells is None
        else:
            assert layer.cells is not None
            assert largest(layer.cells[:, last], c[index]) < EXACT
        assert not layer.misfit


@pytest.mark.parametrize(("kind", "options"), [pytest.param(k, o, id=f"{k} {f}") for k, f, o in CASES])
def test_computed_in_the_open_a_module_answers_in_its_own_form(kind: str, options: dict[str, Any]) -> None:
    """While what is recorded takes the module's place, its outputs and final states are the same."""
    model, x = wrapped(kind, **options), vectors()
    with torch.no_grad():
        out = model(x)
        final = model.final
        with observe(model, differentiable=True):
            again = model(x)
    assert largest(again, out) < EXACT
    for one, other in zip(final, model.final, strict=True):
        assert one.shape == other.shape
        assert largest(one, other) < EXACT


def test_gates_are_those_of_the_equations() -> None:
    """c = f c + i g and h = o tanh(c); h = (1 - z) n + z h; h = tanh(pre-activation)."""
    (lstm,) = states_of(wrapped("LSTM", num_layers=1, given=True), vectors())
    before = torch.cat([lstm.initial[:, None], lstm.carried[:, :-1]], 1)
    i, f, g, o = (lstm.gates[name] for name in ("input", "forget", "candidate", "output"))
    assert lstm.cells is not None
    assert largest(lstm.cells, f * before[..., HIDDEN:] + i * g) < EXACT
    assert largest(lstm.states, o * lstm.cells.tanh()) < EXACT
    (gru,) = states_of(wrapped("GRU", num_layers=1), vectors())
    before = torch.cat([gru.initial[:, None], gru.carried[:, :-1]], 1)
    z, n = gru.gates["update"], gru.gates["new"]
    assert largest(gru.states, (1 - z) * n + z * before) < EXACT
    assert set(gru.gates) == {"reset", "update", "new"}
    (rnn,) = states_of(wrapped("RNN tanh", num_layers=1), vectors())
    assert largest(rnn.states, rnn.gates["pre_activation"].tanh()) < EXACT


class Stepping(nn.Module):
    """Two cells called step by step, or a whole layer called with one step at a time."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        torch.manual_seed(0)
        if kind.endswith("Cell"):
            self.first = getattr(nn, kind)(WIDTH, HIDDEN, dtype=torch.float64)
            self.second = getattr(nn, kind)(HIDDEN, HIDDEN, dtype=torch.float64)
        else:
            self.first = getattr(nn, kind)(WIDTH, HIDDEN, 2, batch_first=True, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        a = b = None
        outputs = []
        for step in x.unbind(1):
            if self.kind.endswith("Cell"):
                a = self.first(step, a)
                b = self.second(a[0] if isinstance(a, tuple) else a, b)
                outputs.append(b[0] if isinstance(b, tuple) else b)
            else:
                out, a = self.first(step[:, None], a)
                outputs.append(out[:, 0])
        return torch.stack(outputs, 1)


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell", "RNN", "LSTM", "GRU"])
def test_calls_that_go_on_from_one_another_are_one_sequence(kind: str) -> None:
    """A cell called at every step, or a layer, gives the states of all steps; replaced ones are gone on from."""
    model, x = Stepping(kind).eval(), vectors()
    with torch.no_grad():
        out = model(x)
    layers = states_of(model, x)
    assert [layer.name for layer in layers] == (
        ["first", "second"] if kind.endswith("Cell") else ["layer 1", "layer 2"]
    )
    assert not any(layer.misfit for layer in layers)
    assert largest(layers[-1].states, out) < EXACT
    other = vectors().flip(0)
    is_cut(model, x, other, after=3)
    is_cut(model, x, other, after=-1)


def test_outputs_are_differentiated_by_recorded_states() -> None:
    """The gradient by a state on the way is that by the same state as a start."""
    model, x = wrapped("LSTM", num_layers=1), vectors()
    with observe(model, differentiable=True) as seen:
        out = model(x)
    (layer,) = seen.layers
    (found,) = torch.autograd.grad(out[:, -1].sum(), layer.nodes[2])
    assert largest(layer.nodes[2], layer.after(2)) == 0
    start = layer.after(2).detach().requires_grad_()
    rnn: Any = model.inside["deep"]
    out, _ = rnn(x[:, 3:], tuple(each[None] for each in start.split(HIDDEN, -1)))
    (wanted,) = torch.autograd.grad(out[:, -1].sum(), start)
    assert largest(found, wanted) < EXACT


@pytest.mark.parametrize("kind", KINDS)
def test_jacobians_are_those_of_autograd(kind: str) -> None:
    """Each example's Jacobian from one position to another, by running the module itself from there."""
    model, x = wrapped(kind, num_layers=1), vectors()
    (layer,) = states_of(model, x)
    rnn: Any = model.inside["deep"]

    def run(carried: Tensor, example: int, start: int, end: int) -> Tensor:
        parts = carried[None, None].split(HIDDEN, -1)
        _, final = rnn(x[example : example + 1, start + 1 : end + 1], parts if kind == "LSTM" else parts[0])
        return torch.cat(final if kind == "LSTM" else (final,), -1)[0, 0]

    found = jacobians(layer, [-1, 2, 6], end=7)
    for index, start in enumerate((-1, 2, 6)):
        for example in range(BATCH):
            wanted = torch.autograd.functional.jacobian(
                lambda carried, example=example, start=start: run(carried, example, start, 7),
                layer.after(start)[example],
            )
            assert isinstance(wanted, Tensor)
            assert largest(found[index, example], wanted) < EXACT


def test_the_direct_path_is_the_product_of_forget_gates() -> None:
    (layer,) = states_of(wrapped("LSTM", num_layers=1), vectors())
    found = direct_path(layer, [5], end=7)
    assert torch.allclose(found[0], layer.gates["forget"][:, 6] * layer.gates["forget"][:, 7], atol=1e-15)
    (gru,) = states_of(wrapped("GRU", num_layers=1), vectors())
    with pytest.raises(RequestError, match="no gate `forget`; its gates: reset, update, new"):
        direct_path(gru, [5], end=7)


class OtherLSTM(nn.LSTM):
    """Says that it is an LSTM, and computes something else."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        out, state = super().forward(*args, **kwargs)
        return out * 1.001, state


def test_what_is_computed_otherwise_is_named() -> None:
    """A module that is not what its class says, and a `step` that disagrees: which, from where, by how much."""
    other = Wrapped(OtherLSTM(WIDTH, HIDDEN, batch_first=True, dtype=torch.float64)).eval()
    with pytest.raises(RequestError, match=r"the state of inside\.deep cannot be seen.* from step 0 of 9"):
        states_of(other, vectors())
    leaky = Leaky().eval()
    leaky.wrong_from = 4
    with pytest.raises(RequestError, match=r"the state of Leaky cannot be seen.*by up to 0\.\d.*from step 4 of 9"):
        states_of(leaky, vectors())


def test_rounding_that_grows_is_no_disagreement() -> None:
    """A chaotic network is seen, although two ways to compute it part after some hundred steps."""
    torch.manual_seed(0)
    big = nn.RNN(WIDTH, 64, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        big.get_parameter("weight_hh_l0").mul_(12)
    x = 0.1 * vectors(400)
    (layer,) = states_of(Wrapped(big).eval(), x)
    with torch.no_grad():
        assert largest(layer.states, big(x)[0]) > 1e-9, "it is chaotic"


def test_a_request_that_cannot_be_met_says_why() -> None:
    model, x = wrapped("LSTM"), vectors()
    states = {"layer 1": torch.zeros(1, 2 * HIDDEN)}
    missing = {"layer 3": states["layer 1"]}
    known = "nothing was replaced in layer 3; the layers of the model: layer 1, layer 2"
    with pytest.raises(RequestError, match=known), replaced(model, missing, after=0):
        model(x)
    with pytest.raises(RequestError, match="there is no position 9"), replaced(model, states, after=TIME):
        model(x)
    narrow, why = (
        {"layer 1": torch.zeros(1, 3)},
        "layer 1 carries 8 numbers for each of 5 examples, but is given 3 for 1",
    )
    with pytest.raises(RequestError, match=why), replaced(model, narrow, after=0):
        model(x)
    with pytest.raises(RequestError, match="has states after positions -1 to 8, not 9"):
        states_of(model, x)[0].after(9)
    with pytest.raises(RequestError, match="no Jacobian from positions"):
        jacobians(states_of(model, x)[0], [3], end=3)
    dropping = wrapped("LSTM", dropout=0.5).train()
    with pytest.raises(RequestError, match="in evaluation mode"):
        states_of(dropping, x)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_model_without_a_state_has_none() -> None:
    assert states_of(nn.Linear(WIDTH, HIDDEN), vectors().float()) == []


class Twice(nn.Module):
    """Reads its input from both ends with one module; the second time it starts anew."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(WIDTH, HIDDEN, batch_first=True, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(x)[0] + self.gru(x.flip(1)[:, 1:])[0].mean(1, keepdim=True)


def test_a_module_that_reads_twice_has_two_entries() -> None:
    """And what does not go with the positions of the input says so."""
    first, second = states_of(Twice().eval(), vectors())
    assert (first.name, second.name) == ("layer 1", "layer 1 call 2")
    assert not first.misfit
    assert second.misfit == "layer 1 call 2 has (examples, steps) = (5, 8), but the model's input has (5, 9)"
