"""Checks of tasks catch what they are for, name it, and pass what is right."""

import copy
import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor

from harness import Batch, Condition, Interface, Metric, Task
from harness.testing import TASK_CHECKS, check_task
from harness.testing.tasks import task_checker
from harness.testing.toys import ANSWERS, VOCABULARY, Marked, Numbers, Plain


def replace(batch: Any, **values: Any) -> Any:
    """A batch that breaks the rules, past the type checks that run in tests."""
    changed = copy.copy(batch)
    for name, value in values.items():
        object.__setattr__(changed, name, value)
    return changed


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


class Changed(Marked):
    """Changes what `_draw` gives."""

    def change(self, batch: Any) -> Any:
        return batch

    def _draw(self, size: int, distance: int, group: str, generator: torch.Generator) -> Any:
        return self.change(super()._draw(size, distance, group, generator))


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


class SourceOutside(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, source=torch.full_like(batch.tokens, 99))


class SourceOfNothing(Changed):
    def change(self, batch: Any) -> Any:
        return replace(batch, source=torch.zeros_like(batch.tokens))


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


class OwnSeed(Marked):
    """Draws from numpy's generator, which the harness does not hand in."""

    def _draw(self, size: int, distance: int, group: str, generator: torch.Generator) -> Batch:
        batch = super()._draw(size, distance, group, generator)
        batch.tokens[:, 1:-1] = torch.tensor(np.random.default_rng().integers(4, 8, (size, distance)))
        return batch


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


