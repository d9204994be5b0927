"""Numbers and curves small enough for a table cell."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.numbers import number, spread
from harness.report.sparkline import bounds, sparkline
from harness.seeds import summarise

NAN = math.nan


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1.00"),
        (0.25, "0.250"),
        (0.012345, "0.0123"),
        (0.000012, "1.2e-05"),
        (-0.5, "-0.500"),
        (2.5312, "2.53"),
        (9.0, "9"),
        (99.96, "100"),
        (999.6, "1,000"),
        (26834.0, "26,834"),
        (1.5e9, "1.5e+09"),
        (NAN, "NaN"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
    ],
)
def test_numbers_are_written_for_people(value: float, text: str) -> None:
    """Three significant digits, thousands apart, the very small and very large with an exponent."""
    assert number(value) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.5, 0.4, 0.9], "0.500 [0.400..0.900]"),
        ([0.5, 0.5001, 0.4999], "0.500"),
        ([0.5, NAN, 0.5], "0.500 (1 NaN)"),
        ([NAN, NAN], "NaN"),
        ([1.0, math.inf, math.inf], "inf [1.00..inf]"),
        ([], ""),
    ],
)
def test_seeds_collapse_where_they_agree(values: list[float], text: str) -> None:
    """The median with its range; one number where the range would say the same; NaN counted."""
    assert spread(summarise(values)) == text


def test_a_sparkline_by_hand() -> None:
    """Eight levels from low to high, zero at the bottom of a log scale, NaN visible."""
    assert sparkline([0.0, 0.5, 1.0, NAN], 0.0, 1.0) == "▁▅█·"
    assert sparkline([1.0, 1e-4, 1e-8, 0.0], 1e-8, 1.0, log=True) == "█▅▁▁"
    assert sparkline([0.0, 0.5, 1.0, NAN], 0.0, 1.0, ascii=True) == "_=#?"
    assert sparkline([3.0, 3.0], 3.0, 3.0) == "▅▅"
    assert sparkline([float(i) for i in range(100)], 0.0, 99.0, length=8) == "▁▂▃▄▅▆▇█"
    assert sparkline([NAN], *bounds([NAN])) == "·"
    assert bounds([math.inf, 3.0, 0.0, NAN], log=True) == (3.0, 3.0)


def test_what_is_nearly_flat_looks_flat() -> None:
    """A difference of 4 % is not stretched over the whole height; one of 20 %, or a factor 2 on a log scale, is."""

    def drawn(*values: float, log: bool = False) -> str:
        return sparkline(values, *bounds(values, log=log), log=log)

    assert drawn(100.0, 98.0, 96.0) == "▅▅▄"
    assert drawn(-100.0, -98.0, -96.0) == "▄▅▅"
    assert drawn(100.0, 80.0) == "█▁"
    assert drawn(1.0, 0.8, 0.75, log=True) == "▆▄▃"
    assert drawn(1.0, 0.5, log=True) == "█▁"
    assert drawn(0.0, 0.0) == "▅▅"
    assert drawn(-1.7e308, 1.7e308) == "▁█"
    assert drawn(1e-310, 1e-310, log=True) == "▅▅"


@given(st.lists(st.floats(), max_size=40), st.booleans(), st.booleans())
def test_any_curve_can_be_drawn(values: list[float], log: bool, ascii: bool) -> None:
    """One character for each value, at most 16, whatever the numbers: infinite, farther apart than a float can say, or
    as close together as two floats can be."""
    for each in (values, [*values, -1.7e308, 1.7e308], [*values, 1.0, 1.0 + 2**-52]):
        line = sparkline(each, *bounds(each, log=log), log=log, ascii=ascii)
        assert len(line) == min(len(each), 16)


def test_one_steep_curve_does_not_flatten_the_others() -> None:
    """Of a gradient of 1e-32 beside one of 1e-4, eight decades are drawn."""
    low, high = bounds([1.0, 1e-4, 1e-32], log=True)
    assert (low, high) == (1e-8, 1.0)
    assert sparkline([1.0, 1e-4], low, high, log=True) == "█▅"
    assert sparkline([1.0, 1e-32], low, high, log=True) == "█▁"
