"""Linear recurrences, all positions at once.

    h_t = a_t h_{t-1} + b_t,  h_{-1} = 0

A minimal GRU, a selective state space and linear attention with a gate are this recurrence, whose factors depend on the
input and not on the state. Sums and products of the factors are all that is computed here: there is no logarithm and no
division, so that factors may be negative or 0, and nothing overflows at any length as long as they are within [-1, 1].
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

SHORT = 8
"""Positions that are gone through step by step."""
WIDE = 4096
"""Numbers at a position that keep a processor busy by themselves."""


def linear_scan(
    factors: Float[Tensor, "batch time ..."], inputs: Float[Tensor, "batch time ..."]
) -> Float[Tensor, "batch time ..."]:
    """h_t = factors_t h_{t-1} + inputs_t for all t, each number by itself; in time proportional to the length.

    Args:
        factors: any real numbers; broadcast to the shape of `inputs`.
        inputs: what is added at each position.
    """
    states: Tensor = _Scan.apply(factors.expand(inputs.shape)[:, 1:], inputs, False)
    return states


def products(factors: Float[Tensor, "batch time ..."]) -> Float[Tensor, "batch time ... time"]:
    """What is left at each position (second axis) of what was added at each (last axis): the product of the factors
    behind that one, 1 at the position itself, and 0 before."""
    time = factors.shape[1]
    ones = torch.eye(time, dtype=factors.dtype, device=factors.device)
    ones = ones.view(time, *(1 for _ in factors.shape[2:]), time)
    return linear_scan(factors[..., None], ones.expand(*factors.shape, time))


class _Scan(torch.autograd.Function):
    """The recurrence, or the one that comes from the end: the states of either, where `links` says what each state
    takes over from its neighbour. The gradient of one is the other, with the same links."""

    @staticmethod
    def forward(ctx: Any, links: Tensor, inputs: Tensor, reverse: bool) -> Tensor:
        states = torch.empty_like(inputs, memory_format=torch.contiguous_format)
        _fill(states, links, inputs, reverse)
        ctx.save_for_backward(links, states)
        ctx.reverse = reverse
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        links, states = ctx.saved_tensors
        of_inputs: Tensor = _Scan.apply(links, grad, not ctx.reverse)
        earlier, later = (of_inputs, states) if ctx.reverse else (states, of_inputs)
        return earlier[:, :-1] * later[:, 1:], of_inputs, None


def _fill(states: Tensor, links: Tensor, inputs: Tensor, reverse: bool) -> None:
    """Write the states. Two steps in a row are one step, so that every second state comes from a sequence of half the
    length, and those between from their neighbours (G. E. Blelloch, "Prefix sums and their applications", 1990). A
    short sequence is gone through step by step, and so is one of wide positions: that is the least work.

    Args:
        states: what is written: `batch time ...`.
        links: one fewer; between each position and the next.
        inputs: as many as states.
        reverse: each state goes on from the one behind it.
    """
    time = inputs.shape[1]
    if time <= SHORT or (inputs.device.type == "cpu" and inputs[:, 0].numel() >= WIDE):
        _step(states.unbind(1), links.unbind(1), inputs.unbind(1), reverse)
        return
    odd = time % 2
    if reverse:  # pairs end at the last position, and have the state of their first one
        start, first, second = -1, slice(1 + odd, None, 2), slice(odd, -1, 2)
        within, across = links[:, odd::2], links[:, 1 - odd :: 2]
        joined = within[:, :-1] * across[:, odd:]
        between, neighbours = slice(1 - odd, -1, 2), slice(2 - odd, None, 2)
    else:  # pairs begin at the first position, and have the state of their second one
        start, first, second = 0, slice(0, time - odd, 2), slice(1, None, 2)
        within, across = links[:, 0::2], links[:, 1::2]
        joined = within[:, 1:] * across[:, : time // 2 - 1]
        between, neighbours = slice(2, None, 2), slice(1, time - 1, 2)
    _fill(states[:, second], joined, torch.addcmul(inputs[:, second], within, inputs[:, first]), reverse)
    states[:, start] = inputs[:, start]
    torch.addcmul(inputs[:, between], across, states[:, neighbours], out=states[:, between])


def _step(states: Sequence[Tensor], links: Sequence[Tensor], inputs: Sequence[Tensor], reverse: bool) -> None:
    """Write the states, one after the other."""
    if reverse:
        states, links, inputs = states[::-1], links[::-1], inputs[::-1]
    states[0].copy_(inputs[0])
    for before, link, given, state in zip(states[:-1], links, inputs[1:], states[1:], strict=True):
        torch.addcmul(given, link, before, out=state)
