"""Claims about models whose seeds are no repetitions: pretrained ones, and those built from the same weights."""

import math
from typing import Any

import pytest
from record_factory import claim, curve, record, scores

from harness.claims import judge
from harness.measurements import Scalar
from harness.schema import Record
from harness.vocabulary import SEEDS_ALIKE

NAN = math.nan


def pretrained(*values: float, error: float | None = 0.01, **more: Any) -> list[Record]:
    """One record of a pretrained model for each value, on the same examples."""
    more = {"model": "hf", "pretrained": True, "training": {"steps": 0}, "data": "d", **more}
    return [
        record(Scalar(name="score", unit="share", value=v, standard_error=error), seed=seed, **more)
        for seed, v in enumerate(values)
    ]


CLEAR = "measured once, and clear by more than two standard errors"


@pytest.mark.parametrize(
    ("value", "fields", "verdict", "explanation"),
    [
        (0.95, {}, "holds", CLEAR),
        (0.85, {}, "does not hold", CLEAR),
        (0.91, {}, "undecided", "within two standard errors"),
        (0.89, {}, "undecided", "within two standard errors"),
        (0.95, {"error": None}, "undecided", "measured once, and the standard error of this number is not known"),
        (0.94, {"margin": 0.03}, "undecided", "within two standard errors"),
        (0.96, {"margin": 0.03}, "holds", CLEAR),
        (
            0.901,
            {"margin": 0.1},
            "undecided",
            "within the margin of 0.1; a difference of that size, either way, would decide",
        ),
        (NAN, {}, "undecided", "measured once, and there is no number (NaN)"),
        (0.95, {"seeds": "median"}, "holds", CLEAR),
        (0.95, {"seeds": 0.6}, "holds", CLEAR),
        (0.95, {"quantile": 0.1}, "holds", CLEAR),
        (0.91, {"within": 0.05}, "holds", CLEAR),
        (0.86, {"within": 0.05}, "undecided", "within two standard errors"),
        (0.82, {"within": 0.05}, "does not hold", CLEAR),
        (0.9, {"within": 0.01}, "undecided", "within two standard errors"),
        (0.9, {"within": "3 %"}, "holds", CLEAR),
        (0.9, {"within": "2 %"}, "undecided", "within two standard errors"),
    ],
)
def test_a_pretrained_model_that_was_measured_once_decides(
    value: float, fields: dict[str, Any], verdict: str, explanation: str
) -> None:
    """There are no seeds to wait for: its weights and examples are given, and its standard error is the margin."""
    error = fields.pop("error", 0.01)
    found = judge(claim(**fields), pretrained(value, error=error), seeds=range(3))
    assert (found.verdict, found.explanation) == (verdict, explanation)


def test_the_same_examples_three_times_are_one_measurement() -> None:
    """Equal data, equal weights; with other examples each time the seeds are counted as before."""
    assert judge(claim(), pretrained(0.91, 0.91, 0.91)).explanation == "within two standard errors"
    others = [each.model_copy(update={"data": str(i)}) for i, each in enumerate(pretrained(0.91, 0.91, 0.91))]
    assert judge(claim(), others).explanation == "supported by all 3 seeds"
    assert judge(claim(), others[:2]).explanation == "only 2 seeds were measured; run 3 or more"


def test_a_pretrained_model_stands_beside_every_seed_of_a_trained_one() -> None:
    """Whichever of the two the claim speaks of, with its standard error on each difference."""
    trained = scores(0.5, 0.6, 0.7, model="lstm")
    above = claim(model="hf", than={"model": "lstm"})
    assert judge(above, trained + pretrained(0.9)).numbers == {0: (0.9, 0.5), 1: (0.9, 0.6), 2: (0.9, 0.7)}
    assert judge(above, trained + pretrained(0.9)).verdict == "holds"
    assert (
        judge(claim(model="lstm", comparison="<", than={"model": "hf"}), trained + pretrained(0.9)).verdict == "holds"
    )
    near = judge(above, trained + pretrained(0.71))
    assert (near.verdict, near.explanation) == ("undecided", "seed 2: within two standard errors")
    median = judge(claim(model="hf", than={"model": "lstm"}, seeds="median"), trained + pretrained(0.61))
    assert (median.verdict, median.explanation) == ("undecided", "the median is within two standard errors")
    unknown = judge(above, trained + pretrained(0.9, error=None))
    assert unknown.explanation == "measured once, and the standard error of this number is not known"


def test_two_pretrained_models_are_compared_by_both_errors() -> None:
    """2 x hypot(0.03, 0.04) = 0.1."""
    for value, verdict in ((0.59, "undecided"), (0.61, "holds")):
        records = pretrained(value, error=0.03) + pretrained(0.5, error=0.04, model="other")
        assert judge(claim(model="hf", than={"model": "other"}), records).verdict == verdict


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"at": 10}, 0.02),
        ({"reduce": "min"}, 0.05),
        ({"reduce": "max"}, 0.01),
        ({"at": [1, 10], "reduce": "mean"}, math.hypot(0.01, 0.02) / 2),
        ({"reduce": "range"}, math.hypot(0.01, 0.05)),
        ({"at": 10, "relative_to": 1}, 0.8 * math.hypot(0.02 / 0.8, 0.01)),
        ({"at": 1, "relative_to": 1}, 0.0),
    ],
)
def test_the_standard_error_of_a_selected_number(fields: dict[str, Any], error: float) -> None:
    """Of a place, of the place that is smallest, of a mean, of a difference, of a ratio to first order."""
    along = curve([1.0, 0.8, 0.5, 0.4, 0.1], standard_errors=[0.01, 0.02, 0.03, 0.04, 0.05])
    found = judge(claim(metric="accuracy", **fields), [record(along, pretrained=True)])
    assert found.errors == {0: pytest.approx(error)}
    assert judge(claim(metric="accuracy", **fields), [record(along)]).errors == {}


def test_a_wrong_name_is_told_of_what_was_measured_once_too() -> None:
    """Without a seed, for there are none."""
    found = judge(claim(metric="scoer"), pretrained(0.95))
    assert (found.verdict, found.explanation.partition("?")[0]) == (
        "invalid claim",
        "no measurement 'scoer'. Did you mean 'score'",
    )


def test_seeds_that_share_their_weights_count_as_one() -> None:
    """They cannot support a claim about seeds; one counterexample still refutes it."""
    alike = {"warnings": [f"its {SEEDS_ALIKE}"]}
    found = judge(claim(), scores(0.95, 0.96, 0.97, **alike))
    assert (found.verdict, found.explanation) == (
        "undecided",
        "the weights do not depend on the seed, so that 3 seeds count as one",
    )
    assert judge(claim(), scores(0.95, 0.96, 0.97, warnings=["another"])).verdict == "holds"
    assert judge(claim(), scores(0.95, 0.5, 0.97, **alike)).verdict == "does not hold"
