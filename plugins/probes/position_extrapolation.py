"""Does it still work beyond the trained length? The score at every length, and where it ends."""

import math
from collections.abc import Iterator
from typing import Annotated

import torch
from harness_plugins.probes.conditions import first_group, skill
from pydantic import Field

from harness import Condition, Curve, Scalar, Subject
from harness.registry import describe


class PositionExtrapolation:
    """Score per length, inside and beyond the trained range.

    A model that cannot take a length (a position table that ends) is measured up to there: the limit is a result.

    Measures:
        score: the task's first metric per condition; NaN where the model cannot take the length.
        longest_good: largest x up to which every score is at least `threshold`; 0 if not even the nearest is.
        worst_beyond: worst score beyond the trained range; the verdict says whether it is below chance (the model
            answers wrongly, which is worse than not knowing), at chance or above.
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
        conditions = self._conditions(first_group(task))
        scores: list[float] = []
        limit, reason = math.inf, None
        for condition in conditions:
            if limit < math.inf:
                scores.append(math.nan)
                continue
            batch = subject.batch(condition)  # outside the `try`: what the task cannot make is no limit of the model
            most = getattr(subject.model, "max_length", None)
            try:
                if isinstance(most, int) and batch.tokens.shape[1] > most:
                    raise ValueError(f"the model takes {most} tokens at most (max_length)")
                scores.append(task.summarise(subject.scores(condition))[task.headline])
            except torch.OutOfMemoryError:
                raise  # a limit of the machine
            except (IndexError, RuntimeError, ValueError) as error:
                shorter = [c.x for c in conditions if c.x < condition.x]
                limit = max(shorter, default=0.0)
                reason = f"at {condition.x:g} ({batch.tokens.shape[1]} tokens): {describe(error)}"
                scores.append(math.nan)
        yield Curve(
            name="score",
            unit=metric.unit,
            x=[condition.x for condition in conditions],
            y=scores,
            x_label=task.axis,
            y_label=task.headline,
            inside=[condition.inside for condition in conditions],
            headline=True,
        )
        yield Scalar(name="limit", unit=task.axis, value=limit, verdict=reason, headline=limit < math.inf)
        skills = [skill(metric, score) for score in scores]
        if math.isnan(skills[0]) and not math.isnan(scores[0]):
            return  # without a scale from chance to perfect, no score is good or bad
        longest = 0.0
        for condition, reached in zip(conditions, skills, strict=True):
            if not reached >= self.threshold:
                break
            longest = condition.x
        yield Scalar(name="longest_good", unit=task.axis, value=longest, headline=True)
        beyond = [
            (reached, score)
            for condition, reached, score in zip(conditions, skills, scores, strict=True)
            if not condition.inside and not math.isnan(score)
        ]
        if beyond:
            reached, score = min(beyond)
            verdict = "below chance" if reached < -0.1 else "at chance" if reached < 0.1 else "above chance"
            yield Scalar(name="worst_beyond", unit=metric.unit, value=score, verdict=verdict, headline=True)

    def _conditions(self, own: list[Condition]) -> list[Condition]:
        if self.at is None:
            return own
        inside = [condition.x for condition in own if condition.inside]
        low, high = min(inside, default=math.inf), max(inside, default=-math.inf)
        return [Condition(x, inside=low <= x <= high, group=own[0].group) for x in sorted(set(self.at))]
