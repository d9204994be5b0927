"""Numbers as a person wants to read them."""

import math
from collections.abc import Sequence

from harness.seeds import Summary


def number(value: float) -> str:
    """Three significant digits; `1.2e-05` for very small, `26,834` for large and whole numbers."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "0"
    size = abs(value)
    if size < 1e-3 or size >= 1e7:
        return f"{value:.1e}"
    if size >= 99.95 or (size >= 2 and value == int(value)):
        return f"{value:,.0f}"
    return f"{value:#.3g}"


def spread(summary: Summary) -> str:
    """`0.48 [0.47..0.49]`: the median and the range over seeds, of many the one without a tenth at each end
    (`0.48 [80 %: 0.47..0.49]`); only one number where all are the same."""
    if summary.n == 0:
        return "NaN" if summary.nan else ""
    text = number(summary.median)
    low, high = number(summary.low), number(summary.high)
    if low != high:
        text += f" [{'80 %: ' if summary.many else ''}{low}..{high}]"
    return f"{text} ({summary.nan} NaN)" if summary.nan else text


def with_error(summary: Summary, errors: Sequence[float | None]) -> str:
    """`0.912 ± 0.011`: a number with its standard error; without it where it is not known, and as `spread` where there
    are several numbers."""
    error = known_error(summary, errors)
    return spread(summary) if math.isnan(error) else f"{number(summary.median)} ± {number(error)}"


def known_error(summary: Summary, errors: Sequence[float | None]) -> float:
    """The standard error of a number that was measured once, or always came out the same; NaN if it is not known."""
    known = [error for error in errors if error is not None and not math.isnan(error)]
    return max(known) if known and summary.minimum == summary.maximum and not summary.nan else math.nan
