"""How much of a state is left in a later one: the Jacobian between them, and the way along the cells alone."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from harness_plugins.probes.conditions import first_group, reference
from harness_plugins.probes.recurrent import distances, exact_copy, forward_layers, in_float64, memory_width, named
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor, nn

from harness import Curve, Scalar, Subject
from harness.recurrence import StateLayer, direct_path, jacobians

FAR = 2.0
MEANINGS = {
    "not the product of the gates": f"all ways together pass at least {FAR:g} times what the forget gates alone do: "
    "the gates depend on the state, too",
    "about the product of the gates": f"all ways together pass less than {FAR:g} times what the forget gates alone do",
    "within the bound": "no direction is stretched by more than the largest singular value of W_hh, at every step",
    "beyond the bound": "a direction is stretched by more than the bound allows, which cannot be; report it",
}


class StateJacobian:
    """The size of the Jacobian of the last state with respect to earlier ones, as far back as the one before the first
    step: what of a small change of the state arrives, and what of the gradient goes back.

    The size is the Frobenius norm, in float64, of d state_T / d state_{T-d} with the inputs held (of an LSTM, of the
    cells: d c_T / d c_{T-d}); the geometric mean over examples. It is the root of the summed squares of all ways
    through time. The direct path of an LSTM is one of them, along each cell alone, with the gates held: the product of
    its forget gates. Y. Bengio et al., "Learning long-term dependencies with gradient descent is difficult" (1994);
    R. Pascanu et al., "On the difficulty of training recurrent neural networks" (2013); for the cell,
    S. Hochreiter and J. Schmidhuber, "Long short-term memory" (1997), where the direct path is all that is kept.

    Looks at the farthest condition that training covered, up to the last position that all examples have. One
    initialisation proves nothing: sizes of two differ by orders of magnitude, so use many seeds and quantiles of them
    (`stage = "initial"`, `quantile = 0.1`), which cost no training. Layers that read backward are left out.

    Measures:
        full: size by steps between the two states.
        per_step_factor: the factor per step that makes the size at the largest distance out of that at 1.
        direct: size of the direct path, where the layer has a forget gate and as many cells.
        full_to_direct: full / direct at the largest distance.
        of_bound: for `nn.RNN`, the largest singular value of the Jacobian at the largest distance T, over
            sigma_max(W_hh)^T, which it cannot exceed: no activation is steeper than 1. The largest of all examples.

    With several layers, each name says which one.

    Args:
        examples: sequences.
    """

    stages: ClassVar = ("initial", "trained")
    needs: ClassVar = ("state",)

    def __init__(self, *, examples: PositiveInt = 8) -> None:
        self.examples = examples

    def __call__(self, subject: Subject) -> Iterator[Curve | Scalar]:
        batch = subject.batch(reference(first_group(subject.task)))[: self.examples]
        end = int(batch.mask.sum(1).min()) - 1
        steps = distances(end)
        model = exact_copy(subject.model)
        layers = forward_layers(model, in_float64(batch.tokens))
        for layer in layers:
            cells = memory_width(layer)
            found = jacobians(layer, [end - back for back in steps], end)[:, :, -cells:, -cells:]
            full = [geometric_mean(each) for each in found.flatten(2).norm(dim=2)]
            yield _curve(named("full", layer, layers), steps, full, "size of the Jacobian", headline=True)
            yield Scalar(
                name=named("per_step_factor", layer, layers),
                unit="ratio per step",
                value=_per_step(steps, full),
                headline=True,
            )
            if layer.gates.get("forget") is not None and layer.gates["forget"].shape[2] == cells:
                direct = direct_path(layer, [end - back for back in steps], end)
                along = [geometric_mean(each) for each in direct.norm(dim=2)]
                yield _curve(named("direct", layer, layers), steps, along, "size along the cells alone")
                yield _ratio(named("full_to_direct", layer, layers), full[-1], along[-1])
            bound = _stretch(model, layer)
            if bound is not None:
                yield _of_bound(named("of_bound", layer, layers), found[-1], bound, steps[-1])


def geometric_mean(sizes: Float[Tensor, " batch"]) -> float:
    """0 if one of them is, NaN if one of them is."""
    return sizes.log().mean().exp().item()


def _curve(name: str, steps: Sequence[int], sizes: Sequence[float], y_label: str, *, headline: bool = False) -> Curve:
    return Curve(
        name=name,
        unit="ratio",
        x=[float(each) for each in steps],
        y=list(sizes),
        x_label="steps between the states",
        y_label=y_label,
        scale="log",
        headline=headline,
    )


def _per_step(steps: Sequence[int], sizes: Sequence[float]) -> float:
    """NaN for one step alone."""
    if len(steps) < 2 or not sizes[0] > 0:
        return math.nan
    return float((sizes[-1] / sizes[0]) ** (1 / (steps[-1] - steps[0])))


def _ratio(name: str, full: float, direct: float) -> Scalar:
    ratio = full / direct if direct else math.nan
    words = "not the product of the gates" if ratio >= FAR else "about the product of the gates"
    verdict = None if math.isnan(ratio) else words
    return Scalar(
        name=name,
        unit="ratio",
        value=ratio,
        verdict=verdict,
        meaning=MEANINGS.get(verdict or ""),
        about="what arrives on all ways, over what the forget gates alone let pass",
        headline=True,
    )


def _stretch(model: nn.Module, layer: StateLayer) -> float | None:
    """The largest singular value of W_hh of an `nn.RNN`; None for anything else."""
    module = model.get_submodule(layer.module)
    if not isinstance(module, nn.RNN):
        return None
    weights: Tensor = getattr(module, f"weight_hh_l{layer.layer - 1}")
    return float(torch.linalg.matrix_norm(weights.detach(), 2))


def _of_bound(name: str, found: Float[Tensor, "batch width width"], bound: float, steps: int) -> Scalar:
    largest = torch.linalg.matrix_norm(found, 2).max().item()
    share = math.nan
    if bound and largest:
        share = math.exp(min(math.log(largest) - steps * math.log(bound), 700.0))  # either alone may leave the floats
    verdict = "within the bound" if share <= 1 + 1e-9 else "beyond the bound"
    return Scalar(
        name=name,
        unit="ratio",
        value=share,
        verdict=None if math.isnan(share) else verdict,
        meaning=MEANINGS[verdict],
        about="the largest stretch of the state, over sigma_max(W_hh) to the power of the steps",
    )
