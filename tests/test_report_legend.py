"""What a report says about its own words and signs: all that occur in it, and no others."""

import csv
import io
import math
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from record_factory import curve, record

from harness.measurements import Scalar
from harness.report import render, rows
from harness.report.blocks import document
from harness.report.elements import Heading, Items, Table
from harness.schema import Record
from harness.statistics import MEANINGS, NEAR, NOT_ENOUGH, Diagnosis
from harness.vocabulary import SEEDS_ALIKE

NAN = math.nan
ALIKE = f"its {SEEDS_ALIKE}: all seeds start alike"


def score(value: float = 0.5, verdict: str | None = None, **more: Any) -> Scalar:
    """A headline number."""
    return Scalar(name="score", unit="", value=value, verdict=verdict, headline=True, **more)


def items(records: Sequence[Record], title: str = "How to read this") -> list[str]:
    """What stands under a heading; nothing if there is no such heading."""
    blocks = document(records)
    places = [i for i, block in enumerate(blocks) if isinstance(block, Heading) and block.text == title]
    if not places:
        return []
    found = blocks[places[0] + 1]
    assert isinstance(found, Items)
    return found.items


def tables(records: Sequence[Record]) -> list[dict[str, list[str]]]:
    """Cells by header."""
    found = (block for block in document(records) if isinstance(block, Table))
    return [{column.header: column.cells for column in table.columns} for table in found]


def seeds(*measurements: Scalar, **more: Any) -> list[Record]:
    """One record for each."""
    return [record(each, seed=seed, **more) for seed, each in enumerate(measurements)]


def test_the_words_that_occur_are_explained_as_their_probe_does() -> None:
    """Each once, words of one meaning together, one word of two meanings by probe; what has no meaning is left out."""
    records = [
        record(score(verdict="learned", meaning="good everywhere"), probe="accuracy", seed=0),
        record(score(verdict="learned", meaning="good everywhere"), probe="accuracy", seed=1),
        record(score(verdict="cut off at 20", meaning="not seen beyond"), probe="grad_reach", seed=0),
        record(score(verdict="cut off at 50", meaning="not seen beyond"), probe="grad_reach", seed=1),
        record(score(verdict="learned", meaning="good on average"), probe="other"),
        record(score(verdict="layer 1 head 2"), probe="heads"),
    ]
    found = items(records)
    assert [each for each in found if "good" in each or "seen" in each] == [
        "learned (accuracy): good everywhere.",
        "cut off at 20, cut off at 50: not seen beyond.",
        "learned (other): good on average.",
    ]
    assert not any("layer" in each for each in found)
    assert not any("good on average" in each for each in items(records[:4]))


def test_a_word_that_no_table_shows_is_not_explained() -> None:
    """A number that is not a headline stands in no table."""
    hidden = Scalar(name="hidden", unit="", value=1.0, verdict="odd", meaning="strange")
    assert not any("strange" in each for each in items([record(score(), hidden)]))


def test_diagnoses_have_a_meaning() -> None:
    """Every word that `diagnose` may say, and those that any probe may."""
    assert set(MEANINGS) == {*get_args(Diagnosis), NEAR, NOT_ENOUGH, "has not learned"}


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([record(score(NAN))], "NaN:"),
        ([record(score(math.inf))], "inf:"),
        ([record(score()), record(curve([1.0] * 5), model="gpt")], "Blank: not measured"),
        ([record(curve([0.5] * 5, standard_errors=[0.1] * 5), pretrained=True)], "fixed: not repeated"),
        ([record(score(about="all of it"))], "score: all of it"),
        (seeds(score(0.1), score(0.2), score(0.3)), "the lowest and the highest where they differ"),
        (seeds(score(0.1), score(0.1), score(0.1)), "A number is the median over seeds."),
        (seeds(score(verdict="a"), score(verdict="a"), score(verdict="b")), "n/m after a verdict: n of m seeds"),
        ([record(score(), warnings=["it sees the future"])], "! behind a model"),
        ([record(score(0.5, standard_error=0.1), pretrained=True)], "±: one standard error"),
    ],
)
def test_signs_are_explained_where_they_occur(records: list[Record], said: str) -> None:
    """And in no report without them."""
    assert any(said.rstrip(".") in each for each in items(records))
    if "median" not in said:
        assert not any(said in each for each in items([record(score(0.25, verdict="fine"))]))


def test_a_plain_report_explains_nothing_but_where_to_read_more() -> None:
    """One seed, one number."""
    assert items([record(score())]) == ["What a probe measures, and how: harness show probe accuracy."]
    assert items([record(failed="broken")]) == []


@pytest.mark.parametrize(
    ("more", "covered"),
    [
        ({}, True),
        ({"stage": "initial"}, True),
        ({"warnings": [ALIKE]}, False),
        ({"warnings": ["it sees the future"]}, True),
        ({"pretrained": True}, False),
    ],
)
def test_what_a_range_is_worth_is_said_of_independent_seeds_alone(more: dict[str, Any], covered: bool) -> None:
    """Seeds that share their weights are no sample of all possible seeds."""
    records = seeds(score(0.1), score(0.2), score(0.3), **more)
    assert any("3 of 4 cases" in each for each in items(records)) == covered
    assert tables(records)[0]["score"] == ["0.200 [0.100..0.300]"]


