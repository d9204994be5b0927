"""What several probes ask of a recurrent model."""

import copy
from collections.abc import Sequence

from jaxtyping import Shaped
from torch import Tensor, nn

from harness import Skip
from harness.recurrence import StateLayer, states_of

STEPS_BACK = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def exact_copy(model: nn.Module) -> nn.Module:
    """The model in float64, in evaluation mode; the model itself stays as it is."""
    return copy.deepcopy(model).double().eval()


def in_float64(vectors: Shaped[Tensor, "batch time *width"]) -> Shaped[Tensor, "batch time *width"]:
    """Vectors in float64; tokens as they are."""
    return vectors.double() if vectors.is_floating_point() else vectors


def forward_layers(model: nn.Module, tokens: Shaped[Tensor, "batch time *width"]) -> list[StateLayer]:
    """The layers that read forward, one step for each position of the input.

    Raises:
        Skip: there are none.
    """
    layers = states_of(model, tokens)
    found = [layer for layer in layers if layer.direction == "forward" and not layer.misfit]
    if not found:
        raise Skip(
            "no layer reads forward, one step for each position" if layers else "no state: nothing recurrent ran"
        )
    return found


def named(name: str, layer: StateLayer, layers: Sequence[StateLayer]) -> str:
    """The name of a measurement of one layer, which says so where there are several."""
    return name if len(layers) == 1 else f"{name} ({layer.name})"


def memory_width(layer: StateLayer) -> int:
    """How many of the carried numbers, the last ones, are its memory: the cells; all where there are none."""
    return layer.initial.shape[1] if layer.cells is None else layer.cells.shape[2]


def distances(end: int) -> list[int]:
    """Steps back from the state after position `end`; the last goes back to the state before the first step."""
    return [steps for steps in STEPS_BACK if steps <= end] + [end + 1]
