"""Scores where a run trains models in several ways: which learning rates work, for how many seeds."""

from typing import Any

import altair as alt

from harness.charts.layout import Size
from harness.charts.scales import chart_of, depth
from harness.charts.view import NothingToDraw, View
from harness.measurements import Scalar
from harness.report.conditions import conditions, differing, written
from harness.report.grouping import Group, Row
from harness.report.numbers import count
from harness.schema import Record

HEIGHT, STRIPE = 30.0, 15
"""Pixels of a model, and of the stripes of its seeds; the median stands below these."""


def draw(view: View, size: Size) -> Any:
    """A square for each model and way of training, with a stripe for each seed; the score is the worst in range."""
    parts = []
    for group in view.all_of("accuracy", stage="trained"):
        names = _ways(group)
        if names:
            parts.append(_grid(group, names))
    if not parts:
        raise NothingToDraw(
            "all models were trained in one way; repeat --training to compare, for example --training lr=1e-3 "
            "--training lr=1e-2"
        )
    return alt.concat(*parts, columns=max(1, int(size.inner // 330)), spacing=22)


def _ways(group: Group) -> list[str]:
    """The settings in which one and the same model was trained in several ways."""
    models: dict[str, list[Record]] = {}
    for row in group.measured:
        models.setdefault(row.model, []).append(row.ok[0])
    return list(dict.fromkeys(name for found in models.values() for name in differing(map(conditions, found))))


def _grid(group: Group, names: list[str]) -> Any:
    cells = [cell for row in group.measured for cell in _cells(row, names)]
    ways = list(dict.fromkeys(cell["way"] for cell in sorted(cells, key=lambda cell: cell["order"])))
    models = list(dict.fromkeys(cell["model"] for cell in cells))
    seeds = max(cell["of"] for cell in cells)
    for cell in cells:
        del cell["order"]
    base = chart_of(cells).encode(
        x=alt.X("way:N", sort=ways, title=", ".join(names), axis=alt.Axis(labelAngle=0, domain=False, ticks=False)),
        y=alt.Y("model:N", sort=models, title=None, axis=alt.Axis(domain=False, ticks=False)),
    )
    width = 12.0 * seeds + 14
    heat = base.mark_rect(stroke="white", strokeWidth=1, height=STRIPE, yOffset=-5).encode(
        xOffset=alt.XOffset("seed:O", sort=None),
        color=depth("score"),
        tooltip=["model:N", "way:N", "seed:N", "score:Q"],
    )
    medians = base.transform_aggregate(middle="median(score)", groupby=["model", "way"])
    text = medians.mark_text(fontSize=8, dy=9).encode(text=alt.Text("middle:Q", format=".2f"))
    return alt.layer(heat, text).properties(
        width=max(width, 44) * len(ways),
        height=HEIGHT * len(models),
        title=alt.Title(
            group.task, subtitle=f"worst score in the trained range: {count(seeds, 'seed')}, and their median"
        ),
    )


def _cells(row: Row, names: list[str]) -> list[dict[str, Any]]:
    found = []
    for record in row.ok:
        score = _score(record)
        if score is not None:
            values = [conditions(record).get(name) for name in names]
            found.append(
                {
                    "model": row.model,
                    "way": ", ".join(written(value) for value in values),
                    "order": [
                        str(type(value)) + f"{value:020.10f}" if isinstance(value, float | int) else str(value)
                        for value in values
                    ],
                    "seed": record.seed,
                    "score": score,
                    "of": len(row.ok),
                }
            )
    return found


def _score(record: Record) -> float | None:
    scalars = [m for m in record.measurements if isinstance(m, Scalar) and m.name == "worst_inside"]
    return next((m.value for m in scalars if m.unit == "share" and m.value == m.value), None)
