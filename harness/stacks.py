"""The layers of any model, found from outside, and the gradient of a loss at each of them."""

import copy
import math
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from harness.contracts import Skip
from harness.gradients import scales
from harness.offers import OffersState
from harness.recurrence import observe, states_of

LISTS = (nn.ModuleList, nn.ModuleDict)
"""Modules that only hold others, and do not run."""

ADVICE = "name the module that holds the layers with the probe's argument `stack`, for example stack=encoder.layers"


@dataclass(frozen=True)
class LayerGradient:
    """The gradient of a loss at one layer, in float64.

    Args:
        states: with respect to what left the layer, one tensor for each time that it ran; of a recurrent layer, with
            respect to what it carried on after each position, all ways through time included.
        parameters: with respect to each of its parameters that is trained; empty if there are none.
    """

    states: Sequence[Tensor]
    parameters: Sequence[Tensor]


@dataclass(frozen=True)
class Stack:
    """Layers of one model, from the first that ran to the last.

    Args:
        model: the model.
        where: what holds the layers, a path in the model; "" for the model itself.
        names: of the layers: their paths in the model, or what `harness.recurrence` calls them.
        modules: the layers, if each is a module; else they are inside of a recurrent one.
        parameters: of each layer; none where they cannot be told apart.
    """

    model: nn.Module
    where: str
    names: Sequence[str]
    modules: Sequence[nn.Module]
    parameters: Sequence[Sequence[nn.Parameter]]

    def gradients(
        self, tokens: Shaped[Tensor, "batch time *width"], loss: Callable[[Float[Tensor, "batch time out"]], Tensor]
    ) -> list[LayerGradient]:
        """The gradient of a loss at each layer: one forward pass and a few backward ones.

        Args:
            tokens: the input of the model, which is used as it is, in evaluation mode too.
            loss: one number, from the outputs of the model.

        Raises:
            Skip: it carries no gradient.
        """
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # as in `InputGradients`
            outputs, states = self._run(tokens)
            total = loss(outputs)
            if not total.requires_grad:
                raise Skip("the model's outputs carry no gradient: it computes under torch.no_grad(), or detaches them")
        trained = [[each for each in parameters if each.requires_grad] for parameters in self.parameters]
        wanted = [each for pair in zip(states, trained, strict=True) for several in pair for each in several]
        used = {total.dtype, outputs.dtype, *(each.dtype for each in wanted)}
        found = iter(_derivatives(total, wanted, scales(used)))
        return [
            LayerGradient([next(found) for _ in left], [next(found) for _ in parameters])
            for left, parameters in zip(states, trained, strict=True)
        ]

    def in_series(self, tokens: Shaped[Tensor, "batch time *width"]) -> bool:
        """Whether what leaves the last layer depends on what leaves the first."""
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False), _Leaves(self.modules) as leaves:
            self.model(tokens)
        end = leaves.outputs[-1]
        if not end.requires_grad:
            return True  # of which nothing can be said
        (found,) = torch.autograd.grad(end.sum(), leaves.states[0][:1], allow_unused=True)
        return found is not None

    def _run(self, tokens: Tensor) -> tuple[Tensor, list[list[Tensor]]]:
        """The outputs, and what they are to be differentiated by, layer by layer."""
        if self.modules:
            with _Leaves(self.modules) as leaves:
                return self.model(tokens), leaves.states
        with observe(self.model, differentiable=True) as seen:
            outputs: Tensor = self.model(tokens)
        found: dict[str, list[Tensor]] = {name: [] for name in self.names}
        for layer in seen.layers:
            if (name := _name(layer)) in found:
                found[name] += layer.nodes
        return outputs, list(found.values())


