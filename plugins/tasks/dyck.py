"""Dyck languages of bounded depth: which bracket may close here?"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from harness_plugins.tasks.drawing import Drawn, asking
from pydantic import Field, PositiveInt

from harness import IGNORE, Batch, Condition, Interface, token_metrics


class Dyck(Drawn):
    """Brackets of `k` kinds, at most `m` open at once; under each the closing bracket that would fit next.

        tokens   ( [ ] ( ( ) )      k = 2, m = 4
        targets  ) ] ) ) ) ) )

    J. Hewitt et al., "RNNs can generate bounded hierarchical languages with optimal memory" (2020): Dyck-(k, m), of
    which a state of m log k bits is enough. A bracket opens or closes with equal chance where both may be (it must open
    where none is open, close where m are), of a kind drawn uniformly. Sequences are beginnings of words; where nothing
    is open nothing is asked. `source` is the place of the bracket that is to be closed. Chance is one of k.

    Args:
        k: kinds of brackets.
        m: how many may be open at once.
        train_min: smallest length in training, in brackets.
        train_max: largest length in training.
        lengths: lengths to evaluate.
    """

    recommended_training: ClassVar[Mapping[str, Any]] = {"steps": 1000, "batch_size": 64}
    at_once = 2**15

    def __init__(
        self,
        *,
        k: Annotated[int, Field(ge=2)] = 2,
        m: PositiveInt = 4,
        train_min: PositiveInt = 4,
        train_max: PositiveInt = 32,
        lengths: Annotated[list[PositiveInt], Field(min_length=1)] = [8, 16, 32, 64, 128],  # noqa: B006
    ) -> None:
        self.kinds = k
        self.depth = m
        self.names = [*"([{<"[:k], *")]}>"[:k]] if k <= 4 else [f"{c}{n}" for c in "()" for n in range(k)]
        self.interface = Interface(2 * k, 2 * k)
        self.metrics = token_metrics(k)
        super().__init__(train_min, train_max, lengths)

    def bits(self, condition: Condition) -> float:
        return (
            condition.x / 2 * math.log2(2 * self.kinds) if self.depth > 1 else condition.x / 2 * math.log2(self.kinds)
        )

    def draw(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        length = int(condition.x)
        steps = 2 * torch.randint(2, (examples, length), generator=generator) - 1
        # a walk that turns at 0 and at m is a free one, folded
        folded = torch.arange(-length, length + 1).remainder(2 * self.depth)
        level = torch.minimum(folded, 2 * self.depth - folded).take(steps.cumsum(1) + length)
        opens = level > F.pad(level, (1, -1))
        kinds = torch.randint(self.kinds, level.shape, generator=generator)
        # what is open was opened just after the last place one level lower, or at the start; nothing is at level 0
        after = torch.zeros(self.depth + 2, examples, dtype=torch.long)
        after[0] = -1
        below, here, opened = after[:-1], after[1:], []
        for place, levels in enumerate(level.mT.contiguous().split(1)):
            opened.append(below.gather(0, levels))
            here.scatter_(0, levels, place + 1)
        source = torch.cat(opened).mT.contiguous()
        closing = self.kinds + kinds.gather(1, source.clamp(0))
        tokens = torch.where(opens, kinds, closing.roll(1, 1))  # what closes is what was asked for before
        return asking(tokens, torch.where(level > 0, closing, IGNORE), source)
