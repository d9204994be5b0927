"""Statistics against answers computed by hand."""

import math
from collections.abc import Sequence
from statistics import median

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from record_factory import record

from harness.examples import standard_error
from harness.schema import Record
from harness.seeds import coverage, current, quantile, summarise
from harness.statistics import diagnose, falls_below, fit_decay, located, settled

NAN = math.nan


def test_a_summary_counts_nan_and_leaves_it_out() -> None:
    """The median of 1, 3 and infinity is 3; NaN is counted beside it."""
    summary = summarise([3.0, NAN, 1.0, math.inf])
    assert (summary.n, summary.nan, summary.median) == (3, 1, 3.0)
    assert (summary.minimum, summary.maximum) == (1.0, math.inf)


@pytest.mark.parametrize("values", [[], [NAN, NAN]])
def test_a_summary_of_nothing_is_nan(values: list[float]) -> None:
    """No number, no median: never 0."""
    summary = summarise(values)
    assert summary.n == 0
    assert summary.nan == len(values)
    assert math.isnan(summary.median)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1))
def test_the_median_lies_in_the_range(values: list[float]) -> None:
    """And the order of seeds does not matter."""
    summary = summarise(values)
    assert summary.minimum <= summary.median <= summary.maximum
    assert summary.median == median(values)
    assert summary == summarise(reversed(values))


def test_many_seeds_have_quantiles_for_a_range() -> None:
    """On the line between two seeds; of few seeds the range ends at the outermost; infinity is a number."""
    few, many = summarise(range(10)), summarise(range(11))
    assert (few.low, few.high, few.many) == (0, 9, False)
    assert (many.low, many.median, many.high, many.many) == (1, 5, 9, True)
    assert (many.minimum, many.maximum) == (0, 10)
    assert quantile([0.0, 1.0, 4.0], 0.75) == 2.5
    assert quantile([-math.inf, -math.inf, 0.0, math.inf], 0.25) == -math.inf
    assert quantile([0.0, math.inf], 0.5) == math.inf


def test_coverage_of_the_range() -> None:
    """3 seeds miss the median only if all fall on one side: 1 - 2/8."""
    assert [coverage(n) for n in (0, 1, 2, 3, 5)] == [0.0, 0.0, 0.5, 0.75, 0.9375]


def test_the_newest_record_of_a_cell_is_kept() -> None:
    """A cell that was measured again counts once."""
    old, new, other = record(minutes=0), record(minutes=9), record(seed=1)
    assert current([old, new, other]) == ([new, other], 1)


def test_superseded_sources_are_not_seeds() -> None:
    """When seed 0 was measured anew with changed code, seeds 1 and 2 of the old code do not count beside it."""
    old = [record(seed=seed, digest="old") for seed in range(3)]
    new = record(seed=0, digest="new", minutes=1)
    assert current([*old, new]) == ([new], 3)


def test_an_edited_file_supersedes_itself_and_no_other() -> None:
    """Files of one name in two folders are two models, also if one is a copy of the other."""

    def gru(folder: str, digest: str, minutes: int) -> Record:
        made = record(model="./gru.py:GRU", distribution="", digest=digest, minutes=minutes)
        return made.model_copy(
            update={"model": made.model.model_copy(update={"target": f"/home/me/{folder}/gru.py:GRU"})}
        )

    old, copied, edited = gru("a", "d1", 0), gru("b", "d1", 1), gru("a", "d2", 2)
    assert current([old, copied, edited]) == ([copied, edited], 1)


def test_other_settings_are_kept_apart() -> None:
    """Training and evaluation examples make different cells, not newer ones."""
    records = [record(), record(training={"lr": 0.1}, minutes=1), record(examples=64, minutes=2)]
    assert current(records) == (records, 0)


INSIDE = [True] * 5


