"""Results in notebooks: as data frames, as charts, as what Jupyter shows."""

import sys
from pathlib import Path

import pytest
from record_factory import curve, record

from harness.errors import RequestError
from harness.results import Results


def results() -> Results:
    """Three seeds, with places that are numbers and places that are words."""
    records = [
        record(curve([1, 0.5], [1, 2]), curve([0.25, 0.75], ["near", "far"], name="by_name"), seed=seed)
        for seed in range(3)
    ]
    return Results(tuple(records), Path("runs/none"))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_has_a_row_for_each_number_of_each_seed(library: str) -> None:
    """The columns are those of CSV, and numbers are numbers."""
    pytest.importorskip(library)
    found = results()
    frame = getattr(found, f"to_{library}")()
    assert list(frame.columns) == list(found.rows()[0])
    assert len(frame) == 12
    assert frame["value"].to_list() == [row["value"] for row in found.rows()]


@pytest.mark.parametrize(
    ("call", "library", "fix"),
    [
        ("to_pandas", "pandas", "pip install pandas"),
        ("to_polars", "polars", "pip install polars"),
        ("plot", "altair", "sequence-harness[page]"),
        ("page", "jinja2", "sequence-harness[page]"),
    ],
)
def test_a_missing_library_is_named_with_how_to_get_it(
    call: str, library: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback of an import."""
    for name in [
        name
        for name in sys.modules
        if name.partition(".")[0] == library or name.startswith("harness.charts") or name.startswith("harness.page")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(RequestError) as caught:
        getattr(results(), call)()
    assert library in str(caught.value)
    assert fix in str(caught.value)


def test_jupyter_shows_cards_and_a_chart_or_text() -> None:
    """HTML where the libraries are."""
    pytest.importorskip("altair")
    pytest.importorskip("jinja2")
    shown = results()._repr_html_()
    assert shown
    assert "<svg" in shown


def test_a_chart_can_be_changed_further() -> None:
    """It is an Altair object."""
    altair = pytest.importorskip("altair")
    chart = results().plot("reach")
    assert isinstance(chart, altair.TopLevelMixin)
    assert chart.properties(title="mine").to_dict()["title"] == "mine"


def test_several_names_filter_for_any_of_them() -> None:
    """As `harness plot --model a --model b` does."""
    mixed = Results(tuple(record(model=model) for model in ("gpt", "gru", "lstm")), Path("runs/none"))
    assert [each.model.name for each in mixed.filter(model=["lstm", "gpt"])] == ["gpt", "lstm"]
    with pytest.raises(RequestError, match="no model 'gru2'"):
        mixed.filter(model=["lstm", "gru2"])
