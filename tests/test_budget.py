"""What a run takes is told from a few steps, and what does not fit a budget is left out for all models alike."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SHORT

import harness
from harness.cli import main
from harness.errors import RequestError
from harness.estimating import Cut, Estimate, duration, estimate, within
from harness.executors.local import Local
from harness.plan import Plan, make_plan
from harness.registry import default_registry
from harness.requests import build_suite

HOUR = 3600.0
RATES = [1e-3, 1e-2, 1e-4]


def plan(*models: str, training: dict[str, Any] | None = None, **more: Any) -> Plan:
    return make_plan(build_suite(models, SHORT, **more), default_registry(), training=training)


def cut(made: Plan, hours: float, jobs: int = 1) -> Cut:
    """As if every trial took an hour."""
    return within(made, Estimate({each.trial.id: HOUR for each in made.trials}, jobs), hours)


def kept(found: Cut) -> set[tuple[str, int, float]]:
    trials = (each.trial for each in found.plan.trials)
    return {(trial.model.name, trial.seed, trial.training.lr) for trial in trials}


@pytest.mark.parametrize(
    ("hours", "seeds", "rates"),
    [(30, 5, 3), (29, 4, 3), (18, 3, 3), (17, 3, 2), (12, 3, 2), (11, 3, 1), (6, 3, 1), (5, 2, 1), (3, 1, 1)],
)
def test_whole_seeds_and_values_are_left_out(hours: float, seeds: int, rates: int) -> None:
    """Seeds down to three, then the grid from the end of its list, then seeds again; every model keeps the same."""
    found = cut(plan("lstm", "gru", grid={"lr": RATES}, seeds=5), hours)
    wanted = {(model, seed, lr) for model in ("lstm", "gru") for seed in range(seeds) for lr in RATES[:rates]}
    assert kept(found) == wanted
    assert found.hours == len(wanted) <= hours


def test_what_is_left_out_is_said_and_what_it_costs() -> None:
    """By name; and that fewer than three seeds, or one learning rate, conclude less."""
    made = plan("lstm", "gru", grid={"lr": RATES}, seeds=5)
    assert cut(made, 30).left_out == ""
    assert cut(made, 18).left_out == "Left out to fit 18 hours: seeds 3, 4."
    said = cut(made, 3).left_out
    assert "seeds 1-4; lr 0.01, 0.0001" in said
    assert "fewer than 3 seeds" in said
    assert "at this learning rate" in said


def test_a_model_without_the_argument_is_there_whatever_is_left_out() -> None:
    """Values of an argument are left out of the models that have it; several jobs take less time."""
    made = plan("lstm", "gpt", grid={"forget_bias": [1.0, 2.0]}, seeds=3)
    assert {name for name, _, _ in kept(cut(made, 6))} == {"lstm", "gpt"}
    assert len(cut(made, 6).plan.trials) == 6
    assert len(cut(made, 4.5, jobs=2).plan.trials) == 9


def test_a_model_that_takes_no_gradient_steps_is_there_whatever_is_left_out() -> None:
    """A grid of learning rates does not vary it, also if the rate by default is among those that are left out."""
    made = plan("lstm", "ngram", grid={"lr": [1e-2, 1e-1, 1e-3]}, seeds=3)
    assert kept(cut(made, 6)) == {
        (name, seed, lr) for seed in range(3) for name, lr in (("lstm", 1e-2), ("ngram", 1e-3))
    }
    fewer = plan("ngram", grid={"steps": [10, 20]}, seeds=3)
    assert {each.trial.training.steps for each in cut(fewer, 3).plan.trials} == {10}
    assert "lr 0.001" not in CliRunner().invoke(main, ["run", "--model", "ngram", "--dry-run"]).output


def test_a_budget_too_small_for_anything_is_refused() -> None:
    """And one that is no number of hours."""
    with pytest.raises(RequestError, match="not even one seed of one cell"):
        cut(plan("lstm", grid={"lr": RATES}), 0.5)
    for budget in ("0", "-1", "nan"):
        result = CliRunner().invoke(main, ["run", "--model", "lstm", "--budget", budget])
        assert result.exit_code == 2
        assert "number of hours above 0" in result.output


def test_steps_are_timed_once_for_what_takes_the_same_time(tmp_path: Path) -> None:
    """Learning rates and seeds do; more steps take longer, and what is measured already takes none."""
    heard: list[str] = []
    asked: dict[str, Any] = {"grid": {"lr": [1e-3, 1e-2]}, "seeds": 2, "examples": 16}
    made = plan("lstm:hidden=4", training={"steps": 20}, **asked)
    known = estimate(made, tmp_path, Local(), announce=heard.append)
    assert (len(known.seconds), len(heard), known.unknown) == (4, 1, [])
    assert known.hours > 0
    harness.run(["lstm:hidden=4"], [SHORT], training={"steps": 2}, out=tmp_path, **asked)
    short = plan("lstm:hidden=4", training={"steps": 2}, **asked)
    assert estimate(short, tmp_path, Local()).seconds == {}
    assert len(estimate(short, tmp_path, Local(), fresh=True).seconds) == 4


def test_what_cannot_be_timed_is_said(tmp_path: Path) -> None:
    """With the reason; it counts as nothing."""
    made = plan("lstm:hidden=4", training={"steps": 2, "epochs": None}, seeds=1)
    broken = made.trials[0].trial.model.model_copy(update={"digest": "another"})
    trial = made.trials[0].trial.model_copy(update={"model": broken})
    cells = [cell.model_copy(update={"trial": trial}) for cell in made.trials[0].cells]
    known = estimate(Plan(made.suite, [type(made.trials[0])(trial, cells)]), tmp_path, Local())
    assert [*known.seconds.values()] == [0.0]
    assert "has changed" in known.unknown[0]


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (1 / 60, "0.017 hours (1 minute)"),
        (0.9951 / 60, "0.017 hours (1 minute)"),
        (0.3, "0.3 hours (18 minutes)"),
        (1 / 3600, "0.00028 hours (1 second)"),
        (0.5 / 60, "0.0083 hours (30 seconds)"),
        (1.0, "1 hour"),
        (123.0, "120 hours"),
    ],
)
def test_hours_are_told_as_one_says_them(hours: float, words: str) -> None:
    """One of a kind is no plural, and no number has an exponent."""
    assert duration(hours) == words


def test_a_run_says_what_did_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the note that its report begins with; the dry run says so, too, with the hours."""
    monkeypatch.setattr(
        "harness.api.estimate", lambda plan, *more, **others: Estimate({each.trial.id: HOUR for each in plan.trials}, 1)
    )
    results = harness.run(
        ["lstm:hidden=4"], [SHORT], seeds=2, training={"steps": 2}, examples=16, out=tmp_path / "run", budget=1
    )
    assert [record.seed for record in results] == [0]
    assert "Left out to fit 1 hour: seed 1." in results.note
    shown = CliRunner().invoke(main, ["run", "--model", "lstm", "--estimate", "--out", str(tmp_path / "dry")])
    assert "about 3 hours for 3 trials" in shown.output
    assert not (tmp_path / "dry").exists()
