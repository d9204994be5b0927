"""Multi-query associative recall: name the value of each key that comes again."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import torch
from harness_plugins.tasks.drawing import Drawn, asking, distinct, numbered, unasked, ways
from pydantic import Field, PositiveInt

from harness import Batch, Condition, Interface, token_metrics


class MultiQueryRecall(Drawn):
    """Pairs of a key and a value, then each key once more at a place of its own, where its value is asked for.

        tokens   K4 V8 K2 V1  .  .  K2 .  .  .  K4 .      2 pairs, length 12
        targets   -  -  -  -  -  -  V1 -  -  -  V8 -

    S. Arora et al., "Zoology: Measuring and improving recall in efficient language models" (2023), section 3, as in its
    appendix on synthetic data: half of the vocabulary are keys, half are values, no two in a sequence alike; behind the
    pairs there are places for two tokens each, of which the n-th has a key with a chance proportional to
    n^(power - 1). What remains is blank (the authors' own data may have any tokens there). Chance is one of the values;
    who knows which of them occur, but not with which key, has 1 / pairs.

    Args:
        vocabulary: keys and values together.
        pairs: numbers of pairs, in training and in evaluation.
        length: of training sequences, in tokens.
        lengths: lengths to evaluate; `length` alone if not said.
        power: 1 puts the questions anywhere, a small one mostly near the pairs, a large one, of at most 10, far away.
    """

    group_axis = "pairs"
    recommended_training: ClassVar[Mapping[str, Any]] = {"steps": 800, "batch_size": 64}

    def __init__(
        self,
        *,
        vocabulary: Annotated[int, Field(ge=4)] = 64,
        pairs: Annotated[list[PositiveInt], Field(min_length=1)] = [2, 4, 8],  # noqa: B006
        length: PositiveInt = 32,
        lengths: Annotated[list[PositiveInt], Field(min_length=1)] | None = None,
        power: Annotated[float, Field(gt=0, le=10)] = 0.01,
    ) -> None:
        self.half = vocabulary // 2
        self.pairs = sorted(set(pairs))
        self.power = power
        self.blank = 2 * self.half
        self.names = [*numbered("K", self.half), *numbered("V", self.half), "."]
        self.interface = Interface(len(self.names), len(self.names))
        self.metrics = token_metrics(self.half)
        super().__init__(length, length, lengths or [length])

    @staticmethod
    def check_arguments(  # type: ignore[override]
        *, vocabulary: int, pairs: Sequence[int], length: int, lengths: Sequence[int] | None, **others: Any
    ) -> None:
        """Refuse more pairs than there are keys, or room for."""
        if max(pairs) > vocabulary // 2:
            raise ValueError(
                f"{max(pairs)} pairs need as many keys; a vocabulary of {vocabulary} has {vocabulary // 2}"
            )
        shortest, needed = min(length, *(lengths or [length])), 4 * max(pairs)
        if shortest < needed:
            raise ValueError(
                f"{max(pairs)} pairs and their questions take {needed} tokens; the shortest sequence has {shortest}"
            )

    def training(self, generator: torch.Generator) -> Condition:
        pairs = self.pairs[int(torch.randint(len(self.pairs), (), generator=generator))]
        return Condition(self.train_max, inside=True, group=str(pairs))

    def conditions(self) -> list[Condition]:
        return [
            Condition(length, inside=length == self.train_max, group=str(pairs))
            for pairs in self.pairs
            for length in self.lengths
        ]

    def bits(self, condition: Condition) -> float:
        pairs = int(condition.group)
        places = (int(condition.x) - 2 * pairs) // 2
        return 2 * ways(self.half, pairs) + ways(places, pairs)

    def draw(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        pairs, length = int(condition.group), int(condition.x)
        keys = distinct(examples, self.half, pairs, generator)
        values = self.half + distinct(examples, self.half, pairs, generator)
        tokens = torch.full((examples, length), self.blank)
        tokens[:, 0 : 2 * pairs : 2] = keys
        tokens[:, 1 : 2 * pairs : 2] = values
        # the largest of u^(1 / weight) are drawn without replacement, in proportion to the weights (Efraimidis, 2006)
        places = torch.arange(1, (length - 2 * pairs) // 2 + 1)
        drawn = torch.rand(examples, len(places), generator=generator).log() / places ** (self.power - 1)
        asked = 2 * pairs + 2 * drawn.topk(pairs, dim=1).indices
        targets, source = unasked(tokens)
        tokens.scatter_(1, asked, keys)
        targets.scatter_(1, asked, values)
        source.scatter_(1, asked, torch.arange(1, 2 * pairs, 2).expand(examples, -1))
        return asking(tokens, targets, source)
