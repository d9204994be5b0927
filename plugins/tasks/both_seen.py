"""Say after every step whether both positions of a pair have been 1 so far: the plainest thing to remember for good."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from harness_plugins.tasks.drawing import ahead
from jaxtyping import Float, Int
from pydantic import Field, NonNegativeFloat, PositiveInt
from torch import Tensor

from harness import Batch, Condition, Interface, Metric, Task


class BothSeen(Task):
    """Pairs of 0 and 1, one 1 at most in each position of the pair; an answer at every step.

        vectors  0 0  0 0  1 0  0 1  0 0  0 0      first = 3, second = 4
        targets   no   no   no  yes  yes  yes

    In evaluation the two ones stand at the given steps, in either position of the pair (in the first example as drawn),
    and the last answer counts: `yes` in the first group, whose cue is the second 1. In the group `one` the second 1 is
    missing, and the answer stays `no`. In training both stand at random steps, and half of the sequences lack one.

    The latch problem of Y. Bengio et al., "Learning long-term dependencies with gradient descent is difficult"
    (1994), for two things to remember. There is no chance level: a constant answer is always right in one of the two
    groups, and never in the other.

    Args:
        train_max: length of training sequences, in steps.
        lengths: of the sequences to evaluate, in steps.
        first: step of the 1 in the first position, counted from 1.
        second: step of the 1 in the second position.
        noise: standard deviation of the normal noise on every input.
    """

    interface = Interface(2, 2, input="vectors", output="classes")
    metrics: Mapping[str, Metric] = {
        "accuracy": Metric("share", best=1.0),
        "every_step": Metric("share", best=1.0),
        "loss": Metric("nats", best=0.0, higher_is_better=False),
    }
    axis = "length (steps)"
    recommended_training: ClassVar[Mapping[str, Any]] = {"optimizer": "adam", "steps": 1000, "batch_size": 64}

    def __init__(
        self,
        *,
        train_max: PositiveInt = 50,
        lengths: Annotated[list[PositiveInt], Field(min_length=1)] = [12, 100, 1004],  # noqa: B006
        first: PositiveInt = 3,
        second: PositiveInt = 4,
        noise: NonNegativeFloat = 0.0,
    ) -> None:
        self.train_max = train_max
        self.lengths = sorted(set(lengths))
        self.first = first
        self.second = second
        self.noise = noise

    @staticmethod
    def check_arguments(lengths: Sequence[int], first: int, second: int, **others: Any) -> None:
        """Refuse sequences that end before both ones."""
        if min(lengths) < max(first, second):
            raise ValueError(
                f"a length of {min(lengths)} steps ends before the ones at steps {first} and {second}; use lengths of "
                f"{max(first, second)} steps or more"
            )

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        def draw() -> tuple[Tensor, ...]:
            steps = torch.randint(self.train_max, (batch_size, 2), generator=generator)
            lacking = torch.randint(4, (batch_size,), generator=generator)  # 0 or 1: which one; 2 and 3: none
            return steps, lacking, *self._noise(batch_size, self.train_max, generator)

        def make(steps: Tensor, lacking: Tensor, *noise: Tensor) -> Batch:
            behind = lacking[:, None] == torch.arange(2)
            return self._sequences(steps.masked_fill(behind, self.train_max), self.train_max, *noise)

        return ahead(draw, make, batch_size, 2 * self.train_max)

    def conditions(self) -> list[Condition]:
        return [
            Condition(length, inside=length <= self.train_max, group=group)
            for group in ("", "one")
            for length in self.lengths
        ]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        length = int(condition.x)
        second = self.second - 1 if condition.group == "" else length
        steps = torch.tensor([[self.first - 1, second]]).repeat(examples, 1)
        turned = torch.randint(2, (examples, 1), generator=generator).bool()
        turned[:1] = False
        return self._sequences(
            torch.where(turned, steps.flip(1), steps), length, *self._noise(examples, length, generator)
        )

    def score(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> dict[str, Tensor]:
        right = (outputs.argmax(-1) == batch.targets).float().where(~outputs.isnan().any(-1), torch.nan)
        loss = F.cross_entropy(outputs.mT, batch.targets, reduction="none")
        return {"accuracy": right[:, -1], "every_step": right.mean(1), "loss": loss.mean(1)}

    def _noise(self, examples: int, length: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """One tensor, or none where there is no noise."""
        return (self.noise * torch.randn(examples, length, 2, generator=generator),) if self.noise else ()

    def _sequences(self, steps: Int[Tensor, "batch 2"], length: int, noise: Tensor | float = 0.0) -> Batch:
        """With ones at these steps, counted from 0; none where a step lies behind the end."""
        place, later = torch.arange(length), steps.amax(1)
        ones = (place[:, None] == steps[:, None]).float()
        return Batch(
            tokens=ones + noise,
            targets=(place >= later[:, None]).long(),
            mask=torch.ones(len(steps), length, dtype=torch.bool),
            cue=torch.where(later < length, later, -1),
            query=torch.full_like(later, length - 1),
        )
