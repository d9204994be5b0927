"""Checks of tasks catch what they are for, name it, and pass what is right."""

import pytest
import torch
from torch import Tensor
from wrong_tasks import CAUGHT
from wrong_tasks.adding import Adding, AddingMarked, AddingUnpaired
from wrong_tasks.marks import AllUnmarked, CueOffByOne, SamePartners, SomeCuesOffByOne, SomeUnmarked
from wrong_tasks.scores import LossEverywhere, Percent, WrongChance
from wrong_tasks.streams import Across, AlwaysSeedZero, Ends, Finite, Redrawn, SameTestSet

from harness import Batch, Metric, Task
from harness.testing import TASK_CHECKS, check_task
from harness.testing.tasks import task_checker
from harness.testing.toys import ANSWERS, VOCABULARY, Marked, Numbers, Plain


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