@pytest.mark.parametrize(
    ("accuracies", "inside", "expected"),
    [
        ([1.0, 1.0, 1.0, 1.0, 0.99], INSIDE, "learned"),
        ([1.0, 1.0, 1.0, 1.0, 1.0], [True, True, True, False, False], "learned"),
        ([1.0, 1.0, 1.0, 0.9, 0.3], [True, True, True, False, False], "does not extrapolate"),
        ([0.4, 0.98, 1.0, 1.0, 1.0], [False, False, False, True, True], "does not extrapolate"),
        ([0.49, 0.27, 0.25, 0.22, 0.24], INSIDE, "never learned"),
        ([0.23, 0.22, 0.23, 0.22, 0.22], INSIDE, "never learned"),
        ([0.11, 0.14, 0.12, 0.13, 0.12], [False, False, False, True, True], "never learned"),
        ([1.0, 0.9, 0.6, 0.3, 0.13], INSIDE, "forgets with distance"),
        ([1.0, 0.15, 0.13, 0.12, 0.13], INSIDE, "forgets with distance"),
        ([1.0, 1.0, 0.9, 0.3, 0.2], [True, True, True, True, False], "forgets with distance"),
        ([0.6, 0.6, 0.6, 0.6, 0.6], INSIDE, "partly learned"),
        ([0.62, 0.6, 0.6, 0.58, 0.56], INSIDE, "partly learned"),
        ([0.2, 0.3, 0.9, 0.9, 0.9], INSIDE, "partly learned"),
        ([1.0, NAN, 1.0, 1.0, NAN], INSIDE, "not a number"),
        ([1.0, 1.0, 1.0, NAN, NAN], [True, True, True, False, False], "does not extrapolate"),
        ([NAN] * 5, INSIDE, "not a number"),
        ([1.0] * 5, [False] * 5, "not measured"),
        ([1.0] * 5, None, "learned"),
    ],
)
def test_diagnosis(accuracies: list[float], inside: list[bool] | None, expected: str) -> None:
    """One of eight keys: chance is 1/8. The flat curve that is slightly better at its start never learned."""
    assert diagnose(skills(accuracies, 1 / 8), inside) == expected


def skills(accuracies: Sequence[float], chance: float) -> list[float]:
    return [(accuracy - chance) / (1 - chance) for accuracy in accuracies]


def test_a_diagnosis_is_relative_to_chance() -> None:
    """Accuracy 0.6 is little skill for a choice of two; 0.95 is exactly enough; below chance is no failure to learn,
    but something else that was learned."""
    assert diagnose(skills([0.6] * 4, 0.5)) == "never learned"
    assert diagnose(skills([0.6] * 4, 1 / 8)) == "partly learned"
    assert diagnose(skills([0.95] * 4, 0.5)) == "learned"
    assert diagnose(skills([0.45, 0.5, 0.45], 0.5)) == "never learned"
    assert diagnose(skills([1.0, 0.2, 0.3], 0.5)) == "answers wrongly"


def test_a_diagnosis_that_another_sample_would_change_is_none() -> None:
    """0.91 of 512 examples (chance 1/8) is 0.897 of the way: above or below 0.9 from sample to sample."""
    error = math.sqrt(0.91 * 0.09 / 512) / (1 - 1 / 8)
    assert diagnose(skills([0.91] * 3, 1 / 8), None, [error] * 3) == "near the threshold"
    assert diagnose(skills([0.97] * 3, 1 / 8), None, [error] * 3) == "learned"
    assert diagnose(skills([0.6] * 3, 1 / 8), None, [error] * 3) == "partly learned"


def test_two_examples_are_not_enough_to_say_anything() -> None:
    """Both wrong, or both right: another two could be the other way."""
    error = 2 * standard_error(torch.zeros(2), share=True)
    assert diagnose(skills([0.0], 0.5), None, [error]) == "not enough to say"
    assert diagnose(skills([1.0], 0.5), None, [error]) == "not enough to say"


def test_little_training_is_no_failure_to_learn() -> None:
    """Ten steps of the thousand that are recommended say nothing; success needs no more of them."""
    assert diagnose([0.0, 0.0], None, None, 0.01) == "trained too briefly"
    assert diagnose([1.0, 0.3], None, None, 0.01) == "trained too briefly"
    assert diagnose([0.0], None, [1.0], 0.01) == "trained too briefly"
    assert diagnose([1.0, 1.0], None, None, 0.01) == "learned"
    assert diagnose([0.0, 0.0], None, None, 0.5) == "never learned"


X = [1.0, 10.0, 20.0, 50.0, 100.0]


def test_an_exponential_is_recognised() -> None:
    """0.48 per step, as an Elman network at initialisation."""
    fit = fit_decay(X, [3 * 0.48**x for x in X])
    assert fit.verdict == "exponential"
    assert fit.factor == pytest.approx(0.48)
    assert fit.residual_exponential == pytest.approx(0, abs=1e-9)
    assert fit.residual_polynomial > 1


