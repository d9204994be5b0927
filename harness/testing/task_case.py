"""A task as the checks see it: batches of its training stream and of its conditions, and predictors to score."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from harness.contracts import IGNORE, Batch, Condition, Task, seeded
from harness.suites import Request
from harness.targets import Target
from harness.testing.checks import Failed
from harness.testing.places import place

MOST_CONDITIONS = 8
"""Checks look at this many conditions at most, spread over all."""

SURE = 40.0
"""The logit of a predictor that is certain."""


@dataclass
class TaskCase:
    """One task with its arguments."""

    target: Target
    request: Request
    _evaluated: dict[tuple[Condition, int, int], Batch] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that were asked for."""
        return self.request.arguments

    @cached_property
    def task(self) -> Task:
        """An instance, which most checks share."""
        return self.build()

    def build(self) -> Task:
        """A new instance."""
        task = self.target.build(self.arguments, tokenizer=None)
        if not isinstance(task, Task):
            raise Failed(f"it gave a {type(task).__name__}; a task subclasses harness.Task", place(self.target.code))
        return task

    @cached_property
    def conditions(self) -> list[Condition]:
        """The conditions to look at: all, or the first, the last and some in between."""
        every = list(self.task.conditions())
        if len(every) <= MOST_CONDITIONS:
            return every
        steps = torch.linspace(0, len(every) - 1, MOST_CONDITIONS).round().long().unique()
        return [every[index] for index in steps.tolist()]

    def evaluate(self, condition: Condition, examples: int = 32, seed: int = 0) -> Batch:
        """Test data; drawn anew for each instance of the case only."""
        key = (condition, examples, seed)
        if key not in self._evaluated:
            self._evaluated[key] = self.task.evaluate(condition, examples, seeded("test", seed, str(condition)))
        return self._evaluated[key]

    def train(self, generator: torch.Generator) -> Batch:
        """The first training batch."""
        return next(iter(self.task.train(16, generator)))

    def batches(self, task: Task | None = None) -> Iterator[tuple[str, Any]]:
        """Every kind of batch, made anew: two of the training stream and one of each condition."""
        task = task or self.task
        stream = iter(task.train(16, seeded("train", 0)))
        yield "train()", next(stream)
        yield "train()", next(stream)
        for condition in self.conditions:
            generator = seeded("test", 0, str(condition))
            yield f"evaluate({str(condition)!r})", task.evaluate(condition, 32, generator)

    def where(self, method: str = "") -> str:
        """File and line of the class, or of one of its methods if it is the plugin's own."""
        own = getattr(type(self.task), method, None) if method else None
        return place(own) if own is not None and own is not getattr(Task, method, None) else place(self.target.code)

    def where_of(self, name: str) -> str:
        """File and line of what made a batch of that name."""
        return self.where(name.partition("(")[0])

    def right(self, batch: Batch) -> Tensor:
        """Outputs of a model that knows: what the task says is perfect, or else certainty of the targets."""
        own = getattr(self.task, "perfect", None)
        if own is not None:
            outputs: Tensor = own(batch)
            return outputs
        return self.answering(batch, batch.targets)

    def answering(self, batch: Batch, answers: Tensor) -> Tensor:
        """Outputs that are certain of the given answers (0 everywhere where there is none)."""
        if self.task.interface.output == "numbers":
            return answers.nan_to_num(0.0)
        known = answers != IGNORE
        outputs = torch.zeros(*answers.shape, self.task.interface.output_size)
        return outputs.scatter(2, answers.where(known, 0)[..., None], SURE * known[..., None].float())

    def missing(self, batch: Batch) -> tuple[Tensor, float]:
        """Where the targets say that there is none (`batch time`), and the value that says so."""
        if self.task.interface.output == "classes":
            return batch.targets == IGNORE, IGNORE
        return batch.targets.isnan().flatten(2).all(2), math.nan

    def wanted(self, batch: Batch) -> Tensor:
        """Where something is asked (`batch time`): at every target and at the query. Where real-valued targets say
        nowhere that there is none, those at the query count alone; without a query all but the padding."""
        missing, _ = self.missing(batch)
        unsaid = self.task.interface.output == "numbers" and not missing.any()
        wanted = torch.zeros_like(batch.mask) if unsaid and batch.query is not None else ~missing & batch.mask
        if batch.query is not None:
            marked = batch.query >= 0
            wanted[torch.arange(len(batch))[marked], batch.query[marked]] = True
        return wanted

    def guesses(self, batch: Batch) -> dict[str, Tensor]:
        """Outputs of models that know nothing but which answers there are."""
        generator = seeded("guess")
        if self.task.interface.output == "numbers":
            asked = batch.targets.where(self.wanted(batch)[..., None], torch.nan)
            means = {"always the mean": asked.nanmean((0, 1)), "the mean at each position": asked.nanmean(0)}
            return {how: mean.nan_to_num(0.0).expand_as(asked).clone() for how, mean in means.items()}
        wanted = ~self.missing(batch)[0]
        answers = batch.targets[wanted]
        drawn = answers[torch.randint(len(answers), wanted.shape, generator=generator)]
        drawn_evenly = answers.unique()[torch.randint(len(answers.unique()), wanted.shape, generator=generator)]
        alike = torch.zeros(*wanted.shape, self.task.interface.output_size)
        among = torch.full_like(alike, -SURE)
        among[..., answers.unique()] = 0.0
        return {
            "an answer at random": self.answering(batch, drawn_evenly.where(wanted, IGNORE)),
            "an answer as often as it is right": self.answering(batch, drawn.where(wanted, IGNORE)),
            "all classes alike": alike,
            "all answers alike": among,
        }
