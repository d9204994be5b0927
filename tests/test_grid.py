"""A grid is crossed with everything else, and a wrong one is refused before anything starts."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SHORT

import harness
from harness.cli import main
from harness.errors import RequestError
from harness.plan import Plan, make_plan
from harness.registry import default_registry
from harness.requests import build_suite, check_varied, read_grid
from harness.suite_files import load_suite
from harness.suites import Suite, Ways


def plan(*models: str, training: Ways | None = None, **more: Any) -> Plan:
    return make_plan(build_suite(models, SHORT, **more), default_registry(), training=training)


def models(made: Plan) -> list[str]:
    return list(dict.fromkeys(planned.trial.model.label for planned in made.trials))


def test_training_settings_are_crossed_like_ways_of_training() -> None:
    """With the same ids, so that a grid finds what was trained before."""
    grid = plan("lstm", grid={"lr": [1e-3, 1e-2], "clip": [None, 1.0]}, seeds=2)
    ways = [{"lr": lr, "clip": clip} for lr in (1e-3, 1e-2) for clip in (None, 1.0)]
    listed = plan("lstm", training=ways, seeds=2)
    assert [cell.id for cell in grid.cells] == [cell.id for cell in listed.cells]


def test_an_argument_varies_the_models_that_have_it() -> None:
    """The others are there once; an alias stays that of all variants."""
    made = plan("small=lstm:layers=1", "gru", "elman", grid={"forget_bias": [0.0, 2.0]}, seeds=1)
    assert models(made) == ["lstm:forget_bias=0.0", "lstm:forget_bias=2.0", "gru", "elman"]
    assert [planned.trial.model.alias for planned in made.trials] == ["small", "small", "", ""]


def test_a_suite_has_a_grid_and_the_users_own_wins(tmp_path: Path) -> None:
    """Field by field, also over what the suite sets itself."""
    file = tmp_path / "mine.toml"
    file.write_text(
        'success = 0.8\n[training]\nsteps = 9\n[grid]\nlr = [1e-3, 1e-2]\n[[experiments]]\nmodels = ["lstm"]\n',
        encoding="utf-8",
    )
    suite = load_suite(file)
    own = build_suite(suite=suite, grid={"lr": [0.5], "steps": [3, 4]})
    assert (own.grid, own.training, own.success) == ({"lr": [0.5], "steps": [3, 4]}, {}, 0.8)
    trials = make_plan(own, default_registry()).trials
    assert {(each.trial.training.lr, each.trial.training.steps) for each in trials} == {(0.5, 3), (0.5, 4)}


def test_the_plan_notes_what_the_grid_takes_the_place_of() -> None:
    """A model's own advice, for each model."""
    made = plan("lstm", "gpt", grid={"lr": [0.5], "hidden": [8]}, seeds=1).suite.defaults
    assert {(each.model, each.training["lr"]) for each in made} == {("lstm", 3e-3), ("gpt", 1e-3)}
    assert plan("lstm", seeds=1).suite.defaults == []


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--grid", "lrr=1,2"], "Did you mean 'lr'?"),
        (["--grid", "hiden=8,16"], "Did you mean 'hidden'?"),
        (["--grid", "lr="], "no values"),
        (["--grid", "lr=[]"], "no values"),
        (["--grid", "lr"], "NAME=VALUE"),
        (["--grid", "lr=1e-3,,1e-2"], "empty value"),
        (["--grid", "lr=1e-3,hidden=8"], "repeat the option"),
        (["--grid", "lr=1e-3,1e-2", "--success", "nan"], "success"),
        (["--success", "0.8"], "--grid lr="),
        (["--training", "lr=0.1", "--success", "0.8"], "--grid lr="),
        (["--max-trials", "5"], "--grid lr="),
        (["--grid", "lr=1e-3", "--grid", "lr=1e-2"], "two --grid"),
        (["--grid", "lr=1e-3,0.001"], "twice"),
        (["--grid", "lr=fast,1e-2"], "'fast'"),
        (["--grid", "lr=0,1e-2"], "greater than 0"),
        (["--grid", "hidden=x"], "'x'"),
        (["--grid", "lr=1e-3", "--training", "lr=1e-2"], "keep one"),
        (["--grid", "layers=1,2"], "'lstm:layers=1'"),
        (["--grid", f"lr={','.join(f'{n}e-4' for n in range(1, 102))}", "--seeds", "100"], "--max-trials 10100"),
    ],
)
def test_a_wrong_grid_is_refused_in_a_sentence(asked: list[str], words: str, tmp_path: Path) -> None:
    """Before anything starts, with exit code 2; nothing is written."""
    model = "lstm:layers=1" if "layers=1,2" in asked else "lstm"
    result = CliRunner().invoke(main, ["run", "--model", model, "--out", str(tmp_path / "run"), *asked])
    assert (result.exit_code, words in result.output) == (2, True), result.output
    assert not (tmp_path / "run").exists()


