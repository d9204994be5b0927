"""What a person and a program read."""

import csv
import io
import json
import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from record_factory import curve, record

from harness.errors import RequestError
from harness.report import can_draw, render, rows
from harness.report.export import COLUMNS
from harness.report.layout import break_lines
from harness.schema import Curve, Matrix, Record, Scalar
from harness.suites import Suite
from harness.vocabulary import FORMATS

NAN = math.nan
INSIDE = [True, True, True, False, False]


def factor(value: float, verdict: str | None = None, name: str = "per_step_factor", unit: str = "ratio") -> Scalar:
    """A headline number."""
    return Scalar(name=name, unit=unit, value=value, verdict=verdict, headline=True)


def matrix(values: list[list[float]], rows: list[str], columns: list[str]) -> Matrix:
    """A headline matrix of attention."""
    about = {"name": "attention", "unit": "share", "row_label": "head", "column_label": "role", "headline": True}
    return Matrix.model_validate({"values": values, "rows": rows, "columns": columns, **about})


def lines(text: str, *words: str) -> list[str]:
    """The lines that contain all these words, blanks collapsed."""
    return [" ".join(line.split()) for line in text.split("\n") if all(word in line for word in words)]


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


def test_one_model_with_three_seeds() -> None:
    """The first report a newcomer sees: what was measured where, on how much, with which spread, in words."""
    records = [
        record(factor(value, "exponential"), probe="grad_reach", stage="initial", seed=seed)
        for seed, value in enumerate([0.61, 0.60, 0.64])
    ]
    text = render(records)
    assert lines(text, "grad_reach", "recall") == ["grad_reach on recall, at initialisation"]
    assert lines(text, "per_step_factor") == ["model parameters seeds per_step_factor verdict"]
    assert lines(text, "lstm", "26,834") == ["lstm 26,834 3 0.610 [0.600..0.640] exponential 3/3"]
    assert "3 records: all ok." in text
    assert "Evaluation: at most 256 examples per condition, seeds 0-2." in text
    assert "With 3 seeds, [lowest..highest] covers the median over all seeds in 3 of 4 cases." in " ".join(text.split())


def test_verdicts_are_counted_over_seeds() -> None:
    """Seeds that end differently are not averaged into one word."""
    outcomes = ["never learned", "learned", "learned"]
    records = [record(factor(0.5, words), seed=seed) for seed, words in enumerate(outcomes)]
    assert "| learned 2/3, never learned 1/3 |" in render(records, format="markdown")


def test_verdicts_stand_beside_their_numbers() -> None:
    """Each to the right of the number it is about, also where the table is split."""
    records = [record(factor(0.5, "flat"), *(factor(1.0, f"so much {i}", name=f"best_{i}") for i in range(8)))]
    header = next(line for line in render(records, format="markdown").splitlines() if "per_step_factor" in line)
    cells = [cell.strip() for cell in header.strip("|").split("|")]
    assert cells[3:7] == ["per_step_factor (ratio)", "verdict", "best_0 (ratio)", "verdict"]
    for width in range(40, 130, 3):
        tables = [line.split() for line in render(records, width=width).splitlines() if line.startswith("model")]
        assert len(tables) > 1
        assert all(words[1] != "verdict" for words in tables)


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


def test_one_seed_is_called_one_seed() -> None:
    """Once in a report, however many probes measured it; not of times, on which seeds have no say."""
    text = render([record(curve([1, 1, 1, 1, 1])), record(factor(1.0), probe="leak")])
    assert lines(text, "One seed") == ["One seed only: the spread over seeds is unknown; --seeds 3."]
    assert "cases" not in text
    several = [record(factor(1.0), model="gpt", seed=s) for s in range(3)]
    mixed = lines(render([record(factor(1.0)), *several]), "One seed")
    assert mixed == ["One seed only of lstm on recall: the spread over seeds is unknown; --seeds 3."]
    assert not lines(render(several), "One seed")
    assert not lines(render([record(factor(1.0, name="forward", unit="ms"), probe="speed")]), "One seed")


