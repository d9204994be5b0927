"""Claims against what was measured: a dot for each seed, the bound, the verdict."""

import math
from typing import Any

import altair as alt

from harness.charts.layout import Size
from harness.charts.scales import chart_of, tone_colour
from harness.charts.style import GRID, INK, TONES
from harness.charts.view import NothingToDraw, View
from harness.claims import Judgement
from harness.report.numbers import number
from harness.report.verdicts import judged, relation

SIGNS = {"<=": "≤", ">=": "≥"}
MARKS = {"holds": "good", "does not hold": "bad"}
MOST_LINES = 80
"""Of claims; all of them are in the table."""

LINE = 18
"""Pixels of height."""

MARK, BOUND = 14.0, 54.0
"""Pixels of width: of the sign before a claim, and of the bound at its end, where it is no longer than most."""


def draw(view: View, size: Size) -> Any:
    """One line for each claim, each on a scale of its own: from 0 to the largest number in it."""
    if view.suite is None or not view.suite.claims:
        raise NothingToDraw("the run's suite makes no claims")
    claims = view.suite.claims[:MOST_LINES]
    judgements = [judged(claim, view.kept, view.suite) for claim in claims]
    order = [f"{i:03d}" for i in range(len(judgements))]
    lines = [_line(key, judgement) for key, judgement in zip(order, judgements, strict=True)]
    dots = [dot for key, judgement in zip(order, judgements, strict=True) for dot in _dots(key, judgement)]
    y = alt.Y("key:N", sort=order, axis=None)
    plot = max(90.0, min(240.0, 0.34 * size.inner))
    bound = max([BOUND, *(4.8 * len(line["bound"]) for line in lines)])
    words = max(110.0, size.inner - plot - bound - 20)
    line = chart_of(lines)
    said = alt.layer(
        line.mark_text(align="left", fontSize=9, limit=words - MARK - 6).encode(
            x=alt.value(MARK), y=y, text="text:N", tooltip="whole:N"
        ),
        line.mark_point(filled=True, size=55, opacity=1).encode(
            x=alt.value(5),
            y=y,
            color=tone_colour(),
            shape=alt.Shape(
                "tone:N", legend=None, scale=alt.Scale(domain=list(TONES), range=["circle", "cross", "diamond"])
            ),
            tooltip=["verdict:N", "why:N"],
        ),
    )
    x = alt.X("share:Q", title=None, axis=None, scale=alt.Scale(domain=[-0.02, 1.02], nice=False))
    drawn = alt.layer(
        line.mark_rule(color=GRID).encode(y=y),
        line.mark_tick(color=INK, thickness=2, size=13).encode(x=x, y=y),
        chart_of(dots)
        .mark_point(size=36, opacity=0.7, filled=True)
        .encode(x=x, y=y, color=tone_colour(), tooltip=["seed:N", "value:N"]),
    )
    bounds = line.mark_text(align="right", fontSize=9, color=INK).encode(x=alt.value(bound), y=y, text="bound:N")
    parts = [(said, words), (drawn, plot), (bounds, bound)]
    return alt.hconcat(*(part.properties(width=wide, height=LINE * len(order)) for part, wide in parts), spacing=4)


def _line(key: str, judgement: Judgement) -> dict[str, Any]:
    claim = judgement.claim
    bounds = sorted({reference for _, reference in judgement.numbers.values()})
    bound = bounds[len(bounds) // 2] if bounds else math.nan if claim.value is None else claim.value
    return {
        "key": key,
        "text": claim.text,
        "whole": f"{claim.text} ({claim.source})" if claim.source else claim.text,
        "tone": MARKS.get(judgement.verdict, "open"),
        "verdict": judgement.verdict,
        "why": judgement.explanation,
        "share": None if not math.isfinite(bound) else bound / _scale(judgement),
        "bound": "" if math.isnan(bound) else f"{SIGNS.get(relation(claim), relation(claim))} {number(bound)}",
    }


def _dots(key: str, judgement: Judgement) -> list[dict[str, Any]]:
    scale = _scale(judgement)
    return [
        {
            "key": key,
            "seed": seed,
            "share": min(max(value / scale, -0.02), 1.02),
            "value": number(value),
            "tone": MARKS.get(judgement.verdict, "open"),
        }
        for seed, (value, _) in judgement.numbers.items()
        if math.isfinite(value)
    ]


def _scale(judgement: Judgement) -> float:
    numbers = [abs(n) for pair in judgement.numbers.values() for n in pair if math.isfinite(n)]
    if judgement.claim.value is not None:
        numbers.append(abs(judgement.claim.value))
    return max(numbers, default=1.0) or 1.0
