"""The number that a claim speaks of: which measurement, at which place; and what is said where there is none."""

import math
from typing import Any

import pytest
from record_factory import claim, curve, record, scores

from harness.claims import judge
from harness.measurements import Matrix, Scalar


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"at": 10}, 0.8),
        ({"at": [1, 100], "reduce": "mean"}, 0.5),
        ({"at": "inside", "reduce": "min"}, 0.5),
        ({"at": "beyond", "reduce": "max"}, 0.4),
        ({"reduce": "range"}, 0.8),
        ({"at": 100, "relative_to": 10}, 0.125),
        ({"relative_to": 1, "reduce": "min"}, 0.1 / 0.9),
    ],
)
def test_reading_a_curve(fields: dict[str, Any], number: float) -> None:
    """At a place, at several, inside or beyond the trained range, relative to a place, reduced to one number."""
    flags = [True, True, True, False, False]
    record_ = record(curve([0.9, 0.8, 0.5, 0.4, 0.1], inside=flags))
    verdict = judge(claim(metric="accuracy", **fields), [record_])
    assert verdict.numbers[0][0] == pytest.approx(number)


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"row": "1.1", "at": "subject"}, 0.7),
        ({"at": "subject", "reduce": "max"}, 0.9),
        ({"row": "1.2", "reduce": "mean"}, 0.5),
    ],
)
def test_reading_a_matrix(fields: dict[str, Any], number: float) -> None:
    """A cell, a column or a row."""
    matrix = Matrix(
        name="share",
        unit="share",
        values=[[0.7, 0.3], [0.9, 0.1]],
        rows=["1.1", "1.2"],
        columns=["subject", "start"],
        row_label="head",
        column_label="role",
    )
    verdict = judge(claim(metric="share", **fields), [record(matrix)])
    assert verdict.numbers[0][0] == pytest.approx(number)


@pytest.mark.parametrize(
    ("fields", "explanation"),
    [
        ({"metric": "scoer"}, "no measurement 'scoer'. Did you mean 'score'? There are: accuracy, score"),
        ({"metric": "accuracy"}, "accuracy has 5 numbers here; give `at` or `reduce`"),
        ({"metric": "accuracy", "at": 7}, "7 is not among the x of accuracy: 1, 10, 20, 50, 100."),
        (
            {"metric": "accuracy", "at": "insied"},
            "insied is not among the x of accuracy: 1, 10, 20, 50, 100. Did you mean 'inside'?",
        ),
        ({"metric": "accuracy", "at": "beyond", "reduce": "min"}, "accuracy has nothing at beyond"),
        ({"metric": "accuracy", "row": "1"}, "accuracy is a curve; `row` has no meaning here"),
        ({"metric": "score", "at": 7}, "score is a single number; `at` has no meaning here"),
    ],
)
def test_a_selection_that_leads_nowhere_is_explained(fields: dict[str, Any], explanation: str) -> None:
    """The claim is wrong, which is not the same as undecided, and says what to change; missing seeds are no excuse."""
    measured = record(curve([1.0] * 5, inside=[True] * 5), Scalar(name="score", unit="", value=1.0))
    verdict = judge(claim(**fields), [measured], seeds=range(3))
    assert (verdict.verdict, verdict.explanation) == ("invalid claim", f"seed 0: {explanation}")


def test_what_it_is_compared_with_may_lead_nowhere_too() -> None:
    """A mistyped name in `than` is told as one in the claim."""
    verdict = judge(claim(than={"metric": "scoer"}), scores(1.0, 1.0, 1.0))
    assert verdict.verdict == "invalid claim"
    assert verdict.explanation == "seeds 0-2: no measurement 'scoer'. Did you mean 'score'? There are: score"


def test_a_measurement_that_some_seeds_lack_leaves_the_claim_undecided() -> None:
    """The name is right, since one seed has it; the others are gaps like a failed seed."""
    other = Scalar(name="other", unit="", value=1.0)
    verdict = judge(claim(), [*scores(1.0), record(other, seed=1), record(other, seed=2)])
    assert verdict.verdict == "undecided"
    assert verdict.explanation.startswith("seeds 1, 2: no measurement 'score'")


def test_many_places_are_not_all_listed() -> None:
    """A matrix of a large model has hundreds of rows; the explanation still fits a few lines."""
    heads = [f"layer {layer} head {head}" for layer in range(24) for head in range(16)]
    matrix = Matrix(
        name="share",
        unit="share",
        values=[[1.0]] * len(heads),
        rows=heads,
        columns=["subject"],
        row_label="head",
        column_label="role",
    )
    explanation = judge(claim(metric="share", row="layer 3 haed 7"), [record(matrix)]).explanation
    assert explanation.endswith("... Did you mean 'layer 3 head 7'?")
    assert len(explanation) < 300


def test_the_other_selection_can_unset_a_field() -> None:
    """A curve at a place against a single number, which is at none."""
    records = [
        record(curve([0.9, 0.8, 0.7, 0.6, 0.5]), Scalar(name="score", unit="", value=0.75), seed=seed)
        for seed in range(3)
    ]
    verdict = judge(claim(metric="accuracy", at=10, than={"metric": "score", "at": "none"}), records)
    assert (verdict.verdict, verdict.numbers[0]) == ("holds", (0.8, 0.75))


def test_nan_at_one_place_is_nan() -> None:
    """The smallest of 1 and NaN is not 1."""
    records = [record(curve([1.0, math.nan, 1.0, 1.0, 1.0]), seed=seed) for seed in range(3)]
    verdict = judge(claim(metric="accuracy", reduce="min"), records)
    assert (verdict.verdict, verdict.explanation) == ("undecided", "NaN at seeds 0-2")


def test_stage_and_probe_are_selected() -> None:
    """What was measured at initialisation, or by another probe, is another number."""
    records = scores(1.0, 1.0, 1.0) + scores(0.1, 0.1, 0.1, stage="initial") + scores(0.2, 0.2, 0.2, probe="leak")
    assert judge(claim(), records).verdict == "holds"
    assert judge(claim(stage="initial", comparison="<"), records).numbers[0][0] == 0.1
    assert judge(claim(probe="leak"), records).numbers[0][0] == 0.2
