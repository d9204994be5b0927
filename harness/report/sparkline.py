"""Curves small enough for a table cell."""

import math
from collections.abc import Iterable, Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-~=+*#"


def can_draw(encoding: str | None) -> bool:
    """Whether text of this encoding (for example `sys.stdout.encoding`) can hold the block characters."""
    try:
        BLOCKS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def bounds(values: Iterable[float], *, log: bool = False) -> tuple[float, float]:
    """The smallest and largest value that can be drawn, so that several sparklines can share a scale."""
    drawn = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    return (min(drawn), max(drawn)) if drawn else (math.nan, math.nan)


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

    On a log scale, 0 is drawn as the lowest character. More values than `length` are thinned out evenly.
    """
    characters = PLAIN if ascii else BLOCKS
    if len(values) > length:
        values = [values[round(i * (len(values) - 1) / (length - 1))] for i in range(length)]

    def draw(value: float) -> str:
        if math.isnan(value) or math.isnan(low):
            return "?" if ascii else "·"
        if value < low:
            return characters[0]
        if value > high:
            return characters[-1]
        if low == high:
            return characters[len(characters) // 2]
        if log:
            share = (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
        else:
            share = (value - low) / (high - low)
        return characters[min(int(share * len(characters)), len(characters) - 1)]

    return "".join(map(draw, values))
