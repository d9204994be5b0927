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
    guessed: float | None = None
    """What guessing gives, or, of a share, at least gives, where that is known."""

    @property
    def beyond(self) -> bool:
        """Whether no score can reach it."""
        return self.best is not None and not self.met(self.best)

    @property
    def within_luck(self) -> bool:
        """Whether guessing reaches it."""
        return self.guessed is not None and self.met(self.guessed)

    @property
    def problem(self) -> str:
        """Why it tells nothing, without what asked for it; "" where it does."""
        if self.best is not None and self.beyond:
            return f"beyond the best, {number(self.best)}, so that no score is a success"
        if self.guessed is not None and self.within_luck:
            return f"no better than guessing, {number(self.guessed)}, so that a model that learned nothing succeeds"
        return ""

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
        share = 0.0 if any(scalar.unit == "share" for scalar in scores) else None
        return Threshold(suite.success, not lower, "as asked for", best, levels["chance"] if levels else share)
    if levels is not None:
        chance, best = levels["chance"], levels["best"]
        why = f"{SOLVED:.0%} of the way from chance, {number(chance)}, to the best there is, {number(best)}"
        return Threshold(chance + SOLVED * (best - chance), best >= chance, why)
    if any(scalar.unit == "share" for scalar in scores):
        return Threshold(SOLVED, True, "of a share whose chance is not known")
    return None


def doubt(record: Record, suite: Suite) -> str:
    """What is wrong with the success that a suite asks for, as a first record of a task shows, in a sentence; "" for
    nothing."""
    if suite.success is None or record.status != "ok":
        return ""
    threshold = threshold_of([record], suite)
    if threshold is None or not threshold.problem:
        return ""
    return f"--success {suite.success:g} on {record.task.called} is {threshold.problem}"
