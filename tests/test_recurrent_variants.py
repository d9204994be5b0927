"""Variants of the built-in recurrent models, and models of others, seen by what needs a state."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness_plugins.models.elman import Elman
from harness_plugins.models.gpt import GPT
from harness_plugins.models.gru import GRU
from harness_plugins.models.lstm import LSTM
from torch import Tensor, nn

from harness import Interface, RequestError, run
from harness.offers import OffersState
from harness.recurrence import states_of

TOKENS = torch.arange(24).reshape(4, 6) % 11
EXACT = 1e-12


def seen(model: nn.Module, given: Tensor = TOKENS) -> list[Any]:
    """States in float64."""
    return states_of(model.double().eval(), given)


def largest(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


def test_without_peepholes_the_cell_written_by_hand_is_the_lstm_of_torch() -> None:
    """With the same weights, and p = 0; with p, the output gate sees the cell of its own step."""
    torch.manual_seed(0)
    hand, fused = LSTM(11, hidden=5, peephole=True).double(), LSTM(11, hidden=5).double()
    rnn: Any = fused.rnn
    cell: Any = hand.rnn.cells[0]  # type: ignore[index]
    with torch.no_grad():
        hand.embedding.weight.copy_(fused.embedding.weight)
        cell.weight_ih.copy_(rnn.weight_ih_l0)
        cell.weight_hh.copy_(rnn.weight_hh_l0)
        cell.bias_ih.copy_(rnn.bias_ih_l0 + rnn.bias_hh_l0)
        cell.peephole.zero_()
    (by_hand,), (by_torch,) = seen(hand), seen(fused)
    assert largest(by_hand.carried, by_torch.carried) < EXACT
    assert set(by_hand.gates) == set(by_torch.gates)
    assert all(largest(by_hand.gates[name], by_torch.gates[name]) < EXACT for name in by_hand.gates)
    with torch.no_grad():
        cell.peephole[2] = 1.0
    (peeping,) = seen(hand)
    before = by_torch.gates["output"].logit()
    assert largest(peeping.gates["output"][:, 0].logit(), before[:, 0] + peeping.cells[:, 0]) < 1e-9
    assert torch.equal(peeping.gates["forget"][:, 0], by_hand.gates["forget"][:, 0])


def test_the_forget_bias_reaches_the_cell_written_by_hand() -> None:
    cell: Any = LSTM(11, hidden=5, peephole=True, forget_bias=3.0).rnn.cells[0]  # type: ignore[index]
    assert cell.bias_ih[5:10].tolist() == [3.0] * 5


def test_the_reset_gate_may_act_before() -> None:
    """n = tanh(W x + U (r h) + b): the same as torch's where r is the same for all units, and otherwise not."""
    torch.manual_seed(0)
    hand, fused = GRU(11, hidden=5, reset="before"), GRU(11, hidden=5)
    rnn: Any = fused.rnn
    cell: Any = hand.rnn.cells[0]  # type: ignore[index]
    with torch.no_grad():
        hand.embedding.weight.copy_(fused.embedding.weight)
        rnn.bias_hh_l0.zero_()
        rnn.weight_ih_l0[:5], rnn.weight_hh_l0[:5], rnn.bias_ih_l0[:5] = 0.0, 0.0, -0.4
        cell.weight_ih.copy_(rnn.weight_ih_l0)
        cell.weight_hh.copy_(rnn.weight_hh_l0)
        cell.bias.copy_(rnn.bias_ih_l0)
    (by_hand,), (by_torch,) = seen(hand), seen(fused)
    assert largest(by_hand.states, by_torch.states) < EXACT
    with torch.no_grad():
        cell.bias[:2] = rnn.bias_ih_l0[:2] = 4.0
    (by_hand,), (by_torch,) = seen(hand), seen(fused)
    assert largest(by_hand.states, by_torch.states) > 1e-3


def test_a_linear_network_is_linear() -> None:
    """Its states for a sum of inputs are the sum of its states; torch's with tanh are not."""
    torch.manual_seed(0)
    interface = Interface(2, 1, input="vectors", output="numbers")
    x, y = torch.randn(2, 3, 6, 2, dtype=torch.float64)
    for activation, linear in (("identity", True), ("tanh", False), ("relu", False)):
        model = Elman(2, activation=activation, interface=interface).double()  # type: ignore[arg-type]
        nothing = torch.zeros_like(x)
        a, b, both, none = (seen(model, each)[0].states for each in (x, y, x + y, nothing))
        assert (largest(both + none, a + b) < EXACT) == linear


