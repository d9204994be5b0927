"""Checks of what probes can observe of a model: its input embedding and its attention."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from harness.attention import Layer, check_cut, edges_after, look, observe, select
from harness.batches import Batch
from harness.contracts import Skip
from harness.errors import RequestError
from harness.gradients import input_gradients
from harness.offers import OffersCache, OffersState
from harness.preflight import difference, magnitude
from harness.recurrence import StateLayer, recurrent_modules, states_of
from harness.targets import place_of
from harness.testing.checks import Failed, NotApplicable, check
from harness.testing.models.case import TIME, ModelCase


@check(
    asks="gradient probes find the input embedding",
    means="grad_reach and other gradient probes skip the model",
    fix="give the model a method get_input_embeddings() that returns the module which turns tokens into vectors",
    after=("stateless",),
)
def embedding(case: ModelCase) -> str:
    """As `grad_reach` and other gradient probes do."""
    if case.interface.input == "vectors":
        return "gradients are taken with respect to the input vectors"
    model, tokens = case.build(), case.inputs()
    mask = torch.ones(tokens.shape, dtype=torch.bool)
    directions = torch.ones(*tokens.shape, case.interface.output_size)
    try:
        gradient = input_gradients(model, Batch(tokens, tokens, mask), directions)
    except Skip as reason:
        if any(isinstance(module, nn.Embedding) for module in model.modules()):
            raise Failed(str(reason), case.declared_at) from None
        raise NotApplicable(f"it has no nn.Embedding: {reason}") from None
    return f"input vectors of width {gradient.shape[2]}"


@check(
    asks="attention probes can look into it, where it has attention",
    means="probes of attention skip the model, or show patterns that are not what it computes",
    fix="call F.scaled_dot_product_attention, or offer attention_patterns(tokens) with rows that sum to 1",
    after=("stateless",),
)
def attention(case: ModelCase) -> str:
    """Observes and cuts; looks for attention that is computed out of sight."""
    model, inputs = case.fresh(), case.inputs()
    found = look(model, case.cast(inputs))
    layers = found.layers(inputs)
    if not layers:
        _look_for_hidden_attention(case, model, inputs)
        raise NotApplicable("it makes no attention call, so that probes which need attention skip it")
    misfits = [layer.misfit for layer in layers if layer.misfit]
    if len(misfits) == len(layers):
        raise NotApplicable(f"{misfits[0]}, so that it cannot be read as token to token")
    read = [(layer, pattern) for layer, pattern in zip(layers, found.patterns, strict=True) if not layer.misfit]
    shares = [(layer, _share_to_no_token(model, layer, pattern)) for layer, pattern in read]
    with observe() as seen:
        observed = case.run(model, inputs)
    if difference(observed, case.run(model, inputs)) > max(case.tolerance, 1e-6):
        raise Failed("observing its attention changes its outputs")
    heads = ", ".join(str(layer.heads) for layer in layers)
    if all(layer.misfit for layer in seen.layers(inputs)):
        summary = f"offers its own patterns (heads per layer: {heads}); they can be read, not cut"
    else:
        summary = f"heads per layer: {heads}; {_cut(case, model, inputs, layers)}"
    lost = [f"up to {share:.2g} of the attention of {layer.name} goes to no token" for layer, share in shares if share]
    return "; ".join([summary, *(f"left out: {misfit}" for misfit in misfits), *lost])


def _look_for_hidden_attention(case: ModelCase, model: nn.Module, inputs: Tensor) -> None:
    with _Softmaxes() as softmaxes:
        case.run(model, inputs)
    if softmaxes.square:
        raise Failed("it computes a softmax over time x time that the attention probes cannot see")


def _share_to_no_token(model: nn.Module, layer: Layer, pattern: Tensor) -> float:
    """The largest share of a row's attention that goes nowhere, of rows that have any; 0 if it is rounding."""
    elsewhere = 1 - pattern.double().sum(-1)
    if (pattern < 0).any() or elsewhere.min() < -1e-4 or elsewhere.isnan().any():
        raise Failed(
            f"rows of the attention pattern of {layer.name} do not sum to 1 (or to less, where a part goes to no "
            "token)",
            place_of(type(model)),
        )
    largest = elsewhere.masked_fill((pattern == 0).all(-1), 0.0).max().item()
    return largest if largest > 1e-4 else 0.0


