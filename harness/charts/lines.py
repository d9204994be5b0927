"""Lines over seeds: every seed thin, the median bold, the trained range shaded, names at the end of lines."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import altair as alt

from harness.charts.scales import Looks, chart_of, model_colour, model_shape
from harness.charts.style import FAINT, SHADE
from harness.charts.view import thinned

AXIS = 40
"""Pixels for the labels of a y axis, so that panels stand exactly below one another."""

PLAIN = "format(datum.value, ',')"
SCIENTIFIC = "datum.value >= 0.01 && datum.value < 10000 ? format(datum.value, ',') : format(datum.value, '~e')"
"""How numbers stand at axes."""

MOST_MARKS = 12
"""So many places along an axis are marked with the shapes of models; lines of more are read as lines."""

GAP = 10
"""Pixels between names at the end of lines."""


@dataclass(frozen=True)
class Point:
    """One number of one seed."""

    model: str
    seed: int
    x: float
    y: float
    way: str = ""
    """What tells lines of one model apart, for example the stage; it decides the dash."""


@dataclass(frozen=True)
class Panel:
    """What lies along one axis."""

    title: str
    points: Sequence[Point]
    x_label: str
    y_label: str = ""
    log: bool = False
    floor: float | None = None
    """Smaller numbers are drawn here."""
    domain: tuple[float, float] | None = None
    trained: tuple[float, float] | None = None
    """From where to where training went, on the x axis."""
    levels: Mapping[str, float] = field(default_factory=dict)
    """Numbers to compare with, by name."""
    beside: Sequence[tuple[str, Sequence[tuple[float, float]]]] = ()
    """Named lines to compare with."""
    log_x: bool = False
    ways: Sequence[str] = ()
    """In order; the first one is drawn without gaps, and its marks are filled."""


WAY_DASHES = ([1, 0], [5, 3], [1.5, 2.5])


def draw_panel(
    panel: Panel,
    looks: Looks,
    *,
    width: float,
    height: float,
    names: bool,
    x_title: bool = True,
    x_domain: tuple[float, float] | None = None,
) -> Any:
    """One panel.

    Args:
        panel: what to draw.
        looks: colour, dash and shape by model.
        width: of the area inside the axes, in pixels.
        height: of the same.
        names: whether the names of models stand at the end of their lines.
        x_title: whether the x axis says what it is.
        x_domain: of the x axis, where several panels share one.
    """
    rows = list(_drawable(panel))
    xs = [row["x"] for row in rows]
    x_domain = x_domain or (min(xs, default=0), max(xs, default=1))
    domain = panel.domain or _domain(rows, panel)
    ways = list(panel.ways) or list(dict.fromkeys(row["way"] for row in rows))
    x, y = _x_axis(panel, x_domain, width, x_title), _y_axis(panel, domain)
    medians = _medians(rows)
    layers = _trained_range(panel, x) + _comparisons(panel, x, y, x_domain)
    layers += _lines(rows, medians, ways, looks, x, y)
    if names:
        ends = _ends([m for m in medians if m["way"] == ways[0]] or medians, domain, height, panel.log)
        layers.append(
            chart_of(ends)
            .mark_text(align="left", dx=7, fontSize=9)
            .encode(
                x=alt.value(width),
                y=alt.Y("place:Q", scale=_y_scale(panel, domain)),
                text="model:N",
                color=model_colour(looks),
            )
        )
    return alt.layer(*layers).properties(width=width, height=height)


def _x_axis(panel: Panel, domain: tuple[float, float], width: float, titled: bool) -> alt.X:
    ticks: Any = {"values": powers(*domain, most=5)} if panel.log_x else {"tickCount": max(3, min(6, width // 45))}
    return alt.X(
        "x:Q",
        title=panel.x_label if titled else None,
        scale=alt.Scale(domain=list(domain), type="log" if panel.log_x else "linear", nice=False, zero=False),
        axis=alt.Axis(**ticks, labelExpr=PLAIN, labels=titled),
    )


def _y_axis(panel: Panel, domain: tuple[float, float]) -> alt.Y:
    ticks: Any = {"tickCount": 5, "labelExpr": PLAIN}
    if panel.log:
        ticks = {"values": powers(*domain), "labelExpr": SCIENTIFIC}
    axis = alt.Axis(**ticks, minExtent=AXIS, maxExtent=AXIS)
    return alt.Y("y:Q", title=panel.y_label or None, scale=_y_scale(panel, domain), axis=axis)


def _y_scale(panel: Panel, domain: tuple[float, float]) -> alt.Scale:
    return alt.Scale(domain=list(domain), type="log" if panel.log else "linear", nice=False, zero=False, clamp=True)


def _trained_range(panel: Panel, x: alt.X) -> list[Any]:
    if panel.trained is None:
        return []
    low, high = panel.trained
    return [chart_of([{"x": low, "x2": high}]).mark_rect(color=SHADE, clip=True).encode(x=x, x2="x2:Q")]


def _lines(
    rows: Sequence[Mapping[str, Any]],
    medians: Sequence[Mapping[str, Any]],
    ways: list[str],
    looks: Looks,
    x: alt.X,
    y: alt.Y,
) -> list[Any]:
    """Seeds thin, medians bold and marked by the model's shape, which is filled in the first way alone."""
    color = model_colour(looks)
    dash = alt.StrokeDash(
        "way:N", legend=None, scale=alt.Scale(domain=ways, range=list(WAY_DASHES[: len(ways)])), sort=ways
    )
    told = ["model:N", *(["way:N"] if len(ways) > 1 else [])]
    marked = set(thinned(sorted({row["x"] for row in medians}), MOST_MARKS))
    seeds, bold = chart_of(rows), chart_of(medians)
    marks = chart_of([row for row in medians if row["x"] in marked])
    first = alt.FieldOneOfPredicate(field="way", oneOf=ways[:1])
    return [
        seeds.mark_line(opacity=0.4, strokeWidth=0.8, clip=True).encode(
            x=x, y=y, color=color, strokeDash=dash, detail="seed:N", tooltip=[*told, "seed:N", "x:Q", "y:Q"]
        ),
        bold.mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, color=color, strokeDash=dash),
        marks.mark_point(size=18, filled=True, opacity=1, strokeWidth=1).encode(
            x=x,
            y=y,
            color=color,
            stroke=color,
            fillOpacity=alt.condition(first, alt.value(1), alt.value(0)),
            shape=model_shape(looks),
            tooltip=[*told, "x:Q", "y:Q"],
        ),
    ]


