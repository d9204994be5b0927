"""Charts as files, without a browser: SVG, PNG, PDF through vl-convert; HTML that works offline."""

import json
import os
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
    first = specification(draw(Size(width, width)))
    room = width - _width(first)
    second = specification(draw(Size(width, width + room)))
    beyond = room > 0 and _width(second) > width + 1  # more parts stand beside one another than before
    return first if beyond else second


def _width(spec: dict[str, Any]) -> float:
    """In pixels, as it is drawn."""
    found = re.search(r'width="([\d.]+)"', svg(spec))
    assert found
    return float(found[1])


def svg(spec: dict[str, Any]) -> str:
    """As SVG."""
    return str(vl_convert.vegalite_to_svg(spec))


def check_path(path: Path) -> None:
    """Refuse what could not be written, before anything is drawn.

    Raises:
        RequestError: there is no such format or folder, or it cannot be written to.
    """
    if path.suffix.lower() not in FORMATS:
        known = ", ".join(FORMATS)
        raise RequestError(f"a chart is written as {known}; received {path.name!r}: end the name in one of these")
    folder = path.parent
    if not folder.is_dir():
        raise RequestError(f"there is no folder {str(folder)!r} to write {path.name!r} into; make it first")
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise RequestError(f"{str(path)!r} cannot be written; choose another file (--out)")


def save(spec: dict[str, Any], path: Path) -> None:
    """Write a chart in the format that the ending of the path names; in PDF and SVG letters stay letters.

    Raises:
        RequestError: the file cannot be written.
    """
    content = FORMATS[path.suffix.lower()](spec)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise RequestError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error


FORMATS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    ".svg": lambda spec: svg(spec).encode(),
    ".png": lambda spec: vl_convert.vegalite_to_png(spec, scale=2),
    ".pdf": lambda spec: vl_convert.vegalite_to_pdf(spec),
    ".html": lambda spec: vl_convert.vegalite_to_html(spec, bundle=True).encode(),
    ".json": lambda spec: json.dumps(spec, indent=1).encode(),
}
"""By the ending of the file."""
