"""A task's scores per condition, as far as a model can take them, and what they allow to say."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from harness_plugins.probes.conditions import skill

from harness import Condition, Metric, Subject
from harness.registry import describe
from harness.statistics import ENOUGH, GOOD, NOT_ENOUGH, settled


@dataclass(frozen=True)
class Scores:
    """Metrics along the conditions of a group.

    Args:
        conditions: where they were asked for.
        summaries: the task's metrics per condition; empty where the model cannot take the length.
        errors: their standard errors.
        limit: largest x that the model takes; infinite if it takes all that were tried.
        reason: what the model said beyond it.
    """

    conditions: Sequence[Condition]
    summaries: list[dict[str, float]]
    errors: list[dict[str, float]]
    limit: float = math.inf
    reason: str | None = None

    def of(self, metric: str) -> list[float]:
        """One value for each condition; NaN where there is none."""
        return [summary.get(metric, math.nan) for summary in self.summaries]

    def errors_of(self, metric: str) -> list[float]:
        """The standard error of each."""
        return [errors.get(metric, math.nan) for errors in self.errors]


def scores(subject: Subject, conditions: Sequence[Condition]) -> Scores:
    """The task's metrics per condition. Where the model cannot take a length (a position table that ends), that and
    all later conditions have none: the limit is a result.

    Raises:
        RuntimeError, ValueError, IndexError: the model's own, if it cannot take the first condition either.
    """
    summaries: list[dict[str, float]] = []
    errors: list[dict[str, float]] = []
    limit, reason = math.inf, None
    for condition in conditions:
        if limit < math.inf:
            summaries.append({})
            errors.append({})
            continue
        batch = subject.batch(condition)  # outside the `try`: what the task cannot make is no limit of the model
        most = getattr(subject.model, "max_length", None)
        try:
            if isinstance(most, int) and batch.tokens.shape[1] > most:
                raise ValueError(f"the model takes {most} tokens at most (max_length)")
            numbers = subject.scores(condition)
        except torch.OutOfMemoryError:
            raise  # a limit of the machine
        except (IndexError, RuntimeError, ValueError) as error:
            if not summaries:
                raise
            limit = max(c.x for c in conditions if c.x < condition.x)
            reason = f"at {condition.x:g} ({batch.tokens.shape[1]} tokens): {describe(error)}"
            summaries.append({})
            errors.append({})
        else:
            summaries.append(subject.task.summarise(numbers))
            errors.append(subject.task.standard_errors(numbers))
    return Scores(conditions, summaries, errors, limit, reason)


def skill_error(metric: Metric, error: float) -> float:
    """A standard error as a share of the way from chance to perfect."""
    return abs(skill(metric, error) - skill(metric, 0.0))


def why_not(subject: Subject, metric: Metric, value: float, error: float = math.nan) -> str | None:
    """Why nothing can be said about how a model comes to its answers, given its score; None if something can.

    Nothing can be said of a model that answers little better than chance (`has not learned`: less than half of the way
    from chance to perfect), or that was trained for less than half of what is recommended for it (`not enough to say`).
    """
    if math.isnan(value):
        return "not a number"

    def judge(skills: Sequence[float]) -> str:
        return "" if skills[0] >= GOOD else "has not learned"

    verdict = settled(judge, [skill(metric, value)], [skill_error(metric, error)])
    return NOT_ENOUGH if verdict and subject.budget < ENOUGH else verdict or None
