"""Random vectors, for timing models of vectors; there is nothing to learn."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor

from harness import Batch, Condition, Interface, Metric, Task


class Noise(Task):
    """Vectors of independent normal numbers; the target is the vector itself.

    Args:
        width: numbers per position.
        length: positions in training and evaluation.
        deviation: standard deviation of the numbers.
    """

    metrics: Mapping[str, Metric] = {"error": Metric("mean square", best=0.0, higher_is_better=False)}
    recommended_training: ClassVar[Mapping[str, Any]] = {"steps": 0}

    def __init__(self, *, width: PositiveInt = 32, length: PositiveInt = 16, deviation: NonNegativeFloat = 1.0) -> None:
        self.interface = Interface(width, width, input="vectors", output="numbers")
        self.length = length
        self.deviation = deviation

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        while True:
            yield self.evaluate(self.conditions()[0], batch_size, generator)

    def conditions(self) -> list[Condition]:
        return [Condition(self.length, inside=True)]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        shape = (examples, int(condition.x), self.interface.input_size)
        x = torch.normal(0.0, self.deviation, shape, generator=generator)
        return Batch(x, x, torch.ones(x.shape[:2], dtype=torch.bool))

    def score(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> dict[str, Tensor]:
        return {"error": (outputs - batch.targets).square().mean((1, 2))}
