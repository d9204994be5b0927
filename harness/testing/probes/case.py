"""A probe as the checks see it, and what it looks at."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from harness.contracts import Skip, Task
from harness.examples import seeded
from harness.isolation import random_state_restored
from harness.needs import unmet
from harness.probing import look
from harness.subject import Subject
from harness.testing.case import PluginCase
from harness.testing.toys import Attending, Marked
from harness.vocabulary import Stage


@dataclass
class ProbeCase(PluginCase):
    """One probe, and what it looks at if a toy will not do."""

    model: nn.Module | None = None
    task: Task | None = None

    @property
    def stages(self) -> tuple[Any, ...]:
        """When it looks."""
        return self.says.stages

    @property
    def needs(self) -> tuple[Any, ...]:
        """What it asks for."""
        return self.says.needs

    def subject(self, model: nn.Module | None = None, task: Task | None = None, stage: Stage | None = None) -> Subject:
        """A model that has attention and a task that marks everything, unless others are given."""
        task = task or self.task or Marked()
        model = model or self.model
        if model is None:
            with random_state_restored():
                model = Attending(task.interface.input_size)
        subject = Subject(
            model.eval(), task, stage=stage or self.stages[-1], seed=0, device=torch.device("cpu"), examples=32
        )
        subject.generator = seeded("probe")
        return subject

    def measure(self, subject: Subject) -> list[Any]:
        """What the probe gives, as the runner asks for it."""
        if reason := unmet(self.needs, subject):
            raise Skip(reason)
        return look(self.plugin, subject)
