"""Gradient reach of a model, and a model and a task whose reach is known."""

from dataclasses import replace

import torch
from harness_plugins.probes.grad_reach import GradReach
from harness_plugins.tasks.recall import VOCABULARY, Recall
from measured import Found
from torch import Tensor, nn

from harness import Batch, Condition, Task
from harness.subject import Subject

DISTANCES = [1, 2, 5, 10, 20, 50, 100]


def reach(model: nn.Module, distances: list[int] = DISTANCES, seed: int = 0) -> Found:
    return measure(model, Recall(distances=distances), seed)


def measure(model: nn.Module, task: Task, seed: int = 0) -> Found:
    return {measurement.name: measurement for measurement in GradReach(examples=32)(subject_of(model, task, seed))}


def subject_of(model: nn.Module, task: Task, seed: int = 0) -> Subject:
    return Subject(model.eval(), task, stage="initial", seed=seed, device=torch.device("cpu"), examples=32)


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


class Unmarked(Recall):
    """Recall at one distance, without marks."""

    def __init__(self) -> None:
        super().__init__(distances=[5])

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        return replace(super().evaluate(condition, examples, generator), cue=None, query=None)
