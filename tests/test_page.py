"""The page of a run: what stands in it without JavaScript, that it is safe, and that browsers show it offline."""

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from hostile import EVIL
from record_factory import claim, curve, cut, record, timed

pytest.importorskip("altair", reason="pages need the extra `page`")
pytest.importorskip("vl_convert", reason="pages need the extra `page`")
pytest.importorskip("jinja2", reason="pages need the extra `page`")

from browsing import browser as browser  # the fixtures
from browsing import serious
from browsing import shown as shown

from harness.charts import CHARTS, View
from harness.cli import main
from harness.measurements import Pattern, Scalar
from harness.page import render_page, render_snippet
from harness.schema import Record
from harness.store import RunDirectory
from harness.suites import Experiment, Request, Suite

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def pattern(seed: int) -> Record:
    """An example whose tokens are hostile."""
    rows = [[1.0], [0.25, 0.75], [0.5, 0.0, 0.5]]
    return record(
        Pattern(
            name="pattern",
            tokens=["K1", EVIL, "</script>"],
            heads=["layer 1 head 1", "layer 1 head 2"],
            weights=[rows, [[1.0], [1.0], [0.9, 0.05, 0.05]]],
            cue=0,
            query=2,
        ),
        curve([0.9, 0.8], [1, 100], name="sharpest_share"),
        model="gpt",
        probe="attention_to_subject",
        seed=seed,
        notes=[f"note {EVIL}"],
        warnings=[f"warning {EVIL}"],
    )


def view() -> View:
    """A run of three seeds with something of everything; labels, notes and errors are hostile."""
    records: list[Record] = []
    for seed in range(3):
        records += [
            record(
                curve([1, 1, 0.9, 0.5, 0.2], inside=[True, True, True, False, False]),
                Scalar(name="worst_inside", unit="share", value=0.9, verdict="learned", meaning="all is well & good"),
                model="gpt",
                seed=seed,
            ),
            pattern(seed),
            cut(seed),
            timed(seed),
            record(failed=f"it broke {EVIL}", model="elman", seed=seed),
        ]
    crossed = [Experiment(models=[Request(name="gpt"), Request(name="elman")])]
    suite = Suite(
        name="mine",
        summary=f"summary {EVIL}",
        experiments=crossed,
        claims=[claim(metric="accuracy", model="gpt", reduce="min", text=f"claim {EVIL}")],
    )
    return View(records, suite, lambda trial: [{"step": 1.0, "loss": 1.0}, {"step": 2.0, "loss": 0.5}])


@pytest.fixture(scope="module")
def page() -> str:
    """The page of that run."""
    return render_page(view())


def test_the_answers_stand_at_the_top_without_javascript(page: str) -> None:
    """Title, command, cards, charts as SVG, tables: in the file itself, in this order."""
    places = [page.index(each) for each in ("Results of mine", "harness run mine", 'class="cards"', "<svg", "Claims")]
    assert places == sorted(places)
    assert page.index('class="cards"') < page.index("<script>")
    assert "not measured" in page
    assert "all is well &amp; good" in page


def test_nothing_of_a_plugin_becomes_markup(page: str) -> None:
    """Labels, notes, warnings, errors, claims and tokens are shown as text."""
    assert EVIL not in page
    assert page.count(html.escape(EVIL)) >= 4
    assert page.count("<script") == 2
    source = re.search(r'id="explorer-data">(.*?)</script>', page, re.DOTALL)
    assert source
    found: list[dict[str, Any]] = json.loads(source[1])
    assert [each["tokens"][1] for each in found] == [EVIL] * 3


def test_no_address_is_asked_for(page: str) -> None:
    """Neither by markup nor by style; and the page's own policy forbids it."""
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    assert "@import" not in page
    assert "url(http" not in page
    assert "default-src 'none'" in page


def test_ids_are_unique(page: str) -> None:
    """Charts on one page do not take each other's clips."""
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_the_effect_of_a_cut_stands_beside_its_head(page: str) -> None:
    """From the records of another probe on the same model, task and seed."""
    source = re.search(r'id="explorer-data">(.*?)</script>', page, re.DOTALL)
    assert source
    assert json.loads(source[1])[0]["effects"]["layer 1 head 1"] == 0.6


def test_a_run_without_records_has_a_page() -> None:
    """It says so."""
    assert "nothing has been measured yet" in render_page(View([]))


def test_a_chart_that_fails_takes_nothing_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of a plugin may hold anything."""
    broken = replace(CHARTS["reach"], draw=lambda view, size: 1 / 0)
    monkeypatch.setitem(CHARTS, "reach", broken)
    text = render_page(view())
    assert "could not be drawn" in text
    assert "division by zero" in text
    assert text.count("<svg") > 1
    assert "could not be drawn" in render_snippet(view())


def test_a_page_says_what_it_leaves_out(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables beyond its size, and models beyond its cards, with the way to them; a small run leaves out nothing."""
    assert "Not on this page" not in page
    monkeypatch.setattr("harness.page.MOST_CARDS", 10)
    monkeypatch.setattr("harness.page.MOST_CELLS", 50)
    text = render_page(View([record(curve([1, 0.5], [1, 2]), model=f"m{n}", task=f"t{n % 7}") for n in range(14)]))
    for words in ("12 of 14 models", "6 of 7 tasks", "4 models have no answers above", "tables are left out below"):
        assert words in text
    assert "--format csv" in text
    assert 0 < text.count('<table class="data"') < 14


