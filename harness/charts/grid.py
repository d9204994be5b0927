"""Scores where a run trains models in several ways: which learning rates work, for how many seeds."""

from typing import Any

import altair as alt

from harness.charts.layout import Size
from harness.charts.scales import chart_of, depth
from harness.charts.view import NothingToDraw, View
from harness.measurements import Scalar
from harness.report.conditions import written
from harness.report.grid_table import BROKE
from harness.report.learnability import Cell, Learnability
from harness.report.success import SCORE
from harness.schema import Record
from harness.seeds import came_to_a_result
from harness.written import count, format_arguments

HEIGHT, STRIPE = 30.0, 15
"""Pixels of a model, and of the stripes of its seeds; the success rate stands below these."""

CROSS = "\u00d7"
"""In the place of a seed that diverged."""


def draw(view: View, size: Size) -> Any:
    """A square for each model and cell of the grid, with a stripe for each seed, a cross for one that diverged; the
    score is the worst in range. Below stands how many seeds succeeded; framed is what is best on validation data."""
    found = [each for each in view.learnt if len(each.cells) > 1]
    kinds = dict.fromkeys((each.task, each.axis) for each in found)
    parts = [_grid([each for each in found if (each.task, each.axis) == kind], *kind) for kind in kinds]
    if not any(cell.scores for each in found for cell in each.cells):
        raise NothingToDraw(
            "all models were trained in one way; give several, for example --grid lr=1e-3,1e-2, or repeat --training"
        )
    return alt.concat(*parts, columns=max(1, int(size.inner // 330)), spacing=22)


def _grid(found: list[Learnability], task: str, axis: str) -> Any:
    values = {written(cell.values[axis]): cell.values[axis] for each in found for cell in each.cells}
    numbers = all(isinstance(value, int | float) for value in values.values())
    ways = sorted(values, key=lambda way: values[way]) if numbers else list(values)
    cells = [part for each in found for part in _cells(each, axis)]
    models = list(dict.fromkeys(cell["model"] for cell in cells))
    seeds = max((cell["seeds"] for cell in cells), default=1)

    def layer(rows: list[dict[str, Any]]) -> Any:
        return chart_of(rows).encode(
            x=alt.X("way:N", sort=ways, title=axis, axis=alt.Axis(labelAngle=0, domain=False, ticks=False)),
            y=alt.Y("model:N", sort=models, title=None, axis=alt.Axis(domain=False, ticks=False)),
        )

    stripes = [row for each in found for row in _stripes(each, axis)]
    by_seed = alt.XOffset("seed:O", sort=sorted({row["seed"] for row in stripes}))
    lost = [row for row in stripes if row["score"] is None]
    crosses = layer(lost).mark_text(text=CROSS, fontSize=11, dy=-5).encode(xOffset=by_seed)
    heat = (
        layer([row for row in stripes if row["score"] is not None])
        .mark_rect(stroke="white", strokeWidth=1, height=STRIPE, yOffset=-5)
        .encode(
            xOffset=by_seed,
            color=depth("score"),
            tooltip=["model:N", "way:N", "seed:N", "score:Q"],
        )
    )
    text = layer(cells).mark_text(fontSize=8, dy=9).encode(text="rate:N")
    chosen = layer([cell for cell in cells if cell["best"]])
    frame = chosen.mark_rect(fillOpacity=0, stroke="#D55E00", strokeWidth=1.5)
    return alt.layer(heat, crosses, text, frame).properties(
        width=max(12.0 * seeds + 14, 44) * len(ways),
        height=HEIGHT * len(models),
        title=alt.Title(
            task,
            subtitle=[
                f"worst score in the trained range: {count(seeds, 'seed')}, and how many succeed;",
                f"{f'{CROSS}: diverged; ' if lost else ''}framed: best on validation data",
            ],
        ),
    )


def _label(each: Learnability, cell: Cell, axis: str) -> str:
    others = {name: value for name, value in cell.values.items() if name != axis}
    return f"{each.called} ({format_arguments(others)})" if others else each.called


def _cells(each: Learnability, axis: str) -> list[dict[str, Any]]:
    return [
        {
            "model": _label(each, cell, axis),
            "way": written(cell.values[axis]),
            "rate": cell.rate if cell.seeds else BROKE if cell.broken else "",
            "seeds": cell.seeds,
            "best": cell is each.best,
        }
        for cell in each.cells
    ]


def _stripes(each: Learnability, axis: str) -> list[dict[str, Any]]:
    return [
        {"model": _label(each, cell, axis), "way": written(cell.values[axis]), "seed": record.seed, "score": score}
        for cell in each.cells
        for record in cell.records
        if (score := _depth(cell, record)) is not None or (record.status == "failed" and came_to_a_result(record))
    ]


def _depth(cell: Cell, record: Record) -> float | None:
    """A share as it is; of anything else, whether it is a success."""
    found = (m for m in record.measurements if isinstance(m, Scalar) and m.name == SCORE)
    scalar = next((m for m in found if m.value == m.value), None)
    if scalar is None or scalar.unit == "share":
        return scalar.value if scalar else None
    return float(cell.threshold.met(scalar.value)) if cell.threshold else None
