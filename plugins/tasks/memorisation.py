"""Memorisation: facts that no sequence tells, the same in all of them."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from harness_plugins.tasks.drawing import Drawn, asking, numbered, unasked
from pydantic import Field

from harness import Batch, Condition, Interface, token_metrics
from harness.examples import seeded

Length = Annotated[int, Field(ge=2, multiple_of=2)]


class Memorisation(Drawn):
    """Keys, each before a question: which value belongs to it? What does is the same in all sequences.

        tokens   K7  ?  K2  ?  K7  ?      length 6
        targets   - V1   - V5   - V1

    M. Poli et al., "Mechanistic design and scaling of hybrid architectures" (2024), section 3.1. Each key has a value
    of its own, the same for all seeds. Keys are drawn uniformly. Sequences of training are not those of test; the facts
    are, of course.

    Args:
        vocabulary: keys and values together; half of it each.
        train_min: smallest length in training, in tokens.
        train_max: largest length in training.
        lengths: lengths to evaluate.
    """

    recommended_training: ClassVar[Mapping[str, Any]] = {"steps": 1000, "batch_size": 64}

    def __init__(
        self,
        *,
        vocabulary: Annotated[int, Field(ge=4)] = 128,
        train_min: Length = 32,
        train_max: Length = 32,
        lengths: Annotated[list[Length], Field(min_length=1)] = [32, 64],  # noqa: B006
    ) -> None:
        self.half = vocabulary // 2
        self.names = [*numbered("K", self.half), *numbered("V", self.half), "?"]
        self.interface = Interface(len(self.names), len(self.names))
        self.metrics = token_metrics(self.half)
        self.values = self.half + torch.randperm(self.half, generator=seeded("facts", self.half))
        super().__init__(train_min, train_max, lengths)

    def training(self, generator: torch.Generator) -> Condition:
        keys = torch.randint(self.train_min // 2, self.train_max // 2 + 1, (), generator=generator)
        return Condition(2 * int(keys), inside=True)

    def bits(self, condition: Condition) -> float:
        return condition.x / 2 * math.log2(self.half)

    def draw(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        keys = torch.randint(self.half, (examples, int(condition.x) // 2), generator=generator)
        tokens = torch.stack([keys, torch.full_like(keys, len(self.names) - 1)], 2).flatten(1)
        targets, source = unasked(tokens)
        targets[:, 1::2] = self.values[keys]
        source[:, 1::2] = torch.arange(0, tokens.shape[1], 2)
        return asking(tokens, targets, source)
