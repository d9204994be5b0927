"""Gradient reach: exact where algebra says what must come out, and as published where it was measured."""

import math
from collections.abc import Iterator

import pytest
import torch
from harness_plugins.models.elman import Elman
from harness_plugins.models.gpt import GPT
from harness_plugins.models.gru import GRU
from harness_plugins.models.lstm import LSTM
from harness_plugins.probes.grad_reach import GradReach
from harness_plugins.tasks.recall import VOCABULARY, Recall, sequences
from torch import Tensor, nn

from harness.contracts import Skip, Subject, seeded
from harness.gradients import input_embedding, input_gradients
from harness.schema import Curve, Matrix, Scalar

DISTANCES = [1, 2, 5, 10, 20, 50, 100]


def reach(model: nn.Module, distances: list[int] = DISTANCES, seed: int = 0) -> dict[str, Curve | Scalar | Matrix]:
    task = Recall(distances=distances)
    subject = Subject(model.eval(), task, stage="initial", seed=seed, device=torch.device("cpu"), examples=32)
    return {measurement.name: measurement for measurement in GradReach(examples=32)(subject)}


def curve(found: dict[str, Curve | Scalar | Matrix], name: str) -> list[float]:
    measurement = found[name]
    assert isinstance(measurement, Curve)
    return measurement.y


def scalar(found: dict[str, Curve | Scalar | Matrix], name: str) -> Scalar:
    measurement = found[name]
    assert isinstance(measurement, Scalar)
    return measurement


class Decaying(nn.Module):
    """h_t = f h_{t-1} + x_t: the gradient d steps back is f^d of the last one, exactly."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.embedding = nn.Embedding(VOCABULARY, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        state, states = torch.zeros(()), []
        for x in self.embedding(tokens).unbind(1):
            state = self.factor * state + x
            states.append(state)
        return torch.stack(states, 1)


def test_a_known_decay_is_measured_exactly() -> None:
    """A factor of 0.9 per step is found as 0.9, called exponential, and falls below 1 % where logarithms say."""
    found = reach(Decaying(0.9))
    assert curve(found, "reach") == pytest.approx([0.9 ** (d + 1) for d in DISTANCES], rel=1e-4)
    factor = scalar(found, "per_step_factor")
    assert factor.value == pytest.approx(0.9, rel=1e-4)
    assert factor.verdict == "exponential"
    assert scalar(found, "below_1_percent").value == pytest.approx(2 + math.log(0.01) / math.log(0.9), rel=1e-3)


def test_the_gradient_is_the_direction_of_the_loss_at_unit_length() -> None:
    """By hand: logits = sum of embeddings, so that the gradient at every token is a unit vector."""
    found = reach(Decaying(1.0), distances=[1, 3])
    assert curve(found, "cue_gradient") == pytest.approx([1.0, 1.0], rel=1e-5)


def test_what_float32_would_lose_is_kept() -> None:
    """0.4 per step is 1e-40 after 100 steps: less than float32's smallest normal number, and still measured."""
    assert curve(reach(Decaying(0.4)), "cue_gradient")[-1] == pytest.approx(0.4**101, rel=1e-2)


class Averaging(nn.Module):
    """Uniform attention over everything before: the gradient at each of n tokens is 1/n."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        return x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]


def test_one_backward_for_each_distance() -> None:
    """For attention, length is what dilutes gradient: 1/(d + 2) at distance d, where one pass over the longest sequence
    would show no decay at all."""
    found = reach(Averaging())
    assert curve(found, "cue_gradient") == pytest.approx([1 / (d + 2) for d in DISTANCES], rel=1e-4)
    assert scalar(found, "per_step_factor").verdict == "polynomial"
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


def test_embeddings_are_found_or_the_reason_is_given() -> None:
    """The one that reads the tokens counts, others (positions) do not; two, or none, are a reason to skip."""
    tokens = torch.randint(0, 18, (2, 7))
    gpt = GPT(VOCABULARY).eval()
    assert input_embedding(gpt, tokens).weight.shape == (VOCABULARY, 32)

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Embedding(18, 4), nn.Embedding(18, 4)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.a(tokens) + self.b(tokens)

    with pytest.raises(Skip, match=r"2 of the model's 2 nn\.Embedding modules"):
        input_embedding(Two(), tokens)


def test_input_gradients_agree_with_autograd() -> None:
    """The same as differentiating by hand with respect to embedded tokens, in float64 to 1e-12."""
    torch.manual_seed(0)
    model = LSTM(VOCABULARY, hidden=8).double().eval()
    batch = sequences(torch.arange(4), 6, seeded(0))
    directions = torch.randn(4, 8, VOCABULARY, dtype=torch.float64)
    embedding = input_embedding(model, batch.tokens)
    leaf = embedding.weight.detach()[batch.tokens].requires_grad_()
    handle = embedding.register_forward_hook(lambda *_: leaf)
    (expected,) = torch.autograd.grad((model(batch.tokens) * directions).sum(), leaf)
    handle.remove()
    torch.testing.assert_close(input_gradients(model, batch, directions), expected, rtol=1e-12, atol=1e-15)
