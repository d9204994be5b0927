"""One example, token by token: where each of its tokens looks, in the head that looks at the cue most."""

from typing import Any

import altair as alt

from harness.charts.layout import Size
from harness.charts.scales import chart_of, depth
from harness.charts.style import FAINT
from harness.charts.view import MOST_PARTS, NothingToDraw, View
from harness.measurements import Pattern

CELL = 15
"""Pixels."""


def draw(view: View, size: Size) -> Any:
    """A map for each model and task, of at most a dozen, of the first seed: queries downwards, keys to the right."""
    parts = []
    for group in view.of("attention_to_subject", stage="trained"):
        for row in group.measured:
            found = row.find(Pattern, "pattern")
            if found:
                parts.append(_map(found[0], f"{row.label} on {group.task}"))
    if not parts:
        raise NothingToDraw(
            "no example's attention was kept; add --probe attention_to_subject, on a task with examples of at most 32 "
            "tokens"
        )
    return alt.concat(*parts[:MOST_PARTS], columns=max(1, int(size.inner // 400)), spacing=26)


def sharpest(pattern: Pattern) -> int:
    """The head that looks from the query at the cue most; the first one where there is no cue."""
    cue, query = pattern.cue, pattern.query
    if cue is None or query is None:
        return 0
    shares = [rows[query][cue] if cue < len(rows[query]) else 0.0 for rows in pattern.weights]
    return max(range(len(shares)), key=shares.__getitem__)


def _map(pattern: Pattern, title: str) -> Any:
    head = sharpest(pattern)
    names = [f"{index + 1} {token}" for index, token in enumerate(pattern.tokens)]
    cells = [
        {"query": names[query], "key": names[key], "weight": weight}
        for query, row in enumerate(pattern.weights[head])
        for key, weight in enumerate(row)
    ]
    axis: dict[str, Any] = {"domain": False, "ticks": False, "labelFontSize": 8, "labelLimit": 80}
    base = chart_of(cells).encode(
        x=alt.X(
            "key:N",
            sort=names,
            scale=alt.Scale(domain=names),
            title="is looked at",
            axis=alt.Axis(**axis, orient="top", labelAngle=-60),
        ),
        y=alt.Y("query:N", sort=names, scale=alt.Scale(domain=names), title="looks", axis=alt.Axis(**axis)),
    )
    layers = [
        base.mark_rect().encode(
            color=depth("weight"),
            tooltip=["query:N", "key:N", "weight:Q"],
        )
    ]
    if pattern.cue is not None and pattern.query is not None:
        marked = [{"query": names[pattern.query], "key": names[pattern.cue]}]
        layers.append(
            chart_of(marked)
            .mark_rect(filled=False, stroke="#D55E00", strokeWidth=1.5)
            .encode(x=alt.X("key:N", sort=names), y=alt.Y("query:N", sort=names))
        )
    heading = alt.Title(
        title, subtitle=f"{pattern.heads[head]}; framed: from the query to the cue", subtitleColor=FAINT
    )
    return alt.layer(*layers).properties(width=CELL * len(names), height=CELL * len(names), title=heading)
