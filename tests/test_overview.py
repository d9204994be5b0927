"""Several models on several tasks, each at its best; and a model beside those of a suite."""

from typing import Any

import pytest
from record_factory import cell, record, use

from harness.charts.view import View
from harness.plan import make_plan
from harness.registry import default_registry
from harness.report.cards import cards
from harness.report.elements import Items, Paragraph, Table
from harness.report.grid_table import grid_blocks
from harness.report.grouping import group
from harness.report.learnability import learnability
from harness.report.overview import overview_blocks
from harness.requests import build_suite
from harness.schema import PluginUse, Record
from harness.suites import Suite

GOOD, POOR = [(1.0, 0.1)] * 3, [(0.2, 2.0)] * 3


def both(model: str, task: str, at: float) -> list[Record]:
    """Learnt at one learning rate and not at the other."""
    return [*cell(at, GOOD, model, task=task), *cell(1e-2 if at < 1e-2 else 1e-3, POOR, model, task=task)]


def neither(model: str, task: str) -> list[Record]:
    return [*cell(1e-3, POOR, model, task=task), *cell(1e-2, POOR, model, task=task)]


def suite(*beside: str) -> Suite:
    return build_suite(
        beside or None, suite=Suite.model_validate({"experiments": [{"models": ["lstm", "gru"], "tasks": ["recall"]}]})
    )


def test_each_model_is_shown_at_its_best_and_what_is_special_comes_first() -> None:
    """Where the model beside works and most do not, or the other way round; nothing where it is as the others."""
    records = [
        *(r for task in ("recall", "adding") for m in ("lstm", "gru") for r in both(m, task, 1e-3)),
        *(r for m in ("lstm", "gru") for r in neither(m, "noise")),
        *both("elman", "recall", 1e-2),
        *neither("elman", "adding"),
        *both("elman", "noise", 1e-3),
    ]
    special, table, mark = overview_blocks(learnability(records, suite("elman")))
    assert isinstance(special, Items)
    assert sorted(special.items) == [
        "elman on adding does not work (0/3), where 2 of 2 other models do.",
        "elman on noise works, where none of 2 other models does.",
    ]
    assert isinstance(table, Table)
    columns = {column.header: list(column.cells) for column in table.columns}
    assert columns["model"] == [">elman", "lstm", "gru"]
    assert columns["recall"] == ["3/3\n1.00"] * 3
    assert columns["adding"] == ["0/3\n0.200", "3/3\n1.00", "3/3\n1.00"]
    assert isinstance(mark, Paragraph)


def test_what_a_model_with_warnings_does_better_is_not_praised() -> None:
    """One that sees the future works where no other does: the mark and the reason to look are there."""
    cheats = [r.model_copy(update={"warnings": ["it is not causal"]}) for r in both("elman", "noise", 1e-3)]
    records = [*cheats, *both("elman", "recall", 1e-3), *neither("lstm", "noise"), *both("lstm", "recall", 1e-3)]
    special, table, _ = overview_blocks(learnability(records, suite("elman")))
    assert isinstance(special, Items)
    assert special.items == ["elman ! on noise works, where none of 1 other model does; its warnings may say why."]
    assert isinstance(table, Table)
    assert table.columns[0].cells[0] == ">elman !"


def test_one_value_is_enough_for_an_overview() -> None:
    """So that models beside are marked; nothing is said of where they work."""
    records = [r for task in ("recall", "noise") for m in ("lstm", "elman") for r in cell(1e-3, GOOD, m, task=task)]
    found = learnability(records, suite("elman").model_copy(update={"grid": {"lr": [1e-3]}}))
    (table, mark) = overview_blocks(found)
    assert isinstance(table, Table)
    assert table.columns[0].cells == [">elman", "lstm"]
    assert isinstance(mark, Paragraph)
    assert grid_blocks(found) == []
    assert overview_blocks(learnability(records, suite("elman"))) == []


