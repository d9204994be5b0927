"""How much of a test a table of counts has never seen."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch
from harness_plugins.probes.conditions import curve, in_order
from jaxtyping import Bool
from torch import Tensor

from harness import IGNORE, Batch, Condition, Curve, Scalar, Skip, Subject
from harness.examples import standard_error


@runtime_checkable
class OffersUnseen(Protocol):
    """A model that keeps a table of what it has seen."""

    def unseen(self, batch: Batch) -> Bool[Tensor, "batch time"]:
        """Where a target is not in the table, after the context that the model looks at; False where there is none."""
        ...


def unseen(subject: Subject) -> Iterator[Curve | Scalar]:
    """The share of test answers that training never had after the same context: there a table of counts can only guess
    from a shorter one, and what it gets right is a matter of its smoothing.

    A curve for each group of conditions (`unseen`, `unseen (same)`, ...), or a scalar where a group has one condition.
    For a model that keeps such a table, as `ngram` does: the context are the last n - 1 tokens, or all of them where
    there are fewer.
    """
    if not isinstance(subject.model, OffersUnseen):
        raise Skip("the model keeps no table of what it has seen (a method `unseen`)")
    for index, (group, conditions) in enumerate(in_order(subject.task).items()):
        name = f"unseen ({group})" if index else "unseen"
        found = [_share(subject, subject.model, condition) for condition in conditions]
        shares, errors = [share for share, _ in found], [error for _, error in found]
        if len(found) == 1:
            yield Scalar(name=name, unit="share", value=shares[0], standard_error=errors[0], headline=True)
        else:
            yield curve(name, "share", subject.task, conditions, shares, errors, y_label="answers that are new")


def _share(subject: Subject, model: OffersUnseen, condition: Condition) -> tuple[float, float]:
    """Of all answers, with the standard error over examples."""
    batch = subject.batch(condition)
    new = torch.cat([model.unseen(piece).sum(1) for piece in subject.chunks(batch)]).double()
    asked = (batch.targets != IGNORE).sum(1).double()
    shares = (new / asked).where(asked > 0, 0.0)
    return (new.sum() / asked.sum()).item(), standard_error(shares, asked, share=True)
