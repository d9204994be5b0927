"""Claims against what was measured: a dot for each seed, the bound, the verdict."""

import math
from typing import Any

import altair as alt

from harness.charts.layout import Size
from harness.charts.scales import tone_colour
from harness.charts.style import FAINT, INK, TONES
from harness.charts.view import NothingToDraw, View
from harness.claims import Verdict, judge
from harness.report.numbers import number
from harness.report.verdicts import relation

MARKS = {"holds": "good", "does not hold": "bad"}
WORDS = 46
"""Letters of a claim that are shown."""


def draw(view: View, size: Size) -> Any:
    """One line for each claim, each on a scale of its own: from 0 to the largest number in it."""
    if view.suite is None or not view.suite.claims:
        raise NothingToDraw("the run's suite makes no claims")
    verdicts = [judge(claim, view.kept, range(view.suite.seeds)) for claim in view.suite.claims]
    order = [f"{i:03d}" for i in range(len(verdicts))]
    lines = [_line(key, verdict) for key, verdict in zip(order, verdicts, strict=True)]
    dots = [dot for key, verdict in zip(order, verdicts, strict=True) for dot in _dots(key, verdict)]
    height = 18 * len(order)
    y = alt.Y("key:N", sort=order, axis=None)
    left = 285.0
    texts = [
        alt.Chart(alt.InlineData(values=lines))
        .mark_text(align="left", fontSize=9)
        .encode(x=alt.value(14), y=y, text="text:N"),
        alt.Chart(alt.InlineData(values=lines))
        .mark_point(filled=True, size=55, opacity=1)
        .encode(
            x=alt.value(5),
            y=y,
            color=tone_colour(),
            shape=alt.Shape(
                "tone:N", legend=None, scale=alt.Scale(domain=list(TONES), range=["circle", "cross", "diamond"])
            ),
            tooltip=["verdict:N", "why:N"],
        ),
    ]
    words = alt.layer(*texts).properties(width=left, height=height)
    x = alt.X("share:Q", title=None, axis=None, scale=alt.Scale(domain=[-0.02, 1.02], nice=False))
    line = alt.Chart(alt.InlineData(values=lines))
    plot = alt.layer(
        line.mark_rule(color="#e4e4e4").encode(y=y),
        line.mark_tick(color=INK, thickness=2, size=13).encode(x=x, y=y),
        line.mark_text(fontSize=8, color=FAINT, align="left", dx=4, dy=-7).encode(x=x, y=y, text="bound:N"),
        alt.Chart(alt.InlineData(values=dots))
        .mark_point(size=36, opacity=0.7, filled=True)
        .encode(
            x=x,
            y=y,
            color=tone_colour(),
            tooltip=["seed:N", "value:N"],
        ),
    ).properties(width=max(120.0, size.inner - left - 30), height=height)
    return alt.hconcat(words, plot, spacing=4)


def _line(key: str, verdict: Verdict) -> dict[str, Any]:
    claim = verdict.claim
    text = claim.text if len(claim.text) <= WORDS else f"{claim.text[: WORDS - 1]}…"
    bounds = sorted({reference for _, reference in verdict.numbers.values()})
    bound = bounds[len(bounds) // 2] if bounds else math.nan if claim.value is None else claim.value
    return {
        "key": key,
        "text": text,
        "tone": MARKS.get(verdict.verdict, "open"),
        "verdict": verdict.verdict,
        "why": verdict.explanation,
        "share": None if math.isnan(bound) else bound / _scale(verdict),
        "bound": "" if math.isnan(bound) else f"{relation(claim)} {number(bound)}",
    }


def _dots(key: str, verdict: Verdict) -> list[dict[str, Any]]:
    scale = _scale(verdict)
    return [
        {
            "key": key,
            "seed": seed,
            "share": min(max(value / scale, -0.02), 1.02),
            "value": number(value),
            "tone": MARKS.get(verdict.verdict, "open"),
        }
        for seed, (value, _) in verdict.numbers.items()
        if math.isfinite(value)
    ]


def _scale(verdict: Verdict) -> float:
    numbers = [abs(n) for pair in verdict.numbers.values() for n in pair if math.isfinite(n)]
    if verdict.claim.value is not None:
        numbers.append(abs(verdict.claim.value))
    return max(numbers, default=1.0) or 1.0
