"""Imitate a random net: what any net of some depth can do, if gradient reaches its first layer."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from harness_plugins.tasks.drawing import ahead
from jaxtyping import Float
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from harness import Batch, Condition, Interface, Metric, Task
from harness.examples import seeded

SATURATED = 0.394294490397841
"""The mean of tanh(z)^2 over normal z."""


class Teacher(Task):
    """Give what a random net with one hidden layer gives for vectors of normal numbers: y = a' tanh(B x).

        vectors   (.3, -1.2, ..)  (.9, .1, ..)
        targets        .41           -.07         length 2: each position is a question of its own

    The rows of B are orthonormal, and a is as long as the variance of y wants it. So the squared error of the best
    constant, 0, is that variance exactly: 0.2054, unless said otherwise, which is the teacher's in a published
    comparison of plain with residual nets. One layer of `width` tanh units can imitate it; a deep net that does not
    has failed to train.

    Args:
        width: numbers in a vector, and hidden units of the teacher.
        variance: of the answers.
        length: positions of a sequence.
        draw: which random net; the same for every seed.
    """

    axis = "length (vectors)"
    recommended_training: ClassVar[Mapping[str, Any]] = {"optimizer": "adam", "steps": 500, "batch_size": 64}

    def __init__(
        self,
        *,
        width: PositiveInt = 16,
        variance: PositiveFloat = 0.2054,
        length: PositiveInt = 1,
        draw: NonNegativeInt = 0,
    ) -> None:
        self.interface = Interface(width, 1, input="vectors", output="numbers")
        self.metrics = {"mse": Metric("squared error", chance=variance, best=0.0, higher_is_better=False)}
        self.length = length
        generator = seeded("teacher", draw)
        self.hidden: Float[Tensor, "unit width"]
        self.hidden, _ = torch.linalg.qr(torch.randn(width, width, generator=generator))
        readout = torch.randn(width, generator=generator)
        self.readout: Float[Tensor, " unit"] = readout * math.sqrt(variance / SATURATED) / readout.norm()

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        width = self.length * self.interface.input_size
        return ahead(lambda: (self._vectors(batch_size, self.length, generator),), self._imitated, batch_size, width)

    def conditions(self) -> list[Condition]:
        return [Condition(self.length, inside=True)]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        return self._imitated(self._vectors(examples, int(condition.x), generator))

    def _vectors(self, examples: int, length: int, generator: torch.Generator) -> Float[Tensor, "batch time width"]:
        return torch.randn(examples, length, self.interface.input_size, generator=generator)

    def _imitated(self, x: Float[Tensor, "batch time width"]) -> Batch:
        y = (x @ self.hidden.mT).tanh() @ self.readout
        return Batch(x, y[:, :, None], torch.ones(x.shape[:2], dtype=torch.bool))

    def score(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> dict[str, Tensor]:
        return {"mse": (outputs - batch.targets).square().mean((1, 2))}