def stack_of(model: nn.Module, tokens: Shaped[Tensor, "batch time *width"], where: str | None = None) -> Stack:
    """The layers of a model, whatever it calls them.

    Layers are two or more modules of one class, with parameters, that are held by one module, perhaps in an
    `nn.ModuleList`, and that turn vectors into vectors. From the model itself downwards, they are taken where they hold
    most of the parameters; else it goes down into the module that does. Where that is recurrent, they are the layers
    inside of it.

    Args:
        model: any model, in evaluation mode.
        tokens: an input for it.
        where: the module that holds the layers, a path in the model; found, if not said.

    Raises:
        Skip: there are no two layers, or they do not run one after the other.
    """
    ran = _ran(model, tokens)
    if where is None:
        where, layers = _down(model, ran)
    else:
        held = dict(model.named_modules()).get(where)
        if held is None:
            raise Skip(f"the model has no module {where!r} to hold its layers")
        layers = _alike(held, where, ran)
    if layers:
        modules = [module for _, module in layers]
        parameters = [list(module.parameters()) for module in modules]
        stack = Stack(model, where, [name for name, _ in layers], modules, parameters)
        if not stack.in_series(tokens[:1]):
            raise Skip(f"{stack.names[0]} and {stack.names[-1]} do not run one after the other; {ADVICE}")
        return stack
    states = states_of(model, tokens[:1])
    named = {_name(layer): layer for layer in states if where in ("", layer.module)}
    if len(named) == 1:
        raise Skip(f"the model has one recurrent layer{f', {where}' if where else ''}; there is no depth to look along")
    if not named:
        raise Skip(f"the model has no two layers of one kind that run one after the other; if it has, {ADVICE}")
    parameters = [_of_layer(model.get_submodule(layer.module), layer.layer) for layer in named.values()]
    return Stack(model, next(iter(named.values())).module, list(named), [], parameters)


def _name(layer: Any) -> str:
    """Of a recurrent layer; one name for both directions."""
    return f"{layer.module} layer {layer.layer}".strip()


def _of_layer(module: nn.Module, layer: int) -> list[nn.Parameter]:
    if not isinstance(module, nn.RNNBase):
        return []
    ends = (f"_l{layer - 1}", f"_l{layer - 1}_reverse")
    return [parameter for name, parameter in module.named_parameters() if name.endswith(ends)]


def _ran(model: nn.Module, tokens: Tensor) -> list[nn.Module]:
    """The modules that turned vectors into vectors, in the order in which they first ended."""
    found: dict[nn.Module, None] = {}

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if _vectors(output) is not None and any(_vectors(each) is not None for each in (*args, *kwargs.values())):
            found[module] = None

    with ExitStack() as hooks, torch.no_grad():
        for module in model.modules():
            hooks.callback(module.register_forward_hook(note, with_kwargs=True).remove)
        model(tokens[:1])
    return list(found)


def _held(module: nn.Module, path: str) -> Iterator[tuple[str, nn.Module]]:
    """What a module holds, by path; a list of modules is looked through."""
    for name, child in module.named_children():
        inside = f"{path}.{name}" if path else name
        if isinstance(child, LISTS):
            yield from _held(child, inside)
        else:
            yield inside, child


def _alike(module: nn.Module, path: str, ran: Sequence[nn.Module]) -> list[tuple[str, nn.Module]]:
    """Of what a module holds, the modules of one class that have most parameters, in the order in which they ran."""
    groups: dict[type, list[tuple[str, nn.Module]]] = {}
    for name, child in _held(module, path):
        if child in ran and _weight(child):
            groups.setdefault(type(child), []).append((name, child))
    several = [group for group in groups.values() if len(group) > 1]
    largest = max(several, key=lambda group: sum(_weight(child) for _, child in group), default=[])
    return sorted(largest, key=lambda each: ran.index(each[1]))


