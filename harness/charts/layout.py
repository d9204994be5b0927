"""Panels beside and below one another, with one legend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from harness.charts.lines import AXIS, Panel, draw_panel
from harness.charts.scales import Looks, chart_of, model_colour, model_shape
from harness.charts.style import FAINT, INK

NARROW = 420
"""Pixels below which names of models go above the panels instead of beside the lines."""

LEAST = 150.0
"""Pixels of width of a panel, without its axis; what does not fit goes below."""

MOST_NAMES = 6
"""At the end of lines."""

LONGEST_NAME = 22
"""Letters of a name at the end of a line."""


@dataclass(frozen=True)
class Size:
    """How wide a chart shall be, in pixels (1/72 inch)."""

    asked: float
    """With axes and names."""
    inner: float
    """What is left for its contents, so that it comes out as asked."""

    @property
    def narrow(self) -> bool:
        """Whether there is no room beside the panels."""
        return self.asked < NARROW


def stack(
    grid: Sequence[Mapping[str, Panel]], columns: Sequence[str], looks: Looks, size: Size, *, direct: bool = True
) -> Any:
    """Rows of panels, with a column for each name; panels of a column share their x axis.

    Args:
        grid: for each row the panels by the name of their column; what is missing was not measured.
        columns: the names, in order.
        looks: colour, dash and shape by model.
        size: how wide all of it shall be.
        direct: whether names of models may stand at the end of their lines.
    """
    drawn = {point.model for row in grid for panel in row.values() for point in panel.points}
    looks = {name: look for name, look in looks.items() if name in drawn}
    longest = max(map(len, looks))
    names = direct and not size.narrow and len(looks) <= MOST_NAMES and longest <= LONGEST_NAME
    side = 6.0 * longest + 14 if names else 8
    beside = max(1, min(len(columns), int(size.inner // (AXIS + 12 + side + LEAST))))
    width = max(LEAST, size.inner / beside - AXIS - 24 - side)
    height = max(64.0, min(190.0 if len(grid) == 1 else 120.0, width * (0.62 if len(grid) == 1 else 0.42)))
    blocks = [
        _block(grid, columns[start : start + beside], looks, (width, height), names=names, titled=len(columns) > 1)
        for start in range(0, len(columns), beside)
    ]
    return _alone(alt.vconcat(*blocks if names else [legend(looks, size.inner), *blocks], spacing=14))


def _block(
    grid: Sequence[Mapping[str, Panel]],
    columns: Sequence[str],
    looks: Looks,
    shape: tuple[float, float],
    *,
    names: bool,
    titled: bool,
) -> Any:
    """The rows of some columns, without those that are empty there."""
    grid = [row for row in grid if any(column in row for column in columns)]
    width, height = shape
    cells = []
    for index, row in enumerate(grid):
        for column in columns:
            last = not any(column in below for below in grid[index + 1 :])
            xs = [point.x for each in grid if column in each for point in each[column].points]
            if column in row:
                cell = draw_panel(
                    row[column],
                    looks,
                    width=width,
                    height=height,
                    names=names,
                    x_title=last,
                    x_domain=(min(xs), max(xs)),
                )
            else:
                cell = _nothing(width, height)
            cells.append(cell.properties(title=_title(row.get(column), column if index == 0 and titled else "")))
    aligned = {"row": "each", "column": "each"}
    return _alone(alt.concat(*cells, columns=len(columns), spacing={"row": 8, "column": 14}, align=aligned))


def _title(panel: Panel | None, column: str) -> Any:
    """What a panel shows, below the name of its column; what dashes mean, where it has several."""
    marks = ("—●—", "– ○ –", "· ○ ·")
    ways = panel.ways if panel and len(panel.ways) > 1 else ()
    said = "\u2003".join(f"{mark} {way}" for mark, way in zip(marks, ways, strict=False))
    lines = [line for line in (panel.title if panel else "", said) if line]
    if column:
        return alt.Title(column, **_subtitle(lines), subtitleFontSize=10, subtitleColor=INK)
    first, *rest = lines or [""]
    return alt.Title(
        first, **_subtitle(rest), fontSize=10, fontWeight="normal", color=INK, offset=4, subtitleFontSize=8
    )


def _subtitle(lines: list[str]) -> dict[str, Any]:
    """Nothing for no lines: room is kept even for an empty one."""
    return {"subtitle": lines} if lines else {}


def _alone(chart: Any) -> Any:
    """Whose parts keep their own scales: dashes mean something else in every panel."""
    return chart.resolve_scale(strokeDash="independent", shape="independent", color="independent")


def _nothing(width: float, height: float) -> Any:
    """As wide as a panel with its axis."""
    blank: dict[str, Any] = {"domain": False, "ticks": False, "labels": False, "grid": False}
    return (
        chart_of([{"text": "not measured", "x": 0.5, "y": 0.5}])
        .mark_text(color=FAINT, fontSize=9, fontStyle="italic")
        .encode(
            text="text:N",
            x=alt.X("x:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(**blank)),
            y=alt.Y(
                "y:Q",
                title=" ",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(**blank, minExtent=AXIS, maxExtent=AXIS),
            ),
        )
        .properties(width=width, height=height)
    )


def legend(looks: Looks, width: float) -> Any:
    """Names of models with their marks, in as many lines as the width asks for."""
    rows, line, at = [], 0, 0.0
    for name in looks:
        size = 6.0 * len(name) + 24
        if at and at + size > width:
            line, at = line + 1, 0.0
        rows.append({"model": name, "x": at, "line": line})
        at += size
    height = 14 * (line + 1)
    base = chart_of(rows).encode(
        x=alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, width], nice=False)),
        y=alt.Y("line:Q", axis=None, scale=alt.Scale(domain=[-0.5, line + 0.5], reverse=True, nice=False)),
        color=model_colour(looks),
    )
    points = base.mark_point(filled=True, size=30, opacity=1, xOffset=6).encode(shape=model_shape(looks))
    text = base.mark_text(align="left", dx=14, fontSize=9).encode(text="model:N")
    return alt.layer(points, text).properties(width=width - 60, height=height, view=alt.ViewConfig(stroke=None))
