"""Gradient reach: exact where algebra says what must come out, and as published where it was measured."""

import copy
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from harness_plugins.models.elman import Elman
from harness_plugins.models.gpt import GPT
from harness_plugins.models.gru import GRU
from harness_plugins.models.lstm import LSTM
from harness_plugins.probes.grad_reach import GradReach
from harness_plugins.tasks.noise import Noise
from harness_plugins.tasks.recall import VOCABULARY, Recall
from measured import Found, curve, scalar
from reaching import DISTANCES, Decaying, Unmarked, measure, reach, subject_of
from torch import Tensor, nn

from harness import Batch, Condition, Interface
from harness.examples import seeded
from harness.measurements import Curve, Matrix


def test_a_known_decay_is_measured_exactly() -> None:
    """A factor of 0.9 per step is found as 0.9, called exponential, and falls below 1 % where logarithms say."""
    found = reach(Decaying(0.9))
    assert curve(found, "reach") == pytest.approx([0.9 ** (d + 1) for d in DISTANCES], rel=1e-4)
    factor = scalar(found, "per_step_factor")
    assert factor.value == pytest.approx(0.9, rel=1e-4)
    assert factor.verdict == "exponential"
    below = scalar(found, "below_1_percent")  # after 1 + log 0.01 / log 0.9 = 44.7
    assert (below.value, below.verdict) == (50, "between 20 and 50")


def test_sizes_by_hand() -> None:
    """Logits = sum of embeddings: every embedding moves every centred logit, of which 17 are free, by as much; along a
    unit vector it moves them by 1."""
    found = reach(Decaying(1.0), distances=[1, 3])
    assert curve(found, "cue_gradient") == pytest.approx([math.sqrt(17)] * 2, rel=1e-5)
    assert curve(found, "along_loss") == pytest.approx([1.0, 1.0], rel=1e-5)
    assert curve(found, "reach") == pytest.approx([1.0, 1.0], rel=1e-5)


class Linear(nn.Module):
    """Three classes; logits at the query = A x(first) + B x(last)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 2)
        self.first = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
        self.last = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 3.0]])

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        return torch.cat([torch.zeros(len(x), 1, 3), x[:, :1] @ self.first.T + x[:, 1:] @ self.last.T], 1)


def test_a_small_linear_model_by_hand() -> None:
    """A less its column means (3, 5) is [-2 -3; 0 -1; 2 4], whose squares sum to 34; B less (1, 1) is
    [0 -1; 0 -1; 0 2], squares 6. With target 0 and equal logits the loss is steepest along (-2, 1, 1) / sqrt 6, and A'
    of that is (6, 9) / sqrt 6."""

    class Two(Unmarked):
        interface = Interface(VOCABULARY, 3)

        def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
            tokens = torch.zeros(examples, 2, dtype=torch.long)
            targets = torch.tensor([[-100, 0]]).repeat(examples, 1)
            return Batch(tokens, targets, tokens == 0, cue=tokens[:, 0], query=tokens[:, 0] + 1)

    model = Linear()
    model.embedding.weight.data.zero_()
    found = measure(model, Two())
    assert curve(found, "cue_gradient") == pytest.approx([math.sqrt(34)])
    assert curve(found, "reach") == pytest.approx([math.sqrt(34 / 6)])
    assert curve(found, "along_loss") == pytest.approx([math.sqrt((36 + 81) / 6)])


def test_what_float32_would_lose_is_kept() -> None:
    """0.4 per step is 1e-40 after 100 steps, 2 per step 1e30, and each has the query's own 1 beside it."""
    assert curve(reach(Decaying(0.4)), "reach")[-1] == pytest.approx(0.4**101, rel=1e-2)
    assert curve(reach(Decaying(2.0)), "reach")[-1] == pytest.approx(2.0**101, rel=1e-2)
    assert scalar(reach(Decaying(2.0)), "per_step_factor").verdict == "grows"


def test_too_small_for_float32_is_no_cut_off() -> None:
    """0.3 per step is 1e-157 after 300 steps, which is 0 in float32: the law is known from the places before."""
    found = reach(Decaying(0.3), distances=[1, 2, 5, 10, 300])
    assert curve(found, "cue_gradient")[-1] == 0
    factor = scalar(found, "per_step_factor")
    assert factor.value == pytest.approx(0.3)
    assert factor.verdict == "exponential"


