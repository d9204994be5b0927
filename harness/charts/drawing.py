"""The charts of one run: what it can draw, as objects and as files."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.charts import CHARTS, available, draw
from harness.charts.files import check_path, fitted, save
from harness.charts.layout import Size
from harness.charts.style import CONFIG
from harness.charts.view import View
from harness.errors import RequestError, shown

INCH = 72
"""Pixels of a chart."""


@dataclass(frozen=True)
class Drawings:
    """Draws the records of one run."""

    view: View

    def offer(self) -> str:
        """What can be drawn, and why the rest cannot."""
        missing = available(self.view)
        able = [f"  {name:<10} {CHARTS[name].title}" for name, reason in missing.items() if not reason]
        unable = [f"  {name:<10} {reason}" for name, reason in missing.items() if reason]
        lines = ["This run can draw:", *able] if able else ["This run can draw nothing."]
        return "\n".join(lines + (["", "It cannot draw:", *unable] if unable else []))

    def draw(self, chart: str, width: float = 7.0) -> Any:
        """A chart, as an Altair object; `width` in inches.

        Raises:
            RequestError: there is no such chart, the run lacks what it shows, or it cannot be that wide.
        """
        if isinstance(width, bool) or not isinstance(width, int | float) or not 0 < width < math.inf:
            raise RequestError(f"the width of a chart is a number of inches, for example 3.5; received {shown(width)}")
        pixels = width * INCH
        return draw(chart, self.view, Size(pixels, pixels)).configure(**CONFIG)

    def save(self, files: Mapping[str, Path], width: float = 7.0) -> None:
        """Write charts, each into a file whose ending names the format; `width` in inches.

        Raises:
            RequestError: there is no such chart or format, the run lacks what it shows, or a file cannot be written;
                nothing is drawn before all names are right.
        """
        for path in files.values():
            check_path(path)
        specs = {path: fitted(partial(draw, name, self.view), width * INCH) for name, path in files.items()}
        for path, spec in specs.items():
            save(spec, path)
