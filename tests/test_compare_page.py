"""The page of a comparison: one file, safe, and shown by browsers offline and without JavaScript."""

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from comparisons import LEVELS, compared, score, stored
from hostile import EVIL
from record_factory import curve, record

pytest.importorskip("altair", reason="pages need the extra `page`")
pytest.importorskip("vl_convert", reason="pages need the extra `page`")
pytest.importorskip("jinja2", reason="pages need the extra `page`")

from browsing import browser as browser  # the fixtures
from browsing import serious
from browsing import shown as shown

from harness.cli import main
from harness.comparing import Comparison
from harness.measurements import Scalar
from harness.schema import Record

if TYPE_CHECKING:
    from playwright.sync_api import Page


def side(better: float) -> list[Record]:
    """Three seeds with a curve, numbers that differ and numbers that do not, and something that failed."""
    found = []
    for seed in range(3):
        inside = [True, True, False]
        shape = curve([1, 0.9, better], [1.0, 10.0, 100.0], inside=inside, levels=LEVELS)
        same = Scalar(name="same", unit="", value=1.0, headline=True)
        told = score(better, verdict=f"verdict {better} {EVIL}")
        found.append(record(shape, told, same, model="gpt", seed=seed, digest=f"d{better}"))
        found.append(record(score(0.5), model=f"evil{EVIL}", seed=seed))
        failed = f"broken {EVIL}" if better > 0.5 else None
        found.append(record(*([] if failed else [score(0.5)]), failed=failed, model="elman", seed=seed))
    return [*found, record(score(0.5), model=f"only{better}{EVIL}")]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compared(side(0.3), side(0.8))


@pytest.fixture(scope="module")
def page(comparison: Comparison) -> str:
    """Its page."""
    return comparison.page()


def test_everything_stands_in_the_file(page: str) -> None:
    """The answer first, then what has changed, charts, tables; no script, no address."""
    places = [page.index(each) for each in ("better", "What changed", "<svg", "B - A", "How to read this")]
    assert places == sorted(places)
    assert "<script" not in page
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    assert "default-src 'none'" in page


def test_nothing_of_a_plugin_becomes_markup(page: str) -> None:
    """Labels, verdicts and errors are shown as text."""
    assert EVIL not in page
    assert page.count(html.escape(EVIL)) >= 4


def test_a_notebook_shows_the_answer_and_the_first_model(comparison: Comparison) -> None:
    """In one element, whose rules touch nothing else of the page around it."""
    text = comparison._repr_html_()
    assert text
    assert text.count("<svg") == 1
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style
    assert all(rule.startswith(".harness-results") for rule in style[1].strip().splitlines())


def test_the_command_writes_it(tmp_path: Path) -> None:
    """Into the file that is named."""
    a, b = stored(tmp_path / "a", side(0.3)), stored(tmp_path / "b", side(0.8))
    path = tmp_path / "page.html"
    done = CliRunner().invoke(main, ["compare", str(a), str(b), "--format", "html", "--out", str(path)])
    assert done.exit_code == 0, done.output
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("width", [400, 2000])
def test_a_browser_shows_it_offline(shown: "Page", width: int) -> None:
    """Nothing is wider than the screen."""
    shown.set_viewport_size({"width": width, "height": 900})
    shown.evaluate(
        "for (const each of document.querySelectorAll('h1, h2, h3')) each.textContent += '+farm_agreement'.repeat(9)"
    )
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.locator("svg").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(shown: "Page", scheme: Any) -> None:
    """In both themes."""
    assert serious(shown, scheme) == []