def test_of_too_few_seeds_nothing_is_special() -> None:
    """Neither of the model beside nor of those it is compared with."""
    records = [
        *(r for task in ("recall", "noise") for m in ("lstm", "gru") for r in neither(m, task)),
        *(r for task in ("recall", "noise") for r in both("elman", task, 1e-3)),
    ]
    few = [r for r in records if r.seed < 1]
    one = [r for r in records if r.seed < 1 or r.model.name == "elman"]
    assert isinstance(overview_blocks(learnability(records, suite("elman")))[0], Items)
    for given in (few, one):
        assert not [b for b in overview_blocks(learnability(given, suite("elman"))) if isinstance(b, Items)]


def test_without_a_second_task_there_is_nothing_to_see_at_once() -> None:
    """And without a model beside nothing is marked."""
    one = [r for model in ("lstm", "gru") for r in both(model, "recall", 1e-3)]
    assert overview_blocks(learnability(one, suite())) == []
    two = [*one, *both("lstm", "adding", 1e-3)]
    (table,) = overview_blocks(learnability(two, suite()))
    assert isinstance(table, Table)
    assert {column.header: list(column.cells) for column in table.columns}["adding"] == ["3/3\n1.00", "-"]


def test_models_stand_beside_those_of_a_suite_in_each_of_its_experiments() -> None:
    """First, so that what is wrong with them shows first; they stay told apart in the suite that is kept."""
    found = suite("elman", "gpt:layers=1")
    assert [str(request) for request in found.experiments[0].models] == ["elman", "gpt:layers=1", "lstm", "gru"]
    assert [str(request) for request in found.beside] == ["elman", "gpt:layers=1"]


def test_a_page_begins_with_it() -> None:
    """Before the answers of each model."""
    pytest.importorskip("altair")
    from harness.charts.view import View
    from harness.page import render_page

    records = [r for task in ("recall", "adding") for m in ("lstm", "elman") for r in both(m, task, 1e-3)]
    page = render_page(View(records, suite("elman")))
    assert 0 < page.index("Every model at its best") < page.index('id="cards"')
    assert "&gt;elman" in page


def test_the_command_of_a_page_has_the_grid_and_the_baselines() -> None:
    """And models beside a suite; what a baseline is crossed with is none of it."""
    pytest.importorskip("altair")
    from harness.page.command import command_of

    asked = build_suite("lstm", "recall", grid={"lr": [1e-3, 1e-2], "clip": [None]}, baselines=True)
    found = make_plan(asked, default_registry()).suite
    words = command_of(found).split()
    assert words[:4] == ["harness", "run", "-m", "lstm"]
    assert words.count("-m") == 1
    assert "--baselines" in words
    assert [words[i + 1] for i, word in enumerate(words) if word == "--grid"] == ["lr=0.001,0.01", "clip=none"]
    assert "-m gru" in command_of(build_suite("gru", suite="recall"))
    own = command_of(build_suite("gru", suite="battery-small", grid={"lr": [0.5]}, success=0.8, examples=64))
    assert "--grid lr=0.5 --success 0.8 --examples 64" in own
    assert "--baselines" in command_of(build_suite(suite="recall", baselines=True))


def test_a_card_is_of_the_cell_that_is_best_on_validation_data() -> None:
    """One row for each model on each task, whatever its score on test data is; so of what other probes found."""
    scored = [*cell(1e-3, [(0.3, 0.1)] * 3), *cell(1e-2, [(1.0, 0.5)] * 3)]
    records = [*scored, *(r.model_copy(update={"probe": PluginUse(**use("edge_cut"))}) for r in scored)]
    asked = suite().model_copy(update={"grid": {"lr": [1e-3, 1e-2]}})
    view = View(records, asked)
    assert {row.label for each in view.at_best for row in each.rows} == {"lstm (lr=0.001)"}
    assert [card.answers["learns"].number for card in cards(view.at_best)] == ["0.300"]
    assert {row.label for each in view.measured for row in each.rows} == {"lstm (lr=0.001)"}
    compared = View(records, suite())  # ways of training that a user asked for one by one are compared
    assert len(cards(compared.at_best)) == 2


