"""What is said of a grid follows from its numbers: of seeds that diverged, of the default, of code that was edited."""

from typing import Any

import pytest
from record_factory import Seeds, cell, record

from harness.report.elements import Table
from harness.report.grid_table import grid_blocks, sentence
from harness.report.learnability import Learnability, cell_rows, learnability
from harness.schema import Record
from harness.suites import Suite

GOOD, BAD = (1.0, 0.1), (0.2, 2.0)


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
