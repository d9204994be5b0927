"""The probe `accuracy`: metrics per condition, worst cases and the kind of failure."""

import math
from collections.abc import Callable, Mapping, Sequence

import pytest
import torch
from harness_plugins.probes.accuracy import accuracy
from harness_plugins.tasks.recall import KEYS, VOCABULARY, Recall
from torch import Tensor, nn

from harness import Batch, Condition, Metric
from harness.measurements import Curve, Matrix, Scalar
from harness.subject import Subject


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


def measure(
    knows: Callable[[int], float], distances: Sequence[int] = (1, 10, 20, 50, 100)
) -> dict[str, Curve | Scalar | Matrix]:
    task = Recall(train_max=50, distances=[*distances])
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


def test_the_score_of_a_task_with_one_condition_says_what_it_is_compared_with() -> None:
    """As a curve does; the worst score, too."""
    measured = measure(lambda d: 1.0, distances=[10])
    for name in ("accuracy", "worst_inside"):
        score = measured[name]
        assert isinstance(score, Scalar)
        assert score.levels == {"chance": 1 / KEYS, "best": 1.0}


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


class Groups(Recall):
    """Recall in two groups; what the second one is like depends on the model."""

    def __init__(self, examples: int = 256) -> None:
        super().__init__(train_max=5, distances=[2, 5])
        self.second = examples

    def conditions(self) -> list[Condition]:
        return [Condition(5, True, "a"), Condition(2, True, "a"), Condition(2, True, "b")]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        batch = super().evaluate(condition, self.second if condition.group == "b" else examples, generator)
        if condition.group == "b":
            batch.tokens[:, 1] = KEYS  # by which models tell the group
        else:
            batch.tokens[:, 1] = KEYS + 1
        return batch


class Twofold(nn.Module):
    """Right in the first group, and what it is told to be in the second."""

    def __init__(self, second: str) -> None:
        super().__init__()
        self.second = second

    def forward(self, tokens: Tensor) -> Tensor:
        logits = torch.zeros(*tokens.shape, VOCABULARY)
        key, other = tokens[:, 0], tokens[:, 1] == KEYS
        answer = {"right": key, "constant": torch.zeros_like(key), "NaN": key}[self.second]
        logits[torch.arange(len(tokens)), -1, torch.where(other, answer, key)] = 10.0
        if self.second == "NaN":
            logits[other] = math.nan
        return logits


@pytest.mark.parametrize(
    ("second", "examples", "budget", "verdict"),
    [
        ("right", 256, 1.0, "learned"),
        ("right", 6, 1.0, "not enough to say"),
        ("constant", 256, 1.0, "partly learned"),
        ("constant", 256, 0.1, "trained too briefly"),
        ("NaN", 256, 1.0, "not a number"),
    ],
)
def test_what_is_said_of_another_group_counts(second: str, examples: int, budget: float, verdict: str) -> None:
    """A model that learned the first one has not thereby learned all; too few examples of another one prove nothing."""
    device = torch.device("cpu")
    subject = Subject(
        Twofold(second), Groups(examples), stage="trained", seed=0, device=device, examples=256, budget=budget
    )
    found = {measurement.name: measurement for measurement in accuracy(subject)}
    worst, curve = found["worst_inside"], found["accuracy"]
    assert isinstance(worst, Scalar)
    assert worst.verdict == verdict
    assert isinstance(curve, Curve)
    assert curve.x == [2, 5]  # from near to far, however the task has them


class LossOnly(Recall):
    """Scored by its loss."""

    metrics = {"loss": Metric("nats", chance=math.log(KEYS), best=0.0, higher_is_better=False)}  # noqa: RUF012

    def summarise(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        return {"loss": scores["loss"].mean().item()}


def test_a_loss_worse_than_that_of_a_guess_is_no_wrong_answer() -> None:
    """A model that knows nothing and is sure of it; by its accuracy it never learned, and so by its loss."""

    def verdict(task: Recall) -> str | None:
        subject = Subject(Answers(lambda d: 0.0), task, stage="trained", seed=0, device=torch.device("cpu"))
        worst = {measurement.name: measurement for measurement in accuracy(subject)}["worst_inside"]
        assert isinstance(worst, Scalar)
        return worst.verdict

    assert verdict(Recall(train_max=50)) == verdict(LossOnly(train_max=50)) == "never learned"


def test_a_model_that_is_too_short_is_no_number_but_short() -> None:
    """Within the trained range: what it does there is measured as far as it goes."""
    model = Answers(lambda d: 1.0)
    model.max_length = 12  # type: ignore[assignment]
    task = Recall(train_max=50, distances=[1, 10, 20, 50])
    subject = Subject(model, task, stage="trained", seed=0, device=torch.device("cpu"), examples=256)
    found = {measurement.name: measurement for measurement in accuracy(subject)}
    worst, limit = found["worst_inside"], found["limit"]
    assert isinstance(worst, Scalar)
    assert isinstance(limit, Scalar)
    assert (worst.value, worst.verdict, limit.value) == (1.0, "too short for it", 10)