def _down(model: nn.Module, ran: Sequence[nn.Module]) -> tuple[str, list[tuple[str, nn.Module]]]:
    """Where the layers are held, and the layers; none where it ends in a module that is recurrent, or has no parts."""
    module, path = model, ""
    while True:
        layers = _alike(module, path, ran)
        others = [
            (name, child)
            for name, child in _held(module, path)
            if (name, child) not in layers and _weight(child) and (any(child.children()) or _is_recurrent(child))
        ]
        heaviest = max(others, key=lambda each: _weight(each[1]), default=None)
        weight = sum(_weight(child) for _, child in layers)
        if heaviest is None or (layers and weight >= _weight(heaviest[1])):
            return _common(layers), layers
        path, module = heaviest
        if _is_recurrent(module):
            return path, []
        holder = model.get_submodule(path.rpartition(".")[0])
        if isinstance(holder, LISTS) and len(list(holder.children())) == 1:  # one that is there twice counts once
            raise Skip(f"the model has one layer, {path}: {type(module).__name__}; there is no depth to look along")


def _common(layers: Sequence[tuple[str, nn.Module]]) -> str:
    """The path that the layers share."""
    parts = zip(*(name.split(".")[:-1] for name, _ in layers), strict=False)
    return ".".join(several[0] for several in parts if len(set(several)) == 1)


def _is_recurrent(module: nn.Module) -> bool:
    return isinstance(module, nn.RNNBase | OffersState)


def _weight(module: nn.Module) -> int:
    return sum(each.numel() for each in module.parameters())


def _vectors(value: Any) -> Tensor | None:
    """The first tensor of what a module takes or gives, if it is of real numbers."""
    if isinstance(value, tuple | list) and value:
        return _vectors(value[0])
    if isinstance(value, MutableMapping) and value:
        return _vectors(next(iter(value.values())))
    return value if isinstance(value, Tensor) and value.is_floating_point() and value.ndim > 1 else None


def _with(value: Any, vectors: Tensor) -> Any:
    """The same with another first tensor."""
    if isinstance(value, Tensor):
        return vectors
    if isinstance(value, MutableMapping):
        changed, first = copy.copy(value), next(iter(value))
        changed[first] = _with(value[first], vectors)
        return changed
    rest = (_with(value[0], vectors), *value[1:])
    return type(value)(*rest) if hasattr(value, "_fields") else type(value)(rest)


class _Leaves:
    """While active, zeros are added to what leaves each layer; their gradient is that of the states. Added and not put
    in their place, so that the model may change them."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        self.layers = layers
        self.states: list[list[Tensor]] = [[] for _ in layers]
        self.outputs: list[Tensor] = []
        self._hooks = ExitStack()

    def __enter__(self) -> "_Leaves":
        for states, layer in zip(self.states, self.layers, strict=True):
            self._hooks.callback(layer.register_forward_hook(partial(self._add, states)).remove)
        return self

    def __exit__(self, *_: object) -> None:
        self._hooks.close()

    def _add(self, states: list[Tensor], module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if (vectors := _vectors(output)) is None:
            return None
        states.append(torch.zeros_like(vectors, requires_grad=True))
        self.outputs.append(vectors + states[-1])
        return _with(output, self.outputs[-1])


def _derivatives(total: Tensor, by: Sequence[Tensor], scaled: Sequence[float]) -> list[Tensor]:
    """The derivatives of a number, in float64, 0 where it does not depend on something. They are taken at a large
    multiple of it, so that small ones do not vanish; what overflows is taken at smaller ones."""
    found = [torch.full_like(each, math.nan, dtype=torch.float64) for each in by]
    for scale in scaled:
        new = torch.autograd.grad(total * scale, by, retain_graph=True, materialize_grads=True)
        found = [old.where(old.isfinite(), each.double() / scale) for old, each in zip(found, new, strict=True)]
        if all(each.isfinite().all() for each in found):
            break
    return found


def norm(tensors: Sequence[Tensor]) -> float:
    """The Euclidean length of several tensors as one vector."""
    return math.hypot(*(torch.linalg.vector_norm(each).item() for each in tensors))
