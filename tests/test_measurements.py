"""Kinds of measurement: reports draw all of them, and claims find every number where the CSV has it."""

import pytest
from record_factory import curve, record

from harness.measurements import MEASUREMENTS, Matrix, Measurement, Pattern, Scalar
from harness.report import render, rows
from harness.selection import select_number
from harness.suites import Selection

ONE_OF_EACH = [
    Scalar(name="drop", unit="share", value=0.125),
    curve([0.5, 0.75, 1.0], x=[1, 2, 4], name="by_distance"),
    curve([0.25, 0.875], x=["near", "far"], name="by_name"),
    Matrix(
        name="map",
        unit="share",
        values=[[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]],
        rows=["layer 0", "layer 1"],
        columns=["cue", "query", "rest"],
        row_label="layer",
        column_label="place",
    ),
    Pattern(
        name="example",
        tokens=["K1", "d3", "?"],
        heads=["layer 1 head 1", "layer 1 head 2"],
        weights=[[[1.0], [0.25, 0.75], [0.5, 0.25, 0.25]], [[1.0], [1.0], [0.75, 0.0, 0.25]]],
        cue=0,
        query=2,
    ),
]


def test_there_is_an_example_of_every_kind() -> None:
    """Of a new one too, so that the tests below are about it."""
    assert {type(each) for each in ONE_OF_EACH} == {*MEASUREMENTS}


@pytest.mark.parametrize("measurement", ONE_OF_EACH, ids=lambda each: each.name)
def test_a_claim_finds_every_number_where_the_csv_has_it(measurement: Measurement) -> None:
    """By the place on a curve, and by row and column of a matrix."""
    made = record(measurement)
    found = rows([made])
    for row in found:
        at = row["x"] if row["column"] is None else row["column"]
        selection = Selection.model_validate(
            {"probe": "accuracy", "metric": row["measurement"], "at": at, "row": row["row"]}
        )
        assert select_number(selection, made).value == row["value"]
    assert len({(row["x"], row["row"], row["column"]) for row in found}) == len(found)


@pytest.mark.parametrize("measurement", ONE_OF_EACH, ids=lambda each: each.name)
def test_a_report_shows_every_kind(measurement: Measurement) -> None:
    """Its name and all of its numbers stand in a table."""
    text = render([record(measurement)], format="markdown")
    assert measurement.name in text.replace("\\", "")
    for row in rows([record(measurement)]):
        assert f"{row['value']:#.3g}" in text
