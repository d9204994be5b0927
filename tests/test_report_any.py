"""Whatever valid records say, there is a report, and the rest of it where a part cannot be drawn."""

import json
import math
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from record_factory import record

from harness.measurements import Curve, Matrix, Scalar
from harness.report import render
from harness.schema import Failure, Record
from harness.suites import Suite
from harness.vocabulary import FORMATS

FLOATS = st.one_of(st.floats(), st.sampled_from([1e308, -1e308, 5e-324, -5e-324, 1.0, 1 + 2**-52, 0.0, math.nan]))
ODD = [
    "",
    " ",
    "\n",
    "a\nb",
    "\x1b[31mred\x1b[0m",
    "\ud800",
    "=1+1",
    "|",
    r"\end{tabular}",
    "[x](y)",
    "\u202e",
    "m" * 2000,
    "9" * 5000,
    "¹",
]
TEXTS = st.one_of(st.sampled_from(ODD), st.text(max_size=12), st.text(st.characters(), max_size=6))
WORDS = TEXTS.filter(lambda text: text and not re.search("[\ud800-\udfff]", text))
REDUCTIONS = st.sampled_from([None, "mean", "min", "max"])
OBEYED = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\ud800-\\udfff]")
ERRORS = st.one_of(st.none(), FLOATS)


def of(n: int, items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """That many."""
    return st.lists(items, min_size=n, max_size=n)


SCALARS = st.builds(
    Scalar,
    name=TEXTS,
    unit=TEXTS,
    value=FLOATS,
    verdict=st.none() | TEXTS,
    meaning=st.none() | TEXTS,
    about=TEXTS,
    standard_error=ERRORS,
    headline=st.booleans(),
)


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    """Along numbers or names, with or without flags and errors."""
    n = draw(st.integers(0, 8))
    return Curve(
        name=draw(TEXTS),
        unit=draw(TEXTS | st.just("share")),
        x=draw(of(n, FLOATS) | of(n, TEXTS)),
        y=draw(of(n, FLOATS)),
        x_label=draw(TEXTS),
        y_label=draw(TEXTS),
        inside=draw(st.none() | of(n, st.booleans())),
        standard_errors=draw(st.none() | of(n, FLOATS)),
        scale=draw(st.sampled_from(["linear", "log"])),
        headline=draw(st.booleans()),
    )


@st.composite
def matrices(draw: st.DrawFn) -> Matrix:
    """Of any shape, also empty."""
    height, width = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    said: dict[str, Any] = {
        name: draw(TEXTS) for name in ("name", "unit", "row_label", "column_label", "about", "meaning")
    }
    values = draw(of(height, of(width, FLOATS)))
    return Matrix(rows=draw(of(height, TEXTS)), columns=draw(of(width, TEXTS)), values=values, **said)


MEASUREMENTS = st.one_of(SCALARS, curves(), matrices())


@st.composite
def some_records(draw: st.DrawFn) -> list[Record]:
    """A few, some of which are seeds of one another, failed or skipped."""
    labels = draw(st.lists(TEXTS, min_size=1, max_size=2))
    found = []
    for seed in range(draw(st.integers(1, 4))):
        made = record(*draw(st.lists(MEASUREMENTS, max_size=3)), seed=seed, loss=draw(ERRORS), data=draw(TEXTS))
        label = draw(st.sampled_from(labels))
        more: dict[str, Any] = {
            "id": str(seed),
            "model": made.model.model_copy(update={"label": label, "name": label, "alias": draw(TEXTS)}),
            "task": made.task.model_copy(update={"label": draw(st.sampled_from(labels))}),
            "notes": draw(st.lists(TEXTS, max_size=2)),
            "warnings": draw(st.lists(TEXTS, max_size=2)),
            "stage": draw(st.sampled_from(["initial", "trained"])),
            "pretrained": draw(st.booleans()),
        }
        outcome = draw(st.sampled_from(["ok", "ok", "ok", "failed", "skipped"]))
        if outcome == "failed":
            more |= {"error": Failure(type=draw(TEXTS), message=draw(TEXTS)), "measurements": []}
        if outcome == "skipped":
            more |= {"reason": draw(TEXTS), "measurements": []}
        found.append(made.model_copy(update=more | {"status": outcome}))
    return found


@st.composite
def suites(draw: st.DrawFn) -> Suite:
    """With claims about a value, or another model."""

    def claim() -> dict[str, Any]:
        said = {"text": draw(TEXTS), "source": draw(TEXTS), "metric": draw(WORDS), "row": draw(st.none() | WORDS)}
        said |= {"probe": "accuracy", "comparison": draw(st.sampled_from([">", "<="])), "reduce": draw(REDUCTIONS)}
        finite = draw(FLOATS.filter(math.isfinite))
        other = {"than": {"model": "other"}, "factor": finite or 1.0}
        return said | (other if draw(st.booleans()) else {"value": finite, "margin": abs(finite)})

    claims = [claim() for _ in range(draw(st.integers(0, 2)))]
    return Suite.model_validate({"experiments": [{"models": ["lstm"]}], "summary": draw(TEXTS), "claims": claims})


@pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # of the type checks while tests run
@settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[*HealthCheck],
)
@given(some_records(), suites(), TEXTS, TEXTS)
def test_any_valid_records_make_a_report(records: list[Record], suite: Suite, title: str, text: str) -> None:
    """In every format, whole, in characters that UTF-8 can hold and no terminal obeys (JSON has its own escapes)."""
    for form in FORMATS:
        shown = render(records, suite, form, sections=[(title, text)])
        assert not re.search("could not be (drawn|written|judged)", shown)
        shown.encode()
        if form == "json":
            assert len(json.loads(shown)) == len(records)
        else:
            assert not OBEYED.search(shown)