def test_one_over_distance_is_polynomial() -> None:
    """Near-uniform attention weighs the cue 1/(d+2): an exponent a little below 1."""
    fit = fit_decay(X, [1 / (x + 2) for x in X])
    assert fit.verdict == "polynomial"
    assert 0.75 < fit.exponent < 1
    assert fit_decay(X, [5 / x**2 for x in X]).exponent == pytest.approx(2)


def test_least_squares_by_hand() -> None:
    """Through log y = 0, 1, 1, 2 at x = 0..3 (shifted by 1): slope 0.6, residuals -0.1, 0.3, -0.3, 0.1."""
    fit = fit_decay([1, 2, 3, 4], [math.exp(v) for v in (0, 1, 1, 2)])
    assert math.log(fit.factor) == pytest.approx(0.6)
    assert fit.residual_exponential == pytest.approx(math.sqrt(0.2 / 4))


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([1.0, 0.8, 0.9, 0.7, 0.6], "flat"),
        ([1.0, 0.5, 0.2, NAN, NAN], "not enough to say"),
        ([1.0, 0.5, NAN, math.inf, 0.2], "not enough to say"),
        ([], "not enough to say"),
        ([1.0, 1e-6, 0.9, 1e-5, 1.0], "no clear law"),
        ([1.0, 2.0**9, 2.0**19, 2.0**49, 2.0**99], "grows"),
        ([1.0, 10.0, 20.0, 50.0, 100.0], "grows"),
        ([1.0, 0.9, 0.8, 0.9, 0.0], "cut off"),
        ([1.0, 0.5, NAN, 0.0, 0.0], "cut off"),
        ([0.0] * 5, "cut off"),
        ([1.0, 0.0, 0.9, 1.1, 0.8], "no clear law"),
    ],
)
def test_decay_verdicts(y: list[float], expected: str) -> None:
    """Zeros at the end are a cut-off, however few points; a zero in between is not; growth has a word of its own."""
    assert fit_decay(X[: len(y)], y).verdict == expected


@pytest.mark.parametrize(("bend", "expected"), [(0.2, "exponential"), (0.5, "no clear law"), (0.8, "polynomial")])
def test_what_lies_between_has_no_clear_law(bend: float, expected: str) -> None:
    """Half-way between the two shapes neither fits twice as well as the other."""
    shape = [math.exp(-(1 - bend) * x / 8 - bend * 4 * math.log(x)) for x in X]
    assert fit_decay(X, shape).verdict == expected


def test_a_curve_that_is_cut_off_has_no_factor_but_0() -> None:
    """Whatever it did before; and the first of its zeros is known."""
    fit = fit_decay(X, [1.0, 0.9, 0.8, 0.0, 0.0])
    assert (fit.factor, fit.exponent, fit.zero_from) == (0.0, math.inf, 3)
    assert fit_decay(X, [1.0, 0.9, NAN, NAN, 0.0]).zero_from == 4
    assert fit_decay(X, [1.0, 0.9, 0.8, 0.7, 0.6]).zero_from is None


def test_what_arithmetic_could_not_hold_is_no_cut_off() -> None:
    """0.01 per step is 1e-200 after 100 of them: a 0 there says nothing where 1e-70 is the least that can be told;
    after 0.9 per step it does. With one point before it, 0.01 per step is the steepest that is expected."""
    steep = fit_decay([1, 2, 3, 10, 100], [1e-2, 1e-4, 1e-6, 1e-20, 0.0], smallest=1e-70)
    assert (steep.points, steep.verdict) == (4, "exponential")
    assert steep.factor == pytest.approx(0.01)
    assert fit_decay([1, 2, 3, 10, 100], [0.9**x for x in (1, 2, 3, 10)] + [0.0], smallest=1e-70).verdict == "cut off"
    assert fit_decay([1, 10], [1.0, 0.0], smallest=1e-70).verdict == "cut off"
    assert fit_decay([1, 100], [1.0, 0.0], smallest=1e-70).verdict == "not enough to say"


def test_places_without_a_logarithm_are_left_out_of_a_fit() -> None:
    """x = 0, and a y of 0 that is not the end."""
    fit = fit_decay([0, *X], [9.0, 0.5, 0.0, *(0.5**x for x in X[2:])])
    assert fit.points == 4
    assert fit.factor == pytest.approx(0.5)


