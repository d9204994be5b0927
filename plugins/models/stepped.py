"""Recurrent layers written by hand: each says what one step does, and offers its state."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


@runtime_checkable
class Cell(Protocol):
    """One layer or several, one step."""

    def initial_state(self, batch_size: int) -> Any:
        """The state before the first step."""
        ...

    def step(
        self, x: Float[Tensor, "batch width"], state: Any
    ) -> tuple[Tensor, Any, Mapping[str, Tensor] | list[Mapping[str, Tensor]]]:
        """Output, state and gates; of several layers a list."""
        ...


class Stepped(nn.Module):
    """Layers of cells, each reading the outputs of the one below; step by step.

    Args:
        cells: one for each layer (`Cell`).
        dropout: rate between the layers while training.
    """

    def __init__(self, *cells: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        self.dropout = dropout

    def initial_state(self, batch_size: int) -> list[Any]:
        cells: Any = self.cells
        return [cell.initial_state(batch_size) for cell in cells]

    def step(self, x: Float[Tensor, "batch width"], state: list[Any]) -> tuple[Tensor, list[Any], list[Any]]:
        cells: Any = self.cells
        states, gates = [], []
        for index, (cell, before) in enumerate(zip(cells, state, strict=True)):
            if index:
                x = F.dropout(x, self.dropout, self.training)
            x, after, named = cell.step(x, before)
            states.append(after)
            gates.append(named)
        return x, states, gates

    def forward(self, inputs: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time hidden"]:
        return one_pass(self, inputs)


def one_pass(cell: Cell, inputs: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time out"]:
    """The outputs at all positions, step by step."""
    state, outputs = cell.initial_state(len(inputs)), []
    for x in inputs.unbind(1):
        output, state, _ = cell.step(x, state)
        outputs.append(output)
    return torch.stack(outputs, 1)
