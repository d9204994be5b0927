"""Trainings that end early and go on, as bytes from process to process."""

import io
from collections.abc import Callable
from typing import Any

import numpy
import torch
from harness_plugins.models.elman import Elman
from harness_plugins.models.gpt import GPT
from harness_plugins.models.gru import GRU
from harness_plugins.models.lstm import LSTM
from torch import nn

from harness import Task
from harness.partial import State
from harness.schema import Training
from harness.training import Outcome, train

CPU = torch.device("cpu")

WORDS = 128
"""At least as many as the tasks below have."""


class Killed(BaseException):
    """The process ends here."""


class Kept:
    """Keeps a training after every so many steps, as bytes; ends the process after a step."""

    def __init__(self, every: int = 1, ends: int = 0) -> None:
        self.every = every
        self.ends = ends
        self.asked = 0
        self.content = b""

    @classmethod
    def holding(cls, content: bytes) -> "Kept":
        """One that keeps nothing more."""
        kept = cls(every=10**6)
        kept.content = content
        return kept

    def load(self) -> State | None:
        self.asked = 0
        return read(self.content) if self.content else None

    def due(self) -> bool:
        self.asked += 1
        return self.asked % self.every == 0 or self.asked == self.ends

    def save(self, state: State) -> None:
        if self.asked % self.every == 0:
            file = io.BytesIO()
            torch.save(state, file)
            self.content = file.getvalue()
        if self.asked == self.ends:
            raise Killed


def read(content: bytes) -> State:
    state: State = torch.load(io.BytesIO(content), weights_only=True)
    return state


def fit(
    model: Callable[[], nn.Module],
    task: Callable[[], Task],
    keeper: Kept | None = None,
    progress: Callable[[float], None] = lambda share: None,
    **training: Any,
) -> tuple[Any, ...]:
    """Everything that a training leaves, but for its seconds: what a new process would compute."""
    torch.manual_seed(0)
    built = model()
    torch.manual_seed(7)
    numpy.random.seed(7)
    settings = Training.model_validate({"steps": 40, "validate_every": 7, "batch_size": 4} | training)
    outcome: Outcome = train(built, task(), settings, 3, CPU, progress, keeper)
    return (
        {name: value.numpy().tobytes() for name, value in built.state_dict().items()},
        outcome.learning_curve,
        outcome.trained.model_dump(exclude={"seconds"}),
        torch.get_rng_state().tolist(),
        numpy.random.get_state(legacy=False)["state"]["key"].tolist(),
    )


def fit_with_breaks(
    keeper: Kept, model: Callable[[], nn.Module], task: Callable[[], Task], ends: int, **training: Any
) -> tuple[Any, ...]:
    """The same, in processes that end after so many steps each, until one reaches the end."""
    keeper.ends = ends
    for _ in range(20):
        try:
            return fit(model, task, keeper, **training)
        except Killed:
            continue
    raise AssertionError("it never ends")


def dropping(kind: Callable[..., nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(kind(WORDS, hidden=8, layers=2), nn.Dropout(0.2))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "elman": dropping(Elman),
    "gru": dropping(GRU),
    "lstm": dropping(LSTM),
    "gpt": lambda: GPT(WORDS, d_model=8, dropout=0.2),
}
