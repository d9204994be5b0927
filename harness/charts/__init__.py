"""What a run looks like: each chart is a function from its records to a Vega-Lite specification (through Altair), used
by pages, files and notebooks alike.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.charts import attention, claims, cost, grid, heads, learning, pattern, reach
from harness.charts.layout import Size
from harness.charts.view import NothingToDraw, View
from harness.errors import RequestError, did_you_mean


@dataclass(frozen=True)
class Chart:
    """A kind of chart, and how to read it."""

    name: str
    title: str
    draw: Callable[[View, Size], Any]
    """Raises `NothingToDraw` with the reason."""
    look_for: str
    """What to look for, in a sentence."""
    beware: str
    """What would be a wrong reading, in a sentence."""


CHARTS = {
    chart.name: chart
    for chart in (
        Chart(
            "reach",
            "The four questions along distance",
            reach.draw,
            "Read downwards: a model that answers at a distance should have gradient there, look at the cue, and lose "
            "its answer when the cue is cut.",
            "Gradient that arrives says that a model could learn from there, and not that it did; a look without a "
            "fall under the cut is no reliance.",
        ),
        Chart(
            "heads",
            "Looking against relying",
            heads.draw,
            "A head that matters stands at the top right: it looks at the cue, and cutting that look costs score.",
            "A head at the lower right looks, and nothing depends on it alone; other heads may do the same work, so "
            "that no single cut hurts.",
        ),
        Chart(
            "attention",
            "Where heads look",
            attention.draw,
            "Rows that are dark in one column look at one kind of token; compare them with the row “uniform”.",
            "Weights say what is read, and not what is used; the cut tells that.",
        ),
        Chart(
            "pattern",
            "One example, token by token",
            pattern.draw,
            "A dark column is a token that all later ones look at; a dark diagonal looks at neighbours.",
            "It is one example of one seed; the other charts say what holds for many.",
        ),
        Chart(
            "learning",
            "How training went",
            learning.draw,
            "A curve that is still falling at its end says that the model was trained too briefly to be judged.",
            "Losses of different tasks are not comparable, and a low loss on average can hide a hard condition.",
        ),
        Chart(
            "cost",
            "Time and memory against length",
            cost.draw,
            "On these axes a power of the length is a straight line: slope 1 is linear, slope 2 quadratic.",
            "Times are of this machine and of this implementation; at short lengths fixed costs hide the slope.",
        ),
        Chart(
            "claims",
            "Claims against measurements",
            claims.draw,
            "A dot for each seed, a bar at the bound of the claim; the sign before each line is its verdict.",
            "Each line has a scale of its own, so that distances can be compared within a line only.",
        ),
        Chart(
            "grid",
            "Which ways of training work",
            grid.draw,
            "A wide dark band says that a model learns whatever the setting; a single dark square, that it was tuned.",
            "The framed square was chosen on validation data and scored on other data; of all others, the best one is "
            "the best after looking, and no estimate of what another run would give.",
        ),
    )
}
"""By name, in the order of pages."""


def draw(name: str, view: View, size: Size) -> Any:
    """A chart of a run.

    Raises:
        RequestError: there is no such chart, or the run lacks what it shows; the message says what it can draw.
    """
    try:
        if name in CHARTS:
            return CHARTS[name].draw(view, size)
        problem = f"there is no chart {name!r}.{did_you_mean(name, CHARTS)}"
    except NothingToDraw as reason:
        problem = f"the chart {name!r} cannot be drawn: {reason}."
    drawable = ", ".join(each for each, missing in available(view).items() if not missing)
    raise RequestError(f"{problem} This run can draw: {drawable or 'none'}.")


def available(view: View) -> dict[str, str]:
    """Every chart by name, with the reason why it cannot be drawn, or ""."""
    return {name: _missing(chart, view) for name, chart in CHARTS.items()}


def _missing(chart: Chart, view: View) -> str:
    try:
        chart.draw(view, Size(700, 700))
    except NothingToDraw as reason:
        return str(reason)
    return ""


__all__ = ["CHARTS", "Chart", "NothingToDraw", "Size", "View", "available", "draw"]