def test_failed_and_skipped_cells_are_listed_with_their_reason() -> None:
    """One line for each model and reason, and the table says how many seeds of how many it shows."""
    records = [
        record(factor(1.0), seed=0),
        *(record(seed=s, failed="loss is NaN") for s in (1, 2)),
        *(record(model="elman", seed=s, skipped="no attention") for s in range(3)),
    ]
    text = render(records)
    assert lines(text, "lstm", "1 of 3")
    assert lines(text, "elman", "seeds") == ["- elman, seeds 0-2 skipped: no attention"]
    assert lines(text, "loss is NaN") == ["- lstm, seeds 1, 2 failed: RuntimeError: loss is NaN"]
    assert "6 records: 1 ok, 3 skipped, 2 failed." in text


def test_nan_and_infinity_are_shown() -> None:
    """A number that is not defined is not 0, and "never" is infinite."""
    text = render(
        [
            record(factor(NAN), factor(math.inf, name="horizon"), curve([NAN, 1, 1, 1, 1])),
            record(curve([1] * 5), seed=1),
        ]
    )
    assert lines(text, "lstm", "NaN", "inf")
    assert "lstm: some seeds are NaN at 1; the numbers are of the others" in text


def test_superseded_records_are_counted_and_not_shown() -> None:
    """What was measured again since shows only its newest numbers."""
    text = render(
        [record(factor(0.1), seed=s) for s in range(3)] + [record(factor(0.9), seed=s, minutes=1) for s in range(3)]
    )
    assert lines(text, "lstm") == ["lstm 26,834 3 0.900"]
    assert "3 older records of the same cells not shown" in text


def test_equal_labels_of_two_distributions_are_told_apart() -> None:
    """Each gets its distribution in front."""
    text = render([record(factor(1.0)), record(factor(0.5), distribution="acme-nets")])
    assert lines(text, "acme-nets:lstm", "0.500")
    assert lines(text, "sequence-harness:lstm", "1.00")


def test_equal_labels_of_two_files_are_told_apart() -> None:
    """Runs of two folders, each with its `gru.py`: a row for each, named by what differs in the path; in CSV, where
    there is room, with the arguments that they share."""

    def gru(folder: str, value: float) -> Record:
        made = record(factor(value), model="./gru.py:GRU:hidden=8", distribution="")
        return made.model_copy(
            update={"id": folder, "model": made.model.model_copy(update={"target": f"{folder}/gru.py:GRU"})}
        )

    records = [gru("/home/me/a/src", 0.5), gru("/home/me/b/src", 0.25)]
    text = render(records)
    assert lines(text, "a/src/gru.py:GRU", "0.500")
    assert lines(text, "b/src/gru.py:GRU", "0.250")
    assert {row["model"] for row in rows(records)} == {"a/src/gru.py:GRU:hidden=8", "b/src/gru.py:GRU:hidden=8"}
    assert {row["model"] for row in rows(records[:1])} == {"./gru.py:GRU:hidden=8"}


def test_without_a_suite_the_order_is_natural() -> None:
    """d=9 before d=10; with a suite, the suite's order."""
    labels = ["lstm:d=10", "lstm:d=9"]
    records = [record(factor(1.0), model=label) for label in labels]
    text = render(records)
    assert text.index("lstm:d=9") < text.index("lstm:d=10")
    suite = Suite.model_validate({"experiments": [{"models": labels}]})
    text = render(records, suite)
    assert text.index("lstm:d=10") < text.index("lstm:d=9")


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


def test_a_name_given_twice_is_one_number() -> None:
    """Each seed counts once."""
    twice = record(factor(0.1, "flat"), factor(0.9, "flat"))
    assert lines(render([twice]), "lstm") == ["lstm 26,834 1 0.100 flat"]


