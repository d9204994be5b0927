"""Every format of a report: what would break it is escaped, and programs get all numbers."""

import csv
import io
import json
import math
from typing import Any

import pytest
from grid_records import GOOD, edited
from pydantic import TypeAdapter
from record_factory import INSIDE, cell, curve, record
from reports import claims, factor, lines, matrix

from harness.errors import RequestError
from harness.measurements import Scalar
from harness.report import can_draw, render, rows
from harness.report.export import COLUMNS
from harness.schema import Record
from harness.vocabulary import FORMATS, Drawn


def test_blocks_are_drawn_only_where_they_can_be() -> None:
    """Latin terminals, and those that do not say, get ASCII."""
    assert [can_draw(encoding) for encoding in ("utf-8", "latin-1", "ascii", None, "no-such")] == [
        True,
        False,
        False,
        False,
        False,
    ]
    text = render([record(curve([1, 0.5, 0.2, 0.1, 0]), seed=s) for s in range(3)], ascii=True)
    assert text.isascii()
    assert "#" in text


def test_markdown_escapes_what_would_break_it() -> None:
    """A pipe in a claim does not end its cell, and every table row has as many cells as its header."""
    text = render(*claims(), "markdown")
    assert r"It \| works" in text
    table = [line.replace(r"\|", "") for line in text.split("\n") if line.startswith("|") and "works" in line]
    assert {line.count("|") for line in table} == {7}
    assert r"100\*" in render([record(curve([1] * 5, inside=INSIDE))], format="markdown")


@pytest.mark.parametrize("format", ["markdown", "latex"])
def test_an_answer_and_its_number_are_told_apart_in_one_line(format: Drawn) -> None:
    """Tables whose cells have one line do not run them into one another; what ends with a comma goes on."""
    worst = [
        record(Scalar(name="worst_inside", unit="share", value=0.5, verdict=word, headline=True), seed=seed)
        for seed, word in enumerate(("learned", "learned", "trained too briefly"))
    ]
    text = render(worst, format=format)
    assert "yes 2/3, trained too briefly 1/3; 0.500" in text
    assert "learned 2/3, trained too briefly 1/3 " in text


def test_latex_escapes_what_would_break_it() -> None:
    """Underscores, per cent and braces in titles, cells and notes; no block characters."""
    records = [
        record(factor(0.5), curve([1] * 5, name="a_b"), model="my_net", task="50%_{x}"),
        record(model="odd", skipped="100% & more"),
    ]
    text = render(records, format="latex")
    assert r"my\_net" in text
    assert r"\subsection*{accuracy on 50\%\_\{x\}, after training}" in text
    assert r"100\% \& more" in text
    assert r"\toprule" in text
    assert "█" not in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 3
    given = record(
        factor(0.5).model_copy(update={"standard_error": 0.1}), pretrained=True, skipped=None, notes=["a → b"]
    )
    text = render([given], format="latex", sections=[("More", "± --seeds")])
    assert r"0.500 \ensuremath{\pm} 0.100" in text
    assert r"a \ensuremath{\to} b" in text
    assert "± --seeds" in text
    assert r"-{}-seeds" in render([record(factor(1.0))], format="latex")


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_sections_of_plugins_come_last(form: Any) -> None:
    """Their text is left as it is."""
    text = render([record(factor(1.0))], format=form, sections=[("Acme tracker", "run  7: ``ok``")])
    assert text.index("Acme tracker") < text.index("run  7: ``ok``")
    assert text.index("How to read this") < text.index("Acme tracker")


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_to_report(form: Any) -> None:
    """No records is no crash."""
    text = render([], format=form)
    assert text
    if form == "text":
        assert "nothing has been measured yet" in text


def test_an_unknown_format_is_an_error_with_a_hint() -> None:
    """It names the formats there are."""
    with pytest.raises(RequestError, match=r"choose from text, markdown.* Did you mean 'markdown'"):
        render([], format="markdwn")


def test_csv_has_a_row_for_each_number() -> None:
    """Scalars, every place of a curve, every cell of a matrix; full precision; reasons where there is no number."""
    cell = matrix([[0.1, 0.2]], ["1.1"], ["subject", "start"])
    records = [
        record(factor(1 / 3, "flat, falling"), curve([1, math.nan, 0.5, math.inf, 0], inside=INSIDE), cell),
        record(seed=1, skipped="no attention, no gates"),
    ]
    table = list(csv.DictReader(io.StringIO(render(records, format="csv"))))
    assert len(table) == 1 + 5 + 2 + 1
    assert float(table[0]["value"]) == 1 / 3
    assert (table[0]["verdict"], table[0]["parameters"]) == ("flat, falling", "26834")
    assert [row["x"] for row in table[1:6]] == ["1.0", "10.0", "20.0", "50.0", "100.0"]
    assert [row["value"] for row in table[1:6]] == ["1.0", "nan", "0.5", "inf", "0.0"]
    assert (table[5]["inside"], table[1]["inside"]) == ("False", "True")
    assert [(row["row"], row["column"], row["value"]) for row in table[6:8]] == [
        ("1.1", "subject", "0.1"),
        ("1.1", "start", "0.2"),
    ]
    assert (table[8]["status"], table[8]["message"], table[8]["value"]) == ("skipped", "no attention, no gates", "")


def test_rows_leave_out_what_is_superseded() -> None:
    """The long format never mixes old and new numbers of a seed."""
    found = rows([record(factor(0.1)), record(factor(0.9), minutes=1)])
    assert [row["value"] for row in found] == [0.9]
    assert tuple(found[0]) == COLUMNS


def test_rows_tell_what_older_code_gave() -> None:
    """One learning rate was run before the model was edited, the other one after it; in the words of CSV, too."""
    found = rows([*cell(1e-3, [GOOD]), *edited(cell(1e-2, [GOOD]))])
    told = {(row["model"], row["training.lr"]): row["older_code"] for row in found}
    assert told == {("lstm", 1e-3): True, ("lstm", 1e-2): False}
    table = list(csv.DictReader(io.StringIO(render(cell(1e-3, [GOOD]), format="csv"))))
    assert {row["older_code"] for row in table} == {"False"}


def test_json_gives_the_records_back() -> None:
    """All of them, older ones too, with NaN and infinity, and readable by any JSON parser."""
    records = [record(factor(math.nan), curve([1, math.nan, math.inf, 0, 0]), minutes=m) for m in range(2)]
    text = render(records, format="json")
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    back = TypeAdapter(list[Record]).validate_json(text)
    assert [r.model_dump_json() for r in back] == [r.model_dump_json() for r in records]


@pytest.mark.parametrize("seeds", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_thousands_of_records(seeds: int) -> None:
    """Every format copes."""
    many = [
        first.model_copy(update={"seed": seed})
        for width in range(1, 11)
        for first in [record(factor(0.5, "learned"), curve([1, 0.9, 0.8, 0.7, 0.6]), model=f"net:width={width}")]
        for seed in range(seeds)
    ]
    assert render(many, format="json").count("\n") == 10 * seeds + 2
    assert lines(render(many), "net:width=10", str(seeds))
    assert render(many, format="csv").count("\n") == 60 * seeds + 1
