"""Does gradient reach the token that matters? Its size there, distance by distance."""

import math
from collections.abc import Iterator
from typing import ClassVar

import torch
from harness_plugins.probes.conditions import first_group
from jaxtyping import Float, Int
from pydantic import PositiveInt
from torch import Tensor

from harness import Batch, Curve, Matrix, Scalar, Subject
from harness.gradients import input_gradients
from harness.statistics import falls_below, fit_decay

STEPS_BACK = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class GradReach:
    """Gradient at the query with respect to the embedding of the cue and of every token before the query.

    The quantity is the length of `d(g . logits) / d embedding`, where `g` is the unit vector along the gradient of the
    task's loss with respect to the logits at the query. It is the gradient of the loss without the factor that shrinks
    once a model is confident, so that it means the same before and after training.

    Every distance gets sequences of its own and one backward pass. A single pass over the longest sequence, read at
    several steps back, gives the same curve for most recurrent nets and a wrong one for attention, whose share per
    token depends on the length; it is the last row of `gradient_by_steps_back`.

    A task that marks no cue and query is read at the first token and the last one.

    Measures:
        cue_gradient: its length at the cue, per distance (mean over examples).
        reach: the same relative to the query's own token (how much of the gradient survives the way).
        per_step_factor: factor per token of an exponential fit; the verdict says whether the decay is exponential,
            polynomial (exponent in `decay_exponent`) or flat.
        below_1_percent: distance in tokens at which the cue's gradient falls below 1 % of the nearest one's; infinite
            if it never does within what was measured.
        gradient_by_steps_back: per distance, the length d steps back relative to the query's own token.

    Args:
        examples: sequences per distance.
    """

    stages: ClassVar = ("initial", "trained")

    def __init__(self, *, examples: PositiveInt = 64) -> None:
        self.examples = examples

    def __call__(self, subject: Subject) -> Iterator[Curve | Scalar | Matrix]:
        conditions = first_group(subject.task)
        steps, at_cue, at_query, profiles = [], [], [], []
        for condition in conditions:
            batch = subject.batch(condition)[: self.examples]
            sizes = torch.cat([gradient_sizes(subject, piece) for piece in subject.chunks(batch)])
            cue, query = ends(batch)
            rows = torch.arange(len(batch), device=sizes.device)
            steps.append((query - cue).double().mean().item())
            at_cue.append(sizes[rows, cue].mean().item())
            at_query.append(sizes[rows, query].mean().item())
            own = at_query[-1] or math.nan
            profiles.append([_steps_back(sizes, query, back) / own for back in STEPS_BACK])
        cue_gradient = Curve(
            name="cue_gradient",
            unit="logits per embedding",
            x=[condition.x for condition in conditions],
            y=at_cue,
            x_label=subject.task.axis,
            y_label="gradient at the cue",
            inside=[condition.inside for condition in conditions],
            scale="log",
            headline=True,
        )
        yield cue_gradient
        reach = [near / own if own else math.nan for near, own in zip(at_cue, at_query, strict=True)]
        relative = {"name": "reach", "unit": "ratio", "y": reach, "y_label": "cue relative to query token"}
        yield cue_gradient.model_copy(update={**relative, "headline": False})
        fit = fit_decay(steps, at_cue)
        yield Scalar(
            name="per_step_factor",
            unit="ratio per token",
            value=fit.factor,
            verdict=fit.verdict,
            headline=True,
        )
        yield Scalar(name="decay_exponent", unit="", value=fit.exponent)
        yield Scalar(name="below_1_percent", unit="tokens", value=falls_below(steps, at_cue, 0.01), headline=True)
        used = [i for i, back in enumerate(STEPS_BACK) if any(not math.isnan(row[i]) for row in profiles)]
        yield Matrix(
            name="gradient_by_steps_back",
            unit="ratio",
            values=[[row[i] for i in used] for row in profiles],
            rows=[str(condition) for condition in conditions],
            columns=[str(STEPS_BACK[i]) for i in used],
            row_label=subject.task.axis,
            column_label="steps back",
        )


def ends(batch: Batch) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
    """Cue and query positions; the first and the last token where the task marks none."""
    if batch.cue is not None and batch.query is not None:
        return batch.cue, batch.query
    last = batch.mask.sum(dim=1) - 1
    return torch.zeros_like(last), last


def gradient_sizes(subject: Subject, batch: Batch) -> Float[Tensor, "batch time"]:
    """Length of the gradient at every position, as the class describes it."""
    _, query = ends(batch)
    rows = torch.arange(len(batch), device=query.device)
    outputs = subject.forward(batch).double().clone().requires_grad_()  # a clone is no inference tensor
    (loss_gradient,) = torch.autograd.grad(subject.task.loss(outputs, batch), outputs)
    at_query = loss_gradient[rows, query]
    directions = torch.zeros_like(outputs)
    directions[rows, query] = torch.nn.functional.normalize(at_query, dim=-1, eps=1e-300)
    sizes: Tensor = input_gradients(subject.model, batch, directions).norm(dim=-1)
    return sizes


def _steps_back(sizes: Float[Tensor, "batch time"], query: Int[Tensor, " batch"], back: int) -> float:
    positions = query - back
    rows = (positions >= 0).nonzero().squeeze(1)
    return sizes[rows, positions[rows]].mean().item() if len(rows) else math.nan
