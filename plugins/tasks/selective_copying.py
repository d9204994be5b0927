"""Selective copying: repeat the letters that stand among blanks, in their order."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import torch
from harness_plugins.tasks.drawing import Drawn, asking, distinct, numbered, unasked
from pydantic import Field, PositiveInt

from harness import Batch, Condition, Interface, token_metrics


class SelectiveCopying(Drawn):
    """Some letters at random places among blanks, then one question for each of them.

        tokens    .  x3  .   .  x1  .  x3  .   ?  ?  ?      length 8, 3 letters
        targets   -   -  -   -   -  -   -  -  x3 x1 x3

    A. Gu and T. Dao, "Mamba: Linear-time sequence modeling with selective state spaces" (2023), section 4.1.1, after
    the copying task of L. Jing et al. (2019); one of the six tasks of M. Poli et al., "Mechanistic design and scaling
    of hybrid architectures" (2024), section 3.1. Letters are drawn uniformly.

    Args:
        vocabulary: how many letters there are.
        letters: how many stand in a sequence.
        train_min: smallest length in training: tokens before the questions.
        train_max: largest length in training.
        lengths: lengths to evaluate.
    """

    axis = "length (tokens before the questions)"
    recommended_training: ClassVar[Mapping[str, Any]] = {"steps": 1000, "batch_size": 64}

    def __init__(
        self,
        *,
        vocabulary: Annotated[int, Field(ge=2)] = 16,
        letters: PositiveInt = 4,
        train_min: PositiveInt = 32,
        train_max: PositiveInt = 32,
        lengths: Annotated[list[PositiveInt], Field(min_length=1)] = [16, 32, 64, 128],  # noqa: B006
    ) -> None:
        self.vocabulary = vocabulary
        self.letters = letters
        self.names = [*numbered("x", vocabulary), ".", "?"]
        self.interface = Interface(vocabulary + 2, vocabulary + 2)
        self.metrics = token_metrics(vocabulary)
        super().__init__(train_min, train_max, lengths)

    @staticmethod
    def check_arguments(  # type: ignore[override]
        *, letters: int, train_min: int, train_max: int, lengths: Sequence[int], **others: Any
    ) -> None:
        """Refuse sequences too short for the letters."""
        Drawn.check_arguments(train_min=train_min, train_max=train_max)
        if min(train_min, *lengths) < letters:
            raise ValueError(f"{letters} letters do not fit in a length of {min(train_min, *lengths)}; use longer ones")

    def bits(self, condition: Condition) -> float:
        return self.letters * math.log2(self.vocabulary) + math.log2(math.comb(int(condition.x), self.letters))

    def draw(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        length, n = int(condition.x), self.letters
        letters = torch.randint(self.vocabulary, (examples, n), generator=generator)
        places = distinct(examples, length, n, generator).sort(1).values
        tokens = torch.full((examples, length + n), self.vocabulary).scatter_(1, places, letters)
        tokens[:, length:] = self.vocabulary + 1
        targets, source = unasked(tokens)
        targets[:, length:], source[:, length:] = letters, places
        return asking(tokens, targets, source)
