"""A few forward passes say what is wrong with a model as a subject, and nothing of one that is in order."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hf_models import request
from torch import Tensor, nn

from harness import Batch, Condition, Interface, Metric, Task
from harness.needs import unfair
from harness.plugin import resolve
from harness.preflight import ALIKE, DRAWS, KEEPS_STATE, MIXES, PROBABILITIES, inspect
from harness.registry import default_registry
from harness.subject import Subject
from harness.suites import Request
from harness.targets import find_entry, load_definition

VOCABULARY = 11


class Next(Task):
    """Random tokens of two lengths."""

    interface = Interface(VOCABULARY, VOCABULARY)
    metrics = {"accuracy": Metric("share")}  # noqa: RUF012
    lengths: Sequence[int] = (7, 40)

    def conditions(self) -> Sequence[Condition]:
        return [Condition(length, inside=True) for length in self.lengths]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        tokens = torch.randint(VOCABULARY, (examples, int(condition.x)), generator=generator)
        return Batch(tokens, tokens.roll(-1, 1), torch.ones_like(tokens, dtype=torch.bool))


class OneLength(Next):
    """The same at one length."""

    lengths = (7,)


def found(build: Callable[[], nn.Module], task: Task | None = None, *, trained_elsewhere: bool = False) -> list[str]:
    """The sentences about a model as the runner asks for them, with a seed and the next one."""

    def construct(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        np.random.seed(seed)
        return build()

    with torch.random.fork_rng():
        model = construct(0)
        model.eval()
        subject = Subject(model, task or Next(), stage="initial", seed=0, device=torch.device("cpu"), examples=8)
        return inspect(subject, None if trained_elsewhere else lambda: construct(1))


def built_in(request: str) -> Callable[[], nn.Module]:
    asked = Request.model_validate(request)
    plugin = resolve(load_definition(find_entry(default_registry(), "model", asked.name)), asked)
    face = Next.interface
    return lambda: plugin.construct(vocab_size=face.input_size, interface=face)


POSITIONS = [f"gpt:position={position}" for position in ("learned", "sinusoidal", "none", "rope", "alibi")]
RECURRENT = ["lstm", "lstm:layers=2", "gru", "elman", "elman:spectral_radius=3", "elman:biases=1"]


@pytest.mark.parametrize("request_", [*RECURRENT, *POSITIONS, "gpt:dropout=0.2"])
@pytest.mark.parametrize("trained_elsewhere", [False, True])
def test_a_built_in_model_is_in_order(request_: str, trained_elsewhere: bool) -> None:
    """Constructed anew, and as a copy."""
    assert found(built_in(request_), trained_elsewhere=trained_elsewhere) == []


@pytest.mark.skipif(find_spec("transformers") is None, reason="needs transformers")
@pytest.mark.parametrize("architecture", ["gpt2", "llama", "mamba", "jamba"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_causal_models_of_transformers_are_in_order(architecture: str, dtype: str) -> None:
    """Of which one refuses the longer condition, and nothing else is said of it; lower precision is no fault."""
    said = found(built_in(request(architecture, dtype=dtype)))
    assert [sentence for sentence in said if "takes 24 tokens at most" not in sentence] == []


@pytest.mark.skipif(find_spec("transformers") is None, reason="needs transformers")
def test_an_encoder_is_not_causal() -> None:
    """BERT, saved or not, as transformers builds it for a causal model."""
    settings = "hidden_size=32,num_hidden_layers=2,num_attention_heads=4,intermediate_size=32"
    for elsewhere in (False, True):
        (said,) = found(built_in(f"hf:config=bert,{settings}"), trained_elsewhere=elsewhere)
        assert "not causal: changing the last of 7 tokens" in said
        assert "it can read the answer" in said


class Base(nn.Module):
    """An embedding and a readout; what is between them is `mix`."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 8)
        self.head = nn.Linear(8, VOCABULARY)

    def mix(self, x: Tensor) -> Tensor:
        return x

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.mix(self.embedding(tokens)))
        return logits


class Ahead(Base):
    def mix(self, x: Tensor) -> Tensor:
        return x + x.roll(-1, 1)


class OncePeeking(Base):
    """The first output reads the sixth token, wherever the sequence ends."""

    def mix(self, x: Tensor) -> Tensor:
        return torch.cat([x[:, :1] + x[:, 5:6], x[:, 1:]], 1)


class FarAhead(Base):
    """Sees ahead in longer sequences only."""

    def mix(self, x: Tensor) -> Tensor:
        return x + x.roll(-3, 1) if x.shape[1] > 16 else x


