"""The top of a report, which answers before it shows what the answers are made of; and what its labels stand for."""

from collections.abc import Sequence

import pytest
from record_factory import curve, record

from harness.measurements import Scalar
from harness.report import render, rows
from harness.report.blocks import document
from harness.report.card_table import MOST_CARDS, card_blocks
from harness.report.cards import cards
from harness.report.elements import Heading, Items, Paragraph, Table
from harness.report.grouping import group
from harness.schema import Record


def learned(*scores: float, model: str = "lstm", task: str = "recall") -> list[Record]:
    """A record of `accuracy` for each score."""
    verdicts = ("learned" if score > 0.9 else "never learned" for score in scores)
    return [
        record(
            Scalar(name="worst_inside", unit="share", value=score, verdict=verdict, meaning="words"),
            model=model,
            task=task,
            seed=seed,
        )
        for seed, (score, verdict) in enumerate(zip(scores, verdicts, strict=True))
    ]


def tables(records: Sequence[Record]) -> list[Table]:
    """Those of the cards alone."""
    return [block for block in card_blocks(cards(group(records))) if isinstance(block, Table)]


def cells(table: Table) -> dict[str, list[str]]:
    """By header."""
    return {column.header: column.cells for column in table.columns}


def said(records: Sequence[Record], title: str) -> list[str]:
    """The list under a heading of a whole report."""
    blocks = document(records)
    at = next((i for i, block in enumerate(blocks) if isinstance(block, Heading) and block.text == title), None)
    if at is None:
        return []
    items = blocks[at + 1]
    assert isinstance(items, Items)
    return items.items


def test_a_report_answers_before_it_shows_any_number_else() -> None:
    """The first table is the card: a word, with the number under it."""
    first = next(block for block in document(learned(0.98, 0.99, 1.0)) if not isinstance(block, Heading))
    assert isinstance(first, Table)
    assert cells(first) == {"model": ["lstm"], "learns": ["yes\n0.990 [0.980..1.00]"]}


def test_what_is_undecided_is_marked_and_explained() -> None:
    """Seeds that disagree are no answer, nor are two of them."""
    (table,) = tables([*learned(0.98, 0.99, 0.1), *learned(0.98, 0.99, model="gpt")])
    words = dict(zip(cells(table)["model"], (cell.split("\n")[0] for cell in cells(table)["learns"]), strict=True))
    assert words == {"gpt": "? yes (2 seeds)", "lstm": "? yes 2/3, no 1/3"}
    assert "?: undecided" in render(learned(0.98, 0.99))
    assert "undecided" not in render(learned(0.98, 0.99, 1.0))


def test_what_nobody_measured_is_a_line_that_names_the_probe() -> None:
    """And what some models lack is an answer of theirs."""
    records = [*learned(0.98, 0.99, 1.0), *learned(1.0, 1.0, 1.0, model="gpt")]
    looks = [Scalar(name="sharpest_head", unit="share", value=0.9), Scalar(name="times_uniform", unit="", value=9.0)]
    records += [record(*looks, model="gpt", probe="attention_to_subject", seed=seed) for seed in range(3)]
    records += [record(model="elman", failed="it broke", seed=seed) for seed in range(3)]
    blocks = card_blocks(cards(group(records)))
    (table,) = (block for block in blocks if isinstance(block, Table))
    answers = cells(table)
    assert dict(zip(answers["model"], answers["looks"], strict=True)) == {
        "elman": "not measured",
        "gpt": "yes\n0.900",
        "lstm": "not measured",
    }
    assert answers["learns"][answers["model"].index("elman")] == "failed"
    (missing,) = (block.text for block in blocks if isinstance(block, Paragraph))
    assert "reaches (--probe grad_reach)" in missing
    assert "looks" not in missing


def test_a_table_for_each_task_with_what_was_asked_there() -> None:
    """No column is empty from top to bottom."""
    reach = [
        record(curve([1.0, 0.5], [1, 2], name="reach"), probe="grad_reach", task="noise", seed=s) for s in range(3)
    ]
    found = {table.title: [*cells(table)] for table in tables([*learned(1.0, 1.0, 1.0), *reach])}
    assert found == {"On noise": ["model", "reaches"], "On recall": ["model", "learns"]}


@pytest.mark.parametrize(("width", "ranges"), [(100, True), (40, False)])
def test_ranges_stand_where_they_fit(width: int, ranges: bool) -> None:
    """A narrow terminal has the numbers alone; the tables below have the ranges."""
    records = [*learned(0.98, 0.99, 1.0, model="a_name_of_some_length")]
    records += [
        record(curve([1.0, 0.5 + seed / 10], [1, 2], name="reach"), probe="grad_reach", seed=seed) for seed in range(3)
    ]
    card = render(records, width=width).partition("Settings")[0]
    assert "0.990" in card
    assert ("0.980..1.00" in card) == ranges


def test_many_cards_are_cut_off_and_counted() -> None:
    """The tables below have all."""
    records = [each for n in range(MOST_CARDS + 2) for each in learned(1.0, 1.0, 1.0, model=f"net:n={n}")]
    blocks = card_blocks(cards(group(records)))
    assert [len(block.columns[0].cells) for block in blocks if isinstance(block, Table)] == [MOST_CARDS]
    assert any("2 more rows" in block.text for block in blocks if isinstance(block, Paragraph))


def test_nothing_that_answers_a_question_is_no_card() -> None:
    """A probe of somebody's own has its table only."""
    own = [record(Scalar(name="height", unit="m", value=1.0), probe="tall", seed=seed) for seed in range(3)]
    assert card_blocks(cards(group(own))) == []


def test_short_labels_are_spelled_out_once() -> None:
    """And only they."""
    records = [*learned(1.0, 1.0, model="hf:path=/a/long/folder/tiny"), *learned(1.0, 1.0, model="lstm")]
    assert said(records, "Labels") == ["tiny = hf:path=/a/long/folder/tiny"]
    assert said(learned(1.0, 1.0), "Labels") == []
    assert {row["model"] for row in rows(records)} == {"hf:path=/a/long/folder/tiny", "lstm"}


def test_a_model_with_warnings_is_marked_where_the_answers_are() -> None:
    """As in all other tables: one that sees the future may answer everything."""
    warned = [r.model_copy(update={"warnings": ["it is not causal"]}) for r in learned(1.0, 1.0, 1.0, model="peek")]
    (table,) = tables([*learned(1.0, 1.0, 1.0), *warned])
    assert cells(table)["model"] == ["lstm", "peek !"]