GIVEN: dict[str, Any] = {"pretrained": True, "model": "hf", "training": {"steps": 0}}


def test_what_was_measured_once_has_a_standard_error() -> None:
    """A pretrained model on given examples: no column of seeds, no median, no range."""
    errors = [0.01, 0.02, 0.03, 0.04, NAN]
    given = record(score(0.9, standard_error=0.0125), curve([0.9] * 5, standard_errors=errors), **GIVEN)
    summary, along = tables([given])
    assert (summary["score"], "seeds" in summary) == (["0.900 ± 0.0125"], False)
    assert along["seeds"] == ["fixed", "±"]
    assert along["1"] == ["0.900", "0.0100"]
    assert along["100"] == ["0.900", ""]
    assert not any("median" in each for each in items([given]))
    unknown = record(score(0.9), **GIVEN)
    assert tables([unknown])[0]["score"] == ["0.900"]


def test_the_same_examples_again_are_no_seeds() -> None:
    """Records of three seeds with the same weights and data are one measurement; with other data they are three."""
    same = seeds(*[score(0.9, standard_error=0.01)] * 3, data="d", **GIVEN)
    assert tables(same)[0]["score"] == ["0.900 ± 0.0100"]
    other = [
        record(score(value, standard_error=0.01), seed=seed, data=str(seed), **GIVEN)
        for seed, value in enumerate((0.8, 0.9, 0.95))
    ]
    assert tables(other)[0]["score"] == ["0.900 [0.800..0.950]"]
    assert any("only draw other examples" in each for each in items(other))


def test_errors_over_examples_are_never_mixed_up_with_seeds() -> None:
    """Trained seeds show their range, also where each has a standard error, and so does one seed alone."""
    trained = seeds(*(score(value, standard_error=0.3) for value in (0.1, 0.2, 0.3)))
    given = record(score(0.9, standard_error=0.0125), **GIVEN)
    assert tables([*trained, given])[0]["score"] == ["0.900 ± 0.0125", "0.200 [0.100..0.300]"]
    assert tables([*trained, given])[0]["seeds"] == ["fixed", "3"]
    assert tables(trained[:1])[0]["score"] == ["0.100"]


def test_terminals_without_the_sign_get_another_one() -> None:
    """The sign in cells and its explanation."""
    given = record(score(0.9, standard_error=0.01), curve([0.9] * 5, standard_errors=[0.01] * 5), **GIVEN)
    text = render([given], ascii=True)
    assert text.isascii()
    assert "0.900 +- 0.0100" in text


def test_standard_errors_in_rows() -> None:
    """Of numbers and of every place of a curve."""
    errors = [0.1, 0.2, 0.3, 0.4, 0.5]
    found = rows([record(score(standard_error=0.25), score(0.1).model_copy(update={"name": "plain"})), record(seed=1)])
    assert [row["standard_error"] for row in found] == [0.25, None, None]
    assert [r["standard_error"] for r in rows([record(curve([1] * 5, standard_errors=errors))])] == errors


def test_a_warning_stands_before_all_numbers_and_marks_the_model() -> None:
    """In every table: with the seeds that it concerns, if these are not all; once, however many probes looked."""
    future = "it sees the future"
    records = [
        record(score(), curve([0.5] * 5), model=model, seed=seed, probe=probe, warnings=said)
        for model, said in (("gpt", [future]), ("lstm", []))
        for seed in range(2)
        for probe in ("accuracy", "leak")
    ]
    records.append(record(score(), model="lstm", seed=2, warnings=["it keeps state"]))
    assert items(records, "Warnings") == [f"gpt on recall: {future}", "lstm on recall, seed 2: it keeps state"]
    text = render(records)
    assert text.index(future) < text.index("accuracy on recall")
    for table in tables(records):
        assert "gpt !" in table["model"]
    assert items(records[4:8], "Warnings") == []
    assert "!" not in render(records[4:8])


def test_what_is_said_more_than_once_is_said_together() -> None:
    """Of all models on a task at once; several things about one model under its name, without repeating it."""
    told = {"lstm": ["few data", "no marks"], "gpt": ["few data"]}
    records = [record(score(), model=model, seed=seed, notes=said) for model, said in told.items() for seed in range(2)]
    assert items(records, "Notes") == ["all models on recall: few data", "lstm on recall: no marks"]
    text = render([record(score(), notes=["one", "two"])])
    assert text.count("lstm on recall") == 1 + text.count("One seed only of")
    assert "lstm on recall:\n\n  - one\n  - two\n" in text


def test_warnings_in_csv() -> None:
    """All of a record's, in every row of it."""
    text = render([record(score(), warnings=["one", "two"]), record(score(), seed=1)], format="csv")
    assert [row["warnings"] for row in csv.DictReader(io.StringIO(text))] == ["one; two", ""]


def test_a_name_of_two_explanations_says_where_each_holds() -> None:
    """A number at the farthest place is at another one on another task; what is explained once needs no more words."""

    def two(task: str, farthest: int) -> Record:
        at = score().model_copy(update={"name": "last", "about": f"at {farthest}"})
        return record(at, score().model_copy(update={"about": "in all"}), task=task)

    found = items([two("recall", 20), two("copy", 8)])
    assert "last (accuracy on recall): at 20." in found
    assert "last (accuracy on copy): at 8." in found
    assert "score: in all." in found