class AheadBehindZero(Base):
    """The same, hidden at first: a gate starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def mix(self, x: Tensor) -> Tensor:
        return x + self.gate * x.roll(-1, 1)


class AheadBehindMask(Ahead):
    """The same, with ids that are never right: their outputs dwarf all others."""

    def forward(self, tokens: Tensor) -> Tensor:
        outputs = super().forward(tokens)
        outputs[..., 0] = -1e9
        return outputs


class BatchSecond(Base):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(8, 8)

    def mix(self, x: Tensor) -> Tensor:
        states: Tensor = self.rnn(x)[0]
        return states


class BatchMean(Base):
    def mix(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Remembers(Base):
    """Carries its last state from one call to the next; another batch size fails."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.state: Tensor | None = None

    def mix(self, x: Tensor) -> Tensor:
        states: Tensor
        states, self.state = self.rnn(x, self.state)
        return states


class Previous(Base):
    """Adds what the call before it saw, and its own in the first call."""

    last: Tensor | None = None

    def mix(self, x: Tensor) -> Tensor:
        seen, self.last = self.last, x.mean((0, 1))
        return x + (self.last if seen is None else seen)


class Counts(Base):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def mix(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


class OwnSeed(Base):
    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__()


class Drops(Base):
    def mix(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5)


class NumpyNoise(Base):
    def mix(self, x: Tensor) -> Tensor:
        return x * (1 + np.random.rand())


class Probabilities(Base):
    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens).softmax(-1)


class Misspelt(Base):
    sees = "al"


CAUGHT = [
    (Ahead, "not causal: changing the last of 7 tokens"),
    (OncePeeking, "not causal: changing the last 4 of 7 tokens"),
    (FarAhead, "not causal: changing the last of 40 tokens"),
    (AheadBehindZero, "not causal: changing the last of 7 tokens"),
    (AheadBehindMask, "not causal: changing the last of 7 tokens"),
    (BatchSecond, MIXES),
    (BatchMean, MIXES),
    (Remembers, KEEPS_STATE),
    (Counts, KEEPS_STATE),
    (OwnSeed, ALIKE),
    (Drops, DRAWS),
    (NumpyNoise, DRAWS),
    (Probabilities, PROBABILITIES),
    (Misspelt, "sees = 'al', which is none of 'past', 'source', 'all'"),
]


@pytest.mark.parametrize(("model", "said"), CAUGHT, ids=[model.__name__ for model, _ in CAUGHT])
def test_one_mistake_is_one_sentence(model: type[nn.Module], said: str) -> None:
    """And no other one."""
    (sentence,) = found(model)
    assert said in sentence


def test_what_the_last_call_saw_is_seen_at_one_length_too() -> None:
    """Between two calls with the same input there is one with another."""
    assert KEEPS_STATE in found(Previous, OneLength())


def test_a_copy_of_a_pretrained_model_takes_no_memory_for_weights() -> None:
    """It shares them."""
    places = set()

    class Placed(Base):
        def mix(self, x: Tensor) -> Tensor:
            places.add(self.head.weight.data_ptr())
            return x

    model = Placed().eval()
    subject = Subject(model, Next(), stage="initial", seed=0, device=torch.device("cpu"), examples=8)
    assert inspect(subject) == []
    assert places == {model.head.weight.data_ptr()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rounding_is_no_mistake(dtype: torch.dtype) -> None:
    """One part in a hundred is what bfloat16 cannot tell, and float32 can."""

    class Rounds(Base):
        def __init__(self) -> None:
            super().__init__()
            self.to(dtype)

        def forward(self, tokens: Tensor) -> Tensor:
            return super().forward(tokens) * (1 + 0.01 * tokens[:, -1:, None] / VOCABULARY)

    assert bool(found(Rounds)) == (dtype == torch.float32)


@pytest.mark.parametrize("model", [Ahead, BatchMean, Remembers, Drops])
def test_mistakes_are_seen_in_a_copy_and_at_one_length(model: type[nn.Module]) -> None:
    """As of a pretrained model on a task whose conditions are all of one length."""
    (sentence,) = found(model, OneLength(), trained_elsewhere=True)
    assert next(said for caught, said in CAUGHT if caught is model) in sentence


class Everything(Ahead):
    sees = "all"


class LogProbabilities(Base):
    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens).log_softmax(-1)


