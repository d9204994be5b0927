"""What tasks share that draw their examples: lengths, names, and portions for training, validation and test."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from harness import IGNORE, Batch, Condition, Task
from harness.examples import seeded

Use = Literal["training", "validation", "test"]

EIGHTHS: dict[str, tuple[int, int]] = {"training": (0, 6), "validation": (6, 7), "test": (7, 8)}
"""Which eighths of all sequences a use has: the first and the one after the last."""

FEW, MANY = 12.0, 48.0
"""Bits that are drawn for a sequence. Fewer than these cannot be divided: a use would lack whole patterns. Of more, a
million in training and a thousand in test have one in common with a chance of 4 in a million."""

TRIED = 100
"""Conditions of training that are drawn to see whether there are enough sequences under any."""

AHEAD = 2**16
"""Tokens of the batches that are got ready before they are asked for, about: 2 MB of tokens, targets and sources."""


class Drawn(Task):
    """A task that draws its examples. Training, validation and test have no sequence in common: where chance does not
    see to that (`MANY`), each keeps to its own eighths of all sequences, which a hash of the tokens tells apart. Where
    there are too few (`FEW`) all three draw from all; `notes` says so of the test, and of validation where nothing of
    training can be divided.

    Args:
        train_min: smallest length in training.
        train_max: largest length in training; each batch has one, drawn uniformly.
        lengths: lengths to evaluate.
    """

    names: Sequence[str] = ()
    """What tokens are called."""
    at_once: ClassVar[int] = 2**14
    """Tokens that training draws at once, about: 8 batches of 64 sequences of 32."""

    def __init__(self, train_min: int, train_max: int, lengths: Sequence[int]) -> None:
        self.train_min = train_min
        self.train_max = train_max
        self.lengths = sorted(set(lengths))
        few = [str(condition) for condition in self.conditions() if self.bits(condition) < FEW]
        too_few = f"fewer than {2**FEW:.0f} sequences, too few to be divided"
        self.notes = [f"{self.axis} {', '.join(few)}: {too_few}; test has some that training has"] if few else []
        generator = seeded("conditions of training")
        if all(self.bits(self.training(generator)) < FEW for _ in range(TRIED)):
            self.notes.append(f"training: {too_few}; validation has those that training has")

    @staticmethod
    def check_arguments(*, train_min: int, train_max: int, **others: Any) -> None:
        """Refuse an empty range."""
        check_range(train_min, train_max)

    def draw(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        """Examples, each independent of the others."""
        raise NotImplementedError

    def bits(self, condition: Condition) -> float:
        """About how many bits are drawn for a sequence: the logarithm of how many there are."""
        raise NotImplementedError

    def eighth(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Of eight portions of all examples the one that each belongs to."""
        return eighths(batch.tokens)

    def training(self, generator: torch.Generator) -> Condition:
        """What the next training batch is like."""
        return Condition(between(self.train_min, self.train_max, generator), inside=True)

    def conditions(self) -> list[Condition]:
        return [Condition(n, inside=self.train_min <= n <= self.train_max) for n in self.lengths]

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        return self.stream("training", batch_size, generator)

    def validation(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        return self.stream("validation", batch_size, generator)

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        return self.own("test", condition, examples, generator)

    def stream(self, use: Use, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        """Batches, each of one condition. Some of the same condition are drawn together, which costs hardly more than
        one alone, and wait until it comes up again: not of long sequences, of which there may be many lengths. Some are
        got ready one after the other, since what was just done is done again in a third of the time."""
        together = batches_of(self.at_once, batch_size, self.train_max)
        ready = batches_of(AHEAD, batch_size, self.train_max)
        waiting: dict[Condition, list[Batch]] = {}

        def following() -> Batch:
            condition = self.training(generator)
            batches = waiting.setdefault(condition, [])
            if not batches:
                batches += self.own(use, condition, together * batch_size, generator).split(batch_size)
            return batches.pop()

        while True:
            yield from [following() for _ in range(ready)]

    def own(self, use: Use, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        """Examples that no other use has, as far as they can be told apart."""
        if not FEW <= self.bits(condition) <= MANY:
            return self.draw(condition, examples, generator)
        first, end = EIGHTHS[use]
        size = 4 + examples * 9 // (end - first)  # an eighth more than are needed
        while True:
            drawn = self.draw(condition, size, generator)
            eighth = self.eighth(drawn)
            found = ((eighth >= first) & (eighth < end)).nonzero().squeeze(1)
            if len(found) >= examples:
                return drawn[found[:examples]]
            size *= 2

    def token_names(self, tokens: Int[Tensor, " time"]) -> list[str]:
        """By `names`."""
        return [self.names[token] if token < len(self.names) else str(token) for token in tokens.tolist()]


def ahead(
    draw: Callable[[], tuple[Tensor, ...]], make: Callable[..., Batch], batch_size: int, width: int
) -> Iterator[Batch]:
    """Batches without end, some at a time: their numbers are drawn, one batch after the other, and those whose numbers
    have the same shapes are made together, which costs hardly more than one alone.

    Args:
        draw: the numbers of the next batch; every tensor's first axis is the example.
        make: the examples that have these numbers, each of its own alone.
        batch_size: examples of a batch.
        width: numbers in the longest example.
    """
    count = batches_of(AHEAD, batch_size, width)
    while True:
        drawn = [draw() for _ in range(count)]
        shapes = [tuple(each.shape for each in numbers) for numbers in drawn]
        alike: dict[tuple[torch.Size, ...], list[tuple[Tensor, ...]]] = {}
        for shape, numbers in zip(shapes, drawn, strict=True):
            alike.setdefault(shape, []).append(numbers)
        made = {
            shape: make(*map(torch.cat, zip(*several, strict=True))).split(batch_size)
            for shape, several in alike.items()
        }
        for shape in shapes:
            yield next(made[shape])


def batches_of(numbers: int, batch_size: int, width: int) -> int:
    """How many batches have so many numbers if all their examples are `width` long; one at least, and of small ones no
    more than of batches of 64."""
    return max(1, numbers // (max(batch_size, 64) * width))


def check_range(train_min: int, train_max: int) -> None:
    """Refuse an empty range of training.

    Raises:
        ValueError: it is empty.
    """
    if train_min > train_max:
        raise ValueError(
            f"train_min = {train_min} is larger than train_max = {train_max}; give both, train_max at least as "
            "large as train_min"
        )


def eighths(tokens: Int[Tensor, "batch time"]) -> Int[Tensor, " batch"]:
    """A number from 0 to 7 for each sequence, the same for the same tokens: the upper bits of a sum of them, each
    multiplied by a number of its place (multilinear hashing)."""
    factors = _factors(tokens.shape[1])
    return (tokens @ factors + factors.sum()) >> 61 & 7


@cache
def _factors(length: int) -> Int[Tensor, " time"]:
    return torch.randint(2**63 - 1, (length,), generator=seeded("eighths", length))


def between(low: int, high: int, generator: torch.Generator) -> int:
    """A whole number from `low` to `high`, both included."""
    return int(torch.randint(low, high + 1, (), generator=generator))


def distinct(examples: int, kinds: int, count: int, generator: torch.Generator) -> Int[Tensor, "batch count"]:
    """In each row `count` different ones of `kinds`, in any order: the beginning of a shuffle (Fisher and Yates,
    1938)."""
    left = torch.arange(kinds)[:, None].repeat(1, examples)
    taken = []
    for place in range(count):
        other = torch.randint(place, kinds, (1, examples), generator=generator)
        taken.append(left.gather(0, other))
        left.scatter_(0, other, left[place : place + 1].clone())
    return torch.cat(taken).mT


def ways(kinds: int, count: int) -> float:
    """The logarithm (base 2) of how many rows `distinct` can give."""
    return (math.lgamma(kinds + 1) - math.lgamma(kinds - count + 1)) / math.log(2)


def unasked(tokens: Int[Tensor, "batch time"]) -> tuple[Int[Tensor, "batch time"], Int[Tensor, "batch time"]]:
    """Targets and sources without any question."""
    return torch.full_like(tokens, IGNORE), torch.full_like(tokens, -1)


def asking(
    tokens: Int[Tensor, "batch time"],
    targets: Int[Tensor, "batch time"],
    source: Int[Tensor, "batch time"] | None = None,
) -> Batch:
    """A batch without padding."""
    return Batch(tokens, targets, torch.ones_like(tokens, dtype=torch.bool), source=source)


def numbered(letter: str, count: int) -> list[str]:
    """`K1`, `K2`, ..."""
    return [f"{letter}{n + 1}" for n in range(count)]