def powers(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers for a logarithmic axis: powers of ten, of which some are left out where there are many, or 1, 2
    and 5 times these where there are few."""
    if not 0 < low < high < math.inf:
        return []
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5)):
        found = [float(f"{factor}e{n}") for n in exponents for factor in factors]
        found = [value for value in found if low <= value <= high]
        if len(found) >= 3:
            break
    return found[:: math.ceil(len(found) / most)] if found else []


def _drawable(panel: Panel) -> Iterable[dict[str, Any]]:
    for point in panel.points:
        y: float | None = point.y
        if math.isnan(point.y) or (panel.log and point.y <= 0 and panel.floor is None):
            y = None
        elif panel.floor is not None:
            y = max(point.y, panel.floor)
        if y is not None and math.isinf(y):
            y = None
        yield {"model": point.model, "seed": point.seed, "x": point.x, "y": y, "way": point.way}


def _domain(rows: Sequence[Mapping[str, Any]], panel: Panel) -> tuple[float, float]:
    numbers = [row["y"] for row in rows if row["y"] is not None] + list(panel.levels.values())
    numbers += [y for _, line in panel.beside for _, y in line if not panel.log or y > 0]
    if not numbers:
        return (1e-3, 1.0) if panel.log else (0.0, 1.0)
    low, high = min(numbers), max(numbers)
    if panel.log:
        return low / 1.5, high * 1.5
    margin = (high - low) * 0.06 or 0.05 * (abs(high) or 1.0)
    return low - margin, high + margin


def _comparisons(panel: Panel, x: Any, y: Any, x_domain: tuple[float, float]) -> list[Any]:
    lines = [(name, [(x_domain[0], value), (x_domain[1], value)]) for name, value in panel.levels.items()]
    lines += [(name, list(line)) for name, line in panel.beside]
    rows = [{"name": name, "x": at, "y": value} for name, line in lines for at, value in line]
    if not rows:
        return []
    ruled = chart_of(rows).mark_line(color=FAINT, strokeWidth=1, strokeDash=[2, 2], clip=True)
    starts = [{"name": name, "x": line[-1][0], "y": line[-1][1]} for name, line in lines]
    text = chart_of(starts).mark_text(align="right", baseline="bottom", dy=-3, fontSize=8, color=FAINT)
    return [
        ruled.encode(x=x, y=y, detail="name:N"),
        text.encode(x=x, y=y, text="name:N"),
    ]


def _medians(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str, float], list[float]] = {}
    for row in rows:
        if row["y"] is not None:
            found.setdefault((row["model"], row["way"], row["x"]), []).append(row["y"])
    return [
        {"model": model, "way": way, "x": x, "y": median(values)} for (model, way, x), values in sorted(found.items())
    ]


def _ends(
    medians: Sequence[Mapping[str, Any]], domain: tuple[float, float], height: float, log: bool
) -> list[dict[str, Any]]:
    """Where names stand: at the end of each line, moved apart where lines end together."""
    last = {row["model"]: row for row in sorted(medians, key=lambda row: row["x"])}

    def pixel(y: float) -> float:
        low, high = (math.log(d) for d in domain) if log else domain
        share = ((math.log(y) if log else y) - low) / (high - low or 1.0)
        return height * (1 - min(max(share, 0.0), 1.0))

    places = spread_out([(model, pixel(row["y"])) for model, row in last.items()], height)
    return [{"model": model, "place": _value(at, domain, height, log)} for model, at in places.items()]


def _value(pixel: float, domain: tuple[float, float], height: float, log: bool) -> float:
    low, high = (math.log(d) for d in domain) if log else domain
    value = low + (1 - pixel / height) * (high - low)
    return math.exp(value) if log else value


def spread_out(wanted: Sequence[tuple[str, float]], height: float, gap: float = GAP) -> dict[str, float]:
    """Places in pixels from the top, in the order wanted, at least a gap apart, and as near as that allows."""
    order = sorted(wanted, key=lambda item: item[1])
    placed: list[float] = []
    for _, at in order:
        placed.append(max(at, placed[-1] + gap) if placed else at)
    over = max(0.0, placed[-1] - height) if placed else 0.0
    if over:  # push back up from the bottom
        limit = height
        for index in reversed(range(len(placed))):
            placed[index] = min(placed[index], limit)
            limit = placed[index] - gap
    return {name: at for (name, _), at in zip(order, placed, strict=True)}
