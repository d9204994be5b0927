"""The report of a run: what was measured, on how much, over which seeds, and what is missing."""

import math
import subprocess
import sys

from record_factory import curve, record
from reports import factor, lines

from harness.report import render, rows
from harness.report.grouping import names
from harness.schema import Record
from harness.suites import Suite


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
            record(factor(math.nan), factor(math.inf, name="horizon"), curve([math.nan, 1, 1, 1, 1])),
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


def test_what_a_grid_makes_of_a_model_stands_where_the_suite_has_the_model() -> None:
    """And not behind the others, though the suite names none of it."""
    labels = ["lstm", "gru", "lstm:hidden=9", "gru:hidden=9"]
    records = [record(factor(1.0), model=label) for label in labels]
    suite = Suite.model_validate({"experiments": [{"models": ["lstm", "gru"]}], "grid": {"hidden": [4, 9]}})
    assert [*names(records, "model", suite).values()] == ["lstm", "lstm:hidden=9", "gru", "gru:hidden=9"]


def test_a_name_given_twice_is_one_number() -> None:
    """Each seed counts once."""
    twice = record(factor(0.1, "flat"), factor(0.9, "flat"))
    assert lines(render([twice]), "lstm") == ["lstm 26,834 1 0.100 flat"]


def test_long_messages_are_cut() -> None:
    """A page of compiler output does not bury the report."""
    text = render([record(failed="word " * 1000)])
    assert len(text) < 1500
    assert "[...]" in text


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
