"""What several charts have alike: rows as data; models by colour and shape, verdicts by colour, shares by depth."""

from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt

from harness.charts.style import TONES

Looks = Mapping[str, Mapping[str, Any]]
"""Colour, dash and shape by model."""


def chart_of(rows: Iterable[Mapping[str, Any]]) -> alt.Chart:
    """A chart of these rows. Altair checks each row, and copies all of them wherever charts are put together, unless
    they are set afterwards, as a tuple; of many rows that would take most of the time."""
    data = alt.InlineData(values=[])
    data["values"] = tuple(rows)
    return alt.Chart(data)


def model_colour(looks: Looks) -> alt.Color:
    """The colour of the field `model`."""
    return alt.Color("model:N", legend=None, scale=_scale(looks, "color"))


def model_shape(looks: Looks) -> alt.Shape:
    """The shape of the field `model`."""
    return alt.Shape("model:N", legend=None, scale=_scale(looks, "shape"))


def _scale(looks: Looks, what: str) -> alt.Scale:
    return alt.Scale(domain=list(looks), range=[look[what] for look in looks.values()])


def tone_colour() -> alt.Color:
    """The colour of the field `tone`."""
    return alt.Color("tone:N", legend=None, scale=alt.Scale(domain=list(TONES), range=list(TONES.values())))


DEEP = 0.88
"""A share from which on white can be read better on its colour than dark letters."""


def depth(field: str) -> alt.Color:
    """A share, 0 to 1, as depth of colour."""
    scale = alt.Scale(domain=[0, 1], range=["#f4f7fa", "#0072B2"], interpolate="lab")
    return alt.Color(f"{field}:Q", legend=None, scale=scale)
