"""Checks of models catch what they are for, name it, and pass what is right."""

# The call of a module gives Any.
# mypy: no-warn-return-any

import types
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from harness.contracts import Condition, Interface, Skip
from harness.testing import MODEL_CHECKS, check_model
from harness.testing.models import model_checker
from harness.testing.toys import Attending, Marked, Recurrent


class Base(nn.Module):
    """An embedding and a readout; what is between them is `mix`."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, 8)
        self.head = nn.Linear(8, vocab_size)

    def mix(self, x: Tensor) -> Tensor:
        return x

    def forward(self, tokens: Tensor) -> Any:
        return self.head(self.mix(self.embedding(tokens)))


class Untyped(Base):
    def __init__(self, vocab_size, width=3) -> None:  # type: ignore[no-untyped-def]  # its mistake
        super().__init__(vocab_size)


class WrongDefault(Base):
    def __init__(self, vocab_size: int, width: PositiveInt = -1) -> None:
        super().__init__(vocab_size)


class BadAdvice(Base):
    recommended_training = {"stpes": 100}


class LastOnly(Base):
    def forward(self, tokens: Tensor) -> Any:
        return super().forward(tokens)[:, -1]


class WithState(Base):
    def forward(self, tokens: Tensor) -> Any:
        return super().forward(tokens), None


class NotFinite(Base):
    def forward(self, tokens: Tensor) -> Any:
        return super().forward(tokens) / 0


class Whole(Base):
    def forward(self, tokens: Tensor) -> Any:
        return tokens[..., None].expand(-1, -1, self.head.out_features)


class NoModule:
    def __init__(self, vocab_size: int) -> None:
        pass


class Overwrites(Base):
    def forward(self, tokens: Tensor) -> Any:
        outputs = super().forward(tokens)
        tokens[:, 0] = 0
        return outputs


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return x + 0.01 * torch.randn_like(x)


class Random(Base):
    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.noise = Noise()

    def mix(self, x: Tensor) -> Tensor:
        return self.noise(x)


class DropsAlways(Base):
    def mix(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5)


class RandomOutsideTorch(Base):
    def mix(self, x: Tensor) -> Tensor:
        return x * np.random.rand()


class Remembers(Base):
    """Carries its hidden state from one call to the next."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.state = None

    def mix(self, x: Tensor) -> Tensor:
        states, last = self.rnn(x, self.state)
        self.state = last.detach()[:, :1].repeat(1, x.shape[0], 1) if self.state is None else self.state
        return states


