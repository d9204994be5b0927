"""Recurrent computations in the open: what is carried from step to step, and may be changed on the way."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from harness.errors import RequestError
from harness.offers import OffersState
from harness.recurrence.equations import Equations, equations_of
from harness.recurrence.nested import flattened, parts, rebuilt

EditState = Callable[[int, Tensor, int], Tensor]
"""What becomes of what is carried: from the strand's index, the vectors (`batch width`) and the position after which
they stand, to the vectors with which the next step begins."""


def unchanged(strand: int, carried: Tensor, after: int) -> Tensor:
    """The edit that changes nothing."""
    return carried


@dataclass(eq=False)
class Strand:
    """One layer in one direction over a run of steps.

    Args:
        initial: with what the first step begins.
        nodes: what is carried on after each position, before any change.
        gates: by name.
        cells: how many of the carried numbers, the last ones, are cells.
        advance: from what is carried on after one position to what is carried on after a later one (in the order of
            reading), one tensor for each position in between and the last.
        backward: it reads from the end.
    """

    initial: Float[Tensor, "batch width"]
    nodes: list[Float[Tensor, "batch width"]]
    gates: dict[str, Float[Tensor, "batch time _"]]
    cells: int
    advance: Callable[[Tensor, int, int], list[Tensor]]
    backward: bool = False

    @cached_property
    def carried(self) -> Float[Tensor, "batch time width"]:
        """All nodes in one tensor."""
        return torch.stack(self.nodes, 1)

    @property
    def states(self) -> Float[Tensor, "batch time _"]:
        """What is carried without the cells: h."""
        return self.carried[..., : self.carried.shape[-1] - self.cells]


@dataclass(eq=False)
class Opened:
    """A recurrent module's computation, made again in the open.

    Args:
        outputs: what the module gives.
        finals: what each strand carries on after its last step, after any change.
        strands: layer by layer; of a bidirectional one forward, then backward.
    """

    outputs: Float[Tensor, "batch time *out"]
    finals: list[Float[Tensor, "batch _"]]
    strands: list[Strand] = field(default_factory=list)


def run_layers(
    module: nn.RNNBase | nn.RNNCellBase,
    inputs: Float[Tensor, "batch time _"],
    initial: list[Float[Tensor, "batch _"]],
    lengths: Int[Tensor, " batch"] | None = None,
    change: EditState = unchanged,
) -> Opened:
    """What PyTorch's recurrent layers compute, in evaluation mode.

    Args:
        module: with its weights.
        inputs: of the first layer.
        initial: what each strand begins with.
        lengths: of each example; behind its end a state stays as it is.
        change: what is done to what is carried.
    """
    directions = 2 if isinstance(module, nn.RNNBase) and module.bidirectional else 1
    finals, strands = [], []
    for index, equations in enumerate(equations_of(module)):
        first = index % directions == 0
        final, strand = _run(equations, inputs, initial[index], lengths, index, change, backward=not first)
        finals.append(final)
        strands.append(strand)
        if len(strands) % directions == 0:
            inputs = torch.cat([strand.states for strand in strands[-directions:]], -1)
    return Opened(inputs, finals, strands)


def _run(
    equations: Equations,
    inputs: Float[Tensor, "batch time _"],
    carried: Float[Tensor, "batch width"],
    lengths: Int[Tensor, " batch"] | None,
    index: int,
    change: EditState,
    *,
    backward: bool,
) -> tuple[Float[Tensor, "batch width"], Strand]:
    given = equations.of_inputs(inputs)
    time = inputs.shape[1]

    def step(position: int, carried: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        following, gates = equations.step(given[:, position], carried)
        if lengths is not None:
            following = torch.where((position < lengths)[:, None], following, carried)
        return following, gates

    def advance(carried: Tensor, start: int, end: int) -> list[Tensor]:
        passed = []
        for position in range(start - 1, end - 1, -1) if backward else range(start + 1, end + 1):
            carried, _ = step(position, carried)
            passed.append(carried)
        return passed

    initial = carried = change(index, carried, time if backward else -1)
    states, gates = [carried] * time, [dict[str, Tensor]()] * time
    for position in reversed(range(time)) if backward else range(time):
        states[position], gates[position] = step(position, carried)
        carried = change(index, states[position], position)
    return carried, Strand(initial, states, _stacked(gates), equations.cells, advance, backward)


def run_offered(module: OffersState, inputs: Tensor, change: EditState = unchanged) -> Opened:
    """What a model computes that offers its state, step by step.

    Args:
        module: in evaluation mode.
        inputs: tokens (`batch time`) or vectors (`batch time width`).
        change: what is done to what is carried; a strand is a layer.

    Raises:
        RequestError: what it offers is no state of a fixed size.
    """
    batch, time = inputs.shape[:2]

    def passed_on(state: Any, after: int) -> tuple[list[Tensor], Any]:
        """What each layer carries on, and the state, made of that, with which the next step begins."""
        vectors = [flattened(part, batch)[0] for part in parts(state)]
        layers = [
            rebuilt(part, change(index, vector, after))
            for index, (part, vector) in enumerate(zip(parts(state), vectors, strict=True))
        ]
        return vectors, layers if isinstance(state, list) else layers[0]

    _, state = passed_on(module.initial_state(batch), -1)
    started, outputs, gates, nodes = [state], [], [], []
    for position in range(time):
        output, state, named = one_step(module, inputs[:, position], state)
        vectors, state = passed_on(state, position)
        outputs.append(output)
        gates.append(named)
        nodes.append(vectors)
        started.append(state)

    def advance_layer(layer: int) -> Callable[[Tensor, int, int], list[Tensor]]:
        def advance(carried: Tensor, start: int, end: int) -> list[Tensor]:
            layers = [*parts(started[start + 1])]
            layers[layer] = rebuilt(layers[layer], carried)
            state = layers if isinstance(started[0], list) else layers[0]
            passed = []
            for position in range(start + 1, end + 1):
                _, state, _ = one_step(module, inputs[:, position], state)
                vectors = [flattened(part, batch)[0] for part in parts(state)]
                passed.append(vectors[layer])
                layers = [rebuilt(part, vector) for part, vector in zip(parts(state), vectors, strict=True)]
                state = layers if isinstance(state, list) else layers[0]
            return passed

        return advance

    strands = []
    for layer, part in enumerate(parts(started[0])):
        initial, cells = flattened(part, batch)
        own = [initial, *(vectors[layer] for vectors in nodes)]
        if len(widths := {vector.shape[1] for vector in own}) > 1:
            raise RequestError(
                f"the state of {type(module).__name__} grows from {min(widths)} to {max(widths)} numbers, but a state "
                "has one size"
            )
        named = [each[layer] if isinstance(each, list) else each for each in gates]
        strands.append(Strand(initial, own[1:], _stacked(named), cells, advance_layer(layer)))
    finals = [flattened(part, batch)[0] for part in parts(state)]
    return Opened(torch.stack(outputs, 1), finals, strands)


def one_step(module: OffersState, x: Tensor, state: Any) -> tuple[Tensor, Any, Any]:
    """A step of a model that offers its state.

    Raises:
        RequestError: it gives something else than an output, a state and gates.
    """
    given: Any = module.step(x, state)
    if not isinstance(given, tuple) or len(given) != 3:
        raise RequestError(
            f"`step` of {type(module).__name__} gives (output, state, gates), but it gave a {type(given).__name__}"
            + (f" of {len(given)}" if isinstance(given, tuple) else "")
        )
    return given


def _stacked(gates: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([each[name] for each in gates], 1).flatten(2) for name in gates[0]}
