"""A comparison as one HTML file, made of the same elements as the page of a run; it needs no JavaScript."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

from markupsafe import Markup

from harness.charts.files import specification, svg
from harness.charts.layout import Size, stack
from harness.charts.lines import Panel, Point
from harness.charts.style import looks
from harness.comparing.comparison import Comparison
from harness.comparing.differences import Difference, headlines
from harness.comparing.document import TITLE, about, in_short, named, overview, sections
from harness.measurements import Curve
from harness.page import MOST_ROWS, WIDTH, environment, inline, packaged, scoped
from harness.report.elements import Block, Table, in_safety
from harness.report.layout import Column

TONES = {"better": "good", "worse": "bad", "identical": "quiet", "same": "quiet", "undecided": "quiet", "-": "quiet"}
"""How the first word of a cell is shown."""

MOST_PANELS = 36
"""At most this many curves are drawn, since each takes a part of a second; the page says how many it leaves out."""


IN_NOTEBOOK = 2
"""Sections that a notebook shows: what has changed, and the first model."""


def render_page(comparison: Comparison) -> str:
    """The whole page."""
    return _rendered("comparison.html.j2", comparison, _css(), None)


def render_snippet(comparison: Comparison) -> str:
    """What a notebook shows: the answer, what has changed, and the first model that differs."""
    return _rendered("comparison_snippet.html.j2", comparison, scoped(_css()), IN_NOTEBOOK)


def _css() -> str:
    return packaged("page.css") + packaged("comparison.css")


def _rendered(template: str, comparison: Comparison, css: str, most: int | None) -> str:
    rows = headlines(comparison.rows)
    runs = (("A", comparison.a), ("B", comparison.b))
    return (
        environment()
        .get_template(template)
        .render(
            title=TITLE,
            runs=[(name, about(side)) for name, side in runs],
            in_short=in_short(rows),
            overview=_blocks(overview(rows)),
            sections=list(islice(_sections(comparison), most)),
            tones=TONES,
            most_rows=MOST_ROWS,
            css=Markup(css),
        )
    )


def _sections(comparison: Comparison) -> Iterator[dict[str, Any]]:
    changed = [_changed(comparison)] if comparison.changes else []
    left = MOST_PANELS
    for index, section in enumerate(sections(comparison)):
        curves = list(_curves(section.rows))
        shown = curves[:left]
        left -= len(shown)
        yield {
            "title": section.title,
            "chart": _chart(section.title, shown, f"curves-{index}") if shown else "",
            "left_out": len(curves) - len(shown),
            "blocks": _blocks(changed if index == 0 and changed else section.blocks),
        }


def _blocks(blocks: Any) -> list[tuple[str, Block]]:
    return [(type(block).__name__, in_safety(block)) for block in blocks]


def _changed(comparison: Comparison) -> Table:
    """Where there is room, a table says more clearly than a list what has changed."""
    called = [change.called for change in comparison.changes]
    cells = {
        "of": ["" if index and name == called[index - 1] else name for index, name in enumerate(called)],
        "what": [change.what for change in comparison.changes],
        "A": [change.a for change in comparison.changes],
        "B": [change.b for change in comparison.changes],
    }
    return Table([Column(header, column, "text") for header, column in cells.items()])


def _chart(title: str, curves: Sequence[Sequence[Difference]], name: str) -> str:
    """The curves that differ, of both runs: thin lines are seeds, bold ones their medians."""
    panels = {named(rows[0]): _panel(rows) for rows in curves}
    if len(panels) == 1:
        panels = {name: replace(panel, title=name) for name, panel in panels.items()}
    chart = stack([panels], list(panels), looks(["A", "B"]), Size(WIDTH, WIDTH - 40))
    return Markup(inline(svg(specification(chart)), name, f"{title}: {', '.join(panels)}"))


def _curves(rows: Sequence[Difference]) -> Iterator[list[Difference]]:
    """Numbers of one curve along numbers, where some differ."""
    for _, own in groupby(rows, key=lambda row: (row.cell, row.measurement)):
        curve = list(own)
        along = all(isinstance(row.place.x, float) for row in curve)
        if isinstance(curve[0].of, Curve) and along and not all(row.identical for row in curve):
            yield curve


def _panel(rows: Sequence[Difference]) -> Panel:
    curve = rows[0].of
    assert isinstance(curve, Curve)
    points = [
        Point(run, seed, float(row.place.x), value)
        for row in rows
        if isinstance(row.place.x, float)
        for run, values in (("A", row.a), ("B", row.b))
        for seed, value in zip(row.seeds, values, strict=True)
    ]
    log = curve.scale == "log"
    trained = [float(row.place.x) for row in rows if row.inside and isinstance(row.place.x, float)]
    return Panel(
        "",
        points,
        curve.x_label,
        curve.unit,
        log=log and any(point.y > 0 for point in points),
        trained=(min(trained), max(trained)) if trained else None,
        levels={} if log else curve.levels,
    )
