"""Whether a computation made again in the open is the module's own."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from harness.errors import RequestError
from harness.recurrence.strands import EditState, Opened

EXACT, SINGLE, HALF = 1e-12, 1e-4, 0.05
"""Largest differences that pass for rounding, relative to the largest output (or to 1): in float64; in float32; in
fewer bits."""

CHAOS = 100.0
"""How much more than a nudge by rounding two ways to compute the same may differ, where rounding grows."""


def first_difference(
    own: Float[Tensor, "batch time *out"],
    opened: Float[Tensor, "batch time *out"],
    more: Float[Tensor, " time"] | float = 0.0,
) -> tuple[int, float] | None:
    """The first step at which two computations differ by more than rounding, and by how much they do at most, in the
    unit of the outputs; None if they agree.

    Args:
        own: outputs.
        opened: outputs computed in another way.
        more: what passes at each step beside rounding.
    """
    difference = _difference(own, opened)
    finite = own[own.isfinite()]
    scale = max(1.0, finite.abs().max().item()) if len(finite) else 1.0
    bound = EXACT if own.dtype == torch.float64 else SINGLE if own.dtype == torch.float32 else HALF
    beyond = difference > bound * scale + more
    return (int(beyond.int().argmax()), difference.max().item()) if beyond.any() else None


def agree(name: str, own: Tensor, opened: Tensor, again: Callable[[EditState], Opened]) -> None:
    """Raise if a module's outputs are not those of its computation in the open.

    Args:
        name: of the module.
        own: its outputs, as far as they are to agree.
        opened: those made in the open.
        again: makes the computation once more, with a change of what is carried.

    Raises:
        RequestError: they differ, and not because the module makes any rounding grow.
    """
    if (found := first_difference(own, opened)) is None:
        return
    nudged = _difference(again(_nudge).outputs[:, : own.shape[1]], opened).cummax(0).values
    if first_difference(own, opened, CHAOS * nudged) is None:
        return
    step, size = found
    raise RequestError(
        f"the state of {name} cannot be seen: computed step by step, its outputs differ from its own by up to "
        f"{size:.2g}, from step {step} of {own.shape[1]} on (counted from 0). A recurrent module is seen in evaluation "
        "mode, where it computes what PyTorch documents for its class; what offers its state computes the same in "
        "`step` and in `forward`"
    )


def _difference(a: Float[Tensor, "batch time *out"], b: Float[Tensor, "batch time *out"]) -> Float[Tensor, " time"]:
    """Per step the largest; equal infinities and two NaN are none, NaN beside a number is infinite."""
    same = (a == b) | (a.isnan() & b.isnan())
    largest = torch.where(same, 0.0, (a - b).abs()).transpose(0, 1).flatten(1)
    return largest.nan_to_num(torch.inf, torch.inf).amax(1) if largest.shape[1] else largest.new_zeros(len(largest))


def _nudge(strand: int, carried: Tensor, after: int) -> Tensor:
    generator = torch.Generator().manual_seed(after + 1)
    noise = torch.randn(carried.shape, generator=generator, dtype=torch.float64).to(carried)
    return carried * (1 + 8 * torch.finfo(carried.dtype).eps * noise)
