"""Where each head looks: layers and heads against roles of tokens."""

from typing import Any

import altair as alt

from harness.charts.layout import Size
from harness.charts.scales import DEEP, chart_of, depth
from harness.charts.style import DARK
from harness.charts.view import MOST_PARTS, NothingToDraw, View
from harness.measurements import Matrix
from harness.seeds import summarise


def draw(view: View, size: Size) -> Any:
    """A matrix for each model and task, of at most a dozen: the median over seeds of attention by role."""
    parts = []
    for group in view.of("attention_to_subject", stage="trained"):
        for row in group.measured:
            for name in ("share_by_role", "share_on_cue"):
                found = row.find(Matrix, name)
                if found:
                    parts.append(_matrix(found, f"{row.label} on {group.task}"))
                    break
    if not parts:
        raise NothingToDraw("no attention was measured; add --probe attention_to_subject (for models with attention)")
    columns = max(1, int(size.inner // 260))
    return alt.concat(*parts[:MOST_PARTS], columns=columns, spacing=22)


def _matrix(found: list[Matrix], title: str) -> Any:
    first = found[0]
    alike = [each for each in found if (each.rows, each.columns) == (first.rows, first.columns)]
    cells = [
        {"row": row, "column": column, "share": median, "text": f"{median:.2f}"}
        for i, row in enumerate(first.rows)
        for j, column in enumerate(first.columns)
        if (median := summarise(each.values[i][j] for each in alike).median) == median
    ]
    axis: dict[str, Any] = {"domain": False, "ticks": False, "labelFontSize": 9}
    base = chart_of(cells).encode(
        x=alt.X(
            "column:N", sort=first.columns, title=first.column_label, axis=alt.Axis(**axis, orient="top", labelAngle=0)
        ),
        y=alt.Y("row:N", sort=first.rows, title=None, axis=alt.Axis(**axis)),
    )
    heat = base.mark_rect(stroke="white", strokeWidth=1).encode(
        color=depth("share"), tooltip=["row:N", "column:N", "share:Q"]
    )
    text = base.mark_text(fontSize=9).encode(
        text="text:N", color=alt.condition(f"datum.share > {DEEP}", alt.value("white"), alt.value(DARK))
    )
    return alt.layer(heat, text).properties(
        width=max(46 * len(first.columns), 120), height=17 * len(first.rows), title=title
    )
