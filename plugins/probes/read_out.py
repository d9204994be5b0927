"""A linear read-out in closed form."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def cross_predicted(
    vectors: Float[Tensor, "batch width"], labels: Int[Tensor, " batch"], half: Bool[Tensor, " batch"]
) -> Int[Tensor, " batch"]:
    """The label that each vector gets from a read-out that was fitted to the other half.

    Args:
        vectors: in float64.
        labels: counted from 0.
        half: to which half each belongs.
    """
    found = torch.empty_like(labels)
    for own in (half, ~half):
        found[own] = discriminant(vectors[~own], labels[~own], vectors[own])
    return found


def discriminant(
    known: Float[Tensor, "known width"], labels: Int[Tensor, " known"], asked: Float[Tensor, "asked width"]
) -> Int[Tensor, " asked"]:
    """Labels by a linear discriminant with a shrunk covariance (R. A. Fisher, 1936; O. Ledoit and M. Wolf, 2004).

    Args:
        known: vectors with labels, in float64.
        labels: of them.
        asked: vectors that get one of the labels that are known.
    """
    centre, scale = known.mean(0), known.std(0, correction=0)
    scale = torch.where(scale > 1e-12 * scale.max(), scale, 1.0)
    known, asked = (known - centre) / scale, (asked - centre) / scale
    # nothing is known of what the known vectors do not span, so that the read-out has no part in it
    _, sizes, directions = torch.linalg.svd(known, full_matrices=False)
    basis = directions[sizes > 1e-10 * sizes.max()].T
    known, asked = known @ basis, asked @ basis
    classes, place = labels.unique(return_inverse=True)
    counts = place.bincount().to(known)
    means = known.new_zeros(len(classes), known.shape[1]).index_add(0, place, known) / counts[:, None]
    weights = torch.linalg.solve(shrunk(known - means[place]), means.T)
    bias = (counts / counts.sum()).log() - 0.5 * (means.T * weights).sum(0)
    found: Tensor = classes[(asked @ weights + bias).argmax(1)]
    return found


def shrunk(residuals: Float[Tensor, "batch width"]) -> Float[Tensor, "width width"]:
    """The covariance of centred vectors, drawn towards a multiple of the identity by as much as its entries are
    uncertain (Ledoit and Wolf, equations 14 and 15); the identity where there is no variance."""
    examples, width = residuals.shape
    covariance = residuals.T @ residuals / examples
    level = covariance.diagonal().mean()
    identity = torch.eye(width, dtype=residuals.dtype, device=residuals.device)
    if level <= 1e-12:  # of vectors whose numbers vary by 1
        return identity
    distance = (covariance - level * identity).square().sum()
    # the sum over examples of |x x' - S|^2 is that of |x|^4, less n |S|^2
    uncertain = (residuals.square().sum(1).square().sum() / examples - covariance.square().sum()) / examples
    share = (uncertain / distance).clamp(0, 1) if distance > 0 else 1.0
    return (1 - share) * covariance + share * level * identity
