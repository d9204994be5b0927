"""Recurrent modules of any model, seen and changed from outside while it runs."""

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from harness.offers import OffersState
from harness.recurrence.agreement import agree
from harness.recurrence.calls import Call, CellCall, call_type, in_cell_form
from harness.recurrence.equations import equations_of
from harness.recurrence.layers import StateLayer, joined
from harness.recurrence.nested import leaves
from harness.recurrence.replacing import Replacement
from harness.recurrence.strands import EditState, Opened


def recurrent_modules(model: nn.Module) -> dict[str, nn.Module]:
    """What carries a state in a model, by path: modules that offer theirs, `nn.RNN`, `nn.LSTM`, `nn.GRU` and their
    cells. What is inside of one of them is not looked for."""
    found: dict[str, nn.Module] = {}

    def look(module: nn.Module, path: str) -> None:
        if isinstance(module, OffersState | nn.RNNBase | nn.RNNCellBase):
            if module not in found.values():
                found[path] = module
            return
        for name, child in module.named_children():
            look(child, f"{path}.{name}" if path else name)

    look(model, "")
    return found


def state_size(module: nn.Module) -> int:
    """How many numbers a recurrent module carries from one step to the next, for one sequence: the states and cells of
    all its layers, in both directions."""
    if isinstance(module, OffersState):
        return sum(leaf.numel() for leaf in leaves(module.initial_state(1)))
    assert isinstance(module, nn.RNNBase | nn.RNNCellBase)
    return sum(each.hidden + each.cells for each in equations_of(module))


@dataclass(eq=False)
class Seen:
    """What an observer saw of the last forward pass.

    Args:
        layers: one for each layer and direction of each recurrent module, in the order in which they ran; empty before
            the model has run, and where it has no recurrent module.
    """

    layers: list[StateLayer] = field(default_factory=list)


@contextmanager
def observe(model: nn.Module, *, differentiable: bool = False) -> Iterator[Seen]:
    """Record the states of a model, in evaluation mode, in each forward pass.

    Args:
        model: as it is called in this context.
        differentiable: the model goes on with what is recorded, so that its outputs can be differentiated with respect
            to recorded states and gates.

    Raises:
        RequestError: what is computed in the open is not what a module gives.
    """
    seen = Seen()
    with _session(model) as session:
        session.observers.append(seen)
        session.differentiable += differentiable
        try:
            yield seen
        finally:
            session.observers.remove(seen)
            session.differentiable -= differentiable


@contextmanager
def replaced(
    model: nn.Module,
    states: Mapping[str, Float[Tensor, "#batch _"]],
    *,
    after: int | Int[Tensor, " batch"],
    where: Bool[Tensor, " width"] | Float[Tensor, "width basis"] | None = None,
) -> Iterator[None]:
    """Run a model, in evaluation mode, with other states after a position: later steps go on from these.

    What the layer gives at that position and before stays as it is. Of a module that reads several sequences in one
    forward pass, or continues one in several calls, positions are counted through.

    Args:
        model: as it is called in this context, once.
        states: by the name of the layer (`StateLayer.name`), what is to be carried on (as in `StateLayer.carried`:
            states, then cells).
        after: the position, the same for all examples or one for each; -1 for what the first step begins with (in a
            layer that reads backward, the number of positions).
        where: replace these numbers alone (True), or the component in the subspace that these columns span.

    Raises:
        RequestError: there is no such layer or position, the numbers do not fit, or what is computed in the open is not
            what a module gives.
    """
    replacement = Replacement(states, after, where)
    with _session(model) as session:
        session.replacements.append(replacement)
        try:
            yield
        finally:
            session.replacements.remove(replacement)
    replacement.finish()


def states_of(
    model: nn.Module, tokens: Shaped[Tensor, "batch time *width"], *, differentiable: bool = False
) -> list[StateLayer]:
    """The states of a model in one forward pass: one entry for each layer and direction; none for a model without a
    recurrent module.

    Args:
        model: any model, in evaluation mode.
        tokens: its input, `batch time` or `batch time width`.
        differentiable: keep the graph.

    Raises:
        RequestError: what is computed in the open is not what a module gives.
    """
    if not recurrent_modules(model):
        return []
    with torch.set_grad_enabled(differentiable), observe(model, differentiable=differentiable) as seen:
        model(tokens)
    return seen.layers


