"""Flip-flop: read the bit that was written last, however much was ignored since."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from harness_plugins.tasks.drawing import Drawn, asking, unasked
from pydantic import Field

from harness import Batch, Condition, Interface, token_metrics

WRITE, READ, SKIP, ZERO = range(4)

Share = Annotated[float, Field(ge=0, lt=1)]


class FlipFlop(Drawn):
    """Instructions, each before a bit: `w` writes it, `i` ignores it, at `r` the bit that was written last is asked
    for.

        tokens   w 1 i 0 i 0 r 1 w 0 r 0      length 12
        targets  - - - - - - 1 - - - 0 -

    B. Liu et al., "Exposing attention glitches with flip-flop language modeling" (2023), section 3: the first
    instruction writes, the last one reads, the share `train` of those between ignores, and of the rest half writes and
    half reads; written and ignored bits are drawn uniformly. The authors test on sparse sequences (share 0.98) and
    dense ones (0.1) beside those of training (0.8). `source` is the place of the written bit, for the first reading
    since: later ones have more than one answer in sight.

    Args:
        length: of a sequence, in tokens; 512 with the authors.
        train: share of instructions that ignore, in training.
        shares: shares to evaluate.
    """

    names = "wri01"
    interface = Interface(5, 5)
    metrics = token_metrics(2)
    axis = "share of instructions that ignore"
    recommended_training: ClassVar[Mapping[str, Any]] = {"steps": 800, "batch_size": 64}

    def __init__(
        self,
        *,
        length: Annotated[int, Field(ge=4, multiple_of=2)] = 128,
        train: Share = 0.8,
        shares: Annotated[list[Share], Field(min_length=1)] = [0.1, 0.8, 0.98],  # noqa: B006
    ) -> None:
        self.share = train
        self.shares = sorted(set(shares))
        super().__init__(length, length, [length])

    @staticmethod
    def check_arguments(**arguments: Any) -> None:
        """Any lengths and shares go together."""

    def training(self, generator: torch.Generator) -> Condition:
        return Condition(self.share, inside=True)

    def conditions(self) -> list[Condition]:
        return [Condition(share, inside=share == self.share) for share in self.shares]

    def bits(self, condition: Condition) -> float:
        shares = (condition.x, (1 - condition.x) / 2, (1 - condition.x) / 2)
        instruction = -sum(share * math.log2(share) for share in shares if share)
        return (self.train_max / 2 - 2) * (instruction + (1 + condition.x) / 2)

    def draw(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        steps = self.train_max // 2
        drawn = torch.rand(examples, steps, generator=generator)
        instructions = torch.where(drawn < condition.x, SKIP, (drawn < (1 + condition.x) / 2).long())
        instructions[:, 0], instructions[:, -1] = WRITE, READ
        bits = ZERO + torch.randint(2, (examples, steps), generator=generator)
        step, reads = torch.arange(steps), instructions == READ
        written = torch.where(instructions == WRITE, step, 0).cummax(1).values
        bits = torch.where(reads, bits.gather(1, written), bits)
        tokens = torch.stack([instructions, bits], 2).flatten(1)
        targets, source = unasked(tokens)
        targets[:, ::2] = torch.where(reads, bits, targets[:, ::2])
        count = reads.cumsum(1)
        first = reads & (count - count.gather(1, written) == 1)
        source[:, ::2] = torch.where(first, 2 * written + 1, -1)
        return asking(tokens, targets, source)
