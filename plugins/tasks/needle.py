"""A needle in a haystack: name the one marked token of a long sequence, at every depth of every length."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from harness_plugins.tasks.drawing import Drawn, asking, numbered, unasked
from pydantic import Field

from harness import Batch, Condition, Interface, token_metrics

Length = Annotated[int, Field(ge=4)]
Depth = Annotated[float, Field(ge=0, le=100)]


class Needle(Drawn):
    """Random letters, one of which a mark precedes; at the end it is asked for.

        tokens   x4 x4 x1  ! x7 x2 x1  ?      length 8, depth 60 %
        targets   -  -  -  -  -  -  - x7

    The pressure test of G. Kamradt, "Needle in a haystack" (2023), and the passkey of A. Mohtashami and M. Jaggi,
    "Landmark attention" (2023), section 4.2, without language: a fact in filler, whose letters are those of the fact.
    Depth is the share of the filler that stands before the fact, in percent: 0 at the start, 100 just before the
    question. Training has it anywhere.

    Args:
        vocabulary: how many letters there are.
        train_min: smallest length in training, in tokens.
        train_max: largest length in training.
        lengths: lengths to evaluate.
        depths: depths to evaluate, in percent.
    """

    group_axis = "depth (%)"
    recommended_training: ClassVar[Mapping[str, Any]] = {"steps": 1000, "batch_size": 64}

    def __init__(
        self,
        *,
        vocabulary: Annotated[int, Field(ge=2)] = 16,
        train_min: Length = 16,
        train_max: Length = 64,
        lengths: Annotated[list[Length], Field(min_length=1)] = [16, 64, 128],  # noqa: B006
        depths: Annotated[list[Depth], Field(min_length=1)] = [0, 25, 50, 75, 100],  # noqa: B006
    ) -> None:
        self.vocabulary = vocabulary
        self.depths = sorted(set(depths))
        self.names = [*numbered("x", vocabulary), "!", "?"]
        self.interface = Interface(vocabulary + 2, vocabulary + 2)
        self.metrics = token_metrics(vocabulary)
        super().__init__(train_min, train_max, lengths)

    def conditions(self) -> list[Condition]:
        return [
            Condition(condition.x, condition.inside, group=f"{depth:g}")
            for depth in self.depths
            for condition in super(Needle, self).conditions()
        ]

    def bits(self, condition: Condition) -> float:
        return (condition.x - 2) * math.log2(self.vocabulary)

    def draw(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        length = int(condition.x)
        filler = length - 3
        if condition.group:
            mark = torch.full((examples, 1), round(filler * float(condition.group) / 100))
        else:
            mark = torch.randint(filler + 1, (examples, 1), generator=generator)
        tokens = torch.randint(self.vocabulary, (examples, length), generator=generator)
        tokens.scatter_(1, mark, self.vocabulary)
        tokens[:, -1] = self.vocabulary + 1
        targets, source = unasked(tokens)
        targets[:, -1:], source[:, -1:] = tokens.gather(1, mark + 1), mark + 1
        return asking(tokens, targets, source)
