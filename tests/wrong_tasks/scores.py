"""Tasks whose score, loss, best value or chance is wrong."""

from collections.abc import Mapping

import torch
from torch import Tensor

from harness import Batch, Metric
from harness.testing.toys import VOCABULARY, Marked


class ExtraMetric(Marked):
    def summarise(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        return {**super().summarise(scores), "loss": 1.0}


class OneScore(Marked):
    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": super().score(outputs, batch)["accuracy"].mean()}


class Centred(Marked):
    """Scores each example relative to the others."""

    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        right = super().score(outputs, batch)["accuracy"]
        return {"accuracy": right - right.mean()}


class WrongLoss(Marked):
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return -super().loss(outputs, batch)


class LossEverywhere(Marked):
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return super().loss(outputs, batch) + 1e-4 * outputs.square().mean()


class ReadsTheNextPosition(Marked):
    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": (outputs[:, -2].argmax(-1) == batch.targets[:, -1]).float()}


class CountsEverything(Marked):
    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": ((outputs.argmax(-1) == batch.targets) | (batch.targets == -100)).float().mean(1)}

    def summarise(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        return {"accuracy": scores["accuracy"].double().mean().item()}


class DependsOnTheRest(Marked):
    """Right answers count only where nothing else is predicted."""

    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        quiet = outputs[:, :-1].abs().amax((1, 2)) < 1
        return {"accuracy": super().score(outputs, batch)["accuracy"] * quiet}


class Percent(Marked):
    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": 100 * super().score(outputs, batch)["accuracy"]}


class WrongChance(Marked):
    metrics = {"accuracy": Metric("share", chance=0.5, best=1.0)}


class FalseOracle(Marked):
    def perfect(self, batch: Batch) -> Tensor:
        return torch.zeros(*batch.tokens.shape, VOCABULARY)


CAUGHT = [
    (ExtraMetric, "metrics", "summarise() gives accuracy, loss; `metrics` names accuracy"),
    (OneScore, "metrics", "one value for each of 32 examples is expected"),
    (Centred, "chunks", "'accuracy' of an example depends on the other examples"),
    (WrongLoss, "loss", "the loss of knowing the targets is"),
    (LossEverywhere, "loss", "the loss has a gradient at positions whose target is -100"),
    (ReadsTheNextPosition, "perfect", "outputs at positions without a target change 'accuracy'"),
    (DependsOnTheRest, "perfect", "outputs at positions without a target change 'accuracy'"),
    (Percent, "perfect", "has accuracy = 100; best is said to be 1"),
    (FalseOracle, "perfect", "best is said to be 1"),
    (WrongChance, "chance", "chance is said to be accuracy = 0.5, but guessing gives"),
    (CountsEverything, "chance", "chance is said to be accuracy = 0.25, but guessing gives"),
]
