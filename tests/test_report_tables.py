"""Curves and matrices in a report, and how tables fit the page."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_factory import INSIDE, curve, record
from reports import factor, lines, matrix

from harness.measurements import Curve
from harness.report import render
from harness.report.layout import Column, break_lines, fit
from harness.suites import Suite


def test_a_curve_shows_median_and_range_where_seeds_differ() -> None:
    """One bad seed of three does not move the median, and is not hidden by it."""
    ys = [[1, 1, 1, 0.9, 0.8], [1, 1, 1, 0.9, 0.9], [1, 1, 1, 0.895, 0.2]]
    text = render([record(curve(y, inside=INSIDE), seed=seed) for seed, y in enumerate(ys)])
    table = text.split("accuracy (share) by distance (tokens)\n")[1].split("\n")
    assert [line.split() for line in table[:5] if not line.startswith("-")] == [
        ["model", "seeds", "1", "10", "20", "50*", "100*", "shape"],
        ["lstm", "median", "1.00", "1.00", "1.00", "0.900", "0.800", "████▇"],
        ["min", "1.00", "1.00", "1.00", "0.895", "0.200"],
        ["max", "1.00", "1.00", "1.00", "0.900", "0.900"],
    ]
    assert "* beyond the trained range" in text


def test_a_matrix_shows_medians_and_where_seeds_differ() -> None:
    """A head that is sharp in one seed only does not show in the median; the note under it says so."""
    values = [[[0.1, 0.2], [0.3, 0.4]], [[0.1, 0.2], [0.3, 0.4]], [[0.99, 0.2], [0.3, 0.4]]]
    records = [record(matrix(v, ["1.1", "1.2"], ["subject", "start"]), seed=s) for s, v in enumerate(values)]
    text = render(records)
    assert lines(text, "1.1") == ["1.1 0.100 0.200", "Seeds differ most at 1.1, subject: 0.100..0.990"]
    assert "attention: lstm, head by role (share, median of 3 seeds)" in text


def test_repeated_words_are_not_seeds() -> None:
    """`the` stands twice in a sentence: two rows, two columns, two places, and one seed."""
    words = ["the", "cow", "the"]
    square = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]
    text = render([record(matrix(square, words, words), curve([0.7, 0.8, 0.9], words))])
    assert lines(text.split("after training")[1].split("How to read")[0], "the ") == [
        "model the cow the",
        "head the cow the",
        "the 1.00 0 0",
        "the 0.200 0.300 0.500",
    ]
    assert lines(text, "lstm", "0.900") == ["lstm 0.700 0.800 0.900"]


def test_an_axis_without_a_name_is_not_mentioned() -> None:
    """A matrix whose columns are of several kinds."""
    unnamed = matrix([[0.5]], ["1.1"], ["cue"]).model_copy(update={"column_label": ""})
    assert "attention: lstm, head (share, 1 seed)" in render([record(unnamed)])


def test_matrices_of_other_shapes_are_counted() -> None:
    """A seed whose rows are called differently is no seed of the same matrix; an empty matrix is no crash."""
    records = [record(matrix([[0.5]], [name], ["cue"]), seed=s) for s, name in enumerate(["a", "a", "b"])]
    text = render(records)
    assert "lstm, head by role (share, median of 2 seeds)" in text
    assert "1 seed with other rows or columns not shown" in text
    assert "attention" in render([record(matrix([], [], []), curve([], []))])


def test_long_matrices_say_what_they_leave_out() -> None:
    """40 rows are enough for a terminal."""
    names = [str(row) for row in range(144)]
    text = render([record(matrix([[0.5]] * 144, names, ["cue"]))])
    assert "40 of 144 rows shown; all of them: --format csv" in text


def test_curves_along_the_same_places_share_a_table() -> None:
    """A line for each curve and model, so that they can be compared; other places or units make another table."""

    places = [1.0, 2.0, 3.0]

    def along(name: str, unit: str = "share", xs: list[float] | None = None) -> Curve:
        return curve([0.5] * len(xs or places), xs or places, name=name, unit=unit)

    sham = along("sham").model_copy(update={"y_label": "another position is cut"})
    curves = [along("cut").model_copy(update={"y_label": "cut"}), sham, along("loss", "nats"), along("far", xs=[1, 2])]
    text = render([record(*curves, model=model) for model in ("gpt", "lstm")])
    shared, loss, far = (block for block in text.split("\n\n") if "shape" in block)
    assert lines(shared, "share", "by") == ["cut, sham (share) by distance (tokens)"]
    assert [line.split()[:2] for line in shared.split("\n")[3:7]] == [
        ["cut", "gpt"],
        ["cut", "lstm"],
        ["sham", "gpt"],
        ["sham", "lstm"],
    ]
    assert shared.split("\n")[7:] == ["sham: another position is cut"]
    assert [block.split()[0].strip(":") for block in (loss, far)] == ["loss", "far"]


def test_a_single_place_that_the_summary_has_makes_no_table() -> None:
    """A curve of one place repeats the number of that condition; without such a number it is shown."""
    one = curve([0.25], [3.0], unit="ratio")
    assert "by distance" not in render([record(factor(0.25), one, seed=seed) for seed in range(2)])
    assert "by distance" in render([record(factor(0.5), one, seed=seed) for seed in range(2)])


def test_a_matrix_may_say_what_it_shows() -> None:
    """A phrase in its title, and what its columns mean among what is explained."""
    said = {"about": "where it looks", "meaning": "cue is the key"}
    text = render([record(matrix([[0.5]], ["1.1"], ["cue"]).model_copy(update=said))])
    assert lines(text, "where it looks") == ["attention: lstm, where it looks (share, 1 seed)"]
    assert lines(text, "the key") == ["- attention: cue is the key."]


def test_long_curves_are_thinned_out_and_say_so() -> None:
    """The first and the last place stay, and the sparkline covers what is between."""
    xs = [float(x) for x in range(200)]
    text = render([record(curve([x / 199 for x in xs], xs), seed=s) for s in range(3)], width=80)
    header = lines(text, "model", "shape")[0].split()
    assert (header[1], header[-2]) == ("0", "199")
    assert "of 200 columns shown; all of them: --format csv" in text


def test_named_places_are_split_instead() -> None:
    """Categories all differ in kind: none is left out."""
    names = [f"category {i}" for i in range(30)]
    text = render([record(curve([0.5] * 30, names))], width=80)
    assert all(name in text for name in names)


@settings(max_examples=30, deadline=None)
@given(
    width=st.integers(40, 140),
    layers=st.integers(0, 6),
    model=st.sampled_from(["gpt", "a" * 90]),
    xs=st.lists(st.integers(0, 5000), min_size=1, max_size=30, unique=True),
    scalars=st.integers(0, 8),
)
def test_no_line_is_wider_than_asked(width: int, layers: int, model: str, xs: list[int], scalars: int) -> None:
    """Whatever is measured: long labels wrap, many numbers split, long curves thin out, endless words are broken."""
    label = f"{model}:" + ",".join(f"argument_{i}=value_{i}" for i in range(layers)) if layers else model
    found = [factor(i / 3, "does not extrapolate", name=f"a_rather_long_name_{i}") for i in range(scalars)]
    records = [
        record(*found, curve([1 / (x + s + 1) for x in xs], xs, scale="log"), model=label, seed=s) for s in range(3)
    ]
    claim = {"text": "w " * 90, "probe": "accuracy", "metric": "accuracy", "comparison": ">", "value": 0.5}
    suite = Suite.model_validate({"experiments": [{"models": [label]}], "claims": [claim]})
    text = render(records, suite, width=width)
    assert max(map(len, text.split("\n"))) <= width


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_names_that_claims_use_stay_whole_in_headers(width: int) -> None:
    """A header breaks before the unit, never within the name."""
    found = [factor(1.0, "flat", name=f"below_{i}_per_cent", unit="distractors, all of them") for i in range(4)]
    text = render([record(*found)], width=width)
    assert all(f"below_{i}_per_cent" in text for i in range(4))


def test_verdicts_take_the_width_that_there_is() -> None:
    """Where a table is split, no part has broken verdicts beside an empty half of the page."""
    words = "not within what was measured (100)"
    records = [record(factor(1.0, words), factor(0.5, words, name="other"), seed=seed) for seed in range(3)]
    assert lines(render(records, width=140), words) == [f"lstm 26,834 3 1.00 {words} 3/3 0.500 {words} 3/3"]
    assert lines(render(records, width=60), words) == [f"lstm 0.500 {words} 3/3"]


def test_lines_break_at_blanks_and_commas() -> None:
    """And a word that is too long stays whole."""
    assert break_lines("gpt:layers=4,position=none", 16) == "gpt:layers=4,\nposition=none"
    assert break_lines("a bc def", 4) == "a bc\ndef"
    assert break_lines("indivisible", 4) == "indivisible"


@pytest.mark.parametrize("width", range(30, 90, 7))
def test_a_number_stands_in_one_line(width: int) -> None:
    """However narrow the page: not parted at the comma of its thousands, nor anywhere else."""
    numbers = [["+0.00012", "-1.2e-05", "+3.45e-05"], ["+6,419,754", "+6,000,123", "+7,000,456"]]
    labels = Column("number", ["accuracy: worst_inside (share)", "gpt:layers=4,width=64: tokens"], "label")
    moves = Column("B - A", [f"{middle} [{low}..{high}]" for middle, low, high in numbers], "text")
    found, _ = fit([labels, Column("A", ["1", "2"]), moves], width)
    (shown,) = [column for table in found for column in table if column.header == "B - A"]
    for wanted, cell in zip(numbers, shown.cells, strict=True):
        assert re.findall(r"[+-][\d,.]*\d(?:e[+-]\d+)?", cell) == wanted
        assert "".join(cell.split()) == "{}[{}..{}]".format(*wanted)