def test_a_notebook_shows_cards_and_one_chart() -> None:
    """In one element, whose rules touch nothing else of the page around it."""
    text = render_snippet(view())
    assert text.count("<svg") == 1
    assert 'class="cards"' in text
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style
    assert all(rule.startswith(".harness-results") for rule in style[1].strip().splitlines())


@pytest.mark.parametrize("width", [400, 2000])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_it_offline(shown: "Page", width: int, scheme: Any) -> None:
    """At both ends of screens and in both themes: nothing is wider than the screen, and text can be told from paper."""
    shown.set_viewport_size({"width": width, "height": 900})
    shown.emulate_media(color_scheme=scheme)
    shown.evaluate(
        "for (const each of document.querySelectorAll('h1, h2, h3')) each.textContent += '+farm_agreement'.repeat(9)"
    )
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    paper, ink = shown.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    assert paper != ink
    assert shown.locator("table.cards").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(shown: "Page", scheme: Any) -> None:
    """Contrast, names, landmarks, tables: as screen readers need them, in both themes."""
    assert serious(shown, scheme) == []


def test_the_explorer_is_moved_by_keys(shown: "Page") -> None:
    """Another token looks elsewhere; another head has another effect."""
    said = shown.locator("#explorer-said")
    assert "Token 3" in said.inner_text()
    tokens = shown.locator("#explorer-tokens")
    tokens.focus()
    shown.keyboard.press("ArrowLeft")
    assert "Token 2" in said.inner_text()
    assert shown.locator("#explorer-rows tbody tr").nth(2).locator("td").nth(2).inner_text() == "masked"
    shown.keyboard.press("Home")
    assert "Token 1" in said.inner_text()
    shown.locator("#explorer-tools select").last.select_option("layer 1 head 1")
    assert "falls by 0.600" in said.inner_text()


def test_tables_can_be_sorted_and_claims_filtered(shown: "Page") -> None:
    """By number where cells are numbers; a filter for each verdict."""
    table = shown.locator("table.data", has_text="claim").last
    shown.get_by_role("button", name="does not hold").click()
    assert table.locator("tbody tr:visible").count() == 1
    head = shown.locator("table.data th button").first
    head.click()
    assert shown.locator("table.data th").first.get_attribute("aria-sort") == "ascending"


def test_without_javascript_everything_is_there(browser: "Browser", page: str, tmp_path: Path) -> None:
    """Cards, charts and tables; the explorer alone needs it, and hides."""
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(path.as_uri())
    assert tab.locator("table.cards").is_visible()
    assert tab.locator("svg").first.is_visible()
    assert tab.locator("table.data").first.is_visible()
    assert not tab.locator("#explorer").is_visible()
    context.close()


def test_the_command_writes_the_page_of_a_run(tmp_path: Path) -> None:
    """Into the file that is named; without a name, or a folder for it, nothing is read."""
    store = RunDirectory(tmp_path / "run")
    store.create()
    store.write_suite(Suite(experiments=[Experiment(models=[Request(name="gpt")])]))
    store.write_record(record(curve([1, 0.5], [1, 2])).model_copy(update={"id": "0" * 16}))
    said = CliRunner().invoke(
        main, ["report", str(store.path), "--format", "html", "--out", str(tmp_path / "page.html")]
    )
    assert said.exit_code == 0, said.output
    assert "<svg" in (tmp_path / "page.html").read_text(encoding="utf-8")
    for words, wrong in ((["--format", "html"], "--out"), (["--format", "html", "--out", "no/page.html"], "no folder")):
        said = CliRunner().invoke(main, ["report", str(store.path), *words])
        assert said.exit_code == 2
        assert wrong in said.output
    said = CliRunner().invoke(main, ["report", str(store.path), "--model", "lstm", "--task", "recall"])
    assert "lstm" in said.output
    said = CliRunner().invoke(main, ["report", str(store.path), "--model", "gtp"])
    assert (said.exit_code, "There are: lstm" in said.output) == (2, True)
    said = CliRunner().invoke(main, ["report", str(store.path), "--format", "csv", "--out", str(tmp_path / "data.csv")])
    assert said.exit_code == 0
    assert (tmp_path / "data.csv").read_text(encoding="utf-8").startswith("model,")


def test_the_command_draws_charts(tmp_path: Path) -> None:
    """What a run can draw, and into files; several charts into files of their own."""
    store = RunDirectory(tmp_path / "run")
    store.create()
    store.write_record(record(curve([1, 0.5], [1, 2])).model_copy(update={"id": "0" * 16}))
    offered = CliRunner().invoke(main, ["plot", str(store.path)])
    assert offered.exit_code == 0
    assert "reach" in offered.output
    assert "--probe edge_cut" in offered.output
    drawn = CliRunner().invoke(main, ["plot", str(store.path), "reach", "--out", str(tmp_path / "figure.svg")])
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "figure.svg").read_text(encoding="utf-8").startswith("<svg")
    for words, wrong in ((["reach"], "--out reach.pdf"), (["raech", "--out", "x.pdf"], "'reach'")):
        said = CliRunner().invoke(main, ["plot", str(store.path), *words])
        assert said.exit_code == 2
        assert wrong in said.output
