"""Truncated back-propagation: no gradient past the end of a chunk, and nothing else changes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from harness_plugins.models.gru import GRU
from harness_plugins.models.lstm import LSTM
from harness_plugins.tasks.recall import Recall
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import harness
from harness import Batch, Interface
from harness.errors import PluginError
from harness.gradients import InputGradients
from harness.schema import Training
from harness.training import train
from harness.truncation import Truncated

CPU = torch.device("cpu")
TIME = 12


def vectors(time: int = TIME) -> Batch:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, time, 4, generator=generator, dtype=torch.float64)
    return Batch(x, x, torch.ones(3, time, dtype=torch.bool))


class Read(nn.Module):
    """Reads vectors with any recurrent module, in its own order of axes; perhaps from a learned state."""

    def __init__(self, kind: Callable[..., nn.RNNBase], given: bool = False, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rnn = kind(4, 5, **options)
        width = (2 if self.rnn.bidirectional else 1) * (options.get("proj_size") or 5)
        self.head = nn.Linear(width, 4)
        self.start = nn.Parameter(torch.randn(self.rnn.num_layers, 1, 5)) if given else None
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.rnn.batch_first else x.transpose(0, 1)
        hx = None if self.start is None else self.start.repeat(1, 3, 1)
        states = self.rnn(x, hx)[0]
        outputs: Tensor = self.head(states if self.rnn.batch_first else states.transpose(0, 1))
        return outputs


class Offers(nn.Module):
    """Shows its state itself, which is a tuple in a dict."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.read, self.head = nn.Linear(9, 5), nn.Linear(5, 4)
        self.double()

    def initial_state(self, batch_size: int) -> Any:
        return {"hidden": (torch.zeros(batch_size, 5, dtype=torch.float64),)}

    def step(self, x: Tensor, state: Any) -> Any:
        hidden = self.read(torch.cat([x, *state["hidden"]], 1)).tanh()
        return self.head(hidden), {"hidden": (hidden,)}, {}

    def forward(self, x: Tensor) -> Tensor:
        state, outputs = self.initial_state(len(x)), []
        for each in x.unbind(1):
            output, state, _ = self.step(each, state)
            outputs.append(output)
        return torch.stack(outputs, 1)


def peephole() -> nn.Module:
    torch.manual_seed(0)
    return LSTM(4, hidden=5, layers=2, peephole=True, interface=Interface(4, 4, "vectors", "numbers")).double()


MODELS: dict[str, Callable[[], nn.Module]] = {
    "offers its state": Offers,
    "a layer that does": peephole,
    "rnn": lambda: Read(nn.RNN, batch_first=True),
    "lstm": lambda: Read(nn.LSTM, batch_first=True, num_layers=2),
    "gru": lambda: Read(nn.GRU, batch_first=True),
    "time first": lambda: Read(nn.GRU),
    "projected": lambda: Read(nn.LSTM, batch_first=True, num_layers=2, proj_size=3),
    "given state": lambda: Read(nn.RNN, given=True, num_layers=2),
}


@pytest.mark.parametrize("steps", [1, 5, 6])
@pytest.mark.parametrize("name", MODELS)
def test_no_gradient_gets_past_the_end_of_a_chunk(name: str, steps: int) -> None:
    """Exactly 0 before the chunk and not within it, for every output; the outputs are what they were."""
    model, batch = MODELS[name](), vectors()
    compute = Truncated(model, steps, [batch])
    outputs = compute(batch.tokens)
    assert (outputs - model(batch.tokens)).abs().max() < 1e-12
    for at in range(TIME):
        x = batch.tokens.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(compute(x)[:, at].sum(), x)
        begins = at // steps * steps
        assert (gradient[:, :begins] == 0).all()
        assert gradient[:, begins : at + 1].abs().amax(-1).min() > 0
    whole = InputGradients(model, batch).along(torch.ones_like(outputs))
    assert whole[:, 0].abs().max() > 0  # the model is as it was
    assert all("forward" not in vars(module) for module in model.modules())


class Disagrees(Offers):
    """Takes another step than its one pass does."""

    def step(self, x: Tensor, state: Any) -> Any:
        output, state, gates = super().step(x, state)
        return 5 * output, state, gates

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 5


def test_training_by_steps_is_of_the_model_that_is_measured() -> None:
    assert torch.allclose(Offers()(vectors().tokens), Disagrees()(vectors().tokens))
    with pytest.raises(
        PluginError, match="truncate=4 has no meaning for Disagrees: the state of Disagrees cannot be seen"
    ):
        Truncated(Disagrees(), 4, [vectors()])


class Named(NamedTuple):
    hidden: Tensor


