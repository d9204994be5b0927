"""What is said of a grid follows from its numbers: of seeds that diverged, of the default, of code that was edited."""

from collections.abc import Sequence
from typing import Any

import pytest
from grid_records import BAD, GOOD, edited
from record_factory import Seeds, cell, record

from harness.report.blocks import document
from harness.report.elements import Block, Heading, Items, Paragraph, Table
from harness.report.grid_table import grid_blocks, sentence
from harness.report.learnability import Learnability, cell_rows, learnability
from harness.schema import Record
from harness.suites import Suite


def suite(grid: dict[str, list[Any]], default: dict[str, Any], **more: Any) -> Suite:
    defaults = [{"model": "lstm", "task": "recall", "training": default}]
    return Suite.model_validate(
        {"grid": grid, "defaults": defaults, "experiments": [{"models": ["lstm"]}], "seeds": 3, **more}
    )


def said(records: list[Record], asked: Suite) -> Learnability:
    (found,) = learnability(records, asked)
    return found


def diverging(lr: float, seeds: Seeds) -> list[Record]:
    """The seeds that did not diverge, then those that did, of three."""
    lost = [
        record(failed="the loss is NaN", error="DivergedError", training={"lr": lr}, seed=seed)
        for seed in range(len(seeds), 3)
    ]
    return cell(lr, seeds) + lost


def columns(found: Learnability, which: int) -> dict[str, list[str]]:
    """Those of the table of rates (0), or of best cells (1)."""
    table = [block for block in grid_blocks([found]) if isinstance(block, Table)][which]
    return {column.header: column.cells for column in table.columns}


def test_the_score_of_the_seeds_that_are_left_is_not_told_as_that_of_all() -> None:
    """Where some diverged, how many did stands in its place, and beside it in the table of best cells."""
    asked = suite({"lr": [1e-3, 1e-2, 1e-1]}, {"lr": 1e-3})
    found = said(diverging(1e-3, [GOOD, GOOD]) + diverging(1e-2, [GOOD]) + diverging(1e-1, []), asked)
    rates = columns(found, 0)
    assert [rates[lr] for lr in ("0.001", "0.01", "0.1")] == [
        ["2/3\n1 diverged"],
        ["1/3\n2 diverged"],
        ["0/3\n3 diverged"],
    ]
    assert columns(found, 1)["test score"] == ["1.00 (1 diverged)"]
    assert "6 of 9 trials diverged" in sentence(found)
    assert [row["diverged"] for row in cell_rows([found])] == [1, 2, 3]
    everywhere = cell_rows([said([*diverging(1e-3, []), *diverging(1e-2, [])], asked)])
    assert [row["success_rate"] for row in everywhere if row["seeds"]] == [0.0, 0.0]


def test_a_chart_shows_which_seeds_diverged() -> None:
    """They are no gaps, and seeds stand in order wherever the first one is among them."""
    pytest.importorskip("altair")
    from harness.charts.drawing import Drawings
    from harness.charts.grid import CROSS
    from harness.charts.view import View

    lost = [record(failed="NaN", error="DivergedError", training={"lr": 1e-3}, seed=0)]
    kept = [r for r in cell(1e-3, [GOOD] * 3) if r.seed]
    asked = suite({"lr": [1e-3, 1e-2]}, {"lr": 1e-3})
    chart = Drawings(View([*lost, *kept, *cell(1e-2, [BAD] * 3)], asked)).draw("grid").to_dict()
    crosses = [layer for part in chart["concat"] for layer in part["layer"] if layer["mark"].get("text") == CROSS]
    data = chart["datasets"][crosses[0]["data"]["name"]]
    assert [(row["way"], row["seed"]) for row in data] == [("0.001", 0)]
    assert crosses[0]["encoding"]["xOffset"]["sort"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("grid", "default", "words"),
    [
        ({"lr": [1e-3, 1e-2]}, {"lr": 3e-3}, "the default, lr=0.003, was not tried"),
        ({"lr": [1e-3, 1e-2], "hidden": [8]}, {"lr": 1e-3}, "the default was not tried"),
        ({"lr": [1e-3, 1e-2], "hidden": [8]}, {"lr": 3e-3}, "the default, lr=0.003, was not tried"),
    ],
)
def test_of_the_default_only_what_was_not_tried_is_named(
    grid: dict[str, list[Any]], default: dict[str, Any], words: str
) -> None:
    """Its learning rate may have been tried, with another argument."""
    model = "lstm:hidden=8" if "hidden" in grid else "lstm"
    found = said([r for lr in grid["lr"] for r in cell(lr, [BAD] * 3, model=model)], suite(grid, default))
    assert words in sentence(found)