def test_long_messages_are_cut() -> None:
    """A page of compiler output does not bury the report."""
    text = render([record(failed="word " * 1000)])
    assert len(text) < 1500
    assert "[...]" in text


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


def claims() -> tuple[list[Record], Suite]:
    """Three claims: one holds, one does not, one has no records."""
    records = [record(factor(0.95 + seed / 100), seed=seed) for seed in range(3)]
    base = {"probe": "accuracy", "metric": "per_step_factor", "value": 0.9}
    found = [
        {**base, "text": "It | works", "comparison": ">", "source": "Table 2"},
        {**base, "text": "It fails", "comparison": "<", "seeds": "median", "margin": 0.01},
        {**base, "text": "GRUs work", "comparison": ">", "model": "gru"},
    ]
    return records, Suite.model_validate({"name": "demo", "experiments": [{"models": ["lstm"]}], "claims": found})


def test_claims_with_their_evidence() -> None:
    """Verdict, words, comparison, number of every seed, reason; and one line that counts."""
    text = render(*claims())
    assert "Results of demo" in text
    assert lines(text, "It | works") == ["holds It | works (Table 2)"]
    assert "every seed: per_step_factor > 0.9 (probe accuracy)" in text
    assert lines(text, "supported") == ["seeds 0: 0.950, 1: 0.960, 2: 0.970: supported by all 3 seeds"]
    assert lines(text, "It fails") == ["does not hold It fails"]
    assert "median seed: per_step_factor < 0.9 by 0.01 or more (probe accuracy)" in text
    assert lines(text, "GRUs work") == ["undecided GRUs work"]
    assert "seeds 0-2: no record" in text
    assert text.rstrip().endswith("Of 3 claims, 1 holds, 1 does not hold, 1 is undecided.")


def test_many_seeds_are_told_by_quantiles() -> None:
    """In summaries, in the lines of curves, beside claims, and in the explanation."""
    numbers = enumerate(range(1, 22))
    drawn = [record(factor(n / 100), curve([n / 10, 1, 1, 1, 1]), seed=seed) for seed, n in numbers]
    said = {"probe": "accuracy", "metric": "per_step_factor", "text": "It works", "quantile": 0.1}
    asked = [said | {"value": 0.03, "within": "5 %"}, said | {"value": 0.02, "comparison": "<"}]
    suite = Suite.model_validate({"experiments": [{"models": ["lstm"]}], "claims": asked})
    text = " ".join(render(drawn, suite).split())
    assert text.count("0.110 [80 %: 0.0300..0.190]") == 3
    assert "10 % quantile over seeds: per_step_factor within 5 % of 0.03 (probe accuracy)" in text
    assert "10 % quantile over seeds: per_step_factor < 0.02 (probe accuracy)" in text
    assert "Of 2 claims, 1 holds, 1 does not hold." in text
    assert "10 % 0.300" in text
    assert "90 % 1.90" in text
    assert "lowest" not in text
    assert "10 % and 90 % quantiles" in text


def test_claims_about_a_share_of_the_seeds_say_how_many() -> None:
    """That support it, and that are needed."""
    records, suite = claims()
    share = suite.claims[0].model_copy(update={"seeds": 0.6, "comparison": None, "within": 0.05})
    text = " ".join(render(records, suite.model_copy(update={"claims": [share]})).split())
    assert "60 % of seeds: per_step_factor within 0.05 of 0.9 (probe accuracy)" in text
    assert "supported by 1 of 3 seeds, where 2 are needed; contradicted by seeds 1, 2" in text


