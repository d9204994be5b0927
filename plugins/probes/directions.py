"""In which directions of its outputs a model is differentiated: all of them, or that of the task's loss."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from harness import IGNORE, Batch, Task
from harness.subject import OUTPUTS_AT_ONCE

EXACT = 32
"""Up to so many outputs, each is differentiated."""
SAMPLED = 16
"""With more of them, so many random directions stand for all."""


def examples_at_once(outputs: int) -> int:
    """For how many examples random directions fit into memory."""
    return max(1, OUTPUTS_AT_ONCE // (SAMPLED * outputs))


def all_directions(
    task: Task, examples: int, generator: torch.Generator
) -> tuple[float, Iterator[Float[Tensor, "batch out"]]]:
    """Directions whose gradients' squared lengths, summed and multiplied by the factor, are the squared Frobenius norm
    of the Jacobian of one position's outputs.

    Logits are taken without their mean over the classes, which no probability depends on. Of more than 32 outputs, 16
    random orthonormal directions are drawn for each example. The sum is then right on average (its root, the norm, is
    up to 2 % too small); for one example the norm's standard error is at most sqrt(1 / 32), 18 %, if all outputs move
    together, and less the more ways they move in. Draws of different examples are independent, so that the standard
    error over examples contains theirs.
    """
    outputs, centred = task.interface.output_size, task.interface.output == "classes"
    if outputs <= EXACT:
        basis = torch.eye(outputs, dtype=torch.float64) - (1 / outputs if centred else 0)
        return 1.0, (row.expand(examples, outputs) for row in basis)
    drawn = torch.randn(examples, outputs, SAMPLED, generator=generator)
    if centred:
        drawn -= drawn.mean(1, keepdim=True)
    orthonormal, _ = torch.linalg.qr(drawn)
    return (outputs - centred) / SAMPLED, iter(orthonormal.unbind(2))


def loss_direction(task: Task, outputs: Float[Tensor, "batch time out"], batch: Batch) -> Float[Tensor, "batch out"]:
    """The unit vector along the gradient of the task's loss with respect to the outputs at the query.

    NaN for an example without one: no target there, or a gradient that float64 cannot tell from 0 (or, in a loss that a
    shift of all logits leaves alone, from its rounding: its components must sum to 0).

    Cross-entropy's gradient, the probabilities less 1 at the target, shrinks with the model's confidence to nothing.
    Its direction does not: -1 at the target, and the probabilities of the others among themselves.
    """
    assert batch.query is not None
    rows = torch.arange(len(batch), device=outputs.device)
    if getattr(task.loss, "__func__", None) is Task.loss and task.interface.output == "classes":
        target = batch.targets[rows, batch.query]
        place = target.clamp(min=0)[:, None]
        among_others = outputs[rows, batch.query].double().scatter(1, place, -math.inf).softmax(-1)
        gradient = among_others.scatter(1, place, -1.0)
        return _unit(gradient).masked_fill((target == IGNORE)[:, None], math.nan)
    whole = outputs.detach().double().clone().requires_grad_()
    with torch.enable_grad():
        loss = task.loss(whole, batch)
        (gradients,) = torch.autograd.grad(loss, whole, materialize_grads=True)
    gradient = gradients[rows, batch.query]
    with torch.no_grad():
        shifted = task.loss(whole + 1, batch)
    if task.interface.output == "classes" and torch.isclose(shifted, loss, rtol=1e-9, atol=1e-9):
        rounding = gradient.sum(-1).abs() > 1e-6 * gradient.abs().sum(-1)
        gradient = gradient.masked_fill(rounding[:, None], math.nan)
    return _unit(gradient)


def _unit(vectors: Float[Tensor, "batch out"]) -> Float[Tensor, "batch out"]:
    """Of length 1; NaN where a vector is 0. Divided by the largest component first, whose square may be nothing."""
    at_most_1 = vectors / vectors.abs().amax(-1, keepdim=True)
    unit: Tensor = at_most_1 / at_most_1.norm(dim=-1, keepdim=True)
    return unit
