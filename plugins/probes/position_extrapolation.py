"""Does it still work beyond the trained length? The score at every length, and where it ends."""

import math
from collections.abc import Iterator, Sequence
from typing import Annotated

from harness_plugins.probes.conditions import curve, first_group, learned, reference, skill, skill_error, unit_of
from harness_plugins.probes.scores import Series, scores, worst
from pydantic import Field

from harness import Condition, Curve, Metric, Scalar, Subject
from harness.statistics import MEANINGS, NEAR, NOT_ENOUGH, WAY, settled

AT_CHANCE = 0.1
"""A skill of this size, to either side of 0, is chance."""

WORDS = {
    **MEANINGS,
    "below chance": f"the worst score beyond the trained range is worse than guessing by {AT_CHANCE:.0%} {WAY} or more",
    "at chance": f"the worst score beyond the trained range is within {AT_CHANCE:.0%} {WAY} of guessing",
    "above chance": f"all scores measured beyond the trained range are better than guessing, by {AT_CHANCE:.0%} {WAY} "
    "or more",
}
"""What the verdicts mean."""


class PositionExtrapolation:
    """Score per length, inside and beyond the trained range.

    A model that cannot take a length (a position table that ends) is measured up to there: the limit is a result.

    Measures:
        score: the task's first metric per condition; NaN where the model cannot take the length.
        longest_good: largest x up to which every score is at least `threshold`; minus infinity if not even the nearest
            is. The verdict is `near the threshold` where two standard errors of a score would move it.
        worst_beyond: worst score beyond the trained range; the verdict says whether it is below chance (the model
            answers wrongly, which is worse than not knowing), at chance (within a tenth of the way to perfect) or
            above. A model that has not learned the task within the range has nothing to extrapolate, and it says so.
        limit: largest x that the model takes; infinite if it takes all that were tried. The verdict is its own error.

    A metric that states no chance and best value has only `score` and `limit`.

    Args:
        threshold: a good score, as a share of the way from chance to perfect.
        at: places on the task's axis to evaluate, instead of the task's own.
    """

    needs = ("distances",)

    def __init__(self, *, threshold: Annotated[float, Field(gt=0, le=1)] = 0.9, at: list[float] | None = None) -> None:
        self.threshold = threshold
        self.at = at

    def __call__(self, subject: Subject) -> Iterator[Scalar | Curve]:
        task = subject.task
        metric = task.metrics[task.headline]
        found = scores(subject, self._conditions(first_group(task)))
        values, errors = found.of(task.headline), found.errors_of(task.headline)
        yield curve("score", metric.unit, task, found.conditions, values, errors, y_label=task.headline, metric=metric)
        limited = found.limit < math.inf
        yield Scalar(name="limit", unit=unit_of(task.axis), value=found.limit, verdict=found.reason, headline=limited)
        if math.isnan(skill(metric, 0.0)):
            return  # without a scale from chance to perfect, no score is good or bad
        yield self._longest_good(found, metric, task.headline, unit_of(task.axis))
        beyond = [(score, error) for condition, score, error in found.places(task.headline) if not condition.inside]
        if beyond:
            score, error = worst(beyond, metric)
            verdict = self._not_learned(subject, found, metric) or settled(
                against_chance, [skill(metric, score)], [skill_error(metric, error)]
            )
            yield Scalar(
                name="worst_beyond",
                unit=metric.unit,
                value=score,
                standard_error=error,
                verdict=verdict,
                meaning=WORDS[verdict],
                headline=True,
            )

    def _longest_good(self, found: Series, metric: Metric, name: str, unit: str) -> Scalar:
        def longest(skills: Sequence[float]) -> str:
            good = -math.inf
            for condition, reached in zip(found.conditions, skills, strict=True):
                if not reached >= self.threshold:
                    break
                good = condition.x
            return f"{good:g}"

        skills = [skill(metric, score) for score in found.of(name)]
        verdict = settled(longest, skills, [skill_error(metric, error) for error in found.errors_of(name)])
        words = verdict if verdict in (NEAR, NOT_ENOUGH) else None
        return Scalar(
            name="longest_good",
            about=f"the farthest place up to which all scores are at least {self.threshold:.0%} {WAY}",
            unit=unit,
            value=float(longest(skills)),
            verdict=words,
            meaning=MEANINGS.get(words or ""),
            headline=True,
        )

    @staticmethod
    def _not_learned(subject: Subject, found: Series, metric: Metric) -> str | None:
        """Why nothing can be said about extrapolation, if the farthest trained condition is among those measured."""
        farthest = reference(found.conditions)
        if not farthest.inside:
            return None
        index = list(found.conditions).index(farthest)
        name = subject.task.headline
        return learned(subject, metric, found.of(name)[index], found.errors_of(name)[index])

    def _conditions(self, own: list[Condition]) -> list[Condition]:
        if self.at is None:
            return own
        inside = [condition.x for condition in own if condition.inside]
        low, high = min(inside, default=math.inf), max(inside, default=-math.inf)
        return [Condition(x, inside=low <= x <= high, group=own[0].group) for x in sorted(set(self.at))]


def against_chance(skills: Sequence[float]) -> str:
    """Whether a skill is below chance, at chance or above."""
    if math.isnan(skills[0]):
        return "not a number"
    return "below chance" if skills[0] < -AT_CHANCE else "at chance" if skills[0] < AT_CHANCE else "above chance"