def test_the_same_is_said_once_of_several_models() -> None:
    records = [record for model in ("lstm", "gru") for record in neither(model, "recall")] + both(
        "elman", "recall", 1e-3
    )
    (said,) = (block for block in grid_blocks(learnability(records, suite())) if isinstance(block, Items))
    assert [text.partition(":")[0] for text in said.items] == ["lstm, gru", "elman"]


def test_values_in_labels_stand_by_size() -> None:
    rows = [
        row for each in group([r for at in (1e-2, 3e-3, 1e-3, 1.5, 10) for r in cell(at, GOOD)]) for row in each.rows
    ]
    assert [row.records[0].training.lr for row in rows] == [1e-3, 3e-3, 1e-2, 1.5, 10]


def test_what_stood_beside_a_suite_before_is_none_of_its_models() -> None:
    """In a directory where two models were put beside a suite one after the other, both are marked, and what the first
    does is not held against the second."""
    records = [
        *(r for m in ("lstm", "gru") for r in neither(m, "recall")),
        *both("elman", "recall", 1e-3),
        *both("gpt", "recall", 1e-3),
        *neither("lstm", "adding"),
    ]
    special, table, _ = overview_blocks(learnability(records, suite("gpt")))
    assert isinstance(special, Items)
    assert "gpt on recall works, where none of 2 other models does." in special.items
    assert isinstance(table, Table)
    assert sorted(table.columns[0].cells[:2]) == [">elman", ">gpt"]


def test_a_model_that_works_in_another_cell_is_not_said_to_work_nowhere() -> None:
    """What is best on validation data may not be what works."""
    asked = suite("elman")
    others = [r for task in ("recall", "adding") for m in ("lstm", "gru") for r in both(m, task, 1e-3)]
    own = [*cell(1e-3, [(1.0, 0.5)] * 3, "elman"), *cell(1e-2, [(0.5, 0.1)] * 3, "elman")]
    assert not any(isinstance(block, Items) for block in overview_blocks(learnability([*others, *own], asked)))


def test_a_model_looks_the_same_in_whichever_cell_it_is_best() -> None:
    """And no other one looks so, however many cells there are."""
    records = [r for m in ("lstm", "gru", "elman") for r in [*both(m, "recall", 1e-3), *both(m, "adding", 1e-2)]]
    asked = suite("elman").model_copy(update={"grid": {"lr": [1e-3, 1e-2]}})
    known = View(records, asked).looks
    assert len(known) == 6
    assert known["lstm (lr=0.001)"] == known["lstm (lr=0.01)"]
    assert len({look["color"] for look in known.values()}) == 3


def test_what_diverged_or_broke_everywhere_is_no_gap() -> None:
    """It was tried: the one does not work, the other says nothing of the model."""

    def lost(model: str, error: str) -> list[Record]:
        fields: dict[str, Any] = {"failed": "words", "error": error, "model": model}
        return [record(**fields, training={"lr": lr}, seed=seed) for lr in (1e-3, 1e-2) for seed in range(3)]

    records = [r for task in ("recall", "adding") for m in ("lstm", "gru") for r in both(m, task, 1e-3)]
    asked = suite("elman", "gpt").model_copy(update={"grid": {"lr": [1e-3, 1e-2]}})
    records += [*lost("elman", "DivergedError"), *lost("gpt", "TypeError")]
    special, table, _ = overview_blocks(learnability(records, asked))
    assert isinstance(special, Items)
    assert special.items == ["elman on recall does not work (0/3), where 2 of 2 other models do."]
    assert isinstance(table, Table)
    shown = dict(zip(table.columns[0].cells, table.columns[1].cells, strict=True))
    assert (shown[">elman"], shown[">gpt"]) == ("0/3\n3 diverged", "broke")