def test_a_success_that_hangs_on_the_examples_is_told() -> None:
    """Another sample of them could make a model work that fails, or the other way round."""
    records = cell(1e-2, [GOOD] * 3) + cell(1e-3, [(0.89, 0.1), (0.93, 0.1), (0.2, 0.1)])
    unsure = [
        r.model_copy(update={"measurements": [r.find("worst_inside").model_copy(update={"standard_error": 0.02})]})
        for r in records
        if r.training.lr == 1e-3
    ]
    asked = suite({"lr": [1e-3, 1e-2]}, {"lr": 1e-3})
    assert "2 of 6 trials within two standard errors" in sentence(said([*records[:3], *unsure], asked))
    assert "standard error" not in sentence(said(records, asked))


def after(blocks: Sequence[Block], title: str) -> list[Block]:
    """What stands under a heading."""
    at = next(i for i, block in enumerate(blocks) if isinstance(block, Heading) and block.text == title)
    rest = [i for i, block in enumerate(blocks) if isinstance(block, Heading) and i > at]
    return [*blocks[at + 1 : min(rest, default=len(blocks))]]


def labels(blocks: Sequence[Block]) -> list[list[str]]:
    """The first column of each table."""
    return [block.columns[0].cells for block in blocks if isinstance(block, Table)]


DETAILS = "accuracy on recall, after training"


def test_details_are_of_the_best_cell_and_what_broke_is_told_of_all() -> None:
    """A cell for each learning rate would be three rows for one; the message of an error stands nowhere else."""
    broke = [
        record(failed="no such argument", error="TypeError", training={"lr": 1e-1}, seed=seed) for seed in range(3)
    ]
    records = cell(1e-3, [BAD] * 3) + cell(1e-2, [GOOD] * 3) + broke
    blocks = document(records, suite({"lr": [1e-3, 1e-2, 1e-1]}, {"lr": 1e-3}))
    assert labels(after(blocks, DETAILS)) == [["lstm (lr=0.01)"]]
    assert labels(after(blocks, "Settings")) == [["lstm"]]
    (missing,) = (block for block in after(blocks, DETAILS) if isinstance(block, Items))
    assert "no such argument" in missing.items[0]
    listed = document(records)  # ways of training that were asked for one by one are compared
    assert labels(after(listed, DETAILS))[0] == ["lstm (lr=0.001)", "lstm (lr=0.01)"]


def test_no_table_has_what_the_code_gave_before_it_was_edited() -> None:
    """Where the new code was not tried, nothing is shown, as the report says."""
    new = edited(cell(1e-3, [BAD] * 3))
    records = [*cell(1e-3, [GOOD] * 3), *cell(1e-2, [GOOD] * 3), *new]
    for asked in (suite({"lr": [1e-3, 1e-2]}, {"lr": 1e-3}), None):
        blocks = document(records, asked)
        tables = [block for block in (*after(blocks, "Settings"), *after(blocks, DETAILS)) if isinstance(block, Table)]
        assert tables
        assert not [text for table in tables for column in table.columns for text in column.cells if "0.01" in text]
        assert [block for block in blocks if isinstance(block, Paragraph) and "edited since" in block.text]


def test_seeds_that_diverged_were_seeds() -> None:
    """The one that is left is not said to have been asked for alone."""
    records = diverging(1e-3, [GOOD]) + diverging(1e-2, [])
    blocks = document(records, suite({"lr": [1e-3, 1e-2]}, {"lr": 1e-3}))
    assert not [block for block in blocks if isinstance(block, Paragraph) and "One seed only" in block.text]
    alone = document(cell(1e-3, [GOOD]))
    assert [block for block in alone if isinstance(block, Paragraph) and "One seed only" in block.text]


def test_a_model_that_was_evaluated_twice_is_told_from_itself() -> None:
    """A try with fewer examples may lie in the same directory."""
    few = [r.model_copy(update={"examples": 64}) for lr in (1e-3, 1e-2) for r in cell(lr, [BAD] * 3)]
    many = [r for lr in (1e-3, 1e-2) for r in cell(lr, [GOOD] * 3)]
    found = learnability([*few, *many], suite({"lr": [1e-3, 1e-2]}, {"lr": 1e-3}))
    assert {each.model: each.cells[0].works for each in found} == {
        "lstm (examples=64)": False,
        "lstm (examples=256)": True,
    }


def test_no_default_is_told_of_what_an_earlier_run_has_set_otherwise() -> None:
    """The grid knows that of its own fields; one of two numbers of steps is none."""
    records = [
        r.model_copy(update={"training": r.training.model_copy(update={"steps": steps})})
        for steps, seeds in ((30, [BAD] * 3), (60, [GOOD] * 3))
        for lr in (1e-3, 1e-2)
        for r in cell(lr, seeds)
    ]
    found = said(records, suite({"lr": [1e-3, 1e-2]}, {"lr": 1e-3}))
    assert not any(each.default for each in found.cells)
    assert "default" not in sentence(found)
