"""Induction: name what followed this letter before, for a pair of letters that training never asked for."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import torch
from harness_plugins.tasks.drawing import MANY, Drawn, asking, distinct, eighths, numbered, unasked
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from harness import Batch, Condition, Interface, token_metrics

Length = Annotated[int, Field(ge=2)]


class Induction(Drawn):
    """Different letters, then one of them again: which one came after it? Loss only at the last.

        tokens   x7 x2 x9 x4 x2      length 4
        targets   -  -  -  - x9

    The bigram is new: of all pairs of letters each is asked for in training, in validation or in test alone (6, 1 and 1
    of eight), so that knowing pairs by heart is worth nothing. C. Olsson et al., "In-context learning and induction
    heads" (2022), define the ability on repeated random tokens; N. Elhage et al., "A mathematical framework for
    transformer circuits" (2021), show that attention needs two layers for it. Chance is one of all letters; who knows
    which letters occur has 1 / (length - 1).

    Args:
        vocabulary: how many letters there are.
        train_min: fewest letters before the question in training.
        train_max: most of them.
        lengths: numbers of letters to evaluate.
    """

    axis = "length (letters before the question)"
    recommended_training: ClassVar[Mapping[str, Any]] = {"steps": 1000, "batch_size": 64}

    def __init__(
        self,
        *,
        vocabulary: Annotated[int, Field(ge=8)] = 32,
        train_min: Length = 4,
        train_max: Length = 12,
        lengths: Annotated[list[Length], Field(min_length=1)] = [4, 8, 12, 24],  # noqa: B006
    ) -> None:
        self.vocabulary = vocabulary
        self.names = numbered("x", vocabulary)
        self.interface = Interface(vocabulary, vocabulary)
        self.metrics = token_metrics(vocabulary)
        letters = torch.arange(vocabulary)
        self.portions = eighths(torch.cartesian_prod(letters, letters)).view(vocabulary, vocabulary)
        super().__init__(train_min, train_max, lengths)

    @staticmethod
    def check_arguments(  # type: ignore[override]
        *, vocabulary: int, train_min: int, train_max: int, lengths: Sequence[int], **others: Any
    ) -> None:
        """Refuse more different letters than there are."""
        Drawn.check_arguments(train_min=train_min, train_max=train_max)
        if max(train_max, *lengths) > vocabulary:
            raise ValueError(
                f"{max(train_max, *lengths)} different letters need a vocabulary of as many, not {vocabulary}"
            )

    def bits(self, condition: Condition) -> float:
        return MANY  # always divided, by what is asked

    def eighth(self, batch: Batch) -> Int[Tensor, " batch"]:
        """By the bigram that is asked for."""
        return self.portions[batch.tokens[:, -1], batch.targets[:, -1]]

    def draw(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        letters = distinct(examples, self.vocabulary, int(condition.x), generator)
        place = torch.randint(letters.shape[1] - 1, (examples, 1), generator=generator)
        tokens = torch.cat([letters, letters.gather(1, place)], 1)
        targets, source = unasked(tokens)
        targets[:, -1:], source[:, -1:] = letters.gather(1, place + 1), place + 1
        return asking(tokens, targets, source)
