"""A sequence in chunks, for layers whose state is a matrix: parallel inside a chunk, one step from chunk to chunk."""

import math

import torch
import torch.nn.functional as F
from harness_plugins.models.scan import linear_scan, products
from jaxtyping import Bool, Float
from torch import Tensor

CHUNK = 32
"""Positions of a chunk. Work inside grows with the square of it, and steps between chunks with its inverse."""


def in_chunks(x: Float[Tensor, "batch time head *width"], size: int) -> Float[Tensor, "chunk batch head place *width"]:
    """Cut the time into chunks, the last one filled up with zeros."""
    batch, time, *rest = x.shape
    chunks = math.ceil(time / size)
    if time % size:
        x = F.pad(x.flatten(2), (0, 0, 0, chunks * size - time))
    return x.view(batch, chunks, size, *rest).movedim((1, 2), (0, 3)).contiguous()  # once, and not in each product


def in_one(chunks: Float[Tensor, "chunk batch head place width"], time: int) -> Float[Tensor, "batch time head width"]:
    """The inverse of `in_chunks`."""
    whole = chunks.movedim((0, 3), (1, 2))
    return whole.flatten(1, 2)[:, :time]


def not_after(size: int, device: torch.device) -> Bool[Tensor, "place place"]:
    """Whether the second place of a chunk is not after the first."""
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


def decayed_sums(
    q: Float[Tensor, "batch time #head key"],
    k: Float[Tensor, "batch time #head key"],
    v: Float[Tensor, "batch time head value"],
    decay: Float[Tensor, "batch time head"] | None = None,
    size: int = CHUNK,
) -> Float[Tensor, "batch time head value"]:
    """y_t = q_t S_t with S_t = decay_t S_{t-1} + k_t' v_t and S_0 = 0; all decays are 1 if none is given. They may be
    negative or 0, and more precise than the rest. Queries and keys are those of each head, or one for all.

    In each chunk y = (q k' * D) v + d q S, where S is the state before it, and D and d say what decays between two
    places, and from the chunk's beginning to a place (Y. Sun et al., "Retentive network", 2023, section 2.3; T. Dao and
    A. Gu, "Transformers are SSMs", 2024, section 6).
    """
    time = q.shape[1]
    size = min(size, time)
    queries, keys, values = (in_chunks(each, size) for each in (q, k, v))
    scores = queries @ keys.mT
    if decay is None:
        weights, kept = scores * not_after(size, q.device), torch.ones_like(scores[..., :1, :1])
    else:
        factors = in_chunks(decay, size)
        between = products(factors.flatten(0, 2)).view(*factors.shape, size)
        start = (between[..., :1] * factors[..., :1, None]).to(v.dtype)
        between = between.to(v.dtype)
        weights, kept = scores * between, start[..., -1:, :]
        queries, keys = start * queries, between[..., -1, :, None] * keys
    inside = weights @ values
    if time <= size:
        return in_one(inside, time)
    added = keys[:-1].mT @ values[:-1]
    states = linear_scan(kept[:-1].transpose(0, 1), added.transpose(0, 1)).transpose(0, 1)
    onward = queries[1:] @ states
    return in_one(torch.cat((inside[:1], inside[1:] + onward)), time)
