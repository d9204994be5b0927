"""Examples are drawn by generators named after what they are for, and tell a mean only up to its standard error."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def standard_error(
    values: Float[Tensor, " batch"],
    weights: Float[Tensor, " batch"] | None = None,
    *,
    share: bool = False,
    gap: bool = False,
) -> float:
    """The standard error of a mean over examples; infinite for one example, which tells nothing of the others; NaN for
    none, or where a value is NaN.

    Args:
        values: one for each example.
        weights: of the examples, if it is a weighted mean.
        share: the values lie between 0 and 1. Two examples of 0 and two of 1 are then added, so that ten right answers
            out of ten do not pass for certainty (Agresti & Coull 1998).
        gap: the values are differences of such, between -1 and 1. One of each end is then added, so that none out of
            ten does not, either (Bonett & Price 2012).
    """
    known = values.detach().double().cpu()
    if not len(known):
        return math.nan
    weight = torch.ones_like(known) if weights is None else weights.detach().double().cpu()
    if added := [0, 0, 1, 1] if share else [-1, 1] if gap else []:
        known = torch.cat([known, known.new_tensor(added)])
        weight = torch.cat([weight, weight.mean().expand(len(added))])
    if len(known) == 1:
        return math.nan if known.isnan() else math.inf
    weight = weight / weight.sum()
    variance = (weight.square() * (known - (weight * known).sum()).square()).sum()
    return (variance * len(known) / (len(known) - 1)).sqrt().item()


def seeded(*names: object) -> torch.Generator:
    """A CPU generator whose state depends on the names alone, for example `seeded("test", seed, condition)`."""
    import hashlib

    digest = hashlib.sha256("\x1f".join(map(str, names)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") % (2**63 - 1))
