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
from harness.charts.style import BLACK, BLUE, FAINT, GRID, INK, SHADE
from harness.errors import describe
from harness.page.command import command_of
from harness.page.explorer import explorer
from harness.report.blocks import document
from harness.report.card_table import BEST, asked, not_asked
from harness.report.cards import QUESTIONS, cards
from harness.report.elements import Block, Heading, Table, drawn
from harness.report.grouping import spelled_out
from harness.report.overview import overview_blocks
from harness.safe import visible
from harness.schema import Record
from harness.written import count

WIDTH = 780.0
ENLARGED = 1.3
"""Of charts: in pixels as they are drawn for paper, and by how much screens show them larger."""

VARIABLES = {
    INK: "--ink",
    FAINT: "--faint",
    SHADE: "--shade",
    GRID: "--line",
    BLACK: "--ink",
    BLUE: "--blue",
}
"""Of the page's style, for colours that a dark page shows in another way."""

MOST_CARDS = 60
MOST_ROWS = 400
MOST_CELLS = 60_000
"""The most models, rows of a table, and cells of all tables together that are shown; the page says what is left out."""

MOST_IN_NOTEBOOK = 12


def render_page(view: View, sections: Sequence[tuple[str, str]] = (), note: str = "") -> str:
    """The page of a run.

    Args:
        view: the run.
        sections: further titled text, for example from plugins.
        note: what to say of all records, before any of them.
    """
    kept = view.kept
    blocks = document(list(view.records), view.suite, sections)
    titles = [index for index, block in enumerate(blocks) if isinstance(block, Heading) and block.level > 1]
    found = cards(view.at_best)
    patterns, patterns_left = explorer(view)
    overview = drawn(lambda: overview_blocks(view.learnt))
    shown, tables_left = _fitting(blocks[titles[0] :] if titles else [])
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            title=blocks[0].text if isinstance(blocks[0], Heading) else "Results",
            summary=view.suite.summary if view.suite else "",
            note=visible(note),
            command=command_of(view.suite),
            facts=_facts(kept),
            questions={name: QUESTIONS[name] for name in asked(found)},
            best=BEST if view.suite and view.suite.grid else "",
            not_asked=not_asked(found),
            overview=[(type(block).__name__, block) for block in overview],
            cards=found[:MOST_CARDS] if asked(found) else [],
            left_out=_left_out(view, len(found) - MOST_CARDS, patterns_left, tables_left),
            looks=view.looks,
            full=spelled_out(kept),
            charts=list(_charts(view)),
            patterns=Markup(patterns) if patterns != "[]" else "",
            blocks=[(type(block).__name__, block) for block in shown],
            most_rows=MOST_ROWS,
            css=Markup(packaged("page.css")),
            js=Markup(packaged("page.js")),
        )
    )


def _fitting(blocks: Sequence[Block]) -> tuple[list[Block], int]:
    """The blocks but for those tables that would make the page too large, and how many these are."""
    kept: list[Block] = []
    room, left = MOST_CELLS, 0
    for block in blocks:
        cells = _cells(block) if isinstance(block, Table) else 0
        if cells > room:
            left += 1
        else:
            room -= cells
            kept.append(block)
    return kept, left


def _cells(table: Table) -> int:
    return len(table.columns) * min(MOST_ROWS, len(table.columns[0].cells) if table.columns else 0)


def _left_out(view: View, models: int, patterns: int, tables: int) -> list[str]:
    """What the page has no room for, and where that can be had; a sentence each."""
    found = [view.left_out] if view.left_out else []
    if models > 0:
        found.append(f"{count(models, 'model')} have no answers above: harness report RUN --model NAME")
    if patterns:
        found.append(f"The attention of {count(patterns, 'example')} is in the records only.")
    if tables:
        found.append(f"{count(tables, 'table')} are left out below: harness report RUN --format csv, or --model NAME")
    return found


def render_snippet(view: View, note: str = "") -> str:
    """What a notebook shows of a run: what is to be said of all of it, its cards and its first chart."""
    found = cards(view.at_best)
    return (
        environment()
        .get_template("snippet.html.j2")
        .render(
            title=f"Results of {view.suite.name}" if view.suite and view.suite.name != "run" else "Results",
            note=visible(note),
            facts=_facts(view.kept)[:2],
            questions={name: QUESTIONS[name] for name in asked(found)},
            cards=found[:MOST_IN_NOTEBOOK] if asked(found) else [],
            looks=view.looks,
            full=spelled_out(view.kept),
            charts=list(islice(_charts(view), 1)),
            css=Markup(scoped(packaged("page.css"))),
        )
    )


def scoped(css: str) -> str:
    """The rules of tables and cards alone, for the inside of one element of somebody else's page."""
    kept = [
        line
        for line in css.splitlines()
        if re.match(r"(table|th|td|thead|details|summary|\.(icon|swatch|meaning|value))", line)
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
            about = f"{chart.title}. {chart.look_for}"
            yield {"chart": chart, "svg": Markup(inline(svg(specification(drawn)), chart.name, about))}
        except NothingToDraw:
            continue
        except Exception as error:  # a page shows what it can
            yield {"chart": chart, "failed": f"This chart could not be drawn: {describe(error)}"}


def inline(drawing: str, name: str, about: str) -> str:
    """A drawing as part of a page: with the page's colours, ids of its own, and what a screen reader says of it."""
    drawing = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', drawing)
    drawing = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", drawing)
    drawing = re.sub(r'(<rect width="[\d.]+" height="[\d.]+" fill=")white"', r'\1none"', drawing, count=1)
    for colour, variable in VARIABLES.items():
        drawing = drawing.replace(f'"{colour}"', f'"var({variable})"')
    drawing = re.sub(r"(?<=<svg )[^>]*", lambda found: _enlarged(found[0]), drawing, count=1)
    label = html.escape(f"Chart: {about}", quote=True)
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{label}" ', drawing, count=1)


def _enlarged(attributes: str) -> str:
    return re.sub(
        r'\b(width|height)="([\d.]+)"', lambda found: f'{found[1]}="{float(found[2]) * ENLARGED:.0f}"', attributes
    )
