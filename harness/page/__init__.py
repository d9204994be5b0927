"""A run as one HTML file: the answer in five seconds, the evidence in thirty, everything else below it.

The file works from disk, offline, without a request to anywhere, and shows its cards, charts and tables without
JavaScript, which only adds to it: sorting, filters, the data of a table as CSV, the attention explorer.
"""

import html
import re
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from itertools import islice
from typing import Any

import jinja2
from markupsafe import Markup

from harness.charts import CHARTS, NothingToDraw, Size, View
from harness.charts.files import specification, svg
from harness.charts.style import FAINT, INK, SHADE
from harness.page.command import command_of
from harness.page.explorer import explorer
from harness.report.blocks import document
from harness.report.cards import QUESTIONS, cards
from harness.report.elements import Heading
from harness.report.numbers import count
from harness.schema import Record

WIDTH = 860.0
"""Of charts, in pixels."""

MOST_CARDS = 60
MOST_ROWS = 400
"""So many models, and rows of a table, are shown; the page says what it leaves out."""

MOST_IN_NOTEBOOK = 12


def render_page(view: View, sections: Sequence[tuple[str, str]] = ()) -> str:
    """The page of a run.

    Args:
        view: the run.
        sections: further titled text, for example from plugins.
    """
    kept = view.kept
    blocks = document(list(view.records), view.suite, sections)
    titles = [index for index, block in enumerate(blocks) if isinstance(block, Heading) and block.level > 1]
    found = cards(view.groups)
    patterns, left_out = explorer(view)
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            title=blocks[0].text if isinstance(blocks[0], Heading) else "Results",
            summary=view.suite.summary if view.suite else "",
            command=command_of(view.suite),
            facts=_facts(kept),
            questions=QUESTIONS,
            cards=found[:MOST_CARDS],
            more_cards=max(0, len(found) - MOST_CARDS),
            looks=view.looks,
            charts=list(_charts(view)),
            patterns=Markup(patterns) if patterns != "[]" else "",
            left_out=left_out,
            blocks=[(type(block).__name__, block) for block in (blocks[titles[0] :] if titles else [])],
            most_rows=MOST_ROWS,
            css=Markup(packaged("page.css")),
            js=Markup(packaged("page.js")),
        )
    )


def render_snippet(view: View) -> str:
    """What a notebook shows of a run: its cards and its first chart."""
    found = cards(view.groups)
    return (
        environment()
        .get_template("snippet.html.j2")
        .render(
            title=f"Results of {view.suite.name}" if view.suite and view.suite.name != "run" else "Results",
            facts=_facts(view.kept)[:2],
            questions=QUESTIONS,
            cards=found[:MOST_IN_NOTEBOOK],
            looks=view.looks,
            charts=list(islice(_charts(view), 1)),
            css=Markup(scoped(packaged("page.css"))),
        )
    )


def scoped(css: str) -> str:
    """The rules of tables and cards alone, for the inside of one element of somebody else's page."""
    kept = [
        line
        for line in css.splitlines()
        if re.match(r"(table|th|td|thead|details|summary|\.(icon|swatch|meaning))", line)
    ]
    variables = "; ".join(re.findall(r"(--[\w-]+: [^;]+);", css.split("@media")[0]))
    return "\n".join([f".harness-results {{ {variables}; }}", *(f".harness-results {line}" for line in kept)])


def environment() -> jinja2.Environment:
    """Of the templates, which escape whatever they are given."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("harness.page"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


def packaged(name: str) -> str:
    """The text of a file beside the templates."""
    return files("harness.page").joinpath("templates", name).read_text(encoding="utf-8")


def _facts(kept: Sequence[Record]) -> list[str]:
    """How much was measured, when, on what, with which versions."""
    if not kept:
        return ["There are no records: nothing has been measured yet."]
    outcomes = Counter(record.status for record in kept)
    trials = len({record.trial for record in kept})
    seeds = len({record.seed for record in kept})
    said = [f"{count(trials, 'trial')}, {count(seeds, 'seed')}, {count(len(kept), 'record')}"]
    said += [f"{outcomes[status]} {status}" for status in ("failed", "skipped") if outcomes[status]]
    days = sorted({f"{record.provenance.finished:%Y-%m-%d}" for record in kept})
    where = sorted({(p.device, p.threads) for p in (record.provenance for record in kept)})
    versions = sorted({(p.torch, p.python, p.harness) for p in (record.provenance for record in kept)})
    return [
        ", ".join(said),
        days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}",
        "; ".join(f"{device}, {count(threads, 'thread')}" for device, threads in where),
        "; ".join(f"torch {torch}, Python {python}, harness {version}" for torch, python, version in versions),
    ]


def _charts(view: View) -> Any:
    """Every chart that can be drawn, as SVG that takes the colours of the page."""
    for chart in CHARTS.values():
        try:
            drawn = chart.draw(view, Size(WIDTH, WIDTH - 40))
        except NothingToDraw:
            continue
        about = f"{chart.title}. {chart.look_for}"
        yield {"chart": chart, "svg": Markup(inline(svg(specification(drawn)), chart.name, about))}


def inline(drawing: str, name: str, about: str) -> str:
    """A drawing as part of a page: with the page's colours, ids of its own, and what a screen reader says of it."""
    drawing = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', drawing)
    drawing = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", drawing)
    drawing = re.sub(r'(<rect width="[\d.]+" height="[\d.]+" fill=")white"', r'\1none"', drawing, count=1)
    for colour, variable in ((INK, "--ink"), (FAINT, "--faint"), (SHADE, "--shade"), ("#e4e4e4", "--line")):
        drawing = drawing.replace(f'"{colour}"', f'"var({variable})"')
    label = html.escape(f"Chart: {about}", quote=True)
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{label}" ', drawing, count=1)
