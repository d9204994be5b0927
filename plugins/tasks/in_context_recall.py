"""In-context recall: pairs of a key and a value, of which many come again."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import torch
from harness_plugins.tasks.drawing import Drawn, asking, numbered, unasked
from jaxtyping import Bool, Int
from pydantic import Field
from torch import Tensor

from harness import IGNORE, Batch, Condition, Interface, token_metrics

Length = Annotated[int, Field(ge=4, multiple_of=2)]


class InContextRecall(Drawn):
    """Keys, each before its value; a sequence gives each key one value, drawn uniformly. Where a key comes again, its
    value is asked for.

        tokens   K2 V5 K7 V1 K2 V5 K2 V5 K7 V1      length 10
        targets   -  -  -  - V5  - V5  - V1  -

    M. Poli et al., "Mechanistic design and scaling of hybrid architectures" (2024), section 3.1, with questions at
    every key that is known (their `multi_query`). The last key is always one that was there. `source` is the value's
    place at the first time, for questions at the second one: later ones have more than one answer in sight.

    Args:
        vocabulary: keys and values together; half of it each.
        train_min: smallest length in training, in tokens.
        train_max: largest length in training.
        lengths: lengths to evaluate.
    """

    recommended_training: ClassVar[Mapping[str, Any]] = {"steps": 1000, "batch_size": 64}
    noise = 0.0
    others: Sequence[str] = ()
    """Tokens that are neither key nor value, two of which take the place of a pair in a share `noise` of the places."""

    def __init__(
        self,
        *,
        vocabulary: Annotated[int, Field(ge=4)] = 16,
        train_min: Length = 32,
        train_max: Length = 64,
        lengths: Annotated[list[Length], Field(min_length=1)] = [32, 64, 128],  # noqa: B006
    ) -> None:
        self.half = vocabulary // 2
        self.names = [*numbered("K", self.half), *numbered("V", self.half), *self.others]
        self.interface = Interface(len(self.names), len(self.names))
        self.metrics = token_metrics(self.half)
        super().__init__(train_min, train_max, lengths)

    def training(self, generator: torch.Generator) -> Condition:
        pairs = torch.randint(self.train_min // 2, self.train_max // 2 + 1, (), generator=generator)
        return Condition(2 * int(pairs), inside=True)

    def bits(self, condition: Condition) -> float:
        alike = 1 / self.half
        if self.noise:  # how often two sequences have the same at a place, but for the first and the last
            alike = max(alike, (self.noise / len(self.others)) ** 2 + (1 - self.noise) ** 2 / self.half)
        return 2 * math.log2(self.half) - (condition.x / 2 - 2) * math.log2(alike)

    def draw(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        pairs = int(condition.x) // 2
        keys = torch.randint(self.half, (examples, pairs), generator=generator)
        if self.noise:
            noisy = torch.rand(examples, pairs, generator=generator) < self.noise
            noisy[:, 0] = noisy[:, -1] = False
            keys = torch.where(noisy, self.half, keys)
        # the last key is one of those before, drawn at random
        chances = torch.rand(examples, pairs, generator=generator)
        if self.noise:
            chances = chances - 2.0 * noisy
        keys[:, -1:] = keys.gather(1, chances[:, :-1].argmax(1, keepdim=True))
        values = self.half + torch.randint(self.half, (examples, self.half), generator=generator)
        values = values.gather(1, keys.clamp(max=self.half - 1))
        first, again, second = occurrences(keys, self.half + 1)
        if self.noise:
            others = torch.randint(2 * self.half, len(self.names), (examples, pairs, 2), generator=generator)
            keys, values = (torch.where(noisy, *each) for each in zip(others.unbind(2), (keys, values), strict=True))
            again &= ~noisy
        tokens = torch.stack([keys, values], 2).flatten(1)
        targets, source = unasked(tokens)
        targets[:, ::2] = torch.where(again, values, IGNORE)
        source[:, ::2] = torch.where(again & second, 2 * first + 1, -1)
        return asking(tokens, targets, source)


def occurrences(
    keys: Int[Tensor, "batch pairs"], kinds: int
) -> tuple[Int[Tensor, "batch pairs"], Bool[Tensor, "batch pairs"], Bool[Tensor, "batch pairs"]]:
    """Where each key stands for the first time, whether it was there before, and whether just once."""
    end = keys.shape[1]
    place, nowhere = torch.arange(end).expand_as(keys), torch.full((len(keys), kinds), end)
    first = nowhere.scatter_reduce(1, keys, place, "amin").gather(1, keys)
    again = place > first
    second = nowhere.scatter_reduce(1, keys, torch.where(again, place, end), "amin").gather(1, keys)
    return first, again, place == second
