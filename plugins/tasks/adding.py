"""The adding problem: the sum of two marked numbers in a long sequence."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from harness_plugins.tasks.drawing import ahead
from jaxtyping import Float, Int
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
        def draw() -> tuple[Tensor, ...]:
            return self._drawn(batch_size, self.min_length, self.length, generator)

        return ahead(draw, self._sequences, batch_size, 2 * (self.length + self.padding))

    def conditions(self) -> Sequence[Condition]:
        return [Condition(length, inside=self.min_length <= length <= self.length) for length in self.lengths]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        longest = int(condition.x)
        return self._sequences(*self._drawn(examples, longest, longest, generator))

    def score(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> dict[str, Tensor]:
        assert batch.query is not None
        rows = torch.arange(len(batch), device=batch.query.device)
        return {"mse": (outputs - batch.targets)[rows, batch.query, 0].square()}

    def _drawn(self, size: int, shortest: int, longest: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Lengths, numbers, and where the marks of the two halves are, as a share of the half."""
        lengths = torch.randint(shortest, longest + 1, (size,), generator=generator)
        numbers = torch.rand(size, longest + self.padding, generator=generator)
        return lengths, numbers, torch.rand(size, generator=generator), torch.rand(size, generator=generator)

    def _sequences(
        self,
        lengths: Int[Tensor, " batch"],
        numbers: Float[Tensor, "batch time"],
        first: Float[Tensor, " batch"],
        second: Float[Tensor, " batch"],
    ) -> Batch:
        time = numbers.shape[1]
        mask = torch.arange(time) < lengths[:, None]
        numbers = (LOW + (HIGH - LOW) * numbers) * mask
        half = lengths // 2
        marked = torch.stack([(first * half).long(), half + (second * (lengths - half)).long()], 1)
        marks = torch.zeros_like(numbers).scatter_(1, marked, 1.0)
        query = lengths - 1 if self.answer == "last" else torch.full_like(lengths, time - 1)
        answers = numbers.gather(1, marked).sum(1, keepdim=True)
        return Batch(
            tokens=torch.stack([numbers, marks], -1),
            targets=torch.full_like(numbers, torch.nan).scatter_(1, query[:, None], answers)[..., None],
            mask=mask,
            cue=marked[:, 1],
            query=query,
        )
