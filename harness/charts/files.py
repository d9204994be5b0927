"""Charts as files, without a browser: SVG, PNG, PDF through vl-convert; HTML that works offline."""

import re
from collections.abc import Callable
from typing import Any

import altair as alt
import vl_convert

from harness.charts.layout import Size
from harness.charts.style import CONFIG

Draw = Callable[[Size], Any]
"""From a size to a chart."""


def specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """The chart as Vega-Lite."""
    spec = chart.to_dict()
    spec["config"] = CONFIG
    spec["padding"] = 4
    return spec


def fitted(draw: Draw, width: float) -> dict[str, Any]:
    """The chart, as wide as asked with axes and names: these are known when it has been drawn once."""
    first = svg(specification(draw(Size(width, width))))
    found = re.search(r'width="([\d.]+)"', first)
    assert found
    return specification(draw(Size(width, 2 * width - float(found[1]))))


def svg(spec: dict[str, Any]) -> str:
    return vl_convert.vegalite_to_svg(spec)