class Convolution(nn.Module):
    """Sees the last 24 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 8)
        self.kernel = nn.Conv1d(8, VOCABULARY, 24)

    def forward(self, tokens: Tensor) -> Tensor:
        x = nn.functional.pad(self.embedding(tokens).transpose(1, 2), (23, 0))
        out: Tensor = self.kernel(x)
        return out.transpose(1, 2)


def test_a_window_cuts_off() -> None:
    """A convolution is not flat: from beyond its width nothing arrives, and where that begins is known to the places
    that were measured."""
    factor = scalar(reach(Convolution(), [1, 10, 20, 50, 100]), "per_step_factor")
    assert (factor.value, factor.verdict) == (0.0, "cut off between 20 and 50")
    factor = scalar(reach(Convolution(), [1, 10, 22, 23, 100]), "per_step_factor")
    assert factor.verdict == "cut off at 23"


class Wrapped(nn.Module):
    """A model whose logits are s times as large, whose embedding table is divided by c and multiplied again after the
    look-up, and whose tokens have other names."""

    def __init__(self, model: LSTM, logits: float = 1.0, table: float = 1.0, names: Tensor | None = None) -> None:
        super().__init__()
        self.model = copy.deepcopy(model)
        self.logits, self.table = logits, table
        self.model.embedding.weight.data /= table
        self.names = torch.arange(VOCABULARY) if names is None else names
        self.model.embedding.weight.data[self.names] = self.model.embedding.weight.data.clone()
        self.model.head.weight.data[self.names] = self.model.head.weight.data.clone()
        self.model.head.bias.data[self.names] = self.model.head.bias.data.clone()

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.model.rnn(self.table * self.model.embedding(tokens))
        out: Tensor = self.logits * self.model.head(states)
        return out


class Renamed(Recall):
    """The same sequences in another alphabet."""

    def __init__(self, names: Tensor) -> None:
        super().__init__(distances=[1, 5, 10, 20])
        self.names = names

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        batch = super().evaluate(condition, examples, generator)
        targets = torch.where(batch.targets >= 0, self.names[batch.targets.clamp(min=0)], batch.targets)
        return replace(batch, tokens=self.names[batch.tokens], targets=targets)


@pytest.mark.parametrize("change", ["logits", "table", "names"])
def test_reach_does_not_depend_on_units_or_names(change: str) -> None:
    """Nor do verdicts: logits a thousand times as large (a confident model), embeddings a fiftieth of their size,
    tokens in another order. The size itself has the units of both."""
    torch.manual_seed(0)
    plain, names = LSTM(VOCABULARY, hidden=16).double().eval(), torch.arange(VOCABULARY)
    other = torch.randperm(VOCABULARY, generator=seeded("names")) if change == "names" else names
    arguments = {"logits": {"logits": 1000.0}, "table": {"table": 50.0}, "names": {"names": other}}[change]
    changed = Wrapped(plain, **arguments)  # type: ignore[arg-type]
    ours, theirs = measure(plain, Renamed(names)), measure(changed.eval(), Renamed(other))
    assert curve(theirs, "reach") == pytest.approx(curve(ours, "reach"), rel=1e-9)
    size = {"logits": 1000.0, "table": 50.0, "names": 1.0}[change]
    assert curve(theirs, "cue_gradient") == pytest.approx([size * y for y in curve(ours, "cue_gradient")], rel=1e-9)
    for name in ("per_step_factor", "below_1_percent"):
        assert scalar(theirs, name).value == pytest.approx(scalar(ours, name).value, rel=1e-9)
        assert scalar(theirs, name).verdict == scalar(ours, name).verdict
    assert all(y > 0 for y in curve(theirs, "along_loss"))


def test_sizes_agree_with_finite_differences() -> None:
    """The norm of the centred logits' Jacobian, number by number of the cue's embedding."""
    torch.manual_seed(0)
    model = LSTM(VOCABULARY, hidden=8, embedding=4).double().eval()
    task = Recall(distances=[3])
    subject = subject_of(model, task)
    batch = subject.batch(task.conditions()[0])[:8]  # one of each key, which stands nowhere else
    squares, step = torch.zeros(8, dtype=torch.float64), 1e-6
    with torch.no_grad():
        for place in range(4):
            changed = []
            for sign in (1, -1):
                model.embedding.weight.data[:8, place] += sign * step
                changed.append(model(batch.tokens)[:, -1])
                model.embedding.weight.data[:8, place] -= sign * step
            slope = (changed[0] - changed[1]) / (2 * step)
            squares += (slope - slope.mean(1, keepdim=True)).square().sum(1)
    found: Found = {each.name: each for each in GradReach(examples=8)(subject)}
    assert curve(found, "cue_gradient")[0] == pytest.approx(squares.sqrt().mean().item(), rel=1e-6)


def test_many_classes_are_sampled_without_bias() -> None:
    """Of 200 outputs 16 random directions: within a few standard errors of the exact norm, which contain the draw."""

    class Wide(Unmarked):
        interface = Interface(VOCABULARY, 200)

    class Spread(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, 8)
            self.head = nn.Linear(8, 200, bias=False)

        def forward(self, tokens: Tensor) -> Tensor:
            logits: Tensor = self.head(self.embedding(tokens).cumsum(1))
            return logits

    torch.manual_seed(0)
    model = Spread()
    found = measure(model, Wide())
    weight = model.head.weight.detach().double()
    exact = (weight - weight.mean(0)).norm().item()
    cue = found["cue_gradient"]
    assert isinstance(cue, Curve)
    assert cue.standard_errors is not None
    assert 0 < cue.standard_errors[0] < 0.05 * exact
    assert cue.y[0] == pytest.approx(exact, abs=4 * cue.standard_errors[0] + 0.01 * exact)
    assert curve(found, "reach") == pytest.approx([1.0])  # the same directions at cue and query


class Averaging(nn.Module):
    """Uniform attention over everything before: the gradient at each of n tokens is 1/n."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.embedding(tokens)
        return x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]


