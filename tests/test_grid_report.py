"""What reports and claims make of a grid: its table, the cells that they compare, and the best one."""

from typing import Any

import pytest
from grid_records import BAD, DIVERGED, GOOD, edited, said, suite
from record_factory import cell, claim, record

from harness.claims import judge
from harness.errors import RequestError
from harness.measurements import Scalar
from harness.plan import make_plan
from harness.registry import default_registry
from harness.report import render, render_grid
from harness.report.elements import Paragraph
from harness.report.grid_table import grid_blocks
from harness.report.grouping import group
from harness.report.learnability import at_their_best, learnability
from harness.report.verdicts import judged
from harness.schema import Record
from harness.seeds import current
from harness.suites import Suite


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


def test_a_claim_about_the_best_cell_speaks_of_all_values_of_an_argument() -> None:
    """Also without an alias, and where none of the values is the default; of one value, if it names that."""
    asked = suite(grid={"hidden": [8, 9]}, experiments=[{"models": ["lstm"]}])
    default, wide = (
        [
            each.model_copy(update={"model": each.model.model_copy(update={"arguments": {"hidden": hidden}})})
            for each in cell(1e-3, [seed] * 3, label)
        ]
        for label, hidden, seed in (("lstm", 8, BAD), ("lstm:hidden=9", 9, GOOD))
    )
    works, small = (claim(model=m, metric="worst_inside", value=0.9, best=True) for m in ("lstm", "lstm:hidden=8"))
    assert judged(works, default + wide, asked).verdict == "holds"
    assert judged(small, default + wide, asked).verdict == "does not hold"
    assert "hidden=9 has no record" in judged(works, default, asked).explanation
    other = {"experiments": [{"models": ["lstm"]}], "grid": {"hidden": [2, 4]}}
    fields = {"text": "it works", "model": "lstm", "probe": "accuracy", "metric": "accuracy", "comparison": ">"}
    found = Suite.model_validate({**other, "claims": [{**fields, "value": 0.9, "best": True}]})
    assert len(make_plan(found, default_registry()).trials) == 6


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
    new = edited(cell(1e-3, [BAD] * 3))
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


def test_only_with_a_grid_other_tables_are_of_the_best_cell() -> None:
    """Several ways of training without one have tables of all of them, and the report says nothing else."""
    records = cell(1e-3, [BAD] * 3) + cell(1e-2, [GOOD] * 3)
    words = "All other tables are of it"
    assert words in " ".join(render(records, suite()).split())
    assert words not in " ".join(render(records).split())
    assert words not in " ".join(render_grid(records, suite()).split())


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