class OffersNamed(Offers):
    """Its state has names."""

    def initial_state(self, batch_size: int) -> Any:
        return Named(super().initial_state(batch_size)["hidden"][0])

    def step(self, x: Tensor, state: Any) -> Any:
        output, after, gates = super().step(x, {"hidden": (state.hidden,)})
        return output, Named(after["hidden"][0]), gates


def test_a_state_with_names_is_cut_off_as_well() -> None:
    model, batch = OffersNamed(), vectors()
    x = batch.tokens.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(Truncated(model, 5, [batch])(x)[:, 7].sum(), x)
    assert (gradient[:, :5] == 0).all()
    assert gradient[:, 5:8].abs().amax(-1).min() > 0


def test_it_is_the_loop_that_everybody_writes() -> None:
    """Gradients of the parameters are those of a loop over chunks with detached states."""
    model, batch = Read(nn.LSTM, batch_first=True), vectors()
    Truncated(model, 5, [batch])(batch.tokens).square().sum().backward()
    found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    state, outputs = None, []
    for chunk in batch.tokens.split(5, 1):
        states, (h, c) = model.rnn(chunk, state)
        state = (h.detach(), c.detach())
        outputs.append(model.head(states))
    torch.cat(outputs, 1).square().sum().backward()
    assert len(found) == len([*model.parameters()])
    for own, parameter in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(own, parameter.grad, rtol=1e-13, atol=1e-14)


def test_training_is_truncated() -> None:
    """Another outcome than with the whole gradient; the same where every sequence fits into one chunk."""
    losses = []
    for truncate in (None, 1000, 2):
        torch.manual_seed(0)
        model = LSTM(18, hidden=8)
        training = Training(steps=20, validate_every=5, lr=0.03, truncate=truncate)
        losses.append(train(model, Recall(train_max=5), training, 0, CPU).learning_curve)
    assert losses[0] == losses[1] != losses[2]


class Hybrid(nn.Module):
    """A recurrent layer, and something that carries past it."""

    def __init__(self, carry: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.rnn = nn.GRU(4, 4, batch_first=True)
        self.carry = carry
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.carry(self.rnn(x)[0])


class ByStep(nn.Module):
    """Calls its layer once for each step, and hands on the state itself."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(4, 4, batch_first=True).double()

    def forward(self, x: Tensor) -> Tensor:
        state, outputs = None, []
        for step in x.split(1, 1):
            output, state = self.rnn(step, state)
            outputs.append(output)
        return torch.cat(outputs, 1)


class Packs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 4, batch_first=True).double()

    def forward(self, x: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, torch.full((len(x),), x.shape[1]), batch_first=True)
        return pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda: nn.Linear(4, 4).double(), "no nn.RNN, nn.LSTM or nn.GRU"),
        (lambda: Read(nn.LSTM, batch_first=True, bidirectional=True), "bidirectional"),
        (Packs, "packs its sequences"),
        (ByStep, "gradient of output 12 gets to input 1, past the end of a chunk at 8"),
        (lambda: Hybrid(lambda x: x.cumsum(1)), "gets to input 1, past"),
        (lambda: Hybrid(lambda x: x.cumsum(1).log_softmax(-1)), "gets to input 1, past"),
        (lambda: Hybrid(lambda x: nn.functional.scaled_dot_product_attention(x, x, x)), "attention"),
        (lambda: Hybrid(lambda x: x.detach()), "cannot be seen: the model's outputs carry no gradient"),
    ],
)
def test_a_model_for_which_it_has_no_meaning_is_refused(model: Callable[[], nn.Module], said: str) -> None:
    """Before training, with what it is; also where the sequences that are tried are no longer than a chunk."""
    for steps in (4, 100):
        with pytest.raises(PluginError, match=f"truncate={steps} has no meaning for .*leave it out") as error:
            Truncated(model(), steps, [vectors(2), vectors()])
        assert said in str(error.value) or (steps == 100 and said.startswith("gradient of"))


def test_a_hybrid_whose_layers_keep_to_chunks_is_taken() -> None:
    """What works on each step alone carries nothing."""
    Truncated(Hybrid(lambda x: x.tanh()), 4, [vectors()])
    Truncated(GRU(18, layers=2), 4, [next(iter(Recall().train(4, torch.Generator())))])


def test_a_run_says_why_it_refuses(tmp_path: Any) -> None:
    """The cells of that model fail with one sentence; the others are measured."""
    results = harness.run(
        ["lstm:hidden=8", "gpt:d_model=8"],
        ["recall:train_max=4,distances=[1,4]"],
        seeds=1,
        training={"steps": 3, "truncate": 2},
        examples=16,
        out=tmp_path,
    )
    statuses = {record.model.name: record for record in results}
    assert statuses["lstm"].status == "ok"
    assert statuses["lstm"].training.truncate == 2
    assert statuses["gpt"].error is not None
    assert "truncate=2 has no meaning for GPT" in statuses["gpt"].error.message