@given(st.floats(0.05, 0.9), st.floats(1e-6, 1e6))
def test_the_factor_does_not_depend_on_the_scale(factor: float, scale: float) -> None:
    """Any unit of the gradient gives the same factor and the same words."""
    fit = fit_decay([1, 2, 5, 10, 20], [scale * factor**x for x in (1, 2, 5, 10, 20)])
    assert fit.factor == pytest.approx(factor, rel=1e-6)
    assert fit.verdict == "exponential"


def test_falls_below_gives_a_place_that_was_measured() -> None:
    """From 1 at 0 to 1/10000 at 4, it is seen at 4, and nothing is known of what lies between."""
    assert falls_below([0, 4], [1.0, 1e-4], 0.01) == 4
    assert falls_below([0, 1, 2], [8.0, 4.0, 2.0], 0.3) == 2


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([1.0, 0.5, 0.2], math.inf),
        ([1.0, 0.5, 0.0], 2.0),
        ([1.0, NAN, 0.0], 2.0),
        ([1.0, 0.1, 0.1], math.inf),
        ([0.0, 1.0, 1.0], NAN),
        ([NAN, NAN, NAN], NAN),
        ([NAN, 1.0, NAN], NAN),
    ],
)
def test_falls_below_at_the_edges(y: list[float], expected: float) -> None:
    """Never, at once to 0, across a gap, exactly at the share (not below it), without a first value or a second."""
    assert falls_below([0, 1, 2], y, 0.1) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("y", "place", "expected"),
    [
        ([1.0, 1.0, 1.0, 0.0, 0.0], 50, "between 20 and 50"),
        ([1.0, 1.0, NAN, 0.0, 0.0], 50, "between 10 and 50"),
        ([0.0] * 5, 1, "at 1"),
        ([1.0, 1.0, 1.0, 1.0, NAN], math.inf, "not within what was measured (50)"),
        ([NAN] * 5, NAN, "not enough to say"),
    ],
)
def test_where_a_change_lies_in_words(y: list[float], place: float, expected: str) -> None:
    """Between the neighbours that were measured, beyond them all, or nowhere."""
    assert located(X, y, place) == expected


def test_where_every_place_was_measured_the_place_is_known() -> None:
    """Of whole distances there is none between 23 and 24."""
    assert located([22, 23, 24], [1.0, 1.0, 0.0], 24) == "at 24"


def test_a_score_within_two_standard_errors_of_a_threshold_is_near_it() -> None:
    """Above and below it; a score without a standard error is taken as it stands."""

    def judge(values: Sequence[float]) -> str:
        return "good" if min(values) >= 0.9 else "bad"

    assert settled(judge, [0.91, 1.0], [0.0126, 0.0]) == "near the threshold"
    assert settled(judge, [0.88, 1.0], [0.0126, 0.0]) == "near the threshold"
    assert settled(judge, [0.93, 1.0], [0.0126, 0.0]) == "good"
    assert settled(judge, [0.87, 0.91], [0.0126, 0.0126]) == "bad"
    assert settled(judge, [0.91, 1.0], [math.nan, math.nan]) == "good"


def test_one_example_decides_nothing() -> None:
    """Right or wrong, another one could be the other way."""
    for right in (0.0, 1.0):
        error = standard_error(torch.tensor([right]), share=True)
        assert diagnose([right], None, [error]) == "not enough to say"
    assert diagnose([1.0], None, [standard_error(torch.tensor([1.0]))]) == "not enough to say"


def test_a_change_on_a_fine_axis_lies_between_two_places() -> None:
    """Between 0.5 and 0.9 nothing was measured, though they are less than 1 apart."""
    assert located([0.1, 0.5, 0.9], [1.0, 1.0, 0.001], 0.9) == "between 0.5 and 0.9"
    assert located([22, 23, 24], [1.0, 1.0, 0.001], 24) == "at 24"


def test_the_median_of_the_largest_numbers_is_one_of_them() -> None:
    """Their sum is more than a float can say; the smallest numbers keep their bits."""
    assert summarise([1.7e308, 1.5e308]).median == 1.6e308
    assert summarise([-1.7e308, 1.7e308]).median == 0
    assert summarise([5e-324, 5e-324]).median == 5e-324
    assert summarise([math.inf, 1.0]).median == math.inf