def _cut(case: ModelCase, model: nn.Module, inputs: Tensor, layers: Sequence[Layer]) -> str:
    """What a cut of the edges from one token does."""
    position = torch.full((len(inputs),), 2)
    swapped = case.changed(inputs, slice(2, 3))
    where = select([layer.heads for layer in layers])
    where[:, [bool(layer.misfit) for layer in layers]] = False
    try:
        with torch.no_grad():
            outcome = check_cut(model, case.cast(inputs), case.cast(swapped), edges_after(position, TIME), where)
    except RequestError as error:
        return f"not to be cut: {error}"
    if outcome.opened.max() > 0:
        return f"a cut lets it see the future (by {outcome.opened.max():.2g}), and probes will say so"
    if outcome.leak.max() == 0:
        return "cuts are exact"
    return f"a cut token still comes through another way (leak {outcome.leak.max():.2g}), and probes will say so"


@check(
    asks="state probes can look into it, where it has a recurrent state",
    means="probes of the state skip the model, or show another computation than its own",
    fix="let `step`, from `initial_state` on, compute what `forward` does, each example by itself; or use nn.RNN, "
    "nn.LSTM, nn.GRU or their cells as they are",
    after=("stateless",),
)
def state(case: ModelCase) -> str:
    """Compares one pass with the same computation step by step, and the states of a batch with those of examples
    alone."""
    model, inputs = case.fresh(), case.inputs()
    modules = recurrent_modules(model)
    if not modules:
        raise NotApplicable("it has no recurrent module of torch's and offers no state, so that probes of it skip it")
    where = next((place_of(each.step) for each in modules.values() if isinstance(each, OffersState)), case.where)
    try:
        layers = states_of(model, case.cast(inputs))
        alone = [states_of(model, case.cast(inputs[row : row + 1])) for row in range(len(inputs))]
    except RequestError as error:
        raise Failed(str(error), where) from None
    if not layers:
        raise NotApplicable("none of its recurrent modules runs")
    for index, layer in enumerate(layers):
        _example_by_example(case, layer, [each[index] for each in alone], where)
    return "; ".join(_said(layer) for layer in layers)


@check(
    asks="it goes on from what it has read as if it read all of it at once, where it offers a cache",
    means="what it writes is not what its outputs say",
    fix="let `go_on(tokens, cache)` return two things: the outputs for the new tokens alone, at the positions where "
    "they stand, and the cache with which it goes on",
    after=("stateless",),
)
def cache(case: ModelCase) -> str:
    """Reads a sequence in three pieces."""
    model, inputs = case.fresh(), case.inputs()
    if not isinstance(model, OffersCache):
        raise NotApplicable("it offers no cache (`go_on`); generation reads the sequence anew for each token")
    whole, kept, parts = case.run(model, inputs), None, []
    with torch.no_grad():
        for piece in inputs.split([5, 1, TIME - 6], 1):
            outputs, kept = model.go_on(piece, kept)
            parts.append(outputs)
    if any(part.shape[1] != size for part, size in zip(parts, (5, 1, TIME - 6), strict=True)):
        raise Failed("its `go_on` does not give one output for each new token", place_of(model.go_on))
    if case.differ(torch.cat(parts, 1), whole, magnitude(whole)):
        raise Failed("its outputs in pieces are not those of one pass", place_of(model.go_on))
    return "three pieces give the outputs of one pass"


def _example_by_example(case: ModelCase, layer: StateLayer, alone: Sequence[StateLayer], where: str) -> None:
    if layer.misfit:
        return
    for row, single in enumerate(alone):
        together = layer.carried[row : row + 1]
        if single.carried.shape != together.shape or case.differ(single.carried, together):
            raise Failed(
                f"the state of {layer.name} mixes examples: that of example {row} alone is another one than in a "
                f"batch of {len(alone)}",
                where,
            )


def _said(layer: StateLayer) -> str:
    cells = f" and {layer.cells.shape[2]} cells" if layer.cells is not None else ""
    gates = f"gates {', '.join(layer.gates)}" if layer.gates else "no gates"
    left_out = f" (left out: {layer.misfit})" if layer.misfit else ""
    return f"{layer.name}: {layer.states.shape[2]} states{cells}, {gates}{left_out}"


class _Softmaxes(TorchFunctionMode):
    """Notices a softmax whose last two axes are both the time."""

    square = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in ("softmax", "log_softmax", "_softmax") and isinstance(result, Tensor):
            self.square |= result.ndim >= 3 and result.shape[-2:] == (TIME, TIME)
        return result
