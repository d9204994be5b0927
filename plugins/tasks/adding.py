"""The adding problem: the sum of two marked numbers in a long sequence."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field, NonNegativeInt
from torch import Tensor

from harness import Batch, Condition, Interface, Metric, Task

LOW, HIGH = 0.0, 1.0
"""Numbers are uniform between these."""

CHANCE = 2 * (HIGH - LOW) ** 2 / 12
"""The squared error of the best constant: the variance of a sum of two uniform numbers, 1/6."""


class Adding(Task):
    """Numbers drawn uniformly from 0 to 1, two of them marked, one in each half; the answer is their sum.

        numbers  .3  .9  .5  .1  .7  .2   0   0
        marks     0   1   0   0   1   0   0   0     length 6, padding 2
        targets   -   -   -   -   -  1.6  -   -     `answer=end`: under the last step instead

    S. Hochreiter and J. Schmidhuber, "Long short-term memory", Neural Computation 9 (1997), section 5.4, with numbers
    from 0 to 1 as Q. V. Le et al., "A simple way to initialize recurrent networks of rectified linear units" (2015).
    The best constant answer has a mean squared error of 1/6; who knows one of the numbers has 1/12.

    The lengths of a batch are drawn uniformly from `min_length` to `length`; what is shorter is padded with zeros. An
    answer under the last number is that of a packed sequence, or of the last valid state; at the end, that of a state
    which has read the padding, too.

    Args:
        length: the longest sequence in training, in steps.
        min_length: the shortest one; `length` if not said.
        padding: steps of zeros after the longest sequence.
        answer: where it is asked for: at the last number (`last`) or after all padding (`end`).
        lengths: lengths to evaluate; `length` alone if not said.
    """

    interface = Interface(2, 1, input="vectors", output="numbers")
    metrics: Mapping[str, Metric] = {"mse": Metric("squared error", chance=CHANCE, best=0.0, higher_is_better=False)}
    axis = "length (steps)"
    recommended_training: ClassVar[Mapping[str, Any]] = {"optimizer": "adam", "steps": 1000, "batch_size": 64}

    def __init__(
        self,
        *,
        length: Annotated[int, Field(ge=2)] = 30,
        min_length: Annotated[int, Field(ge=2)] | None = None,
        padding: NonNegativeInt = 0,
        answer: Literal["last", "end"] = "last",
        lengths: Annotated[list[Annotated[int, Field(ge=2)]], Field(min_length=1)] | None = None,
    ) -> None:
        self.length = length
        self.min_length = length if min_length is None else min_length
        self.padding = padding
        self.answer = answer
        self.lengths = sorted(set(lengths or [length]))

    @staticmethod
    def check_arguments(length: int, min_length: int | None, **others: Any) -> None:
        """Refuse an empty range."""
        if min_length is not None and min_length > length:
            raise ValueError(f"min_length = {min_length} is larger than length = {length}")

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        while True:
            yield self._draw(batch_size, self.min_length, self.length, generator)

    def conditions(self) -> Sequence[Condition]:
        return [Condition(length, inside=self.min_length <= length <= self.length) for length in self.lengths]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        longest = int(condition.x)
        return self._draw(examples, longest, longest, generator)

    def score(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> dict[str, Tensor]:
        assert batch.query is not None
        rows = torch.arange(len(batch), device=batch.query.device)
        return {"mse": (outputs - batch.targets)[rows, batch.query, 0].square()}

    def _draw(self, size: int, shortest: int, longest: int, generator: torch.Generator) -> Batch:
        time = longest + self.padding
        lengths = torch.randint(shortest, longest + 1, (size,), generator=generator)
        mask = torch.arange(time) < lengths[:, None]
        numbers = LOW + (HIGH - LOW) * torch.rand(size, time, generator=generator)
        half = lengths // 2
        first = (torch.rand(size, generator=generator) * half).long()
        second = half + (torch.rand(size, generator=generator) * (lengths - half)).long()
        rows, marks = torch.arange(size), torch.zeros(size, time)
        marks[rows, first] = marks[rows, second] = 1.0
        query = lengths - 1 if self.answer == "last" else torch.full_like(lengths, time - 1)
        targets = torch.full((size, time, 1), torch.nan)
        targets[rows, query, 0] = (numbers * marks).sum(1)
        return Batch(
            tokens=torch.stack([numbers, marks], -1) * mask[:, :, None],
            targets=targets,
            mask=mask,
            cue=second,
            query=query,
        )
