"""A suite in parts: every trial in exactly one, about the same work in each, and the parts make up the whole."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SHORT, SMALL
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness.cli import main
from harness.errors import RequestError
from harness.plan import Plan, Planned, make_plan
from harness.registry import default_registry
from harness.requests import build_suite
from harness.schema import Cell, PluginUse, Training, Trial
from harness.sharding import Shard, cost, missing_parts, remember

USE = PluginUse(name="n", label="n", arguments={}, distribution="d", version="1", target="p:N", digest="")
SUITE = build_suite(["lstm"], ["recall"])


def planned(number: int, training: Training, examples: list[int], pretrained: bool = False, seed: int = 0) -> Planned:
    trial = Trial(id=f"{number:016x}", model=USE, task=USE, training=training, seed=seed, pretrained=pretrained)
    cells = [
        Cell(id=f"{number}-{i}", trial=trial, probe=USE, stage="trained", examples=n) for i, n in enumerate(examples)
    ]
    return Planned(trial, cells)


TRAININGS = st.one_of(
    st.builds(lambda n, b: Training(steps=n, batch_size=b), st.integers(0, 5000), st.integers(1, 512)),
    st.builds(lambda n: Training(steps=None, epochs=n), st.floats(0.1, 20)),
)
TRIALS = st.tuples(TRAININGS, st.lists(st.integers(1, 2000), min_size=1, max_size=4), st.booleans())
PLANS = st.lists(TRIALS, max_size=40)


def plan_of(trials: list[tuple[Training, list[int], bool]]) -> Plan:
    return Plan(SUITE, [planned(number, *trial) for number, trial in enumerate(trials)])


def parts(plan: Plan, total: int) -> list[list[Planned]]:
    return [Shard(number, total).of(plan).trials for number in range(1, total + 1)]


@given(PLANS, st.integers(1, 50))
def test_every_trial_is_in_exactly_one_shard(trials: list[tuple[Training, list[int], bool]], total: int) -> None:
    """Whole, with all its cells, and in the order of the plan."""
    plan = plan_of(trials)
    found = parts(plan, total)
    assert sorted((each for part in found for each in part), key=lambda each: each.trial.id) == plan.trials
    assert all(part == [each for each in plan.trials if each in part] for part in found)


@given(PLANS, st.integers(1, 50))
def test_no_shard_has_much_more_than_its_share(trials: list[tuple[Training, list[int], bool]], total: int) -> None:
    """No more than the average and one trial: what dealing to the least loaded one guarantees."""
    plan = plan_of(trials)
    costs = [cost(each) for each in plan.trials]
    bound = sum(costs) / total + max(costs, default=0)
    assert all(sum(map(cost, part)) <= bound * (1 + 1e-9) for part in parts(plan, total))


@given(st.integers(1, 8), st.integers(1, 12), st.integers(1, 12))
def test_every_shard_gets_its_share_of_every_model(models: int, seeds: int, total: int) -> None:
    """A model may be slower than the plan can know: its seeds are dealt to different shards."""
    trials = [
        planned(model * seeds + seed, Training(), [512], seed=seed) for model in range(models) for seed in range(seeds)
    ]
    for part in parts(Plan(SUITE, trials), total):
        for model in range(models):
            own = sum(int(each.trial.id, 16) // seeds == model for each in part)
            assert seeds // total <= own <= -(-seeds // total)


def test_longer_trainings_count_for_more() -> None:
    """Steps, batch size and epochs; nothing is trained where the model comes with its weights."""
    short, long = planned(0, Training(steps=10), [1]), planned(1, Training(steps=1000), [1])
    wide, epochs = (
        planned(2, Training(steps=1000, batch_size=128), [1]),
        planned(3, Training(steps=None, epochs=50), [1]),
    )
    pretrained = planned(4, Training(steps=1000), [1], True)
    assert sorted((epochs, wide, long, short, pretrained), key=cost) == [pretrained, short, long, wide, epochs]


def test_what_is_measured_already_does_not_move_a_trial(tmp_path: Path) -> None:
    """The parts are those of the plan, whatever a run directory has."""
    asked: dict[str, Any] = {"models": ["lstm:hidden=4"], "tasks": SHORT, "training": {"steps": 1}, "examples": 8}
    first = harness.run(**asked, out=tmp_path, shard=(1, 3))
    harness.run(**asked, out=tmp_path, shard="2/3")
    again = harness.run(**asked, out=tmp_path, shard=(1, 3))
    assert list(again) == list(first)
    assert len(harness.load(tmp_path)) == 2


@pytest.mark.parametrize("wrong", ["0/16", "17/16", "a/b", "3", "1/2/3", "", "1/0", "-1/2", (0, 2), (3, 2)])
def test_what_is_no_shard_is_refused(wrong: str | tuple[int, int]) -> None:
    """With a sentence, before anything is planned."""
    with pytest.raises(RequestError, match="shard"):
        harness.run(models=["lstm"], shard=wrong)


@pytest.mark.parametrize("wrong", [3, (1.0, 2), (True, 2), (1,), None, ["1", "x"]])
def test_what_python_may_give_is_read_as_strictly(wrong: object) -> None:
    """No flags, no fractions."""
    with pytest.raises(RequestError, match="for example 3/16"):
        Shard.read(wrong)


@pytest.mark.parametrize("wrong", ["0/16", "17/16", "a/b"])
def test_the_command_refuses_what_is_no_shard(wrong: str) -> None:
    """Exit code 2, one line."""
    result = CliRunner().invoke(main, ["run", "--model", "lstm", "--shard", wrong])
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert "shard" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_dry_run_prints_the_part() -> None:
    """The trials of that shard and no other."""
    words = ["run", "--model", "lstm", "--model", "elman", "--dry-run"]
    shown = [CliRunner().invoke(main, [*words, "--shard", f"{number}/4"]).stdout for number in range(1, 5)]
    plan = make_plan(build_suite(["lstm", "elman"]), default_registry())
    for trial in plan.trials:
        assert sum(trial.trial.id in text for text in shown) == 1


def test_a_shard_without_trials_is_no_error(tmp_path: Path) -> None:
    """An array of jobs may have more of them than there are trials."""
    results = harness.run(models=["lstm"], tasks=SHORT, training=SMALL, out=tmp_path, shard=(9, 9))
    assert len(results) == 0
    assert "shard 9/9" in str(results)
    assert "shard 9/9" in str(harness.load(tmp_path))


def test_a_report_says_which_part_it_is(tmp_path: Path) -> None:
    """Until all of them have run into the directory, or the whole suite."""
    remember(tmp_path, "3/4")
    for name in ("9-of-3", f"1-of-{'9' * 200}x9"):  # which no run has written
        (tmp_path / "shards" / name).touch()
    assert "shard 3/4" in missing_parts(tmp_path)
    for shard in ("1/4", "2/4"):
        remember(tmp_path, shard)
    assert "shards 1/4, 2/4, 3/4" in missing_parts(tmp_path)
    remember(tmp_path, "4/4")
    assert missing_parts(tmp_path) == ""
    remember(tmp_path, "1/9")
    assert missing_parts(tmp_path) == ""
    (tmp_path / "shards" / "4-of-4").unlink()
    assert "1/9" in missing_parts(tmp_path)
    remember(tmp_path, "")
    assert missing_parts(tmp_path) == ""
