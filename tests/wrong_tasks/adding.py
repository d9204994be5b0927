"""The adding problem, a right task on real numbers, and mistakes that only such a task can make."""

import math
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from harness import Batch, Condition, Interface, Metric, Task
from wrong_tasks.base import replace


class Adding(Task):
    """Sum the two marked numbers of a sequence (Hochreiter and Schmidhuber, 1997): the variance of a sum is 1/6."""

    interface = Interface(2, 1, input="vectors", output="numbers")
    metrics = {"error": Metric("squared error", chance=1 / 6, best=0.0, higher_is_better=False)}
    nothing = math.nan

    def conditions(self) -> Sequence[Condition]:
        return [Condition(length, inside=length < 20) for length in (4, 8, 16, 32, 64)]

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        while True:
            yield self.evaluate(Condition(8, inside=True), batch_size, generator)

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        length = int(condition.x)
        values, marks = torch.rand(examples, length, generator=generator), torch.zeros(examples, length)
        marks.scatter_(1, torch.rand(examples, length, generator=generator).topk(2, 1).indices, 1.0)
        targets = torch.full((examples, length, 1), self.nothing)
        targets[:, -1, 0] = (values * marks).sum(1)
        return Batch(torch.stack([values, marks], 2), targets, torch.ones(examples, length, dtype=torch.bool))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        known = ~batch.targets.isnan()
        return F.mse_loss(outputs[known], batch.targets[known])

    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"error": (outputs[:, -1, 0] - batch.targets[:, -1, 0]).square()}


class AddingMarked(Adding):
    """The same with zeros for no target, and the query marked."""

    nothing = 0.0

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        batch = super().evaluate(condition, examples, generator)
        cue, last = batch.tokens[..., 1].argmax(1), torch.full((examples,), batch.tokens.shape[1] - 1)
        marked: Batch = replace(batch, cue=cue, query=last)
        return marked

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return F.mse_loss(outputs[:, -1], batch.targets[:, -1])

    def partners(self, batch: Batch, generator: torch.Generator) -> Tensor:
        return torch.arange(len(batch)).roll(1)


class AddingUnpaired(AddingMarked):
    partners = Task.partners


class AddingByChance(Adding):
    metrics = {"error": Metric("squared error", chance=1 / 3, best=0.0, higher_is_better=False)}


class AddingWithNaN(Adding):
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return F.mse_loss(outputs, batch.targets)


class AddingEverywhere(Adding):
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return F.mse_loss(outputs, batch.targets.nan_to_num(0.0))


class AddingNothing(Adding):
    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        batch = super().evaluate(condition, examples, generator)
        empty: Batch = replace(batch, targets=torch.full_like(batch.targets, math.nan))
        return empty


CAUGHT = [
    (AddingByChance, "chance", "chance is said to be error = 0.3333, but guessing gives"),
    (AddingWithNaN, "loss", "one finite number is expected (targets that are NaN do not count)"),
    (AddingEverywhere, "loss", "the loss has a gradient at positions whose target is nan"),
    (AddingNothing, "masks", "some examples have no target at all"),
]