def test_one_backward_for_each_distance() -> None:
    """For attention, length is what dilutes gradient: 1/(d + 2) at distance d, where one pass over the longest sequence
    would show no decay at all. The query's own is diluted alike, so that relative to it all of it arrives."""
    found = reach(Averaging())
    assert curve(found, "along_loss") == pytest.approx([1 / (d + 2) for d in DISTANCES], rel=1e-4)
    sizes = curve(found, "cue_gradient")
    assert [size / sizes[0] for size in sizes] == pytest.approx([3 / (d + 2) for d in DISTANCES], rel=1e-4)
    assert curve(found, "reach") == pytest.approx([1.0] * len(DISTANCES), rel=1e-4)
    assert scalar(found, "per_step_factor").verdict == "flat"
    profile = found["gradient_by_steps_back"]
    assert isinstance(profile, Matrix)
    assert profile.values[-1] == pytest.approx([1.0] * len(profile.columns), rel=1e-4)
    assert math.isnan(profile.values[0][-1])  # the shortest sequence has no token 100 steps back


@pytest.mark.parametrize("model", [Elman, LSTM, GRU, GPT])
def test_every_built_in_model_can_be_measured(model: type[nn.Module]) -> None:
    """In evaluation mode, through fused recurrent kernels; parameters, gradients, mode and hooks stay as they were."""
    torch.manual_seed(0)
    built = model(VOCABULARY).eval()
    before = {name: tensor.clone() for name, tensor in built.state_dict().items()}
    values = curve(reach(built), "cue_gradient")
    assert all(0 < value < math.inf for value in values)
    assert all(torch.equal(before[name], tensor) for name, tensor in built.state_dict().items())
    assert all(parameter.grad is None for parameter in built.parameters())
    assert not built.training
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in built.modules())


def test_published_factors_at_initialisation() -> None:
    """E = 32, H = 64, medians over initialisations: an Elman net keeps 0.48 per step, an LSTM with forget bias 0 0.60,
    and a larger forget bias keeps more than sigmoid(bias)."""

    def factors(build: type[nn.Module], **arguments: float) -> Iterator[float]:
        for seed in range(5):
            torch.manual_seed(seed)
            yield scalar(reach(build(VOCABULARY, **arguments), [5, 10, 15, 20], seed), "per_step_factor").value

    def middle(build: type[nn.Module], **arguments: float) -> float:
        return sorted(factors(build, **arguments))[2]

    elman, lstm0, lstm1, lstm3 = middle(Elman), *(middle(LSTM, forget_bias=bias) for bias in (0.0, 1.0, 3.0))
    assert elman == pytest.approx(0.48, abs=0.06)
    assert lstm0 == pytest.approx(0.60, abs=0.05)
    assert lstm1 > 1 / (1 + math.exp(-1))
    assert lstm3 > 1 / (1 + math.exp(-3)) > lstm1


def test_published_reach_of_attention_at_initialisation() -> None:
    """From d = 10 to d = 100 a GPT's gradient falls to about 12/102, as attention is nearly uniform."""
    ratios = []
    for seed in range(3):
        torch.manual_seed(seed)
        near, far = curve(reach(GPT(VOCABULARY), [10, 100], seed), "cue_gradient")
        ratios.append(far / near)
    assert 0.10 < sorted(ratios)[1] < 0.18


def test_a_model_in_float64_is_measured() -> None:
    """Its outputs need no conversion, and are differentiated all the same."""
    torch.manual_seed(0)
    assert curve(reach(LSTM(VOCABULARY).double()), "cue_gradient")[0] > 0


def test_curves_have_standard_errors() -> None:
    """0 where all examples agree; above where they do not."""
    same, other = reach(Decaying(0.5))["cue_gradient"], reach(LSTM(VOCABULARY, hidden=4))["reach"]
    assert isinstance(same, Curve)
    assert isinstance(other, Curve)
    assert same.standard_errors == pytest.approx([0.0] * len(DISTANCES), abs=1e-9)
    assert other.standard_errors is not None
    assert all(0 < error < y for error, y in zip(other.standard_errors, other.y, strict=True))


def test_a_task_of_numbers_has_them_for_logits() -> None:
    """Nothing is taken off: with one output the mean would be all of it."""

    class Passing(nn.Module):
        def forward(self, vectors: Tensor) -> Tensor:
            return 3 * vectors.cumsum(1)

    found = measure(Passing(), Noise(width=1, length=4))
    cue = found["cue_gradient"]
    assert isinstance(cue, Curve)
    assert cue.y == pytest.approx([3.0])
    assert cue.unit == "outputs per input"
