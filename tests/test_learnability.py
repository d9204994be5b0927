"""What is said of a model on a grid: where it learns, which cell is best on validation data, and what is not known."""

from typing import Any

import pytest
from grid_records import BAD, DIVERGED, GOOD, said, suite
from record_factory import Seeds, cell, record

from harness.measurements import Scalar
from harness.report.elements import Table
from harness.report.grid_table import grid_blocks, sentence, verdict
from harness.report.learnability import Window, cell_rows, learnability, windows
from harness.report.success import doubt
from harness.schema import Record


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


@pytest.mark.parametrize(("success", "guessed"), [(0.05, True), (-1.0, True), (0.125, True), (0.13, False)])
def test_a_success_that_guessing_is_is_told(success: float, guessed: bool) -> None:
    """Of a share whose chance nobody knows, too, where it is 0 or less; and as soon as there is a record."""
    records = cell(1e-3, [GOOD] * 3) + cell(1e-2, [BAD] * 3)
    found = said(records, success=success)
    assert ("no better than guessing, 0.125" in sentence(found)) == guessed
    assert (verdict(found) == "guessing would be a success") == guessed
    assert bool(doubt(records[0], suite(success=success))) == guessed
    assert "guessing, 0," in doubt(cell(1e-3, [GOOD], levels={})[0], suite(success=0.0))
    assert not doubt(cell(1e-3, [GOOD], levels={})[0], suite(success=0.1))
    assert not doubt(records[0], suite())


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
