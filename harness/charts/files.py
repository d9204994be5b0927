"""Charts as files, without a browser: SVG, PNG, PDF through vl-convert; HTML that works offline."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from harness.charts.layout import Size
from harness.charts.style import CONFIG
from harness.errors import RequestError

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
    """As SVG."""
    return str(vl_convert.vegalite_to_svg(spec))


def save(spec: dict[str, Any], path: Path) -> None:
    """Write a chart in the format that the ending of the path names; letters of PDF and SVG stay letters.

    Raises:
        RequestError: there is no such format, or the file cannot be written.
    """
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise RequestError(
            f"a chart is written as {', '.join(FORMATS)}; received {path.name!r}: end it in one of these"
        )
    try:
        path.write_bytes(FORMATS[ending](spec))
    except OSError as error:
        raise RequestError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


FORMATS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    ".svg": lambda spec: svg(spec).encode(),
    ".png": lambda spec: vl_convert.vegalite_to_png(spec, scale=2),
    ".pdf": lambda spec: vl_convert.vegalite_to_pdf(spec),
    ".html": lambda spec: vl_convert.vegalite_to_html(spec, bundle=True).encode(),
    ".json": lambda spec: json.dumps(spec, indent=1).encode(),
}
"""By the ending of the file."""
