"""From which score on a seed is a success."""

from collections.abc import Iterable
from typing import NamedTuple

from harness.measurements import Curve, Scalar
from harness.report.numbers import number
from harness.schema import Record
from harness.statistics import SOLVED
from harness.suites import Suite

SCORE = "worst_inside"
"""Where a seed's score is: the worst one under any condition within the trained range."""


class Threshold(NamedTuple):
    """From which score on a seed is a success."""

    value: float
    higher_is_better: bool
    why: str
    """Where it comes from."""
    best: float | None = None
    """The best score there is, where the metric has one."""

    @property
    def beyond(self) -> bool:
        """Whether no score can reach it."""
        return self.best is not None and not self.met(self.best)

    def met(self, score: float) -> bool:
        """Whether a score reaches it, but for a float's last digits; NaN does not."""
        return (score - self.value if self.higher_is_better else self.value - score) >= -1e-9

    def __str__(self) -> str:
        return f"at {'least' if self.higher_is_better else 'most'} {number(self.value)} ({self.why})"


def threshold_of(records: Iterable[Record], suite: Suite | None) -> Threshold | None:
    """What the suite says, or what the metric allows to say."""
    ok = [record for record in records if record.status == "ok"]
    scales = [m.levels for r in ok for m in r.measurements if isinstance(m, Curve | Scalar) and m.headline]
    levels = next((each for each in scales if {"chance", "best"} <= each.keys()), None)
    scores = [m for r in ok for m in r.measurements if isinstance(m, Scalar) and m.name == SCORE]
    if ok and not scores:
        return None
    if suite is not None and suite.success is not None:
        best = next((each["best"] for each in scales if "best" in each), None)
        others = [levels["chance"]] if levels else [scalar.value for scalar in scores]
        lower = best is not None and any(other > best for other in others)
        return Threshold(suite.success, not lower, "as asked for", best)
    if levels is not None:
        chance, best = levels["chance"], levels["best"]
        why = f"{SOLVED:.0%} of the way from chance, {number(chance)}, to the best there is, {number(best)}"
        return Threshold(chance + SOLVED * (best - chance), best >= chance, why)
    if any(scalar.unit == "share" for scalar in scores):
        return Threshold(SOLVED, True, "of a share whose chance is not known")
    return None