def test_an_orthogonal_start_is_orthogonal() -> None:
    """In each layer and direction; rescaled, all eigenvalues have the modulus that was asked for."""
    model = Elman(11, hidden=8, layers=2, bidirectional=True, orthogonal=True, spectral_radius=1.5)
    weights = [each for name, each in model.rnn.named_parameters() if "weight_hh" in name]
    assert len(weights) == 4
    for weight in weights:
        assert torch.allclose(weight @ weight.T, 2.25 * torch.eye(8), atol=1e-5)


def test_states_of_both_directions_are_seen_in_the_built_in_models() -> None:
    layers = seen(Elman(11, hidden=4, layers=2, bidirectional=True))
    names = ["layer 1", "layer 1 backward", "layer 2", "layer 2 backward"]
    assert [layer.name for layer in layers] == names
    assert seen(Elman(11, hidden=4, biases=1))[0].states.shape == (4, 6, 4)


def test_layers_written_by_hand_offer_their_state() -> None:
    for model in (
        LSTM(11, layers=2, peephole=True),
        GRU(11, layers=2, reset="before"),
        Elman(11, activation="identity"),
    ):
        assert isinstance(model.rnn, OffersState)
        assert seen(model)


@pytest.mark.parametrize("model", [Elman, LSTM, GRU, GPT])
def test_vectors_are_projected(model: Callable[..., nn.Module]) -> None:
    """In place of the embedding; outputs are as many as the task asks for."""
    built = model(3, interface=Interface(3, 2, input="vectors", output="numbers"))
    assert isinstance(built.embedding, nn.Linear)
    assert built(torch.randn(4, 6, 3)).shape == (4, 6, 2)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("elman:activation=identity,bidirectional=true", "activation=identity is written for one direction"),
        ("lstm:peephole=true,bidirectional=true", "peephole=true is written for one direction"),
        ("gru:dropout=0.5", "dropout=0.5 is between layers, and there is one layer; use layers=2"),
        ("both_seen:lengths=[3]", None),
    ],
)
def test_what_does_not_go_together_is_refused(request_: str, said: str | None) -> None:
    if said is None:
        with pytest.raises(RequestError, match="a length of 3 steps ends before the ones at steps 3 and 4"):
            run(models=["latch"], tasks=[request_], probes=["accuracy"])
        return
    with pytest.raises(RequestError, match=said):
        run(models=[request_], tasks=["recall"], probes=["accuracy"])


FOREIGN = '''
    from torch import nn

    class Foreign(nn.Module):
        """As anybody writes it: time first, two LSTMs, the second of which starts from the first one's end."""

        def __init__(self, vocab_size: int):
            super().__init__()
            self.words = nn.Embedding(vocab_size, 6)
            self.stack = nn.Sequential(nn.Identity(), nn.ModuleDict({"reader": nn.LSTM(6, 5, num_layers=2)}))
            self.out = nn.Linear(5, vocab_size)

        def forward(self, tokens):
            states, _ = self.stack[1]["reader"](self.words(tokens).transpose(0, 1))
            return self.out(states.transpose(0, 1))
'''

PROBE = """
    from harness import Scalar
    from harness.recurrence import states_of

    def peek(subject):
        layers = states_of(subject.model, subject.batch(subject.task.conditions()[0]).tokens)
        open_ = sum(float(layer.gates["forget"].mean()) for layer in layers) / len(layers)
        yield Scalar(name="forget", unit="share", value=open_)

    peek.needs = ("state",)
"""


def test_a_foreign_model_is_seen_without_a_change_to_it(plugin_file: Callable[..., str]) -> None:
    """By a probe that needs a state, in a run; a transformer is skipped with the reason."""
    foreign, probe = plugin_file(FOREIGN, "foreign.py"), plugin_file(PROBE, "peek.py")
    results = run(
        models=[f"{foreign}:Foreign", "gpt"],
        tasks=["recall:train_max=2,distances=[1,2]"],
        probes=[f"{probe}:peek"],
        training={"steps": 0},
        seeds=1,
        examples=4,
    )
    by_status = {record.status: record for record in results.records}
    assert set(by_status) == {"ok", "skipped"}, [record.error for record in results.records]
    (measured,) = by_status["ok"].measurements
    assert 0.3 < getattr(measured, "value") < 0.7  # noqa: B009 - one of several kinds
    assert "no state: the model has no nn.RNN, nn.LSTM, nn.GRU" in str(by_status["skipped"].reason)
