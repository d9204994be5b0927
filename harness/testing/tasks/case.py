"""A task as the checks see it: batches of its training stream and of its conditions."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from harness.batches import IGNORE, Batch
from harness.build import WrongKindError, build_task
from harness.contracts import Condition, Task
from harness.examples import seeded
from harness.targets import place_of
from harness.testing.case import PluginCase
from harness.testing.checks import Failed

MOST_CONDITIONS = 8
"""Checks look at this many conditions at most, spread over all."""

BATCHES = ("interface", "conditions", "shapes")
"""The checks after which batches can be looked into."""


@dataclass
class TaskCase(PluginCase):
    """One task."""

    _evaluated: dict[tuple[Condition, int, int], Batch] = field(default_factory=dict)

    @cached_property
    def task(self) -> Task:
        """An instance, which most checks share."""
        return self.build()

    def build(self) -> Task:
        """A new instance."""
        try:
            return build_task(self.plugin)
        except WrongKindError as error:
            raise Failed(str(error)) from None

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

    def batches(self, task: Task | None = None) -> Iterator[tuple[str, str, Any]]:
        """Every kind of batch, made anew: two of the training stream and one of each condition; with its name, and file
        and line of the method that makes it."""
        task = task or self.task
        stream = iter(task.train(16, seeded("train", 0)))
        for _ in range(2):
            yield "train()", self.at("train"), next(stream)
        for condition in self.conditions:
            generator = seeded("test", 0, str(condition))
            yield f"evaluate({str(condition)!r})", self.at("evaluate"), task.evaluate(condition, 32, generator)

    def at(self, method: str) -> str:
        """File and line of a method, or of the class if it does not define the method itself."""
        own = getattr(type(self.task), method, None)
        return place_of(own) if own is not None and own is not getattr(Task, method, None) else self.declared_at

    def missing(self, batch: Batch) -> tuple[Tensor, float]:
        """Where the targets say that there is none (`batch time`), and the value that says so."""
        if self.task.interface.output == "classes":
            return batch.targets == IGNORE, IGNORE
        return batch.targets.isnan().flatten(2).all(2), math.nan
