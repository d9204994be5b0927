"""Claims against records: every way to a verdict."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from record_factory import claim, record, scores

from harness.claims import judge
from harness.seeds import name_seeds

NAN = math.nan


@pytest.mark.parametrize(
    ("values", "fields", "expected"),
    [
        ((0.95, 0.99, 1.0), {}, "holds"),
        ((0.95, 0.89, 1.0), {}, "does not hold"),
        ((0.9, 1.0, 1.0), {}, "does not hold"),
        ((0.9, 1.0, 1.0), {"comparison": ">="}, "holds"),
        ((0.1, 0.2, 0.3), {"comparison": "<"}, "holds"),
        ((0.9, 0.2, 0.3), {"comparison": "<="}, "holds"),
        ((0.95, 0.91, 1.0), {"margin": 0.02}, "undecided"),
        ((0.95, 0.91, 0.5), {"margin": 0.02}, "does not hold"),
        ((0.95, NAN, 1.0), {}, "undecided"),
        ((0.5, NAN, 1.0), {}, "does not hold"),
        ((0.5, 0.6, 0.95), {"seeds": "some"}, "holds"),
        ((0.5, 0.6, 0.7), {"seeds": "some"}, "does not hold"),
        ((0.5, 0.6, 0.91), {"seeds": "some", "margin": 0.02}, "undecided"),
        ((0.5, 0.6, NAN), {"seeds": "some"}, "undecided"),
        ((0.5, 0.6, 0.95), {"seeds": "best"}, "holds"),
        ((0.5, 0.6, 0.95), {"seeds": "worst"}, "does not hold"),
        ((0.1, 0.2, 0.95), {"seeds": "best", "comparison": "<", "value": 0.15}, "holds"),
        ((0.92, 0.93, 0.95), {"seeds": "worst"}, "holds"),
        ((0.1, 0.95, 0.99), {"seeds": "median"}, "holds"),
        ((0.1, 0.5, 0.99), {"seeds": "median"}, "does not hold"),
        ((0.1, 0.91, 0.99), {"seeds": "median", "margin": 0.02}, "undecided"),
        ((NAN, 0.95, 0.99), {"seeds": "median"}, "undecided"),
        ((math.inf, 5.0, 7.0), {"value": 4}, "holds"),
        ((0.95, 0.89, 0.9), {"within": 0.06}, "holds"),
        ((0.95, 0.89, 0.8), {"within": 0.06}, "does not hold"),
        ((1.0, 0.9, 0.85), {"within": 0.05, "value": 0.95}, "does not hold"),
        ((1.0, 0.9, 0.95), {"within": 0.05, "value": 0.95}, "holds"),  # 1 - 0.95 is a little more than 0.05
        ((1.2, 0.0, 0.9), {"within": 0.05, "seeds": "median"}, "holds"),
        ((0.95, NAN, 0.9), {"within": 0.06}, "undecided"),
        ((0.0, 0.0, -0.0), {"within": 0, "value": 0}, "holds"),
        ((0.0, 1e-300, 0.0), {"within": 0, "value": 0}, "does not hold"),
        ((math.inf,) * 3, {"within": 1, "value": math.inf}, "holds"),
        ((math.inf, 5.0, 7.0), {"within": 1, "value": math.inf}, "does not hold"),
        ((0.99, 0.81, 0.9), {"within": "10 %"}, "holds"),
        ((0.99, 0.8, 0.9), {"within": "10 %"}, "does not hold"),
        ((-110.0, -90.0, -100.0), {"within": "10%", "value": -100}, "holds"),
        ((0.95, 0.99, 0.5), {"seeds": 0.6}, "holds"),
        ((0.95, 0.5, 0.5), {"seeds": 0.6}, "does not hold"),
        ((0.95, 0.95, NAN), {"seeds": 0.6}, "holds"),
        ((0.95, 0.5, NAN), {"seeds": 0.6}, "undecided"),
        ((0.95,) * 7 + (0.1,) * 3, {"seeds": 0.7}, "holds"),
        ((0.95,) * 7 + (0.1,) * 3, {"seeds": 0.71}, "does not hold"),
        (tuple(i / 10 for i in range(11)), {"quantile": 0.1, "value": 0.1, "within": 1e-9}, "holds"),
        (tuple(i / 10 for i in range(11)), {"quantile": 0.25, "value": 0.25, "within": 1e-9}, "holds"),
        (tuple(i / 10 for i in range(11)), {"quantile": 0.9, "value": 0.9}, "does not hold"),
        (tuple(i / 10 for i in range(11)), {"quantile": 0.9, "value": 0.9, "comparison": ">="}, "holds"),
        ((0.95,) * 9, {"quantile": 0.1}, "undecided"),
        ((0.95,) * 9, {"quantile": 0.25}, "holds"),
    ],
)
def test_verdicts(values: tuple[float, ...], fields: dict[str, Any], expected: str) -> None:
    """Three seeds against a value: of every, some, the best, the worst and the median seed."""
    verdict = judge(claim(**fields), scores(*values))
    assert verdict.verdict == expected
    assert [pair[0] for pair in verdict.numbers.values()] == pytest.approx(values, nan_ok=True)
    assert verdict.explanation


def test_few_seeds_decide_nothing() -> None:
    """Two good seeds are no evidence for every seed, and the explanation asks for more."""
    verdict = judge(claim(), scores(1.0, 1.0))
    assert verdict.verdict == "undecided"
    assert verdict.explanation == "only 2 seeds were measured; run 3 or more"
    assert "only 1 seed was" in judge(claim(seeds="median"), scores(1.0)).explanation


def test_one_counterexample_refutes_whatever_else_is_missing() -> None:
    """One seed that fails contradicts `every`, although the others crashed or never ran."""
    records = [*scores(0.2), record(seed=1, failed="out of memory")]
    verdict = judge(claim(), records, seeds=range(5))
    assert (verdict.verdict, verdict.explanation) == ("does not hold", "contradicted by seed 0")
    assert judge(claim(seeds="median"), records).verdict == "undecided"


def test_one_example_shows_that_some_seed_does() -> None:
    """And is named."""
    verdict = judge(claim(seeds="some"), scores(0.2, 0.95))
    assert (verdict.verdict, verdict.explanation) == ("holds", "shown by seed 1")


def test_gaps_are_explained() -> None:
    """Skipped, failed and missing seeds leave a claim undecided, each with its reason."""
    records = [
        *scores(1.0, 1.0, 1.0),
        record(seed=3, skipped="no attention"),
        record(seed=4, failed="out of memory"),
    ]
    verdict = judge(claim(), records, seeds=range(7))
    assert verdict.verdict == "undecided"
    assert verdict.explanation == (
        "seed 3: skipped: no attention; seed 4: failed: RuntimeError: out of memory; seeds 5, 6: no record"
    )
    assert judge(claim(), []).explanation == "nothing was measured that this claim speaks of"


def test_superseded_records_do_not_count() -> None:
    """A seed that was measured again counts as it is now."""
    verdict = judge(claim(), [*scores(0.1, 0.1, 0.1), *scores(1.0, 1.0, 1.0, minutes=5)])
    assert verdict.verdict == "holds"


def test_a_ruling_says_how_many_seeds_support_it() -> None:
    """Of all that were asked for; as soon as the missing ones cannot change it."""
    some = scores(0.95, 0.95, 0.95, 0.1)
    held = judge(claim(seeds=0.6), some, seeds=range(5))
    assert (held.verdict, held.explanation) == ("holds", "supported by 3 of 5 seeds, where 3 are needed")
    failed = judge(claim(seeds=0.9), some, seeds=range(5))
    assert failed.explanation == "supported by 3 of 5 seeds, where 5 are needed; contradicted by seed 3"
    assert judge(claim(seeds=0.7), some, seeds=range(5)).explanation == "seed 4: no record"
    assert judge(claim(seeds=0.5), scores(0.95, 0.95)).verdict == "undecided"
    few = judge(claim(quantile=0.05), scores(*[0.95] * 12))
    assert few.explanation == "only 12 seeds were measured; run 20 or more"
    assert judge(claim(quantile=0.1), scores(*[0.95] * 12)).explanation == "the 10 % quantile of 12 seeds"


def test_within_a_share_of_another_selection() -> None:
    """Of the number of each seed; nothing is within a share of 0 but 0, and of infinity but infinity."""
    records = scores(1.05, 2.1, 0.0, math.inf, model="gpt") + scores(1.0, 2.0, 0.0, math.inf, model="lstm")
    assert judge(claim(model="gpt", than={"model": "lstm"}, within="5 %"), records).verdict == "holds"
    for other in (0.0, math.inf):
        against = scores(1.05, 2.1, 0.1, 5.0, model="gpt") + scores(1.0, 2.0, other, 5.0, model="lstm")
        verdict = judge(claim(model="gpt", than={"model": "lstm"}, within="5 %"), against)
        assert verdict.explanation == "contradicted by seed 2"


def test_comparison_with_another_selection() -> None:
    """Seed by seed: the GPT's score against twice the LSTM's."""
    records = scores(0.9, 0.8, 0.7, model="gpt") + scores(0.4, 0.3, 0.3, model="lstm")
    twice = claim(model="gpt", than={"model": "lstm"}, factor=2)
    verdict = judge(twice, records)
    assert verdict.verdict == "holds"
    assert verdict.numbers[0] == pytest.approx((0.9, 0.8))
    assert judge(claim(model="gpt", than={"model": "lstm"}, factor=2.5), records).verdict == "does not hold"
    missing = judge(twice, scores(0.9, 0.8, 0.7, model="gpt"))
    assert (missing.verdict, missing.explanation) == ("undecided", "seeds 0-2: no record")


def test_infinity_against_infinity_is_a_tie() -> None:
    """Two models that never fall below are equal, not incomparable."""
    records = scores(*[math.inf] * 3, model="gpt") + scores(*[math.inf] * 3, model="lstm")
    assert judge(claim(model="gpt", comparison=">=", than={"model": "lstm"}), records).verdict == "holds"
    assert judge(claim(model="gpt", than={"model": "lstm"}), records).verdict == "does not hold"


def test_the_median_pairs_seeds() -> None:
    """The differences are 0.1, 0.1, -0.8: their median supports the claim."""
    records = scores(0.2, 0.9, 0.1, model="gpt") + scores(0.1, 0.8, 0.9, model="lstm")
    assert judge(claim(model="gpt", than={"model": "lstm"}, seeds="median"), records).verdict == "holds"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"than": {}}, "selects what the claim itself does"),
        ({"model": "gpt", "than": {"model": "gpt"}}, "selects what the claim itself does"),
        ({"than": {"modle": "gpt"}}, "modle"),
        ({"value": None}, "either `value` or `than`"),
        ({"value": NAN}, "`value` is NaN"),
        ({"value": True}, "should be a number"),
        ({"at": []}, r"`at` = \[\] is no place"),
        ({"row": []}, r"`row` = \[\] is no place"),
        ({"at": NAN}, "`at` = nan is no place"),
        ({"at": [1, NAN], "reduce": "min"}, "is no place"),
        ({"relative_to": NAN}, "`relative_to` = nan is no place"),
        ({"at": [1, 10]}, "`at` gives 2 numbers"),
        ({"row": ["a", "b"]}, "`row` gives 2 numbers"),
        ({"row": "a", "relative_to": 1}, "leave one out"),
        ({"metric": ""}, "at least 1 character"),
        ({"than": {"model": "gpt"}, "factor": 0}, "`factor`"),
        ({"than": {"model": "gpt"}, "factor": NAN}, "finite number"),
        ({"factor": 2}, "`factor` multiplies the number of `than`"),
        ({"margin": -1}, "greater than or equal to 0"),
        ({"margin": NAN}, "greater than or equal to 0"),
        ({"margin": math.inf}, "finite number"),
        ({"comparison": None}, "either `comparison` .* or `within`"),
        ({"comparison": ">", "within": 0.1}, "either `comparison` .* or `within`"),
        ({"within": 0.1, "margin": 0.1}, "leave `margin` out"),
        ({"within": -0.1}, "a number like 0.01"),
        ({"within": True}, "a number like 0.01"),
        ({"within": NAN}, "a number like 0.01"),
        ({"within": math.inf}, "a number like 0.01"),
        ({"within": "five %"}, 'like "5 %"'),
        ({"within": "5 %", "value": 0}, "`within` is a share of `value`, which is 0"),
        ({"within": "5 %", "value": -math.inf}, "`within` is a share of `value`, which is -inf"),
        ({"seeds": 1}, "the share of the seeds"),
        ({"seeds": 0.0}, "the share of the seeds"),
        ({"seeds": 60.0}, "the share of the seeds"),
        ({"seeds": True}, "the share of the seeds"),
        ({"seeds": "most"}, "should be 'every'"),
        ({"quantile": 0}, "greater than 0"),
        ({"quantile": 1}, "less than 1"),
        ({"quantile": 0.5, "seeds": "some"}, "leave one out"),
    ],
)
def test_a_claim_that_could_never_be_decided_is_refused(fields: dict[str, Any], said: str) -> None:
    """When the suite is read, and not after the models were trained."""
    with pytest.raises(ValidationError, match=said):
        claim(**fields)


def test_infinity_is_a_value() -> None:
    """`at least infinity` says that a number never falls, for example a distance that is never reached."""
    assert judge(claim(value=math.inf, comparison=">="), scores(math.inf, math.inf, math.inf)).verdict == "holds"


@pytest.mark.parametrize("more", [{"model": "gpt"}, {"task": "copy"}, {"training": {"lr": 0.1}}, {"examples": 9}])
def test_several_experiments_are_ambiguous(more: dict[str, Any]) -> None:
    """Seeds of different models, tasks or settings are never pooled."""
    verdict = judge(claim(), scores(1.0, 1.0, 1.0) + scores(1.0, 1.0, 1.0, **more))
    assert verdict.verdict == "undecided"
    assert verdict.explanation.startswith("ambiguous")


def test_seeds_are_named_in_runs() -> None:
    """Also a hundred of them fit a line."""
    assert [name_seeds(seeds) for seeds in ([4], [1, 0], [0, 1, 2, 7], range(100))] == [
        "seed 4",
        "seeds 0, 1",
        "seeds 0-2, 7",
        "seeds 0-99",
    ]


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=8), st.floats(0, 0.3), st.sampled_from(["every", "median", "some"])
)
def test_a_claim_and_its_opposite_never_both_hold(values: list[float], margin: float, seeds: str) -> None:
    """`every > v` and `every <= v` exclude each other; that of every seed implies that of the median and of some."""
    above = judge(claim(value=0.5, margin=margin, seeds=seeds), scores(*values)).verdict
    below = judge(claim(value=0.5, margin=margin, seeds=seeds, comparison="<="), scores(*values)).verdict
    if seeds != "some":
        assert not (above == below == "holds")
    if judge(claim(value=0.5, margin=margin), scores(*values)).verdict == "holds":
        assert above == "holds"
