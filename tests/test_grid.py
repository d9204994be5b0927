"""A grid is crossed with everything else; a report says where each model learns, and chooses on validation data."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SHORT
from record_factory import Seeds, cell, claim, record

import harness
from harness.claims import judge
from harness.cli import main
from harness.errors import RequestError
from harness.plan import Plan, make_plan
from harness.registry import default_registry
from harness.report import render
from harness.report.elements import Paragraph, Table
from harness.report.grid_table import grid_blocks, sentence, verdict
from harness.report.grouping import group
from harness.report.learnability import Learnability, Window, at_their_best, cell_rows, learnability, windows
from harness.report.verdicts import judged
from harness.requests import build_suite, check_varied, read_grid
from harness.schema import Record, Scalar
from harness.seeds import current
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


def suite(default: float = 1e-3, **more: Any) -> Suite:
    return Suite.model_validate(
        {
            "grid": {"lr": [1e-4, 1e-3, 1e-2]},
            "experiments": [{"models": ["lstm"]}],
            "defaults": [{"model": "lstm", "task": "recall", "training": {"lr": default}}],
            **more,
        }
    )


def said(records: list[Record], **more: Any) -> Learnability:
    (found,) = learnability(records, suite(**more))
    return found


GOOD, BAD = (1.0, 0.1), (0.2, 2.0)
DIVERGED: dict[str, Any] = {"failed": "the loss is NaN", "error": "DivergedError"}


def test_rates_and_the_best_cell() -> None:
    """The best one has the lowest validation loss, whatever its score on test data is; NaN and failures count."""
    lucky = cell(1e-3, [(0.99, 0.5), (0.99, 0.4), (0.99, 0.6)])
    chosen = cell(1e-2, [(0.95, 0.1), (0.5, 0.2), (float("nan"), 0.3)])
    broken = [record(**DIVERGED, training={"lr": 1e-4}, seed=seed) for seed in range(3)]
    found = said(lucky + chosen + broken)
    rates = {each.values["lr"]: (each.successes, each.seeds) for each in found.cells}
    assert rates == {1e-4: (0, 3), 1e-3: (3, 3), 1e-2: (1, 3)}
    assert found.best is not None
    assert (found.best.values, found.best.validation) == ({"lr": 1e-2}, 0.2)
    assert verdict(found) == "works at the default"
    assert "not where every seed succeeds" in sentence(found)


def test_a_diverged_seed_counts_as_an_infinite_loss() -> None:
    """So that a cell where most seeds fail is not chosen for the one that did not."""
    mostly = [record(**DIVERGED, training={"lr": 1e-2}, seed=seed) for seed in (1, 2)]
    found = said(cell(1e-3, [GOOD] * 3) + cell(1e-2, [(1.0, 0.001)]) + mostly)
    assert found.best is not None
    assert found.best.values == {"lr": 1e-3}


def test_a_trial_that_broke_is_no_result() -> None:
    """An error in the code or a process that was ended is told apart from an architecture that does not learn."""

    def broken(lr: float, *seeds: int, error: str = "TypeError") -> list[Record]:
        return [record(failed="no such argument", error=error, training={"lr": lr}, seed=seed) for seed in seeds]

    none = said(broken(1e-3, 0, 1, 2) + broken(1e-2, 0, 1, 2, error="ProcessDied"))
    assert (verdict(none), sentence(none), none.best) == (("no result, all trials failed",) * 2 + (None,))
    some = said(cell(1e-3, [GOOD]) + broken(1e-3, 1, 2) + cell(1e-2, [BAD] * 3))
    assert (some.cells[1].seeds, some.cells[1].broken, some.cells[1].works) == (1, 2, True)
    assert some.best is some.cells[1]
    assert "2 of 6 trials broke" in sentence(some)
    assert "1 cell not run" in sentence(some)
    diverged = said(broken(1e-3, 0, 1, 2, error="DivergedError") + broken(1e-2, 0, 1, 2, error="DivergedError"))
    assert verdict(diverged) == "fails everywhere it was tried"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({1e-4: [BAD] * 3, 1e-3: [BAD] * 3, 1e-2: [BAD] * 3}, "fails everywhere it was tried"),
        ({1e-4: [BAD] * 3, 1e-3: [BAD] * 3, 1e-2: [GOOD] * 3}, "fails at the default, works elsewhere"),
        ({1e-3: [GOOD, BAD, BAD], 1e-2: [GOOD] * 3}, "for some seeds at the default, works elsewhere"),
        ({1e-3: [GOOD, BAD, BAD], 1e-2: [BAD] * 3}, "for some seeds only"),
        ({1e-4: [BAD] * 3, 1e-2: [GOOD] * 3}, "works"),
        ({1e-3: [BAD] * 2, 1e-2: [BAD] * 2}, "? fails everywhere it was tried (2 of 3 seeds)"),
    ],
)
def test_what_is_said_of_a_model(cells: dict[float, Seeds], words: str) -> None:
    """To fail everywhere is not to fail at the default; and fewer than three seeds say nothing of an architecture."""
    found = said([each for lr, seeds in cells.items() for each in cell(lr, seeds)])
    assert verdict(found) == words
    assert sentence(found).startswith(words)
    if "everywhere" in words:
        assert "tried: lr 0.0" in sentence(found)
    if words == "works":
        assert "the default, lr=0.001, was not tried; 1 cell not run" in sentence(found)


def test_without_a_condition_in_the_trained_range_nothing_is_said_of_success() -> None:
    """However good the scores beyond it are; whoever gives a threshold gives one for scores within."""
    beyond = Scalar(name="worst_beyond", unit="share", value=1.0, levels={"chance": 0.5, "best": 1.0}, headline=True)
    records = [record(beyond, training={"lr": lr}, seed=s, loss=0.1) for lr in (1e-3, 1e-2) for s in range(3)]
    for found in (said(records), said(records, success=0.8)):
        assert verdict(found) == sentence(found) == "not measured within the trained range"
        assert {each.rate for each in found.cells} == {""}
    assert {row["success_rate"] for row in cell_rows([found])} == {None}


def test_without_a_threshold_there_is_no_rate() -> None:
    """And nothing is said of where it works."""
    records = [
        record(Scalar(name="worst_inside", unit="nats", value=1.0), training={"lr": lr}, seed=s, loss=0.1)
        for lr in (1e-3, 1e-2)
        for s in range(3)
    ]
    found = said(records)
    assert [each.rate for each in found.tried] == ["", ""]
    (rates, best) = (block for block in grid_blocks([found]) if isinstance(block, Table))
    assert "nowhere" not in rates.columns[-1].cells
    assert "0/3" not in best.columns[3].cells


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (1, 2, 0)])
def test_a_seed_without_a_score_moves_no_median(order: tuple[int, ...]) -> None:
    """Whichever seed it is; it is no success."""
    seeds = [(float("nan"), 0.1), (0.98, 0.1), (0.3, 0.1)]
    found = said(cell(1e-3, [seeds[i] for i in order]) + cell(1e-2, [BAD] * 3))
    (row,) = (row for row in cell_rows([found]) if row["lr"] == 1e-3)
    assert (row["score"], row["successes"], row["seeds"]) == (pytest.approx(0.64), 1, 3)
    (_, table) = (block for block in grid_blocks([found]) if isinstance(block, Table))
    assert table.columns[4].cells[0].startswith("0.640 [")


def test_of_cells_that_all_diverge_none_is_best() -> None:
    """An infinite validation loss is nothing to choose by."""
    found = said(cell(1e-3, [(0.5, float("inf"))] * 3) + cell(1e-2, [(0.2, float("nan"))] * 3))
    assert found.best is None
    assert not any(row["best"] for row in cell_rows([found]))


def test_seeds_that_are_missing_are_told() -> None:
    """All that are there may succeed; of whole runs nothing is said."""
    three = cell(1e-3, [GOOD] * 3) + cell(1e-2, [GOOD] * 3)
    assert verdict(said(three)) == "works at the default"
    assert verdict(said(three, seeds=5)) == "works at the default (3 of 5 seeds)"
    of_each = [{"models": ["lstm"], "seeds": 4}, {"models": ["gru"], "seeds": 9}]
    assert verdict(said(three, experiments=of_each)) == "works at the default (3 of 4 seeds)"
    one = cell(1e-3, [GOOD]) + cell(1e-2, [GOOD])
    assert verdict(said(one, seeds=1)) == "? works at the default (1 seed)"


def test_a_success_that_no_score_can_be_is_told() -> None:
    """A share of 90 is none; so of a loss below the best one."""
    found = said(cell(1e-3, [GOOD] * 3) + cell(1e-2, [BAD] * 3), success=90.0)
    assert (verdict(found), "--success 90 is beyond the best, 1.00" in sentence(found)) == (
        "no score can be a success",
        True,
    )
    lower = {"chance": 2.0, "best": 0.5}
    losses = cell(1e-3, [GOOD] * 3, levels=lower) + cell(1e-2, [BAD] * 3, levels=lower)
    assert verdict(said(losses, success=0.4)) == "no score can be a success"
    assert verdict(said(losses, success=0.5)) != "no score can be a success"


def test_no_training_is_no_cell() -> None:
    """It is measured, learns nothing, and lacks nothing."""
    records = [
        r.model_copy(update={"training": r.training.model_copy(update={"steps": steps})})
        for steps in (0, 5, 9)
        for r in cell(1e-3, [GOOD] * 3)
    ]
    found = said(records, grid={"steps": [0, 5, 9]})
    assert [each.values for each in found.cells] == [{"steps": 5}, {"steps": 9}]
    assert "not run" not in sentence(found)


def test_windows_are_neighbours_that_work() -> None:
    """With their width as a factor, and whether something beyond them was tried."""
    found = said(cell(1e-4, [BAD] * 3) + cell(1e-3, [GOOD] * 3) + cell(1e-2, [GOOD] * 3))
    (window,) = windows("lr", found.cells)
    assert window == Window(1e-3, 1e-2, open_below=False, open_above=True)
    assert window.factor == pytest.approx(10)
    gap = said(cell(1e-4, [GOOD] * 3) + cell(1e-3, [BAD] * 3) + cell(1e-2, [GOOD] * 3))
    assert [(each.low, each.high) for each in windows("lr", gap.cells)] == [(1e-4, 1e-4), (1e-2, 1e-2)]


def test_values_that_work_are_told_with_words_and_zero_among_them() -> None:
    """No width is a factor from zero on; no clipping stands beside numbers."""

    def works(name: str, *values: Any) -> str:
        records = [
            each.model_copy(update={"training": each.training.model_copy(update={name: value})})
            for value in values
            for each in cell(1e-3, [GOOD] * 3)
        ]
        return (
            next(block for block in grid_blocks(learnability(records)) if isinstance(block, Table)).columns[-1].cells[0]
        )

    assert works("weight_decay", 0.0, 0.1) == "0 .. 0.1; nothing lower or higher was tried"
    assert works("clip", None, 0.5, 1.0) == "0.5 .. 1, a factor of 2 or more; nothing lower or higher was tried; none"


def test_the_threshold_is_that_of_the_metric_unless_somebody_says() -> None:
    """90 % of the way from chance to the best, also where less is better; then what the suite says."""
    losses = cell(1e-3, [(0.2, 1.0), (0.3, 1.0), (0.1, 1.0)], levels={"chance": 2.0, "best": 0.0})
    others = cell(1e-2, [(2.0, 2.0)] * 3, levels={"chance": 2.0, "best": 0.0})
    found = said(losses + others)
    assert [each.successes for each in found.tried] == [2, 0]
    assert [each.successes for each in said(losses + others, success=0.15).tried] == [1, 0]
    no_chance = said(cell(1e-3, [(0.2, 1.0), (0.1, 1.0), (0.1, 1.0)], levels={"best": 0.0}), success=0.15)
    assert [each.successes for each in no_chance.tried] == [2]
    alone = [Scalar(name="worst_inside", unit="", value=1.0, levels={"chance": 2.0, "best": 0.0}, headline=True)]
    lone = said([record(*alone, training={"lr": 1e-3}), record(*alone, training={"lr": 1e-2})], success=1.5)
    assert [each.successes for each in lone.tried] == [1, 1]
    unknown = said(cell(1e-3, [(0.9, 1.0), (0.89, 1.0)], levels={}))
    assert unknown.threshold is not None
    assert (unknown.threshold.value, unknown.cells[1].successes) == (0.9, 1)


def test_a_claim_speaks_of_the_cell_that_is_best_on_validation_data() -> None:
    """Whatever the others score; without it, it would have to name one."""
    records = cell(1e-3, [(0.99, 0.5)] * 3) + cell(1e-2, [(0.6, 0.1)] * 3)
    fields: dict[str, Any] = {"metric": "worst_inside", "value": 0.9}
    assert judge(claim(**fields), records).verdict == "undecided"
    assert judge(claim(**fields, best=True), records).verdict == "does not hold"
    alias = {"text": "it works", "probe": "accuracy", "metric": "accuracy", "at": 1, "comparison": ">", "value": 0.9}
    crossed = {"experiments": [{"models": ["small=lstm"]}], "grid": {"hidden": [4, 8]}}
    claimed = Suite.model_validate({**crossed, "claims": [{**alias, "model": "small", "best": True}]})
    assert len(make_plan(claimed, default_registry()).trials) == 6
    with pytest.raises(RequestError, match="may mean"):
        make_plan(Suite.model_validate({**crossed, "claims": [{**alias, "model": "small"}]}), default_registry())


def test_a_claim_about_the_best_cell_waits_for_all_of_the_grid() -> None:
    """One without a record, or whose trials broke, might be better; a loss that diverged is none."""
    asked = suite(grid={"lr": [1e-3, 1e-2]}, seeds=3)
    guesses = claim(metric="worst_inside", value=0.9, best=True, comparison="<")
    low, high = cell(1e-3, [BAD] * 3), cell(1e-2, [GOOD] * 3)
    broke = [record(failed="no memory", training={"lr": 1e-2}, seed=seed) for seed in (1, 2)]
    verdicts = {
        name: judged(guesses, records, asked)
        for name, records in {
            "interrupted": low,
            "a seed": [*low, *high[:2]],
            "broken": [*low, *high[:1], *broke],
            "diverged": [*low, *(record(**DIVERGED, training={"lr": 1e-2}, seed=seed) for seed in range(3))],
            "whole": low + high,
        }.items()
    }
    assert {name: each.verdict for name, each in verdicts.items()} == {
        "interrupted": "undecided",
        "a seed": "undecided",
        "broken": "undecided",
        "diverged": "holds",
        "whole": "does not hold",
    }
    assert "lr=0.01 has no record" in verdicts["interrupted"].explanation
    assert "lr=0.01 has no record of seed 2" in verdicts["a seed"].explanation
    assert "lr=0.01 broke at seeds 1, 2" in verdicts["broken"].explanation
    assert judged(guesses.model_copy(update={"training": {"lr": 1e-3}}), low, asked).verdict == "holds"


def test_code_that_was_edited_between_two_cells_is_not_compared_with_itself() -> None:
    """The newest counts; what it was not tried at was not run, and the report says once why."""
    old = [r for lr in (1e-3, 1e-2) for r in cell(lr, [GOOD] * 3)]
    new = [
        r.model_copy(
            update={
                "model": r.model.model_copy(update={"digest": "edited"}),
                "provenance": r.provenance.model_copy(update={"finished": r.provenance.finished + timedelta(hours=1)}),
            }
        )
        for r in cell(1e-3, [BAD] * 3)
    ]
    kept, _ = current(old + new)
    asked = suite(grid={"lr": [1e-3, 1e-2]})
    (found,) = learnability(kept, asked)
    assert [(each.values["lr"], each.seeds) for each in found.cells] == [(1e-3, 3), (1e-2, 0)]
    assert len(found.older) == 3
    assert [text for text in grid_blocks([found]) if isinstance(text, Paragraph) and "edited" in text.text]
    assert {
        r.training.lr for each in at_their_best(group(kept), [found]) for row in each.rows for r in row.records
    } == {1e-3}
    works = claim(metric="worst_inside", value=0.9, best=True)
    assert "lr=0.01 has no record" in judged(works, kept, asked).explanation
    assert judge(works, kept).verdict == "does not hold"


def test_models_that_differ_in_the_grid_alone_are_one() -> None:
    """An argument of the grid is a field, like a training setting."""
    records = [
        each
        for hidden in ("hidden=8", "hidden=16")
        for lr in (1e-3, 1e-2)
        for each in cell(lr, [GOOD], model=f"lstm:{hidden}")
    ]
    found = said(records, grid={"lr": [1e-3, 1e-2], "hidden": [8, 16]})
    assert (found.model, found.fields, len(found.cells)) == ("lstm", ["lr", "hidden"], 4)
    assert [others for others, _ in found.rows()] == [{"hidden": 8}, {"hidden": 16}]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_the_report_has_it(form: str, width: int) -> None:
    """In every format, no wider than the page."""
    records = cell(1e-4, [BAD] * 3) + cell(1e-3, [BAD] * 3) + cell(1e-2, [GOOD] * 3)
    text = render(records, suite(), form, width=width)
    assert "Learnability" in text
    assert "fails at the default, works elsewhere" in " ".join(text.split())
    if form == "text":
        assert max(map(len, text.splitlines())) <= width


def test_without_a_grid_a_failure_is_one_at_this_learning_rate() -> None:
    """The report says so, and how to ask further; with several learning rates it does not."""

    def failing(lr: float) -> list[Record]:
        scalar = Scalar(name="worst_inside", unit="share", value=0.1, verdict="never learned", headline=True)
        return [record(scalar, training={"lr": lr}, seed=seed) for seed in range(3)]

    assert "never learned: at this learning rate (lstm 0.001)" in " ".join(render(failing(1e-3)).split())
    assert "at this learning rate" not in render(failing(1e-3) + failing(1e-2))


def test_a_model_without_gradient_steps_has_no_learning_rate() -> None:
    """So that none works or fails at one; what a grid varies of it otherwise counts."""

    def counted(n: int, score: float) -> list[Record]:
        scalar = Scalar(name="worst_inside", unit="share", value=score, verdict="never learned", headline=True)
        return [record(scalar, model=f"ngram:n={n}", loss=1.0, fitted=True, seed=seed) for seed in range(3)]

    assert learnability(counted(2, 0.1), suite()) == []
    assert "at this learning rate" not in render(counted(2, 0.1))
    (found,) = learnability(counted(2, 0.1) + counted(3, 1.0), suite(grid={"lr": [1e-3, 1e-2], "n": [2, 3]}))
    assert [(each.values, each.works) for each in found.cells] == [({"n": 2}, False), ({"n": 3}, True)]


def test_a_baseline_is_marked_in_tables_of_the_grid() -> None:
    """As in all others; data names it as it is."""
    found = [
        each.model_copy(update={"model": each.model.model_copy(update={"baseline": True})})
        for each in cell(1e-3, [GOOD] * 3) + cell(1e-2, [BAD] * 3)
    ]
    rows = render(found, suite()).splitlines()
    start = rows.index("Learnability")
    assert any(row.startswith("lstm (baseline)") for row in rows[start:])
    assert said(found).model == "lstm"


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
