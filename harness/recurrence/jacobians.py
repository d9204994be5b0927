"""How a state depends on an earlier one."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from harness.errors import RequestError
from harness.recurrence.layers import StateLayer

FEW = 32
"""Of up to so many numbers, a backward pass for each takes less time than torch needs to import sympy, which it does
for directions that are given as `grad_outputs`."""


def jacobians(layer: StateLayer, starts: Sequence[int], end: int) -> Float[Tensor, "start batch width width"]:
    """The Jacobians of what a layer carries on after one position by what it carries on after earlier ones, for each
    example: entry i, j is the derivative of number i at `end` by number j at the start.

    All in one backward pass, or, of few numbers, in one for each. The layer's inputs are held as they were seen. Of an
    LSTM, `[..., n:, n:]` with n = `layer.states.shape[2]` is that of its cells.

    Args:
        layer: seen without `torch.inference_mode`.
        starts: positions before `end` (-1: what the first step begins with).
        end: a position.

    Raises:
        RequestError: the layer reads backward, or a position is not there or not before `end`.
    """
    if layer.direction == "backward":
        raise RequestError(f"{layer.name} reads backward: Jacobians are of layers that read forward")
    if not starts or min(starts) < -1 or max(starts) >= end or end >= layer.states.shape[1]:
        raise RequestError(
            f"no Jacobian from positions {list(starts)} to {end} of {layer.states.shape[1]}: starts lie "
            "between -1 and the position before the end"
        )
    with torch.enable_grad():
        first = layer.after(min(starts)).detach().clone().requires_grad_()
        passed = [first, *layer.advance(first, min(starts), end)]
        last = passed[-1]
        batch, width = last.shape
        sources = [passed[start - min(starts)] for start in starts]
        if not last.requires_grad:  # what is carried on does not depend on what was
            return last.new_zeros(len(starts), batch, width, width)
        if width <= FEW:
            rows = [
                torch.autograd.grad(each, sources, retain_graph=True, materialize_grads=True) for each in last.sum(0)
            ]
            return torch.stack([torch.stack(each, 1) for each in zip(*rows, strict=True)])
        directions = torch.eye(width, dtype=last.dtype, device=last.device)[:, None].expand(width, batch, width)
        found = torch.autograd.grad(last, sources, directions, is_grads_batched=True, materialize_grads=True)
    return torch.stack([each.transpose(0, 1) for each in found])


def direct_path(layer: StateLayer, starts: Sequence[int], end: int) -> Float[Tensor, "start batch cell"]:
    """The derivative of each cell after `end` by itself after earlier positions, along the cell alone: the product of
    its forget gates in between. What the gates themselves owe to the earlier state is left out, so that it is not
    the diagonal of `jacobians`.

    Args:
        layer: an LSTM, or one that offers a gate `forget`.
        starts: positions before `end`.
        end: a position.

    Raises:
        RequestError: the layer has no gate `forget`.
    """
    if "forget" not in layer.gates:
        raise RequestError(f"{layer.name} has no gate `forget`; its gates: {', '.join(layer.gates) or 'none'}")
    forget = layer.gates["forget"]
    return torch.stack([forget[:, start + 1 : end + 1].prod(1) for start in starts])
