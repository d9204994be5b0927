"""Selective copying: remember the symbols, ignore the noise between them."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field, PositiveInt
from torch import Tensor

from harness import IGNORE, Batch, Condition, Interface, Metric, Task

SYMBOLS = 16
NOISE, ASK = SYMBOLS, SYMBOLS + 1


class SelectiveCopying(Task):
    """Copy the symbols, which stand at random places among noise, in their order. Loss at the `?` only.

        tokens   .  b  .  .  a  .  c  .  ?  ?  ?        length 8, 3 symbols; `.` is noise
        targets  -  -  -  -  -  -  -  -  b  a  c

    A. Gu and T. Dao, "Mamba: Linear-time sequence modeling with selective state spaces", 2023, sections 3.1 and 4.1.1
    (16 symbols in 4096 positions; here shorter). Spaces between symbols vary, so that no fixed filter solves it: what
    to keep depends on the content.

    Args:
        symbols: how many to copy, each one of 16.
        train_length: positions before the first `?` in training.
        lengths: the same in evaluation.
    """

    axis = "length (tokens)"
    roles = ("symbol", "noise", "question")
    recommended_training = {"steps": 2000}

    def __init__(
        self,
        *,
        symbols: PositiveInt = 4,
        train_length: PositiveInt = 32,
        lengths: Annotated[list[PositiveInt], Field(min_length=1)] = [16, 32, 64, 128],
    ) -> None:
        self.symbols = symbols
        self.train_length = train_length
        self.lengths = sorted(set(lengths))
        self.interface = Interface(input_size=SYMBOLS + 2, output_size=SYMBOLS + 2)
        self.metrics = {
            "accuracy": Metric("share", chance=1 / SYMBOLS, best=1.0),
            "all_right": Metric("share", chance=SYMBOLS**-symbols, best=1.0),
        }

    @staticmethod
    def check_arguments(symbols: int, train_length: int, lengths: Sequence[int]) -> None:
        """Refuse sequences that have no room for the symbols."""
        if symbols > (shortest := min(train_length, *lengths)):
            raise ValueError(f"{symbols} symbols do not fit into a length of {shortest}; use fewer, or more room")

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        while True:
            yield self._draw(batch_size, self.train_length, generator)

    def conditions(self) -> Sequence[Condition]:
        return [Condition(length, inside=length <= self.train_length) for length in self.lengths]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        return self._draw(examples, int(condition.x), generator)

    def score(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> dict[str, Tensor]:
        right = (outputs.argmax(-1) == batch.targets)[:, -self.symbols :].float()
        return {"accuracy": right.mean(1), "all_right": right.amin(1)}

    def _draw(self, examples: int, length: int, generator: torch.Generator) -> Batch:
        symbols = torch.randint(SYMBOLS, (examples, self.symbols), generator=generator)
        order = torch.rand(examples, length, generator=generator).argsort(1)
        places = order[:, : self.symbols].sort(1).values
        body = torch.full((examples, length), NOISE).scatter(1, places, symbols)
        asked = torch.full((examples, self.symbols), ASK)
        tokens = torch.cat([body, asked], 1)
        roles = torch.where(tokens == ASK, 2, torch.where(tokens == NOISE, 1, 0))
        return Batch(
            tokens=tokens,
            targets=torch.cat([torch.full_like(body, IGNORE), symbols], 1),
            mask=torch.ones_like(tokens, dtype=torch.bool),
            cue=places[:, 0],
            query=torch.full((examples,), length),
            roles=roles,
        )