class Counts(Base):
    """Remembers in a buffer, whatever the batch's size."""

    calls: Tensor

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.register_buffer("calls", torch.zeros(()))

    def mix(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


class CountsSilently(Counts):
    def mix(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x


class BatchStatistics(Base):
    """Batch normalisation that never uses running statistics."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.norm = nn.BatchNorm1d(8, track_running_stats=False)

    def mix(self, x: Tensor) -> Tensor:
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class BatchMean(Base):
    def mix(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class OneAhead(nn.Module):
    """Attention whose mask is off by one."""

    def __init__(self, ahead: int = 1) -> None:
        super().__init__()
        self.ahead = ahead
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Tensor) -> Any:
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        visible = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril(self.ahead)
        return F.scaled_dot_product_attention(query[:, None], key[:, None], value[:, None], attn_mask=visible)[:, 0]


class LooksAhead(Base):
    ahead = 1

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.attention = OneAhead(self.ahead)

    def mix(self, x: Tensor) -> Tensor:
        return x + self.attention(x)


class LooksAheadBehindZero(LooksAhead):
    """The same, hidden at first: what the attention gives is scaled by a gate that starts at zero."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.gate = nn.Parameter(torch.zeros(()))

    def mix(self, x: Tensor) -> Tensor:
        return x + self.gate * self.attention(x)


class Bidirectional(Base):
    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.rnn = nn.LSTM(8, 4, batch_first=True, bidirectional=True)

    def mix(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


class CentredConvolution(Base):
    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.conv = nn.Conv1d(8, 8, 3, padding=1)

    def mix(self, x: Tensor) -> Tensor:
        return self.conv(x.mT).mT


class AheadLater(Base):
    """Sees ahead in sequences longer than `beyond`."""

    beyond = 13

    def mix(self, x: Tensor) -> Tensor:
        return x + x.roll(-1, 1) if x.shape[1] > self.beyond else x


class ScalesLater(Base):
    """Turns by another angle in sequences longer than `beyond`, as dynamic NTK scaling of rotary positions does."""

    beyond = 13

    def mix(self, x: Tensor) -> Tensor:
        base = 100.0 if x.shape[1] <= self.beyond else 400.0
        angle = torch.arange(x.shape[1], dtype=x.dtype, device=x.device) * base**-0.5
        return (x * angle.cos()[:, None]).cumsum(1)


class AheadBehindMask(LooksAhead):
    """The same, with an id that is never right: its outputs dwarf all others."""

    def forward(self, tokens: Tensor) -> Any:
        outputs = super().forward(tokens)
        return torch.cat([torch.full_like(outputs[..., :1], -1e30), outputs[..., 1:]], -1)


class ReturnsNothing(Base):
    """Its `train` and `eval` give back no model, which nobody needs."""

    def train(self, mode: bool = True) -> None:  # type: ignore[override]  # its mistake
        super().train(mode)


class OnlyAt(Base):
    """Sees ahead in sequences of 21 tokens and in no others."""

    def mix(self, x: Tensor) -> Tensor:
        return x + x.roll(-1, 1) if x.shape[1] == 21 else x


class Chaos(Base):
    """A logistic map, which makes everything of a difference in the last bit."""

    def mix(self, x: Tensor) -> Tensor:
        states, state = [], x[:, 0].sigmoid() * (1 + x.shape[1] * torch.finfo(x.dtype).eps)
        for step in x.unbind(1):
            state = (4 * state * (1 - state) * (1 - 1e-6 * step.sigmoid())).clamp(0, 1)
            states.append(state)
        return torch.stack(states, 1)


class Probabilities(Base):
    def forward(self, tokens: Tensor) -> Any:
        return super().forward(tokens).softmax(-1)


class LogProbabilities(Base):
    def forward(self, tokens: Tensor) -> Any:
        return super().forward(tokens).log_softmax(-1)


class Complex(Base):
    """A linear recurrence with complex weights."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.turn = nn.Parameter(0.5 * torch.exp(1j * torch.rand(8)))

    def mix(self, x: Tensor) -> Tensor:
        states, state = [], torch.zeros_like(x[:, 0] * self.turn)
        for step in x.unbind(1):
            state = self.turn * state + step
            states.append(state)
        return torch.stack(states, 1).real


class BidirectionalInAList(Base):
    """Its guilty part is held by one of torch's modules, of which nobody wants to know the line."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.layers = nn.ModuleList([nn.LSTM(8, 4, batch_first=True, bidirectional=True)])

    def mix(self, x: Tensor) -> Tensor:
        return self.layers[0](x)[0]


class BufferOfNaN(Base):
    """Marks what is not known yet."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.register_buffer("unknown", torch.tensor(torch.nan))


class Encoder(Bidirectional):
    sees = "all"


class Misspelt(Bidirectional):
    sees = "al"


class DividesByLength(Base):
    def mix(self, x: Tensor) -> Tensor:
        return x.cumsum(1) / x.shape[1]


class FalsePadding(Base):
    padding_token = 0

    def mix(self, x: Tensor) -> Tensor:
        return x + x.sum(1, keepdim=True)


class Padded(FalsePadding):
    """Sees the whole sequence, but for its padding."""

    def forward(self, tokens: Tensor) -> Any:
        real = (tokens != 0)[..., None]
        return self.head(self.mix(self.embedding(tokens) * real))


class Limited(Base):
    """A table of positions that ends, which nobody is told."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.positions = nn.Embedding(40, 8)

    def mix(self, x: Tensor) -> Tensor:
        return x + self.positions(torch.arange(x.shape[1], device=x.device))


class LimitedAndSaysSo(Limited):
    max_length = 40


class LimitedAndSaysMore(Limited):
    max_length = 64


class FromNumpy(Base):
    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        generator = np.random.default_rng()
        self.head.weight.data += torch.tensor(generator.normal(size=self.head.weight.shape), dtype=torch.float32)


class Unused(Base):
    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.forgotten = nn.Linear(8, 8)


class Detached(Base):
    def mix(self, x: Tensor) -> Tensor:
        return x.detach()


class Unsaved(Base):
    """A random projection that is kept outside the state."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.projection = torch.randn(8, 8).tolist()

    def mix(self, x: Tensor) -> Tensor:
        return x @ torch.tensor(self.projection, dtype=x.dtype, device=x.device)


class InAList(Base):
    """Layers in a plain list, which torch does not know."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.layers = [nn.Linear(8, 8)]

    def mix(self, x: Tensor) -> Tensor:
        return self.layers[0](x)


class WrongState(Base):
    state_size = -1


class TwoEmbeddings(Base):
    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.second = nn.Embedding(vocab_size, 8)

    def forward(self, tokens: Tensor) -> Any:
        return self.head(self.embedding(tokens) + self.second(tokens))


class HiddenAttention(Base):
    def mix(self, x: Tensor) -> Tensor:
        scores = x @ x.mT
        earlier = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril()
        return scores.masked_fill(~earlier, -torch.inf).softmax(-1) @ x


class WrongPatterns(Base):
    def attention_patterns(self, tokens: Tensor) -> list[Tensor]:
        return [torch.ones(len(tokens), 1, tokens.shape[1], tokens.shape[1])]


class RightPatterns(HiddenAttention):
    def attention_patterns(self, tokens: Tensor) -> list[Tensor]:
        x = self.embedding(tokens)
        earlier = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return [(x @ x.mT).masked_fill(~earlier, -torch.inf).softmax(-1)[:, None]]


class Sinks(RightPatterns):
    """A quarter of its attention goes to no token."""

    def attention_patterns(self, tokens: Tensor) -> list[Tensor]:
        return [0.75 * pattern for pattern in super().attention_patterns(tokens)]


class Summing(Base):
    """Adds up its tokens, and offers the sum as its state."""

    def initial_state(self, batch_size: int) -> Tensor:
        return self.head.weight.new_zeros(batch_size, 8)

    def step(self, x: Tensor, state: Tensor) -> Any:
        state = state + self.embedding(x)
        return self.head(state), state, {}

    def mix(self, x: Tensor) -> Tensor:
        return x.cumsum(1)


class StepsOtherwise(Summing):
    """Its sum has an end, of which `forward` knows nothing."""

    def initial_state(self, batch_size: int) -> Any:
        return super().initial_state(batch_size), torch.zeros(batch_size, dtype=torch.long)

    def step(self, x: Tensor, state: Any) -> Any:
        total, count = state
        logits, total, gates = super().step(x, total)
        return logits + (count[:, None] >= 4), (total, count + 1), gates


class ForgetsWhereItWas(Base):
    """Its cache is no cache: what follows is read as if it stood at the beginning."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.places = nn.Parameter(torch.randn(300, vocab_size))

    def forward(self, tokens: Tensor) -> Tensor:
        outputs: Tensor = super().forward(tokens) + self.places[: tokens.shape[1]]
        return outputs

    def go_on(self, tokens: Tensor, cache: Any) -> Any:
        return self(tokens), None


class MixedState(Summing):
    """A part of its state, not heard in its outputs, is a mean over the batch."""

    def initial_state(self, batch_size: int) -> Any:
        return super().initial_state(batch_size), super().initial_state(batch_size)

    def step(self, x: Tensor, state: Any) -> Any:
        logits, total, gates = super().step(x, state[0])
        return logits, (total, total.mean(0).expand_as(total)), gates


class Registers(Attending):
    """A second kind of attention, to vectors of its own."""

    def forward(self, tokens: Tensor) -> Any:
        outputs = super().forward(tokens)
        memory = torch.ones(len(tokens), 1, 3, outputs.shape[2], dtype=outputs.dtype)
        return outputs + F.scaled_dot_product_attention(outputs[:, None], memory, memory)[:, 0]


class SinglePrecision(Base):
    """Makes a float32 matrix in the middle, which meets bfloat16."""

    def forward(self, tokens: Tensor) -> Any:
        x = self.head(self.embedding(tokens))
        if x.dtype == torch.bfloat16:
            raise RuntimeError("expected scalar type Float but found BFloat16")
        return x


class LeftBehind(Base):
    """A table that does not move with the model."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.table = torch.ones(512, 8)

    def mix(self, x: Tensor) -> Tensor:
        return x * self.table[: x.shape[1]]


class MadeOnTheCpu(Base):
    def mix(self, x: Tensor) -> Tensor:
        return x + torch.arange(x.shape[1])[:, None]


class Fitted(nn.Module):
    """It counts answers, without gradient steps."""

    counts: Tensor

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.register_buffer("counts", torch.ones(vocab_size))

    def fit(self, stream: Any) -> None:
        for batch in stream:
            self.counts += torch.bincount(batch.targets[batch.targets >= 0], minlength=len(self.counts))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.counts.log().expand(*tokens.shape, -1)


class FitsNothing(Fitted):
    def fit(self, stream: Any) -> None:
        raise RuntimeError("no such table")


class FitsNan(Fitted):
    def fit(self, stream: Any) -> None:
        self.counts *= float("nan")


class FitsAList(Fitted):
    def fit(self, stream: Any) -> None:
        super().fit(stream[:2])


CAUGHT = [
    (Untyped, "arguments", "no type is written at 'width'"),
    (WrongDefault, "arguments", "'width' = -1: input should be greater than 0"),
    (BadAdvice, "recommended_training", "'stpes'. Did you mean 'steps'"),
    (LastOnly, "shape", "it returned (3, 11) where (batch, time, outputs) = (3, 13, 11) is expected"),
    (WithState, "shape", "returned a tuple; return the logits alone"),
    (NotFinite, "shape", "not finite before any training"),
    (Whole, "shape", "torch.int64"),
    (FitsNothing, "fits", "no such table"),
    (FitsNan, "fits", "NaN"),
    (FitsAList, "fits", "not subscriptable"),
    (NoModule, "shape", "it gave a NoModule, which is no torch.nn.Module"),
    (Overwrites, "input_untouched", "it wrote into the tokens"),
    (Random, "deterministic", "draws random numbers in evaluation mode, in `noise`, a Noise"),
    (DropsAlways, "deterministic", "draws random numbers in evaluation mode, in DropsAlways.forward"),
    (RandomOutsideTorch, "deterministic", "draws random numbers in evaluation mode"),
    (Remembers, "stateless", "it keeps state between calls"),
    (Counts, "stateless", "the same input gives other outputs later, from Counts.forward on (it changed calls)"),
    (CountsSilently, "stateless", "a forward pass in evaluation mode changes calls"),
    (BatchStatistics, "batch_invariant", "(batch statistics?), in `norm`, an nn.BatchNorm1d"),
    (BatchMean, "batch_invariant", "depend on the other examples of its batch"),
    (
        LooksAhead,
        "causal",
        "it sees 1 token ahead, in `attention`, a OneAhead: changing token 1 changes the output at ",
    ),
    (LooksAheadBehindZero, "causal", "it sees 1 token ahead, in `attention`, a OneAhead"),
    (Bidirectional, "causal", "the whole sequence to its end, in `rnn`, an nn.LSTM with bidirectional=True"),
    (BidirectionalInAList, "causal", "in `layers.0`, an nn.LSTM with bidirectional=True"),
    (CentredConvolution, "causal", "it sees 1 token ahead, in `conv`, an nn.Conv1d"),
    (AheadLater, "causal", "in AheadLater.forward: changing the tokens from 15 on, of 16, changes outputs before them"),
    (AheadBehindMask, "causal", "it sees 1 token ahead, in `attention`, a OneAhead"),
    (Misspelt, "causal", "sees = 'al'; it is one of 'past', 'source', 'all'"),
    (Probabilities, "logits", "its outputs are probabilities"),
    (ScalesLater, "prefixes", "of 256 tokens are others than those for these 13 alone"),
    (DividesByLength, "prefixes", "they depend on the length of the sequence"),
    (FalsePadding, "padding", "token 0 is padding, but appending it changes the outputs"),
    (Limited, "lengths", "it states no max_length, but 53 tokens raise IndexError"),
    (LimitedAndSaysMore, "lengths", "it states max_length = 64, but 53 tokens raise IndexError"),
    (FromNumpy, "seeded", "the same seed gives other initial values of head.weight"),
    (Unused, "gradients", "no gradient reaches forgotten.weight, forgotten.bias"),
    (Detached, "gradients", "no gradient reaches embedding.weight"),
    (Unsaved, "state_dict", "after saving and loading, the outputs are others"),
    (InAList, "size", "(72 numbers) are not among its parameters(): layers[0].weight, layers[0].bias"),
    (WrongState, "size", "state_size = -1"),
    (TwoEmbeddings, "embedding", "2 tables of vectors are read with the tokens"),
    (HiddenAttention, "attention", "a softmax over time x time that the attention probes cannot see"),
    (WrongPatterns, "attention", "do not sum to 1"),
    (StepsOtherwise, "state", "its outputs differ from its own by up to 1, from step 4 of 13 on"),
    (ForgetsWhereItWas, "cache", "its outputs in pieces are not those of one pass"),
    (MixedState, "state", "the state of layer 1 mixes examples: that of example 0 alone"),
    (SinglePrecision, "autocast", "expected scalar type Float but found BFloat16"),
    (LeftBehind, "devices", "not registered: table"),
    (MadeOnTheCpu, "devices", "on the device"),
]


@pytest.mark.parametrize(("model", "name", "said"), CAUGHT, ids=[f"{name}-{m.__name__}" for m, name, _ in CAUGHT])
def test_a_wrong_model_is_caught_by_the_check_for_it(model: type, name: str, said: str) -> None:
    """The message names what is wrong; consequence, place and fix are there."""
    result = model_checker(model).result(name)
    assert result.status == "failed"
    assert said in result.message
    assert "means: " in str(result)
    assert "fix:   " in str(result)
    assert "test_check_models.py:" in result.where


ALONE: tuple[type, ...] = (
    Random,
    Remembers,
    BatchStatistics,
    LooksAhead,
    Bidirectional,
    DividesByLength,
    Unused,
    LeftBehind,
    Overwrites,
)
ALONE += (AheadLater, ScalesLater, Probabilities)


@pytest.mark.parametrize("model", ALONE)
def test_one_mistake_is_one_failure(model: type) -> None:
    """Checks that could not tell this mistake from their own wait for it to be repaired."""
    expected = next(name for wrong, name, _ in CAUGHT if wrong is model)
    report = check_model(model)
    assert [result.check.name for result in report.failed] == [expected]
    waiting = [result.message for result in report.results if result.message.startswith("waits for")]
    assert expected in ("causal", "prefixes", "gradients", "devices", "input_untouched", "logits") or waiting


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_how_far_a_model_looks_ahead_is_said(ahead: int) -> None:
    """The number of tokens, not just that it does."""
    model: Any = type("Ahead", (LooksAhead,), {"ahead": ahead})
    model.__init__ = lambda self, vocab_size: LooksAhead.__init__(self, vocab_size)
    model.__init__.__annotations__ = {"vocab_size": int}
    tokens = "1 token" if ahead == 1 else f"{ahead} tokens"
    assert f"it sees {tokens} ahead" in model_checker(model).result("causal").message


@pytest.mark.parametrize("beyond", [12, 13, 15, 16, 63, 64, 127, 200])
@pytest.mark.parametrize(("model", "check"), [(AheadLater, "causal"), (ScalesLater, "prefixes")])
def test_what_changes_with_the_length_is_caught_at_any_length(model: Any, check: str, beyond: int) -> None:
    """Not at the length of the short witness alone."""
    kind: Any = type("Later", (model,), {"beyond": beyond})
    kind.__init__ = lambda self, vocab_size: model.__init__(self, vocab_size)
    kind.__init__.__annotations__ = {"vocab_size": int}
    assert model_checker(kind).result(check).status == "failed"


def test_the_lengths_of_a_task_are_looked_at() -> None:
    """And the longest that a model takes."""

    class Asks21(Marked):
        def conditions(self) -> list[Condition]:
            return [Condition(distance, inside=True) for distance in (1, 19)]

    assert model_checker(OnlyAt).result("causal").status == "passed"
    result = model_checker(OnlyAt, task=Asks21()).result("causal")
    assert (result.status, "of 21, changes outputs before them" in result.message) == ("failed", True)
    limited = type("Limited21", (OnlyAt,), {"max_length": 21})
    assert model_checker(limited).result("causal").status == "failed"


def test_a_model_that_says_that_it_sees_all_is_not_asked_to_be_causal() -> None:
    """All other checks are as for any model."""
    report = check_model(Encoder)
    assert report.ok, str(report)
    assert {name for name in ("causal", "prefixes") if report[name].status == "not applicable"} == {
        "causal",
        "prefixes",
    }


def test_a_pretrained_model_is_checked_with_its_own_vocabulary() -> None:
    """Which its tokenizer knows; it is not trained. Without one it says what is missing, and that is no success."""

    class Unknown(Base):
        def __init__(self, vocab_size: int) -> None:
            if vocab_size != 17:
                raise Skip("it has 17 token ids")
            super().__init__(vocab_size)

        @staticmethod
        def pretrained() -> bool:
            return True

    class Known(Unknown):
        @staticmethod
        def tokenizer() -> types.SimpleNamespace:
            return types.SimpleNamespace(size=17)

    class Refuses(Known):
        @staticmethod
        def check_tokenizer() -> None:
            raise ValueError("the file words.txt is missing")

    report = check_model(Known)
    assert report.ok, str(report)
    assert "17" in report["shape"].message
    assert report["gradients"].status == "not applicable"
    for model, said in ((Unknown, "no tokenizer"), (Refuses, "words.txt is missing")):
        with pytest.raises(AssertionError, match=f"nothing was checked: .*{said}"):
            check_model(model).raise_if_failed()
        assert check_model(model, interface=Interface(17, 17)).ok


def test_chaos_is_no_dependence_on_the_length() -> None:
    """Where rounding grows until nothing can be compared, nothing is said."""
    assert "rounding grows" in model_checker(Chaos).result("prefixes").message


RIGHT = (
    Base,
    Attending,
    Recurrent,
    Summing,
    LimitedAndSaysSo,
    RightPatterns,
    LogProbabilities,
    Complex,
    ReturnsNothing,
)


@pytest.mark.parametrize("model", [*RIGHT, BufferOfNaN])
def test_a_right_model_passes(model: type) -> None:
    """No check cries wolf at small models that are in order."""
    report = check_model(model)
    assert report.ok, str(report)
    assert sum(result.status == "passed" for result in report.results) >= 16


def test_what_a_model_claims_is_checked_and_said() -> None:
    """Padding, limits, sizes and attention appear in the notes."""

    def note(model: type, check: str) -> str:
        return model_checker(model).result(check).message

    assert note(Padded, "padding") == "token 0"
    assert "limit 40" in note(LimitedAndSaysSo, "lengths")
    assert "a state of 8 numbers" in note(Recurrent, "size")
    assert "heads per layer: 2, 2; cuts are exact" in note(Attending, "attention")
    assert "they can be read, not cut" in note(RightPatterns, "attention")
    assert "up to 0.25 of the attention of layer 1 goes to no token" in note(Sinks, "attention")
    assert "cuts are exact; left out: call 3 has attention of shape (3, 1, 13, 3)" in note(Registers, "attention")
    assert model_checker(Recurrent).result("attention").status == "not applicable"
    assert note(Recurrent, "state") == "layer 1: 8 states, gates reset, update, new"
    assert note(Summing, "state") == "layer 1: 8 states, no gates"
    assert model_checker(Attending).result("state").status == "not applicable"


def test_checks_leave_the_random_state_alone() -> None:
    """Whoever checks a model in a notebook draws the same numbers afterwards."""
    states = (torch.get_rng_state(), np.random.get_state(legacy=False)["state"]["key"].copy())
    check_model(Base)
    assert torch.equal(states[0], torch.get_rng_state())
    assert (states[1] == np.random.get_state(legacy=False)["state"]["key"]).all()


def test_every_check_of_a_model_has_a_model_that_fails_it() -> None:
    """A new check needs its own counterexample."""
    assert {check.name for check in MODEL_CHECKS} == {name for _, name, _ in CAUGHT}


def test_what_needs_a_fitted_model_waits_for_it() -> None:
    """One check says what is wrong with its `fit`, and no other one takes that for a mistake of its own."""
    report = check_model(FitsNan)
    assert [result.check.name for result in report.failed] == ["fits"]
    assert "waits for" in report["deterministic"].message
    assert check_model(Fitted)["fits"].status == "passed"
    assert check_model(Base)["fits"].status == "not applicable"
