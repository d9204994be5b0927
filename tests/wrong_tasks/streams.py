"""Tasks whose data depends on something else than the seed, ends, or starts over in the wrong way."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from harness import Batch, Condition
from harness.testing.toys import Marked


class OwnSeed(Marked):
    """Draws from numpy's generator, which the harness does not hand in."""

    def _draw(self, size: int, distance: int, group: str, generator: torch.Generator) -> Batch:
        batch = super()._draw(size, distance, group, generator)
        batch.tokens[:, 1:-1] = torch.tensor(np.random.default_rng().integers(4, 8, (size, distance)))
        return batch


class MarksByLuck(Marked):
    """The same sentences for the same seed, and not the same marks in them."""

    def _draw(self, size: int, distance: int, group: str, generator: torch.Generator) -> Batch:
        batch = super()._draw(size, distance, group, generator)
        return replace(batch, cue=torch.tensor(np.random.default_rng().integers(0, distance + 1, size)))


class AlwaysSeedZero(Marked):
    def _draw(self, size: int, distance: int, group: str, generator: torch.Generator) -> Batch:
        return super()._draw(size, distance, group, torch.Generator().manual_seed(0))

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        return super().train(batch_size, torch.Generator().manual_seed(0))


class SameTestSet(Marked):
    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        return super().evaluate(condition, examples, torch.Generator().manual_seed(0))


class GlobalState(Marked):
    def _draw(self, size: int, distance: int, group: str, generator: torch.Generator) -> Batch:
        batch = super()._draw(size, distance, group, generator)
        batch.tokens[:, 1:-1] = torch.randint(4, 8, (size, distance))
        return batch


class PythonState(Marked):
    def _draw(self, size: int, distance: int, group: str, generator: torch.Generator) -> Batch:
        batch = super()._draw(size, distance, group, generator)
        for row in batch.tokens:
            row[1:-1] = random.randint(4, 7)
        return batch


class SeedsGlobally(Marked):
    """Repeatable, but resets the random state of everybody."""

    def _draw(self, size: int, distance: int, group: str, generator: torch.Generator) -> Batch:
        torch.manual_seed(generator.initial_seed())
        return super()._draw(size, distance, group, generator)


class Ends(Marked):
    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        yield from itertools.islice(super().train(batch_size, generator), 3)


class Finite(Marked):
    """Twenty examples, which start over in a new order."""

    def __init__(self, examples: int = 20) -> None:
        self.examples: int = examples

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        while True:
            for rows in torch.randperm(self.examples, generator=generator).split(batch_size):
                yield self.chosen(rows, generator)

    def chosen(self, rows: Tensor, generator: torch.Generator) -> Batch:
        batch = self._draw(len(rows), 2, "", generator)
        batch.tokens[:, 1], batch.tokens[:, 2] = 4 + rows % 4, 4 + rows // 8
        batch.tokens[:, 0] = batch.targets[:, -1] = rows // 2 % 4
        return batch


class Across(Finite):
    """Batches run across the end of a pass."""

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        orders = torch.cat([torch.randperm(self.examples, generator=generator) for _ in range(40)])
        while True:
            for rows in orders.split(batch_size):
                yield self.chosen(rows, generator)


class Redrawn(Finite):
    """Draws each batch from the set anew."""

    def chosen(self, rows: Tensor, generator: torch.Generator) -> Batch:
        return super().chosen(torch.randint(self.examples, rows.shape, generator=generator), generator)


CAUGHT = [
    (OwnSeed, "same_seed", "gives other data for the same seed"),
    (MarksByLuck, "same_seed", "gives other data for the same seed"),
    (AlwaysSeedZero, "other_seeds", "the train data of seed 0 is also the train data of seed 1"),
    (SameTestSet, "other_seeds", "every seed is evaluated on the same examples"),
    (GlobalState, "random_state", "draws from the global random state of torch"),
    (PythonState, "random_state", "depends on the global random state"),
    (SeedsGlobally, "random_state", "draws from the global random state of torch"),
    (Ends, "endless", "the training stream ends after 3 batches of 16"),
    (Across, "passes", "of 20 examples, the first pass has 11 and 11"),
    (Redrawn, "passes", "of the 20 examples of the second pass were not in the first"),
]
