"""A probe as the checks see it, what it looks at, and what it must leave as it was."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from harness.contracts import Skip, Subject, Task, seeded
from harness.isolation import random_state_restored
from harness.needs import unmet
from harness.suites import Request
from harness.targets import Target
from harness.testing.places import place
from harness.testing.samples import Attending, Marked, Numbers, Plain, Recurrent
from harness.vocabulary import Stage


@dataclass
class ProbeCase:
    """One probe with its arguments, and what it looks at."""

    target: Target
    request: Request
    model: nn.Module | None = None
    task: Task | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that were asked for."""
        return self.request.arguments

    @property
    def stages(self) -> tuple[Any, ...]:
        """When it looks."""
        return tuple(getattr(self.target.code, "stages", ("trained",)))

    @property
    def where(self) -> str:
        """File and line of the probe."""
        return place(self.target.code)

    def subject(self, model: nn.Module | None = None, task: Task | None = None, stage: Stage | None = None) -> Subject:
        """A model that has attention and a task that marks everything, unless others are given."""
        task = task or self.task or Marked()
        if model is None and self.model is None:
            with random_state_restored():
                model = Attending(task.interface.input_size)
        model = model or self.model
        assert model is not None
        subject = Subject(
            model.eval(), task, stage=stage or self.stages[-1], seed=0, device=torch.device("cpu"), examples=32
        )
        subject.generator = seeded("probe")
        return subject

    def measure(self, subject: Subject) -> list[Any]:
        """What the probe gives, as the runner asks for it."""
        if reason := unmet(getattr(self.target.code, "needs", ()), subject):
            raise Skip(reason)
        if isinstance(self.target.code, type):
            return list(self.target.build(self.arguments)(subject))
        return list(self.target.build(self.arguments, subject=subject))


def model_state(model: nn.Module) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        state[f"values of {name}"] = parameter.detach().clone()
        state[f"gradient of {name}"] = None if parameter.grad is None else parameter.grad.clone()
        state[f"requires_grad of {name}"] = parameter.requires_grad
    for name, buffer in model.named_buffers():
        state[f"values of {name}"] = buffer.clone()
    for name, module in model.named_modules():
        at = f" of {name}" if name else " of the model"
        state[f"mode{at}"] = module.training
        state[f"hooks{at}"] = sum(len(v) for k, v in vars(module).items() if k.endswith("_hooks") and v is not None)
        state[f"forward{at}"] = vars(module).get("forward", type(module).forward)
    return state


def same_value(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and torch.equal(one, other)
    return bool(one is other or (not isinstance(one, torch.Tensor) and one == other))


def poor_subjects() -> list[tuple[str, nn.Module, Task]]:
    with random_state_restored():
        return [
            ("a model without attention", Recurrent(Marked.interface), Marked()),
            ("a task with one length and no marks", Attending(Plain.interface.input_size), Plain()),
            ("a task with real-valued input", Recurrent(Numbers.interface), Numbers()),
        ]
