"""The probe `accuracy`: metrics per condition, worst cases and the kind of failure."""

from collections.abc import Callable

import pytest
import torch
from harness_plugins.probes.accuracy import accuracy
from harness_plugins.tasks.recall import KEYS, VOCABULARY, Recall
from torch import Tensor, nn

from harness.contracts import Subject
from harness.schema import Curve, Matrix, Scalar


class Answers(nn.Module):
    """Knows the key with a probability that depends on the distance; else it names a key by chance."""

    def __init__(self, knows: Callable[[int], float]) -> None:
        super().__init__()
        self.knows = knows

    def forward(self, tokens: Tensor) -> Tensor:
        batch, time = tokens.shape
        generator = torch.Generator().manual_seed(time)
        known = torch.rand(batch, generator=generator) < self.knows(time - 2)
        guess = torch.randint(KEYS, (batch,), generator=generator)
        logits = torch.zeros(batch, time, VOCABULARY)
        logits[torch.arange(batch), -1, torch.where(known, tokens[:, 0], guess)] = 10.0
        return logits


def measure(knows: Callable[[int], float]) -> dict[str, Curve | Scalar | Matrix]:
    task = Recall(train_max=50, distances=[1, 10, 20, 50, 100])
    subject = Subject(Answers(knows), task, stage="trained", seed=0, device=torch.device("cpu"), examples=512)
    return {measurement.name: measurement for measurement in accuracy(subject)}


@pytest.mark.parametrize(
    ("knows", "verdict"),
    [
        (lambda d: 1.0, "learned"),
        (lambda d: 1.0 if d <= 50 else 0.0, "does not extrapolate"),
        (lambda d: 0.97**d, "forgets with distance"),
        (lambda d: 0.1, "never learned"),
        (lambda d: 0.3 if d == 1 else 0.1, "never learned"),  # a little better at d = 1 is not forgetting
    ],
)
def test_kinds_of_failure_are_told_apart(knows: Callable[[int], float], verdict: str) -> None:
    """A model that is flat at failure never learned; one that falls with distance forgets."""
    worst = measure(knows)["worst_inside"]
    assert isinstance(worst, Scalar)
    assert worst.verdict == verdict


def test_every_metric_has_a_curve_over_the_distances() -> None:
    """Score, loss and bits; each place says whether training covered it; worst cases inside and beyond."""
    found = measure(lambda d: 1.0 if d <= 50 else 0.0)
    score, bits = found["accuracy"], found["bits"]
    assert isinstance(score, Curve)
    assert isinstance(bits, Curve)
    assert score.x == [1, 10, 20, 50, 100]
    assert score.inside == [True, True, True, True, False]
    assert score.y[:4] == [1.0] * 4
    assert bits.y[0] == pytest.approx(3.0)
    beyond = found["worst_beyond"]
    assert isinstance(beyond, Scalar)
    assert beyond.value == score.y[4] < 0.25
