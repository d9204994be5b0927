"""How every chart looks: one palette, one set of sizes, the same colour for the same model."""

from collections.abc import Sequence
from typing import Any

BLACK, BLUE = "#000000", "#0072B2"

PALETTE = (BLUE, "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", BLACK)
"""Okabe and Ito's, which people with any kind of colour vision can tell apart, without the yellow that white paper
swallows (https://jfly.uni-koeln.de/color/); a chart of more models begins again, with other dashes and shapes."""

DASHES = ([1, 0], [5, 2], [2, 2], [7, 2, 2, 2])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")

INK, FAINT, GRID, SHADE = "#333333", "#767676", "#e4e4e4", "#eef1f4"
"""Of text and axes, of what is drawn for comparison, of lines behind all, of the trained range."""

DARK = "#1a1a1a"
"""Of numbers on light squares, also where a page is dark."""

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"

TONES = {"good": "#009E73", "bad": "#D55E00", "open": "#8a8a8a"}
"""Of verdicts; they come with a word or a shape, and never alone."""


def looks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """For each name its colour, dash and shape; names that come later never change those of the first."""
    return {
        name: {
            "color": PALETTE[i % len(PALETTE)],
            "dash": DASHES[i // len(PALETTE) % len(DASHES)],
            "shape": SHAPES[i % len(SHAPES)],
        }
        for i, name in enumerate(names)
    }


CONFIG: dict[str, Any] = {
    "background": "white",
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "titleFontWeight": "normal",
        "titleFontSize": 10,
        "labelFontSize": 9,
        "domainColor": FAINT,
        "tickColor": FAINT,
        "tickSize": 3,
        "gridColor": GRID,
        "gridWidth": 0.5,
    },
    "axisX": {"grid": False},
    "title": {
        "anchor": "start",
        "fontSize": 11,
        "fontWeight": "bold",
        "color": INK,
        "offset": 6,
        "subtitleColor": FAINT,
        "subtitleFontSize": 9,
        "subtitlePadding": 2,
    },
    "header": {"labelFontSize": 10, "labelFontWeight": "bold", "labelColor": INK, "title": None},
    "legend": {"labelFontSize": 9, "titleFontSize": 9, "symbolStrokeWidth": 2, "labelColor": INK, "labelLimit": 260},
    "text": {"fontSize": 9, "color": INK},
}
"""Of Vega-Lite."""
