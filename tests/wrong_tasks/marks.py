"""Tasks that mark the wrong cue, query, source or partners, or none."""

from typing import Any

import torch
from torch import Tensor

from harness import Batch
from harness.testing.toys import ANSWERS, Marked
from wrong_tasks.base import Changed, replace


class SourceOutside(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, source=torch.full_like(batch.tokens, 99))


class SourceOfNothing(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, source=torch.zeros_like(batch.tokens))


class CueOutside(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, cue=batch.cue + batch.tokens.shape[1])


class QueryTooEarly(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, query=batch.query - 1)


class CueOffByOne(Changed):
    """Marks the token after the one that holds the answer."""

    def change(self, batch: Any) -> Any:
        return replace(batch, cue=batch.cue + 1)


class CueNowhere(Changed):
    """Counts from the end, where -1 says that there is none."""

    def change(self, batch: Any) -> Any:
        return replace(batch, cue=batch.cue - 2)


class SomeUnmarked(Changed):
    """Every third example has neither cue nor query."""

    def change(self, batch: Any) -> Any:
        without = torch.arange(len(batch)) % 3 == 0
        return replace(batch, cue=batch.cue.masked_fill(without, -1), query=batch.query.masked_fill(without, -1))


class SomeQueriesTooEarly(SomeUnmarked):
    def change(self, batch: Any) -> Any:
        return super().change(replace(batch, query=batch.query - 1))


class SomeCuesOffByOne(SomeUnmarked):
    def change(self, batch: Any) -> Any:
        return super().change(replace(batch, cue=batch.cue + 1))


class AllUnmarked(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, cue=torch.full_like(batch.cue, -1), query=torch.full_like(batch.query, -1))


class CueAlone(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, query=None)


class SamePartners(Marked):
    def partners(self, batch: Batch, generator: torch.Generator) -> Tensor:
        return torch.arange(len(batch)).roll(ANSWERS)


CAUGHT = [
    (CueOutside, "positions", "a cue is outside its sequence"),
    (QueryTooEarly, "positions", "there is no target at the query"),
    (CueNowhere, "positions", "a cue is outside its sequence"),
    (SomeQueriesTooEarly, "positions", "there is no target at the query"),
    (CueOffByOne, "cue", "the token at the cue does not tell the answer"),
    (SomeCuesOffByOne, "cue", "the token at the cue does not tell the answer"),
    (SourceOutside, "positions", "a source is outside its sequence"),
    (SourceOfNothing, "positions", "there is a source, but no target"),
    (CueAlone, "positions", "mark both cue and query, or neither"),
    (SamePartners, "partners", "partners have the same right answer"),
]
