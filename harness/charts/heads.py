"""Where heads look against what they do: attention to the cue, and the effect of cutting it."""

import math
import re
from typing import Any, Literal

import altair as alt

from harness.charts.layout import Size, legend
from harness.charts.lines import AXIS, PLAIN
from harness.charts.scales import Looks, chart_of, model_colour, model_shape
from harness.charts.style import FAINT
from harness.charts.view import NothingToDraw, View
from harness.measurements import Curve, Matrix
from harness.schema import Record

HEAD = re.compile(r" head \d+$")
"""How the name of a head ends, whatever its layer is called."""

CORNERS: tuple[dict[str, Any], ...] = (
    {"x": 0.98, "y": 0.0, "text": "looks, without effect", "align": "right", "up": 14},
    {"x": 0.02, "y": 1.0, "text": "effect, without a look", "align": "left", "up": 4},
)

LEAST = 120.0
"""Pixels of width of a panel, without its axis; what does not fit goes below."""


def draw(view: View, size: Size) -> Any:
    """A point for each head and seed: attention to the cue, and by how much the score falls when that is cut."""
    rows = _heads(view)
    if not rows:
        raise NothingToDraw(
            "no heads were cut one by one of a model whose score is a share; add --probe edge_cut (for models with "
            "attention)"
        )
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    models = {name: look for name, look in view.looks.items() if any(row["model"] == name for row in rows)}
    falls = [row["fall"] for row in rows]
    span = (min(*falls, 0.0), max(*falls, 0.1))
    columns = max(1, min(len(tasks), int(size.inner // (LEAST + AXIS + 24))))
    width = max(LEAST, size.inner / columns - AXIS - 24)
    panels = [
        alt.layer(*_layers([row for row in rows if row["task"] == task], models, span)).properties(
            width=width, height=max(140.0, min(260.0, width * 0.62)), title=task
        )
        for task in tasks
    ]
    return alt.vconcat(
        legend(models, size.inner), alt.concat(*panels, columns=columns, spacing=14), spacing=6
    ).resolve_scale(color="independent", shape="independent")


def _heads(view: View) -> list[dict[str, Any]]:
    """Every head of every seed that was cut by itself."""
    rows: list[dict[str, Any]] = []
    for group in view.of("edge_cut", stage="trained"):
        for row in group.measured:
            for record in row.ok:
                one = {"model": row.label, "task": group.task, "seed": record.seed}
                rows += [one | {"head": name, "attention": a, "fall": f} for name, (a, f) in cut_heads(record).items()]
    return rows


def _layers(rows: list[dict[str, Any]], models: Looks, span: tuple[float, float]) -> list[Any]:
    """The panel of one task: the heads, the names of some, and what the corners mean.

    Args:
        rows: the heads of the task.
        models: their colours and shapes.
        span: the lowest and the highest fall of all tasks, so that panels are alike.
    """
    x, y = _axes(*span)
    zero = chart_of([{"fall": 0}]).mark_rule(color=FAINT, strokeWidth=0.5).encode(y=y)
    corners = [
        chart_of([{**corner, "attention": corner["x"], "fall": corner["y"] * span[1]}])
        .mark_text(
            align=corner["align"], fontSize=9, fontStyle="italic", color=FAINT, baseline="bottom", dy=-corner["up"]
        )
        .encode(x=x, y=y, text="text:N")
        for corner in CORNERS
    ]
    points = (
        chart_of(rows)
        .mark_point(size=42, filled=True, opacity=0.65)
        .encode(
            x=x,
            y=y,
            color=model_colour(models),
            shape=model_shape(models),
            tooltip=["model:N", "head:N", "seed:N", "attention:Q", "fall:Q"],
        )
    )
    names = [
        chart_of(named)
        .mark_text(align=side, dx=6 if side == "left" else -6, dy=-5, fontSize=8)
        .encode(x=x, y=y, text="head:N")
        for side, named in _by_side(_named(rows)).items()
    ]
    return [zero, *corners, points, *names]


def _axes(lowest: float, highest: float) -> tuple[alt.X, alt.Y]:
    x = alt.X(
        "attention:Q",
        title="attention to the cue",
        scale=alt.Scale(domain=[-0.03, 1.03], nice=False),
        axis=alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], labelExpr=PLAIN),
    )
    y = alt.Y(
        "fall:Q",
        title="fall of the score when it is cut",
        scale=alt.Scale(domain=[lowest - 0.06 * (highest - lowest), highest * 1.08], nice=False),
        axis=alt.Axis(tickCount=5, labelExpr=PLAIN, minExtent=AXIS, maxExtent=AXIS),
    )
    return x, y


def cut_heads(record: Record) -> dict[str, tuple[float, float]]:
    """Of each head that `edge_cut` has cut by itself: the query's attention to the cue, and by how much the score falls
    without it. Only of scores that are shares, of which more is better."""
    found = {each.name: each for each in record.measurements}
    table, score = found.get("by_head"), found.get("untouched")
    if not (isinstance(table, Matrix) and isinstance(score, Curve) and score.unit == "share"):
        return {}
    whole = table.values[0][1]
    pairs = {name: (values[0], whole - values[1]) for name, values in zip(table.rows, table.values, strict=True)}
    return {name: pair for name, pair in pairs.items() if HEAD.search(name) and not any(map(math.isnan, pair))}


def _by_side(rows: list[dict[str, Any]]) -> dict[Literal["left", "right"], list[dict[str, Any]]]:
    """Names stand where there is room: behind a point at the left, before one at the right."""
    return {
        "left": [row for row in rows if row["attention"] <= 0.6],
        "right": [row for row in rows if row["attention"] > 0.6],
    }


def _named(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The heads worth a name: the one that looks most and the one whose cut hurts most, of each model and task."""
    chosen: dict[tuple[str, str, int], dict[str, Any]] = {}
    for key in ("attention", "fall"):
        best: dict[str, dict[str, Any]] = {}
        for row in rows:
            if row["model"] not in best or row[key] > best[row["model"]][key]:
                best[row["model"]] = row
        chosen |= {(row["model"], row["head"], row["seed"]): row for row in best.values() if row[key] > 0.1}
    kept: list[dict[str, Any]] = []
    for row in chosen.values():  # names that would lie on one another are left to the records
        if not any(abs(row["attention"] - o["attention"]) < 0.2 and abs(row["fall"] - o["fall"]) < 0.06 for o in kept):
            kept.append(row)
    return kept
