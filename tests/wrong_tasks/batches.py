"""Tasks whose batches, or what they say of them, are wrong: interface, conditions, shapes, ids, padding."""

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import PositiveInt

from harness import Condition, Interface
from harness.testing.toys import VOCABULARY, Marked
from wrong_tasks.base import Changed, replace


class Untyped(Marked):
    def __init__(self, size=3) -> None:  # type: ignore[no-untyped-def]  # its mistake
        pass


class WrongDefault(Marked):
    def __init__(self, size: PositiveInt = 0) -> None:
        pass


class BadAdvice(Marked):
    recommended_training = {"lr": -1.0}


class NoInterface(Marked):
    interface = None  # type: ignore[assignment]  # its mistake


class NoMetrics(Marked):
    metrics = {}


class NotATask:
    pass


class NoConditions(Marked):
    def conditions(self) -> Sequence[Condition]:
        return []


class TwiceTheSame(Marked):
    def conditions(self) -> Sequence[Condition]:
        return [Condition(1, inside=True), Condition(1, inside=True)]


class OutOfOrder(Marked):
    def conditions(self) -> Sequence[Condition]:
        return [Condition(4, inside=True), Condition(1, inside=True)]


class AllBeyond(Marked):
    def conditions(self) -> Sequence[Condition]:
        return [Condition(8, inside=False)]


class ShortTargets(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, targets=batch.targets[:, :-1])


class FloatTokens(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, tokens=batch.tokens.float())


class CueOfAnotherSize(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, cue=batch.cue[:-1])


class Unseparated(Marked):
    interface = replace(Marked.interface, separator=0)


class NoBatch(Changed):
    def change(self, batch: Any) -> Any:
        return batch.tokens


class SmallVocabulary(Marked):
    interface = Interface(VOCABULARY - 1, VOCABULARY)


class UnknownRole(Marked):
    roles = ("answer", "distractor")


class LeftPadded(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, mask=batch.mask.index_fill(1, torch.tensor([0]), False))


class TargetsOnPadding(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, mask=batch.mask.index_fill(1, torch.tensor([batch.mask.shape[1] - 1]), False))


class NoTargets(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, targets=torch.full_like(batch.targets, -100))


CAUGHT = [
    (Untyped, "arguments", "no type is written at 'size'"),
    (WrongDefault, "arguments", "'size' = 0: input should be greater than 0"),
    (BadAdvice, "recommended_training", "lr: should be greater than 0"),
    (NoInterface, "interface", "it has no `interface`"),
    (NoMetrics, "interface", "it has no `metrics`"),
    (NotATask, "interface", "it gave a NotATask; a task subclasses harness.Task"),
    (NoConditions, "conditions", "at least one Condition"),
    (TwiceTheSame, "conditions", "the conditions 1 are there twice"),
    (OutOfOrder, "conditions", "x is not in order: [4, 1]"),
    (AllBeyond, "conditions", "no condition is inside the trained range"),
    (ShortTargets, "shapes", "tokens are (16, "),
    (FloatTokens, "shapes", "the interface promises tokens"),
    (CueOfAnotherSize, "shapes", "16 examples, but cue has the shape (15,)"),
    (NoBatch, "shapes", "train() gave a Tensor; a Batch is expected"),
    (SmallVocabulary, "ids", "token ids run from 0 to 8, not 0 to 7"),
    (UnknownRole, "ids", "roles run from 0 to 2, not -1 to 1"),
    (LeftPadded, "masks", "padding stands before real tokens"),
    (TargetsOnPadding, "masks", "there are targets on padding"),
    (NoTargets, "masks", "some examples have no target at all"),
    (Unseparated, "separator", "the separator (0) occurs 0 times in a sequence"),
]