def test_a_comparison_of_two_models_in_words() -> None:
    """What is compared with what, where, relative to what."""
    records = [
        record(curve([1, 0.5, 0.4, 0.3, 0.2 / p]), model=m, seed=s)
        for m, p in (("gpt", 1), ("lstm", 2))
        for s in range(3)
    ]
    claim = {
        "text": "GPT reaches further",
        "model": "gpt",
        "probe": "accuracy",
        "metric": "accuracy",
        "at": 100,
        "relative_to": 10,
        "comparison": ">",
        "than": {"model": "lstm"},
        "factor": 1.5,
    }
    suite = Suite.model_validate({"experiments": [{"models": ["gpt", "lstm"]}], "claims": [claim]})
    text = " ".join(render(records, suite).split())
    assert "accuracy at 100, relative to 10, > 1.5 x the same of model lstm (gpt, probe accuracy)" in text
    assert "seeds 0: 0.400 against 0.200 (2.00x)" in text


def test_a_claim_about_what_was_measured_once_shows_its_error() -> None:
    """Of the number, or of the difference where two are compared; there is no seed to name."""
    about: dict[str, Any] = {"pretrained": True, "training": {"steps": 0}, "model": "hf"}
    records = [
        record(factor(value).model_copy(update={"standard_error": 0.03}), **{**about, "model": model})
        for model, value in (("hf", 0.9), ("other", 0.6))
    ]
    base = {"text": "good", "probe": "accuracy", "metric": "per_step_factor", "comparison": ">", "model": "hf"}
    claims = [{**base, "value": 0.5}, {**base, "than": {"model": "other"}}]
    suite = Suite.model_validate({"experiments": [{"models": ["hf", "other"]}], "claims": claims})
    text = " ".join(render(records, suite).split())
    assert "0.900 ± 0.0300: measured once, and clear by more than two standard errors" in text
    assert "0.900 against 0.600, difference ± 0.0424: measured once" in text
    assert "Of 2 claims, 2 hold." in text


def test_markdown_escapes_what_would_break_it() -> None:
    """A pipe in a claim does not end its cell, and every table row has as many cells as its header."""
    text = render(*claims(), "markdown")
    assert r"It \| works" in text
    table = [line.replace(r"\|", "") for line in text.split("\n") if line.startswith("|") and "works" in line]
    assert {line.count("|") for line in table} == {7}
    assert r"100\*" in render([record(curve([1] * 5, inside=INSIDE))], format="markdown")


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
        record(factor(1 / 3, "flat, falling"), curve([1, NAN, 0.5, math.inf, 0], inside=INSIDE), cell),
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


def test_json_gives_the_records_back() -> None:
    """All of them, older ones too, with NaN and infinity, and readable by any JSON parser."""
    records = [record(factor(NAN), curve([1, NAN, math.inf, 0, 0]), minutes=m) for m in range(2)]
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


def test_a_report_needs_no_torch() -> None:
    """Records can be read where nothing can be trained."""
    code = "import sys, harness.report, harness.claims, harness.statistics; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_report_says_where_it_was_measured() -> None:
    """Processor, threads and torch of all records, each combination once; the rows for programs have them, too."""
    records = [record(curve([0.5] * 5), seed=seed) for seed in range(3)]
    other = records[0].model_copy(
        update={"provenance": records[0].provenance.model_copy(update={"device": "EPYC"}), "seed": 4}
    )
    text = " ".join(render([*records, other]).split())
    assert "Measured on EPYC, 1 thread, with torch 2.13; on cpu, 1 thread, with torch 2.13." in text
    assert {(row["machine"], row["threads"], row["torch"]) for row in rows([other])} == {("EPYC", 1, "2.13")}


def test_a_heading_says_what_was_trained() -> None:
    """`after training` is not said of a model that was not trained."""
    headings = {
        "after training": record(curve([0.5] * 5)),
        "without training (0 steps)": record(curve([0.5] * 5), training={"steps": 0}),
        "pretrained": record(curve([0.5] * 5), training={"steps": 0}).model_copy(update={"pretrained": True}),
    }
    for heading, each in headings.items():
        assert f"accuracy on recall, {heading}" in render([each])
