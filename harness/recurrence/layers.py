"""What was seen of a recurrent model: one `StateLayer` for each layer and direction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from harness.errors import RequestError
from harness.recurrence.strands import Strand


@dataclass(eq=False)
class StateLayer:
    """The states of one layer in one direction, over one sequence of steps.

    Positions count from 0; after position -1 stands what the first step begins with (for a layer that reads backward,
    after the position behind the last one).

    Args:
        name: `layer 1`; with the path of the module in front where the model has several; `backward`, and `call 2`
            where a module reads several sequences.
        module: the path of the module in the model.
        layer: counted from 1.
        direction: in which it reads.
        states: the state after each position: h for `nn.RNN`, `nn.GRU` and `nn.LSTM` (its output); all but the cells
            of a state that a model offers. Behind the end of a packed sequence the last one stays.
        cells: the cells c of an LSTM; of a state that a model offers, the entry `cell`; None where there is none.
        gates: by name. LSTM: `input`, `forget`, `candidate` (what is to be written, g), `output`. GRU: `reset`,
            `update` (1: the state stays), `new`. RNN: `pre_activation`. Otherwise as the model offers them.
        initial: with what the first step begins, as in `carried`.
        misfit: why steps are not the positions of the model's input; "" if they are.
    """

    name: str
    module: str
    layer: int
    direction: Literal["forward", "backward"]
    states: Float[Tensor, "batch time state"]
    cells: Float[Tensor, "batch time cell"] | None
    gates: Mapping[str, Float[Tensor, "batch time _"]]
    initial: Float[Tensor, "batch width"]
    misfit: str
    strands: Sequence[Strand]

    @property
    def carried(self) -> Float[Tensor, "batch time width"]:
        """All that goes on to the next step: the states, then the cells."""
        return self.states if self.cells is None else torch.cat([self.states, self.cells], -1)

    def after(self, position: int | Int[Tensor, " batch"]) -> Float[Tensor, "batch width"]:
        """What is carried on after a position, one for all examples or one for each.

        Raises:
            RequestError: there is no such position.
        """
        batch, time = self.states.shape[:2]
        device = self.states.device
        places = torch.as_tensor(position, device=device).expand(batch)
        backward = self.direction == "backward"
        # what the first step begins with stands before the first position, or behind the last
        every = [self.carried, self.initial[:, None]] if backward else [self.initial[:, None], self.carried]
        first = 0 if backward else -1
        if ((places < first) | (places > first + time)).any():
            raise RequestError(f"{self.name} has states after positions {first} to {first + time}, not {position}")
        return torch.cat(every, 1)[torch.arange(batch, device=device), places - first]

    @property
    def nodes(self) -> list[Float[Tensor, "batch width"]]:
        """What is carried on after each position, as the tensors from which all later ones were computed. Where the
        model was seen `differentiable`, its outputs are differentiated by these: what is stacked in `states` lies at
        the end of the graph."""
        return [node for strand in self.strands for node in strand.nodes]

    def advance(
        self, carried: Float[Tensor, "batch width"], start: int, end: int
    ) -> list[Float[Tensor, "batch width"]]:
        """What a layer that reads forward carries on after each position behind `start` to `end`, if `carried` stands
        after `start`; its inputs are those that were seen."""
        passed: list[Tensor] = []
        offset = 0
        for strand in self.strands:
            steps = strand.carried.shape[1]
            if start < offset + steps - 1 and end >= offset:
                passed += strand.advance(carried, max(start - offset, -1), min(end - offset, steps - 1))
                carried = passed[-1] if passed else carried
            offset += steps
        return passed


def joined(
    name: str,
    module: str,
    layer: int,
    strands: Sequence[Strand],
    tokens: tuple[int, ...],
) -> StateLayer:
    """A layer from the strands of consecutive calls.

    Args:
        name: of the layer.
        module: its path.
        layer: counted from 1.
        strands: which go on from one another.
        tokens: batch and time of the model's input.
    """
    carried = torch.cat([strand.carried for strand in strands], 1)
    cells = strands[0].cells
    hidden = carried.shape[2] - cells
    gates = {each: torch.cat([strand.gates[each] for strand in strands], 1) for each in strands[0].gates}
    found = tuple(carried.shape[:2])
    misfit = "" if found == tokens else f"{name} has (examples, steps) = {found}, but the model's input has {tokens}"
    return StateLayer(
        name=name,
        module=module,
        layer=layer,
        direction="backward" if strands[0].backward else "forward",
        states=carried[..., :hidden],
        cells=carried[..., hidden:] if cells else None,
        gates=gates,
        initial=strands[0].initial,
        misfit=misfit,
        strands=strands,
    )