class Constant(nn.Module):
    """Parameters that nobody draws."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((VOCABULARY,), 3.0))

    def forward(self, tokens: Tensor) -> Tensor:
        return F.one_hot(tokens, VOCABULARY) * self.scale


class NoParameters(nn.Module):
    def forward(self, tokens: Tensor) -> Tensor:
        return 3.0 * F.one_hot(tokens, VOCABULARY)


class Complex(Base):
    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Parameter(torch.randn(8, dtype=torch.complex64))

    def mix(self, x: Tensor) -> Tensor:
        return (x * self.turn).cumsum(1).real


class ReturnsNothing(Base):
    """Its `train` and `eval` give back no model, which nobody needs."""

    def train(self, mode: bool = True) -> None:  # type: ignore[override]
        super().train(mode)


class Short(Ahead):
    """Sees ahead where it runs: at no length of the task."""

    def mix(self, x: Tensor) -> Tensor:
        if x.shape[1] > 5:
            raise ValueError("too long")
        return super().mix(x)


@pytest.mark.parametrize("model", [Base, LogProbabilities, Constant, NoParameters, Complex, ReturnsNothing, Short])
def test_what_is_no_mistake_is_not_mentioned(model: type[nn.Module]) -> None:
    """Among them a model with constants for weights, and one that cannot run."""
    assert found(model) == []


def test_an_instance_may_say_what_it_sees() -> None:
    """Where arguments decide it."""

    class Either(Ahead):
        def __init__(self) -> None:
            super().__init__()
            self.sees = "all"

    assert found(Either) == found(Everything) == []


def test_a_twin_that_cannot_be_built_costs_the_comparison_only() -> None:
    """The rest is seen in a copy."""
    subject = Subject(Ahead().eval(), Next(), stage="initial", seed=0, device=torch.device("cpu"), examples=8)

    def broken() -> nn.Module:
        raise OSError("no disk")

    (said,) = inspect(subject, broken)
    assert "not causal" in said


@pytest.mark.parametrize("trained_elsewhere", [False, True])
def test_nothing_is_changed(trained_elsewhere: bool) -> None:
    """Weights, buffers, attributes, modes, evaluation data and random states."""

    class All(Remembers, Counts):
        def forward(self, tokens: Tensor) -> Tensor:
            outputs = super().forward(tokens)
            tokens[:] = 0
            return outputs

    np.random.seed(123)
    model = All().train()
    subject = Subject(model, Next(), stage="initial", seed=0, device=torch.device("cpu"), examples=8)
    data = {each: subject.batch(each).tokens.clone() for each in subject.task.conditions()}
    kept: dict[str, Any] = {name: value.clone() for name, value in model.state_dict().items()}
    states = torch.get_rng_state(), np.random.get_state(legacy=False)["state"]["key"].copy()
    assert inspect(subject, None if trained_elsewhere else All) == [KEEPS_STATE]
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())
    assert model.state is None
    assert model.training
    assert all(torch.equal(subject.batch(each).tokens, tokens) for each, tokens in data.items())
    assert torch.equal(states[0], torch.get_rng_state())
    assert (states[1] == np.random.get_state(legacy=False)["state"]["key"]).all()


def test_it_takes_a_dozen_passes_of_three_examples() -> None:
    """Not a second evaluation."""
    seen: list[int] = []

    class Counted(Base):
        def forward(self, tokens: Tensor) -> Tensor:
            seen.append(len(tokens))
            return super().forward(tokens)

    assert found(Counted) == []
    assert len(seen) <= 14
    assert set(seen) == {3}


def test_a_model_that_may_see_all_can_read_next_tokens() -> None:
    """That it says so makes it no fair subject of whole sentences; of recall, whose answer is not to be read, it is."""
    from harness_plugins.tasks.farm_agreement import FarmAgreement
    from harness_plugins.tasks.recall import Recall

    def said(task: Task, model: nn.Module) -> str:
        return unfair(Subject(model, task, stage="initial", seed=0, device=torch.device("cpu"), examples=16))

    class Encoder(nn.Module):
        sees = "all"

        def __init__(self, size: int) -> None:
            super().__init__()
            self.read, self.write = nn.Embedding(size, 4), nn.Linear(4, size)

        def forward(self, tokens: Tensor) -> Tensor:
            x = self.read(tokens)
            out: Tensor = self.write(x + x.mean(1, keepdim=True))
            return out

    assert said(FarmAgreement(sentences=100, k_max=1), Encoder(56).eval()).startswith("the model sees all tokens")
    assert said(Recall(), Encoder(18).eval()) == ""


def test_a_model_too_short_for_the_trained_range_is_named() -> None:
    """Before it is trained; what is too long beyond the range is a result."""
    from harness_plugins.models.gpt import GPT
    from harness_plugins.tasks.recall import Recall

    def said(task: Task) -> list[str]:
        model = GPT(18, max_length=12).eval()
        return inspect(Subject(model, task, stage="initial", seed=0, device=torch.device("cpu"), examples=16))

    (sentence,) = said(Recall())
    assert "takes 12 tokens at most" in sentence
    assert "have up to 22" in sentence
    assert said(Recall(train_max=10)) == []