def test_several_ways_of_training_may_say_what_success_is() -> None:
    """Their report has the same table as that of a grid."""
    asked = build_suite("lstm", SHORT, success=0.8)
    check_varied(asked, [{"lr": 0.1}, {"lr": 0.2}], success=0.8, max_trials=None)
    with pytest.raises(RequestError, match="success"):
        check_varied(asked, {"lr": 0.1}, success=0.8, max_trials=None)


def test_more_trials_are_run_where_the_user_says_so() -> None:
    """And a suite whose own training clashes with its grid is refused."""
    assert len(plan("lstm", grid={"lr": [1e-3, 1e-2]}, seeds=2, max_trials=4).trials) == 4
    with pytest.raises(RequestError, match="4 trials"):
        plan("lstm", grid={"lr": [1e-3, 1e-2]}, seeds=2, max_trials=3)
    with pytest.raises(ValueError, match="`grid` and `training` both set lr"):
        Suite.model_validate({"grid": {"lr": [1.0]}, "experiments": [{"models": ["lstm"], "training": [{"lr": 1}]}]})


def test_values_are_read_as_everywhere() -> None:
    """Numbers, words and lists; all of them may stand in brackets, as in a suite."""
    assert read_grid(["lr=1e-3, 1", "position=none,rope", "sizes=[1,2],[3]"]) == {
        "lr": [1e-3, 1],
        "position": ["none", "rope"],
        "sizes": [[1, 2], [3]],
    }
    assert read_grid(["lr=[1e-3, 1]", "norm=[rms]", "sizes=[[1,2]]"]) == {
        "lr": [1e-3, 1],
        "norm": ["rms"],
        "sizes": [[1, 2]],
    }


def test_a_dry_run_tells_trials_of_a_grid_apart() -> None:
    """By settings other than the learning rate, and by arguments of a model that has an alias."""
    words = [
        "run",
        "--model",
        "a=lstm",
        "--model",
        "ngram",
        "--seeds",
        "1",
        "--dry-run",
        "--grid",
        "hidden=4,8",
        "--grid",
    ]
    planned = CliRunner().invoke(main, [*words, "batch_size=2,3"]).stdout.splitlines()
    told = [line.split(maxsplit=1)[1] for line in planned if " on recall" in line]
    assert len(set(told)) == len(told) == 6, told
    assert told[0] == "a=lstm:hidden=4 on recall, seed 0, 1000 steps, lr 0.003, batch_size 2"


def test_a_run_with_a_grid(tmp_path: Path) -> None:
    """From the library to the report; run again, nothing is measured anew."""
    asked: dict[str, Any] = {"grid": {"lr": [1e-3, 1e-2]}, "training": {"steps": 2}, "seeds": 1, "examples": 16}
    results = harness.run(["lstm:hidden=4"], [SHORT], out=tmp_path, executor="local", **asked)
    assert [record.training.lr for record in results] == [1e-3, 1e-2]
    assert "Learnability" in results.render()
    report = ["report", str(tmp_path), "--grid", "--format"]
    as_json = json.loads(CliRunner().invoke(main, [*report, "json"]).output)
    as_csv = CliRunner().invoke(main, [*report, "csv"]).output.splitlines()
    assert as_json == results.learnability()
    assert [(row["lr"], row["seeds"], row["default"]) for row in as_json] == [(1e-3, 1, False), (1e-2, 1, False)]
    assert [row["best"] for row in as_json].count(True) == 1
    assert as_csv[0].split(",") == [*as_json[0]]
    kept = json.loads((tmp_path / "suite.json").read_text(encoding="utf-8"))
    assert kept["defaults"][0]["training"] == {"lr": 3e-3}
    again = harness.run(["lstm:hidden=4"], [SHORT], out=tmp_path, executor="local", **asked)
    assert [record.provenance.finished for record in again] == [record.provenance.finished for record in results]


def test_of_a_misspelt_field_what_was_meant_is_told_also_beside_code_with_arguments(tmp_path: Path) -> None:
    """Only what is like no field may be an argument of that code."""
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n\n\nclass Mixer(nn.Linear):\n"
        "    def __init__(self, width: int, slope: float = 1.0) -> None:\n        super().__init__(width, width)\n",
        encoding="utf-8",
    )
    for field, words in (("lrr", "Did you mean 'lr'?"), ("slope", "Mixer:slope=1")):
        result = CliRunner().invoke(
            main, ["run", "--model", f'backbone:mixer="{tmp_path / "mine.py"}:Mixer"', "--grid", f"{field}=1,2"]
        )
        assert (result.exit_code, words in result.output) == (2, True), result.output