class ExtraMetric(Marked):
    def summarise(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        return {**super().summarise(scores), "loss": 1.0}


class OneScore(Marked):
    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": super().score(outputs, batch)["accuracy"].mean()}


class Centred(Marked):
    """Scores each example relative to the others."""

    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        right = super().score(outputs, batch)["accuracy"]
        return {"accuracy": right - right.mean()}


class WrongLoss(Marked):
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return -super().loss(outputs, batch)


class LossEverywhere(Marked):
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return super().loss(outputs, batch) + 1e-4 * outputs.square().mean()


class ReadsTheNextPosition(Marked):
    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": (outputs[:, -2].argmax(-1) == batch.targets[:, -1]).float()}


class CountsEverything(Marked):
    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": ((outputs.argmax(-1) == batch.targets) | (batch.targets == -100)).float().mean(1)}

    def summarise(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        return {"accuracy": scores["accuracy"].double().mean().item()}


class DependsOnTheRest(Marked):
    """Right answers count only where nothing else is predicted."""

    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        quiet = outputs[:, :-1].abs().amax((1, 2)) < 1
        return {"accuracy": super().score(outputs, batch)["accuracy"] * quiet}


class Percent(Marked):
    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": 100 * super().score(outputs, batch)["accuracy"]}


class WrongChance(Marked):
    metrics = {"accuracy": Metric("share", chance=0.5, best=1.0)}


class Adding(Task):
    """Sum the two marked numbers of a sequence (Hochreiter and Schmidhuber, 1997): the variance of a sum is 1/6."""

    interface = Interface(2, 1, input="vectors", output="numbers")
    metrics = {"error": Metric("squared error", chance=1 / 6, best=0.0, higher_is_better=False)}
    nothing = math.nan

    def conditions(self) -> Sequence[Condition]:
        return [Condition(length, inside=length < 20) for length in (4, 8, 16, 32, 64)]

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        while True:
            yield self.evaluate(Condition(8, inside=True), batch_size, generator)

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        length = int(condition.x)
        values, marks = torch.rand(examples, length, generator=generator), torch.zeros(examples, length)
        marks.scatter_(1, torch.rand(examples, length, generator=generator).topk(2, 1).indices, 1.0)
        targets = torch.full((examples, length, 1), self.nothing)
        targets[:, -1, 0] = (values * marks).sum(1)
        return Batch(torch.stack([values, marks], 2), targets, torch.ones(examples, length, dtype=torch.bool))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        known = ~batch.targets.isnan()
        return F.mse_loss(outputs[known], batch.targets[known])

    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        return {"error": (outputs[:, -1, 0] - batch.targets[:, -1, 0]).square()}


class AddingMarked(Adding):
    """The same with zeros for no target, and the query marked."""

    nothing = 0.0

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        batch = super().evaluate(condition, examples, generator)
        cue, last = batch.tokens[..., 1].argmax(1), torch.full((examples,), batch.tokens.shape[1] - 1)
        marked: Batch = replace(batch, cue=cue, query=last)
        return marked

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return F.mse_loss(outputs[:, -1], batch.targets[:, -1])

    def partners(self, batch: Batch, generator: torch.Generator) -> Tensor:
        return torch.arange(len(batch)).roll(1)


class AddingUnpaired(AddingMarked):
    partners = Task.partners


class AddingByChance(Adding):
    metrics = {"error": Metric("squared error", chance=1 / 3, best=0.0, higher_is_better=False)}


class AddingWithNaN(Adding):
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return F.mse_loss(outputs, batch.targets)


class AddingEverywhere(Adding):
    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return F.mse_loss(outputs, batch.targets.nan_to_num(0.0))


class AddingNothing(Adding):
    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        batch = super().evaluate(condition, examples, generator)
        empty: Batch = replace(batch, targets=torch.full_like(batch.targets, math.nan))
        return empty


class FalseOracle(Marked):
    def perfect(self, batch: Batch) -> Tensor:
        return torch.zeros(*batch.tokens.shape, VOCABULARY)


CAUGHT = [
    (Untyped, "arguments", "no type is written at 'size'"),
    (WrongDefault, "arguments", "'size' = 0: input should be greater than 0"),
    (BadAdvice, "recommended_training", "lr Input should be greater than 0"),
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
    (CueOutside, "positions", "a cue is outside its sequence"),
    (QueryTooEarly, "positions", "there is no target at the query"),
    (CueNowhere, "positions", "a cue is outside its sequence"),
    (SomeQueriesTooEarly, "positions", "there is no target at the query"),
    (CueOffByOne, "cue", "the token at the cue does not tell the answer"),
    (SomeCuesOffByOne, "cue", "the token at the cue does not tell the answer"),
    (Unseparated, "separator", "the separator (0) occurs 0 times in a sequence"),
    (SourceOutside, "positions", "a source is outside its sequence"),
    (SourceOfNothing, "positions", "there is a source, but no target"),
    (CueAlone, "positions", "mark both cue and query, or neither"),
    (SamePartners, "partners", "partners have the same right answer"),
    (OwnSeed, "same_seed", "gives other data for the same seed"),
    (AlwaysSeedZero, "other_seeds", "the train data of seed 0 is also the train data of seed 1"),
    (SameTestSet, "other_seeds", "every seed is evaluated on the same examples"),
    (GlobalState, "random_state", "draws from the global random state of torch"),
    (PythonState, "random_state", "depends on the global random state"),
    (SeedsGlobally, "random_state", "draws from the global random state of torch"),
    (Ends, "endless", "the training stream ends after 3 batches of 16"),
    (Across, "passes", "of 20 examples, the first pass has 11 and 11"),
    (Redrawn, "passes", "of the 20 examples of the second pass were not in the first"),
    (ExtraMetric, "metrics", "summarise() gives accuracy, loss; `metrics` names accuracy"),
    (OneScore, "metrics", "one value for each of 32 examples is expected"),
    (Centred, "chunks", "'accuracy' of an example depends on the other examples"),
    (WrongLoss, "loss", "the loss of knowing the targets is"),
    (LossEverywhere, "loss", "the loss has a gradient at positions whose target is -100"),
    (ReadsTheNextPosition, "perfect", "outputs at positions without a target change 'accuracy'"),
    (DependsOnTheRest, "perfect", "outputs at positions without a target change 'accuracy'"),
    (Percent, "perfect", "has accuracy = 100; best is said to be 1"),
    (FalseOracle, "perfect", "best is said to be 1"),
    (WrongChance, "chance", "chance is said to be accuracy = 0.5, but guessing gives"),
    (AddingByChance, "chance", "chance is said to be error = 0.3333, but guessing gives"),
    (AddingWithNaN, "loss", "one finite number is expected (targets that are NaN do not count)"),
    (AddingEverywhere, "loss", "the loss has a gradient at positions whose target is nan"),
    (AddingNothing, "masks", "some examples have no target at all"),
    (CountsEverything, "chance", "chance is said to be accuracy = 0.25, but guessing gives"),
]


@pytest.mark.parametrize(("task", "name", "said"), CAUGHT, ids=[f"{name}-{t.__name__}" for t, name, _ in CAUGHT])
def test_a_wrong_task_is_caught_by_the_check_for_it(task: type, name: str, said: str) -> None:
    """The message names what is wrong; consequence, place and fix are there."""
    result = task_checker(task).result(name)
    assert result.status == "failed", result
    assert said in result.message
    assert "means: " in str(result)
    assert "fix:   " in str(result)
    assert ".py:" in result.where


ALONE = (
    AlwaysSeedZero,
    SameTestSet,
    Ends,
    Across,
    Redrawn,
    CueOffByOne,
    SomeCuesOffByOne,
    Percent,
    WrongChance,
    LossEverywhere,
    SamePartners,
)


@pytest.mark.parametrize("task", ALONE)
def test_one_mistake_is_one_failure(task: type) -> None:
    """Everything else about these tasks is in order, and no check says otherwise."""
    expected = next(name for wrong, name, _ in CAUGHT if wrong is task)
    assert [result.check.name for result in check_task(task).failed] == [expected]


@pytest.mark.parametrize("task", [Marked, SomeUnmarked, Finite, Plain, Numbers, Adding, AddingMarked])
def test_a_right_task_passes(task: type[Task]) -> None:
    """With marks or without, with tokens or with real numbers."""
    report = check_task(task)
    assert report.ok, str(report)
    assert sum(result.status == "passed" for result in report.results) >= 15


def test_what_cannot_be_checked_is_said() -> None:
    """Without marks there is nothing to compare, and a fixed data set has no seeds."""
    assert "marks no cue and query" in check_task(Plain)["positions"].message
    unmarked = check_task(AllUnmarked)
    assert not unmarked.failed
    for name, said in (("positions", "no cue and query"), ("partners", "no query"), ("cue", "no cue")):
        assert unmarked[name].status == "not applicable"
        assert f"it marks {said}" in unmarked[name].message
    fixed = type("Fixed", (AlwaysSeedZero,), {"fixed_data": True})
    assert check_task(fixed)["other_seeds"].status == "not applicable"


def test_real_numbers_have_no_partners_unless_the_task_says_so() -> None:
    """Whether two of them count as different answers is for the task to say."""
    report = check_task(AddingUnpaired)
    assert not report.failed, str(report)
    assert report["partners"].status == "not applicable"
    assert "answers are real numbers" in report["partners"].message


def test_an_oracle_makes_the_check_of_perfection_exact() -> None:
    """Where several answers count, certainty of one is not best; `perfect(batch)` says what is."""

    class EitherHalf(Marked):
        """Two answers count as one: the score asks for more mass on the right pair than on the wrong one."""

        metrics = {"accuracy": Metric("share", chance=0.5, best=1.0)}

        def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
            right = batch.targets[:, -1] // 2
            pairs = outputs[:, -1, :ANSWERS].unflatten(-1, (2, 2))
            rows = torch.arange(len(right))
            mine, other = pairs[rows, right], pairs[rows, 1 - right]
            return {"accuracy": ((mine > other).float() + 0.5 * (mine == other)).mean(1)}

    class WithOracle(EitherHalf):
        def perfect(self, batch: Batch) -> Tensor:
            outputs = torch.zeros(*batch.tokens.shape, VOCABULARY)
            pairs = outputs[:, -1, :ANSWERS].unflatten(-1, (2, 2))
            pairs[torch.arange(len(outputs)), batch.targets[:, -1] // 2] = 9.0
            return outputs

    assert "offer perfect(batch)" in check_task(EitherHalf)["perfect"].message
    exact = check_task(WithOracle)["perfect"]
    assert (exact.status, exact.message) == ("passed", "")


def test_every_check_of_a_task_has_a_task_that_fails_it() -> None:
    """A new check needs its own counterexample."""
    assert {check.name for check in TASK_CHECKS} == {name for _, name, _ in CAUGHT}
