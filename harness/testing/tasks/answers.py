"""Outputs of models that know the answers, and of models that guess."""

import torch
from torch import Tensor

from harness.batches import IGNORE, Batch
from harness.examples import seeded
from harness.offers import OffersPerfection
from harness.testing.tasks.case import TaskCase

SURE = 40.0
"""The logit of a model that is certain."""


def knowing(case: TaskCase, batch: Batch) -> Tensor:
    """Outputs of a model that knows: what the task says is perfect, or else certainty of the targets."""
    if isinstance(case.task, OffersPerfection):
        return case.task.perfect(batch)
    return certain(case, batch.targets)


def certain(case: TaskCase, answers: Tensor) -> Tensor:
    """Outputs that are certain of the given answers (0 everywhere where there is none)."""
    if case.task.interface.output == "numbers":
        return answers.nan_to_num(0.0)
    known = answers != IGNORE
    outputs = torch.zeros(*answers.shape, case.task.interface.output_size)
    return outputs.scatter(2, answers.where(known, 0)[..., None], SURE * known[..., None].float())


def guesses(case: TaskCase, batch: Batch) -> dict[str, Tensor]:
    """Outputs of models that know nothing but which answers there are."""
    if case.task.interface.output == "numbers":
        wanted = batch.targets.where(asked(case, batch)[..., None], torch.nan)
        means = {"always the mean": wanted.nanmean((0, 1)), "the mean at each position": wanted.nanmean(0)}
        return {how: mean.nan_to_num(0.0).expand_as(wanted).clone() for how, mean in means.items()}
    generator = seeded("guess")
    there = ~case.missing(batch)[0]
    answers, kinds = batch.targets[there], batch.targets[there].unique()
    drawn = answers[torch.randint(len(answers), there.shape, generator=generator)]
    drawn_evenly = kinds[torch.randint(len(kinds), there.shape, generator=generator)]
    alike = torch.zeros(*there.shape, case.task.interface.output_size)
    among = torch.full_like(alike, -SURE)
    among[..., kinds] = 0.0
    return {
        "an answer at random": certain(case, drawn_evenly.where(there, IGNORE)),
        "an answer as often as it is right": certain(case, drawn.where(there, IGNORE)),
        "all classes alike": alike,
        "all answers alike": among,
    }


def asked(case: TaskCase, batch: Batch) -> Tensor:
    """Where something is asked (`batch time`): at every target and at the query. Where real-valued targets say nowhere
    that there is none, those at the query count alone; without a query all but the padding."""
    missing, _ = case.missing(batch)
    unsaid = case.task.interface.output == "numbers" and not missing.any()
    where = torch.zeros_like(batch.mask) if unsaid and batch.query is not None else ~missing & batch.mask
    if batch.query is not None:
        marked = batch.query >= 0
        where[torch.arange(len(batch))[marked], batch.query[marked]] = True
    return where