class _Session:
    """Hooks on the recurrent modules of one model, as long as any context of it is open."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.modules = recurrent_modules(model)
        self.observers: list[Seen] = []
        self.replacements: list[Replacement] = []
        self.differentiable = 0
        self.sequences: dict[str, list[list[Opened]]] = {}

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Hooks are on, and a compiled model runs as it was written."""
        handles = [self.model.register_forward_pre_hook(lambda *_: self.sequences.clear())]
        for path, module in self.modules.items():
            if isinstance(module, nn.RNNCellBase):
                handles.append(module.register_forward_pre_hook(partial(self._begin_cell, path), with_kwargs=True))
            handles.append(module.register_forward_hook(partial(self._ran, path), with_kwargs=True))
        handles.append(self.model.register_forward_hook(self._finish, with_kwargs=True))
        eager = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
        try:
            with eager:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _begin_cell(
        self, path: str, module: nn.RNNCellBase, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Before a step of a cell: the state with which it begins may be another one."""
        call = CellCall(path, module, args, kwargs, None)
        carried = call.initial
        changed = self._change(call, *self._place(call, len(carried)))(0, carried, -1)
        if changed is carried:
            return None
        inputs = call.argument(0, "input")
        return (inputs, in_cell_form(module, changed, batched=inputs.ndim > 1)), {}

    def _ran(self, path: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        """After a call of a recurrent module: made again in the open, compared and recorded."""
        call = call_type(module)(path, module, args, kwargs, output)
        own = call.outputs
        number, offset = self._place(call, len(own))
        touched: list[int] = []
        opened = call.run(self._change(call, number, offset, touched))
        if not touched or call.directions == 1:  # else what reads backward has carried the change to all positions
            whole = min((position + 1 for position in touched), default=own.shape[1])
            agree(path or type(module).__name__, own[:, :whole], opened.outputs[:, :whole], call.run)
        sequences = self.sequences.setdefault(path, [])
        if number > len(sequences):
            sequences.append([])
        sequences[-1].append(opened)
        return call.answer(opened) if self.replacements or self.differentiable else None

    def _place(self, call: Call, batch: int) -> tuple[int, int]:
        """To which sequence of its module a call belongs (counted from 1), and how many steps of it came before."""
        sequences = self.sequences.get(call.path, [])
        if call.continues and sequences and len(sequences[-1][0].outputs) == batch:
            return len(sequences), sum(opened.outputs.shape[1] for opened in sequences[-1])
        return len(sequences) + 1, 0

    def _change(self, call: Call, number: int, offset: int, touched: list[int] | None = None) -> EditState:
        def change(strand: int, carried: Tensor, after: int) -> Tensor:
            new = carried
            for replacement in self.replacements:
                new = replacement.apply(self._name(call.path, strand, number), new, offset + after)
            if new is not carried and touched is not None:
                touched.append(after)
            return new

        return change

    def _name(self, path: str, strand: int, number: int) -> str:
        module, several = self.modules[path], len(self.modules) > 1
        directions = self._directions(path)
        one_layer = isinstance(module, nn.RNNCellBase) or (isinstance(module, nn.RNNBase) and module.num_layers == 1)
        words = [
            path if several else "",
            "" if several and one_layer else f"layer {strand // directions + 1}",
            "backward" if strand % directions else "",
            f"call {number}" if number > 1 else "",
        ]
        return " ".join(filter(None, words))

    def _finish(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """After the model: what observers get."""
        shape = next((tuple(each.shape[:2]) for each in (*args, *kwargs.values()) if isinstance(each, Tensor)), ())
        layers = []
        for path, sequences in self.sequences.items():
            for number, calls in enumerate(sequences, start=1):
                for index, strands in enumerate(zip(*(opened.strands for opened in calls), strict=True)):
                    name = self._name(path, index, number)
                    layers.append(joined(name, path, index // self._directions(path) + 1, strands, shape))
        for observer in self.observers:
            observer.layers = layers

    def _directions(self, path: str) -> int:
        module = self.modules[path]
        return 2 if isinstance(module, nn.RNNBase) and module.bidirectional else 1


_open = threading.local()


@contextmanager
def _session(model: nn.Module) -> Iterator[_Session]:
    """The session of this model in this thread: the one that is open, or a new one."""
    sessions: dict[int, _Session] = _open.__dict__.setdefault("sessions", {})
    if (current := sessions.get(id(model))) is not None:
        yield current
        return
    session = sessions[id(model)] = _Session(model)
    try:
        with session.hooked():
            yield session
    finally:
        del sessions[id(model)]
