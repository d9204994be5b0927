"""Text of plugins, labels, notes and errors in reports: it cannot do more than be read."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from record_factory import claim, curve, record, scores

from harness.claims import Judgement, judge
from harness.cli import main
from harness.measurements import Curve, Scalar
from harness.report import render, verdicts
from harness.report.blocks import document
from harness.report.elements import LONGEST_CELL, Heading, Items, Paragraph, Table
from harness.report.layout import Column, fit
from harness.report.tables import TABLES
from harness.report.verdicts import claim_blocks
from harness.report.writers import write
from harness.safe import sentence, spreadsheet, visible, visible_lines
from harness.schema import Record
from harness.store import RunDirectory
from harness.suites import Experiment, Request, Suite

ATTACKS = {
    "\x1b[2J": r"\x1b[2J",
    "\x1b]8;;http://x\x07": r"\x1b]8;;http://x\x07",
    "\x9b31m": r"\x9b31m",
    "ok\rno": r"ok\rno",
    "no\b\b": r"no\x08\x08",
    "a\u202eb": r"a\u202eb",
    "a\u200bb": r"a\u200bb",
    "a\nb": r"a\nb",
    "a\ud800b": r"a\ud800b",
    "a\u2028b": r"a\u2028b",
}
"""What a terminal or a reader would be fooled by, and how it is shown."""


def score(value: float = 0.5, **more: Any) -> Scalar:
    """A headline number."""
    return Scalar(name="score", unit="", value=value, headline=True, **more)


def labelled(label: str, *measurements: Any, **more: Any) -> Record:
    """A record of a model of that label."""
    made = record(*measurements, **more)
    return made.model_copy(update={"model": made.model.model_copy(update={"label": label, "name": label})})


@pytest.mark.parametrize(("text", "shown"), ATTACKS.items())
def test_what_acts_is_shown_as_an_escape(text: str, shown: str) -> None:
    """Escape sequences, line ends, bidi and zero-width characters, half characters."""
    assert visible(text) == shown


def test_words_of_all_languages_stay() -> None:
    """Letters, accents, emoji and no-break spaces are shown as they are."""
    for text in ("größe", "模型", "e\u0301", "\u00a0x", "🙂", "a\\b"):
        assert visible(text) == sentence(text) == visible_lines(text) == text


def test_running_text_is_one_line_and_verbatim_text_keeps_its_lines() -> None:
    """Line ends of either kind."""
    assert sentence("a\n  b\r\nc\x1b") == r"a b c\x1b"
    assert visible_lines("a\r\n\tb\x1b") == "a\n\tb\\x1b"


@given(st.text(st.characters()))
def test_nothing_that_acts_is_left(text: str) -> None:
    """And UTF-8 can hold the rest."""
    for safe in (visible(text), sentence(text), spreadsheet(text)):
        safe.encode()
        assert not set(safe) & {chr(code) for code in (*range(32), *range(127, 160), 0x200B, 0x202E, 0x2066, 0xFEFF)}


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "csv"])
def test_every_place_of_a_report_is_safe(form: str) -> None:
    """Labels, names, units, axes, verdicts, notes, warnings, reasons, errors and sections of plugins."""
    bad = "x\x1b[31m\u202e\ud800"
    named = curve([1, 2], [bad, "b"], name=bad, unit=bad, x_label=bad, y_label=bad)
    found = Scalar(name=bad, unit=bad, value=1.0, verdict=bad, meaning=bad, about=bad, headline=True)
    said = {"notes": [bad], "warnings": [bad]}
    records = [
        labelled(bad, named, found, **said),
        labelled(bad, skipped=bad, seed=1),
        labelled(bad, failed=bad, seed=2),
    ]
    text = render(records, format=form, sections=[(bad, bad)])
    assert not set(text) & set("\x1b\u202e\ud800")
    assert text.count("x1b") > 5


def test_a_label_of_two_lines_makes_no_second_row() -> None:
    """Its line end is seen; the lines that a table breaks itself stay."""
    records = [labelled("lstm\ngpt", score(verdict="a\nb"), seed=seed) for seed in range(2)]
    (table,) = (block for block in document(records) if isinstance(block, Table))
    cells = {column.header: column.cells for column in table.columns}
    assert cells["model"] == [r"lstm\ngpt"]
    assert cells["verdict"] == [r"a\nb 2/2"]


def test_overlong_text_keeps_its_beginning_and_end() -> None:
    """In cells, headers and titles, so that labels that differ in their last argument still do."""
    records = [labelled("net:" + "a" * 5000 + end, score()) for end in "xy"]
    table = next(block for block in document(records) if isinstance(block, Table))
    labels = next(column.cells for column in table.columns if column.header == "model")
    assert all(len(label) < LONGEST_CELL + 20 for label in labels)
    assert {(label[:5], label[-1]) for label in labels} == {("net:a", "x"), ("net:a", "y")}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("![x](http://x)", r"![x\](http://x)"),
        ("see [x](y)", r"see [x\](y)"),
        ("[x]: http://x", r"\[x\]: http://x"),
        ("<img src=x>", r"\<img src=x>"),
        ("a | b", r"a \| b"),
        ("&lt;", r"\&lt;"),
        ("# x", r"\# x"),
        ("1. x", r"1\. x"),
        ("- x", r"\- x"),
        ("_x_ a_b", r"\_x\_ a_b"),
        ("$x$ ~~y~~", r"\$x\$ \~\~y\~\~"),
        ("0.6 [0.5..0.7]", "0.6 [0.5..0.7]"),
        ("R & D, 0.5", "R & D, 0.5"),
    ],
)
def test_markdown_shows_text_as_it_is(text: str, shown: str) -> None:
    """No images, links, HTML, headings, lists, formulas or emphasis; what means nothing is left alone."""
    assert write([Paragraph(text)], "markdown", 100) == f"{shown}\n"


def test_markdown_tables_and_fences_hold() -> None:
    """Every row has as many cells as its header, and a section does not end the fence it is in."""
    text = render([labelled("a|b\n|c|", score(verdict="x|y"))], format="markdown", sections=[("s", "```\n# x")])
    rows = [line.replace(r"\|", "") for line in text.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows if "score" in row or "0.5" in row}) == 1
    assert "````\n```\n# x\n````" in text


def test_latex_shows_text_as_it_is() -> None:
    """Specials in cells, notes and titles; what begins a row or an item is no argument; verbatim text cannot end."""
    special = r"\input{x} $a^2$ & # _ ~ %"
    records = [labelled("[1]", score()), labelled("* " + special, score(), notes=[special])]
    text = render(records, format="latex", sections=[(special, "a\n\\end{verbatim}\\input{x}")])
    escaped = r"\textbackslash{}input\{x\} \$a\^{}2\$ \& \# \_ \textasciitilde{} \%"
    assert text.count(escaped) >= 2
    assert r"\input" not in text.replace(r"\end {verbatim}\input", "")
    assert text.count(r"\end{verbatim}") == 1
    starts = [line.strip()[:3] for line in text.splitlines() if "0.5" in line]
    assert starts == ["{*}", "{[}"]
    assert r"\item {[}" in write([Items(["[x] y"])], "latex", 100)


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd", "'+cmd"),
        ("-a", "'-a"),
        ("@sum", "'@sum"),
        ("\t=1", r"\t=1"),
        ("\r=1", r"\r=1"),
        ("-1.5", "-1.5"),
        ("+1e-05", "+1e-05"),
        ("-inf", "-inf"),
        ("-.5", "-.5"),
        ("a=1", "a=1"),
    ],
)
def test_spreadsheets_compute_no_text(cell: str, shown: str) -> None:
    """What would be a formula gets an apostrophe; numbers are left alone."""
    table = [*csv.DictReader(io.StringIO(render([record(curve([-1.5], [cell]))], format="csv")))]
    assert [(row["x"], row["value"]) for row in table] == [(shown, "-1.5")]


def test_csv_has_a_line_for_each_row() -> None:
    """Whatever messages say."""
    text = render([record(failed="a\nb\r\nc"), record(seed=1, skipped="x")], format="csv")
    assert len(text.splitlines()) == 3
    assert len([*csv.reader(io.StringIO(text))]) == 3


def test_json_stays_exact() -> None:
    """Control characters and half characters come back as they were, and so do NaN and infinity beside them."""
    label = "a\x1b\u202e\ud800\n=1"
    (found,) = json.loads(render([labelled(label, score(float("nan")))], format="json"))
    assert found["model"]["label"] == label
    assert found["measurements"][0]["value"] == "NaN"


class Broken(Scalar):
    """A measurement that fails when it is looked at."""

    def points(self) -> Iterator[Any]:
        """None."""
        raise RuntimeError("boom\x1b[2J")


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_one_table_that_cannot_be_drawn_stops_no_other(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line says which error it was, and all the rest is there."""

    def fail(*_: Any) -> Iterator[Table]:
        raise RuntimeError("boom\x1b[2J")

    tables: dict[Any, Any] = TABLES
    monkeypatch.setitem(tables, Curve, fail)
    text = render(
        [record(score(0.25), curve([1, 2, 3, 4, 5]), notes=["a note"])], format=form, sections=[("more", "yes")]
    )
    assert "this section could not be drawn: RuntimeError: boom" in " ".join(text.split())
    assert "\x1b" not in text
    assert all(word in text for word in ("0.250", "a note", "more", "yes"))


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_a_block_that_cannot_be_written_stops_no_other(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writers, too."""
    columns = [Column("a", ["1", "2"]), Column("b", ["1"])]
    text = write([Heading("first"), Table(columns), Paragraph("last")], form, 80)
    assert "this section could not be drawn: ValueError" in text
    assert text.index("first") < text.index("drawn") < text.index("last")


@pytest.mark.parametrize("junk", [None, 3, "ab", ("a",), ("a", 1), ("a", "b", "c"), b"ab", {"a": "b"}])
def test_what_is_no_section_is_told(junk: Any) -> None:
    """Whatever a plugin returns, the other sections are shown."""
    text = render([record(score())], sections=[("first", "one"), junk, ("last", "two")])
    assert " ".join(text.split()).count("this section could not be drawn: TypeError: a section is a pair") == 1
    assert text.index("one") < text.index("drawn") < text.index("two")


def test_a_record_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """In CSV and JSON: a row and an object with its id and the error; the others are whole."""
    broken = Broken(name="score", unit="", value=0.5)
    records = [record(score()).model_copy(update={"measurements": [broken]}), record(score(0.75), seed=1)]
    table = [*csv.DictReader(io.StringIO(render(records, format="csv")))]
    assert table[0]["message"] == r"this record could not be written: RuntimeError: boom\x1b[2J"
    assert [(row["seed"], row["value"]) for row in table] == [("0", ""), ("1", "0.75")]
    bad = record(score()).model_copy(update={"notes": object()})
    found = json.loads(render([bad, records[1]], format="json"))
    assert found[0]["message"].startswith("this record could not be written: ")
    assert found[1]["measurements"][0]["value"] == 0.75


def test_a_claim_that_cannot_be_judged_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table says so, with the error; whoever runs the suite is told which claim it is."""
    suite = Suite(
        experiments=[Experiment(models=[Request(name="lstm")])], claims=[claim(text="bad"), claim(text="good")]
    )

    def judged(each: Any, *rest: Any) -> Judgement:
        if each.text == "bad":
            raise RuntimeError("boom")
        return judge(each, *rest)

    monkeypatch.setattr(verdicts, "judge", judged)
    (table,) = (block for block in claim_blocks(suite, scores(1.0, 1.0, 1.0)) if isinstance(block, Table))
    cells = {column.header: column.cells for column in table.columns}
    assert cells["verdict"] == ["not judged", "holds"]
    assert cells["why"][0] == "could not be judged: RuntimeError: boom"
    told = verdicts.unanswerable(suite, scores(1.0, 1.0, 1.0))
    assert told == ["the claim 'bad' could not be judged: RuntimeError: boom"]


def test_a_report_names_a_claim_that_it_could_not_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And ends with exit code 1; the tables are shown all the same."""
    place = RunDirectory(tmp_path)
    place.create()
    place.write_suite(Suite(experiments=[Experiment(models=[Request(name="lstm")])], claims=[claim(text="it works")]))
    (one,) = scores(1.0)
    place.write_record(one.model_copy(update={"id": "0" * 16}))
    monkeypatch.setattr(verdicts, "judge", lambda *given: 1 / 0)
    shown = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert shown.exit_code == 1
    assert "'it works' could not be judged: ZeroDivisionError" in shown.stderr
    assert "lstm" in shown.stdout


def test_a_long_curve_asks_for_few_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which places fit is found without trying all numbers of them: a curve of 10,000 points takes no minute."""
    asked = 0
    width: Callable[[Column], int] = vars(Column)["width"].fget

    def counted(column: Column) -> int:
        nonlocal asked
        asked += 1
        return width(column)

    monkeypatch.setattr(Column, "width", property(counted))
    places = [Column(str(x), ["0.500"], thin=True) for x in range(10_000)]
    ((shown,), notes) = fit([Column("model", ["lstm"], "label"), *places], 100)
    assert [shown[1].header, shown[-1].header] == ["0", "9999"]
    assert notes == [f"{len(shown) - 1} of 10000 columns shown; all of them: --format csv"]
    assert asked < 10 * len(places)


def test_a_long_curve_beside_a_label_that_fills_the_page() -> None:
    """It is thinned out all the same."""
    places = [Column(str(x), ["0.500"], thin=True) for x in range(10_000)]
    parts, _ = fit([Column("model", ["m" * 200], "label"), *places], 100)
    assert sum(column.thin for part in parts for column in part) < 100
