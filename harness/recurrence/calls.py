"""What a recurrent module was called with and gave, in one form for all of them; and a new answer in its own form."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from harness.errors import RequestError
from harness.offers import OffersState
from harness.recurrence.strands import EditState, Opened, run_layers, run_offered

RecurrentModule = nn.RNNBase | nn.RNNCellBase | OffersState


@dataclass(eq=False)
class Call:
    """A call of a recurrent module.

    Args:
        path: of the module in the model.
        module: the module.
        args: what it was called with, by position.
        kwargs: and by name.
        output: what it gave.
    """

    path: str
    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any

    directions = 1

    def __post_init__(self) -> None:
        """Reads what the call is about."""

    def argument(self, place: int, name: str) -> Any:
        """One of what it was called with; None if it is not there."""
        return self.args[place] if len(self.args) > place else self.kwargs.get(name)

    @property
    def continues(self) -> bool:
        """Whether it is given a state, and so goes on from an earlier call, if there is one."""
        raise NotImplementedError

    @property
    def outputs(self) -> Float[Tensor, "batch time *out"]:
        """What it gave, for each example and step."""
        raise NotImplementedError

    def run(self, change: EditState) -> Opened:
        """The same computation in the open."""
        raise NotImplementedError

    def answer(self, opened: Opened) -> Any:
        """The computed outputs, in the form in which the module returns them."""
        raise NotImplementedError


class LayersCall(Call):
    """Of `nn.RNN`, `nn.LSTM` or `nn.GRU`."""

    def __post_init__(self) -> None:
        module: nn.RNNBase = self.module
        if module.training and module.dropout and module.num_layers > 1:
            raise RequestError(f"{self.path} has dropout between layers: its state can be seen in evaluation mode")
        self.directions = 2 if module.bidirectional else 1
        self.state = self.argument(1, "hx")
        self.given = self.argument(0, "input")
        self.packed: PackedSequence | None = None
        self.lengths: Int[Tensor, " batch"] | None = None
        if isinstance(self.given, PackedSequence):
            self.packed = self.given
            self.inputs, lengths = pad_packed_sequence(self.given, batch_first=True)
            self.lengths = lengths.to(self.inputs.device)
            self.single = False
        else:
            self.single = self.given.ndim == 2
            self.inputs = self._batch_first(self.given)

    @property
    def continues(self) -> bool:
        return self.state is not None and self.directions == 1

    @property
    def outputs(self) -> Float[Tensor, "batch time *out"]:
        if self.packed is not None:
            padded: Tensor = pad_packed_sequence(self.output[0], batch_first=True)[0]
            return padded
        return self._batch_first(self.output[0])

    def run(self, change: EditState) -> Opened:
        opened = run_layers(self.module, self.inputs, self._initial(), self.lengths, change)
        if self.lengths is not None:
            opened.outputs = opened.outputs.masked_fill(~self._real()[:, :, None], 0.0)
        return opened

    def answer(self, opened: Opened) -> Any:
        hidden = self.module.proj_size or self.module.hidden_size
        finals = torch.stack(opened.finals)
        states = [finals[..., :hidden], finals[..., hidden:]] if self.module.mode == "LSTM" else [finals]
        if self.single:
            states = [each[:, 0] for each in states]
        outputs = self._packed(opened.outputs) if self.packed is not None else self._own_form(opened.outputs)
        return outputs, tuple(states) if self.module.mode == "LSTM" else states[0]

    def _initial(self) -> list[Float[Tensor, "batch _"]]:
        module: nn.RNNBase = self.module
        batch, count = len(self.inputs), module.num_layers * self.directions
        if self.state is None:
            width = (module.proj_size or module.hidden_size) + (module.hidden_size if module.mode == "LSTM" else 0)
            return [self.inputs.new_zeros(batch, width)] * count
        given = torch.cat(self.state, -1) if isinstance(self.state, tuple | list) else self.state
        return list(given[:, None] if self.single else given)

    def _batch_first(self, given: Tensor) -> Tensor:
        if self.single:
            return given[None]
        return given if self.module.batch_first else given.transpose(0, 1)

    def _own_form(self, outputs: Tensor) -> Tensor:
        if self.single:
            return outputs[0]
        return outputs if self.module.batch_first else outputs.transpose(0, 1)

    def _real(self) -> Bool[Tensor, "batch time"]:
        assert self.lengths is not None
        return torch.arange(self.inputs.shape[1], device=self.inputs.device) < self.lengths[:, None]

    def _packed(self, outputs: Tensor) -> PackedSequence:
        assert self.packed is not None
        assert self.lengths is not None
        order, lengths = self.packed.sorted_indices, self.lengths
        if order is not None:
            outputs, lengths = outputs[order], lengths[order]
        data = pack_padded_sequence(outputs, lengths.cpu(), batch_first=True).data
        return PackedSequence(data, self.packed.batch_sizes, order, self.packed.unsorted_indices)


class CellCall(Call):
    """Of `nn.RNNCell`, `nn.LSTMCell` or `nn.GRUCell`: one step."""

    @property
    def continues(self) -> bool:
        return self.argument(1, "hx") is not None

    @property
    def outputs(self) -> Float[Tensor, "batch time *out"]:
        h: Tensor = self.output[0] if isinstance(self.module, nn.LSTMCell) else self.output
        return h.reshape(-1, 1, h.shape[-1])

    def run(self, change: EditState) -> Opened:
        given = self.argument(0, "input")
        return run_layers(self.module, given.reshape(-1, 1, given.shape[-1]), [self.initial], change=change)

    @property
    def initial(self) -> Float[Tensor, "batch width"]:
        """The state that it is called with."""
        given, state = self.argument(0, "input"), self.argument(1, "hx")
        lstm = isinstance(self.module, nn.LSTMCell)
        if state is None:
            width = self.module.hidden_size * (2 if lstm else 1)
            zeros: Tensor = given.new_zeros(given.shape[0] if given.ndim > 1 else 1, width)
            return zeros
        whole: Tensor = torch.cat(tuple(state), -1) if lstm else state
        return whole.reshape(-1, whole.shape[-1])

    def answer(self, opened: Opened) -> Any:
        """The state as computed: a change of it is for whoever begins with it, which is the next call."""
        batched = self.argument(0, "input").ndim > 1
        return in_cell_form(self.module, opened.strands[0].carried[:, 0], batched=batched)


def in_cell_form(module: nn.RNNCellBase, carried: Float[Tensor, "batch width"], *, batched: bool) -> Any:
    """The state as a cell takes and gives it."""
    carried = carried if batched else carried[0]
    return carried.chunk(2, -1) if isinstance(module, nn.LSTMCell) else carried


class OfferedCall(Call):
    """Of a module that offers its state."""

    def __post_init__(self) -> None:
        given = [*self.args, *self.kwargs.values()]
        if len(given) != 1 or not isinstance(given[0], Tensor) or not isinstance(self.output, Tensor):
            raise RequestError(
                f"{self.path or type(self.module).__name__} offers its state, but is called with more than one input, "
                "or gives something else than one tensor: it maps tokens (`batch time`) or vectors (`batch time "
                "width`) to outputs (`batch time out`)"
            )
        self.inputs = given[0]

    @property
    def continues(self) -> bool:
        return False

    @property
    def outputs(self) -> Float[Tensor, "batch time *out"]:
        outputs: Tensor = self.output
        return outputs

    def run(self, change: EditState) -> Opened:
        return run_offered(self.module, self.inputs, change)

    def answer(self, opened: Opened) -> Any:
        return opened.outputs


def call_type(module: nn.Module) -> type[Call]:
    """The class that reads the calls of a recurrent module."""
    if isinstance(module, OffersState):
        return OfferedCall
    return LayersCall if isinstance(module, nn.RNNBase) else CellCall
