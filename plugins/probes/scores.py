"""A task's scores per condition, as far as a model can take them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from harness import Condition, Metric, Subject
from harness.errors import describe


@dataclass(frozen=True)
class Series:
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

    def places(self, metric: str) -> list[tuple[Condition, float, float]]:
        """Condition, value and standard error wherever the model takes the length."""
        values, errors = self.of(metric), self.errors_of(metric)
        return [(condition, values[i], errors[i]) for i, condition in enumerate(self.conditions) if self.summaries[i]]

    def errors_of(self, metric: str) -> list[float]:
        """The standard error of each."""
        return [errors.get(metric, math.nan) for errors in self.errors]


def scores(subject: Subject, conditions: Sequence[Condition]) -> Series:
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
        try:
            if not subject.takes(batch):
                raise ValueError(f"the model takes {subject.model.max_length} tokens at most (max_length)")
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
    return Series(conditions, summaries, errors, limit, reason)


def worst(found: Sequence[tuple[float, float]], metric: Metric) -> tuple[float, float]:
    """The worst value with its standard error; NaN is worse than any number."""
    for value, error in found:
        if math.isnan(value):
            return value, error
    return (min if metric.higher_is_better else max)(found)
