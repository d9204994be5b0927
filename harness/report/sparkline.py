"""Curves small enough for a table cell."""

import math
from collections.abc import Iterable, Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-~=+*#"

LEAST_FACTOR, MOST_FACTOR = 2.0, 1e8
"""Between bottom and top of a log scale."""
LEAST_SHARE = 0.2
"""Of the largest value, between bottom and top of a linear scale."""


def can_draw(encoding: str | None) -> bool:
    """Whether text of this encoding (for example `sys.stdout.encoding`) can hold the block characters."""
    try:
        BLOCKS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def bounds(values: Iterable[float], *, log: bool = False) -> tuple[float, float]:
    """The smallest and largest value that can be drawn, so that several sparklines can share a scale. On a log scale
    the largest factor between the two is `MOST_FACTOR`: one curve of thirty decades would make all others look flat."""
    drawn = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    if not drawn:
        return math.nan, math.nan
    return max(min(drawn), max(drawn) / MOST_FACTOR if log else -math.inf), max(drawn)


def _scale(low: float, high: float, log: bool) -> tuple[float, float]:
    """The middle of what is drawn, and how much is drawn around it, both as `_drawn`."""
    if math.isnan(low):
        return math.nan, math.nan
    bottom, top = _drawn(low, log), _drawn(high, log)
    least = math.log(LEAST_FACTOR) if log else LEAST_SHARE * max(abs(bottom), abs(top))
    return (bottom + top) / 2, max(top - bottom, least) or 1.0


def _drawn(value: float, log: bool) -> float:
    """Where a value stands; in quarters, because two floats may be farther apart than a float can say."""
    return math.log(value) if log else value / 4


def sparkline(
    values: Sequence[float],
    low: float,
    high: float,
    *,
    log: bool = False,
    ascii: bool = False,
    length: int = 16,
) -> str:
    """One character for each value, from `low` to `high`; `·` (`?` in ASCII) for NaN.

    A range too narrow to be worth a look is drawn in the middle of a wider one, so that what is nearly flat looks flat.
    On a log scale, 0 is drawn as the lowest character. More values than `length` are thinned out evenly.
    """
    characters = PLAIN if ascii else BLOCKS
    if len(values) > length:
        values = [values[round(i * (len(values) - 1) / (length - 1))] for i in range(length)]

    middle, span = _scale(low, high, log)

    def draw(value: float) -> str:
        if math.isnan(value) or math.isnan(low):
            return "?" if ascii else "·"
        if value < low:
            return characters[0]
        if value > high:
            return characters[-1]
        share = 0.5 + (_drawn(value, log) - middle) / span
        return characters[min(int(share * len(characters)), len(characters) - 1)]

    return "".join(map(draw, values))
