"""A model and a task as they are, so that a probe that changes them is found out, whatever it changes.

What a model keeps beside its weights may change while it runs as it should: a counter, a cache, the last attention
weights. So may, more seldom, weights and modes: `nn.Embedding(max_norm=...)` shortens its rows where they are read.
That is its own business, and no probe is to blame for it: where something has changed, the runner looks once more
whether it changes by itself.
"""

import zlib
from collections.abc import Iterator
from enum import Enum
from functools import cached_property, partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from harness.contracts import Task
from harness.traces import Namespace, is_method, put_back, replaced, same

MISSING = object()

LONGEST = 256
"""Of longer lists and dictionaries it is only looked at which objects are in them, and in which order."""

DEEPEST = 3
"""Objects within objects within objects: a configuration, not a data set."""

_PLAIN = (bool, int, complex, str, bytes, type(None), torch.dtype, torch.device, Enum, type, range)
_CALLED = (FunctionType, BuiltinFunctionType, MethodType, partial)
_EMPTY: tuple[Any, ...] = (None, (list, ()), (dict, ()), (set, frozenset()))
_INNER = {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_is_full_backward_hook", "training"}
"""Attributes in which PyTorch keeps what is looked at by itself."""


class Fingerprint:
    """A model and its task at one moment. A checksum stands for each tensor: a copy would take the memory of a second
    model.

    Attributes:
        fixed: what is compared strictly (weights, structure, hooks, methods, modes), by what it is called in a message.
        own: buffers and other attributes, of which an empty one may be filled.
        optional: those attributes that hide nothing of their class: a new one harms nobody.
        classes: their classes, with all that is in them.
    """

    def __init__(self, model: nn.Module, task: Task) -> None:
        self.fixed: dict[str, Any] = {}
        self.own: dict[str, Any] = {}
        self.optional: set[str] = set()
        self._known: dict[int, Any] = {}
        self._hidden: dict[tuple[type, str], Any] = {}
        kinds = {type(task)}
        for name, module in model.named_modules():
            self._module(name, module)
            kinds.add(type(module))
        for name, parameter in model.named_parameters(remove_duplicate=False):
            self.fixed[name] = self._tensor(parameter), parameter.requires_grad
            if hooks := _hooks(parameter):
                self.own[f"the hooks of {name}"] = hooks
        for name, value in vars(task).items():
            self._attribute(f"the task's {name}", name, task, value, self.own)
        self._known.clear()
        self._hidden.clear()
        bases = {base for kind in kinds for base in kind.__mro__ if base is not object}
        self.classes: dict[type, Namespace] = {kind: vars(kind).copy() for kind in bases}

    def changes(self, now: "Fingerprint") -> list[str]:
        """What is not as it was. An empty place of the model's own that is filled is a cache, and no change; classes
        are looked at as they are at this moment."""
        fixed = [name for name, value in self.fixed.items() if now.fixed.get(name, MISSING) != value]
        own = [name for name, value in self.own.items() if _differs(value, now.own.get(name, MISSING))]
        fixed += sorted(now.fixed.keys() - self.fixed.keys() - now.optional)
        own += sorted(now.own.keys() - self.own.keys() - now.optional)
        for kind, name in self._replaced():
            (fixed if is_method(kind, name, self.classes[kind]) else own).append(f"{kind.__name__}.{name}")
        return fixed + own

    def put_back(self) -> None:
        """The classes, which a new model would share, are what they were."""
        for kind, name in [*self._replaced()]:
            put_back(kind, name, self.classes[kind])

    def _replaced(self) -> Iterator[tuple[type, str]]:
        for kind, before in self.classes.items():
            if not same(before, vars(kind)):
                yield from ((kind, name) for name in replaced(kind, before))

    def _module(self, path: str, module: nn.Module) -> None:
        at, called = f"{path}." if path else "", path or "the model"
        self.fixed[f"the type of {called}"] = type(module)
        self.fixed[f"the mode of {called}"] = module.training
        self.fixed[f"the modules of {called}"] = (*module._modules.keys(),)
        for name, buffer in module._buffers.items():
            self.own[f"{at}{name}"] = None if buffer is None else self._tensor(buffer)
        ours = type(module).__module__.startswith("torch.")  # whose attributes no forward pass changes
        for name, value in vars(module).items():
            if name.endswith("_hooks"):
                if value:
                    self.fixed[f"the {name.strip('_').replace('_', ' ')} of {called}"] = (*value.values(),)
            elif name not in _INNER and "_hooks_" not in name:
                self._attribute(f"{at}{name}", name, module, value, self.fixed if ours else self.own)

    def _attribute(self, called: str, name: str, owner: object, value: Any, place: dict[str, Any]) -> None:
        hidden = self._hidden.get((type(owner), name), MISSING)
        if hidden is MISSING:
            hidden = next((vars(base)[name] for base in type(owner).__mro__ if name in vars(base)), None)
            self._hidden[type(owner), name] = hidden
        if hidden is None or isinstance(hidden, cached_property):
            self.optional.add(called)
        elif isinstance(value, _CALLED):  # a method of this one instance
            place = self.fixed
        place[called] = self._value(value)

    def _value(self, value: Any, depth: int = 0) -> Any:
        """Something that is equal as long as the value is the same, and does not change with it."""
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, float):
            return value if value == value else "nan"
        if isinstance(value, MethodType):  # which would keep its module alive
            return value.__func__, id(value.__self__)
        if isinstance(value, _CALLED):
            return value
        if isinstance(value, nn.Parameter | nn.Module | torch.Generator):
            return type(value)
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, numpy.ndarray):
            return _array(value)
        if isinstance(value, list | tuple | dict | set | frozenset):
            return self._container(value, depth)
        inner = getattr(value, "__dict__", None)
        if inner is None or depth >= DEEPEST:
            return type(value)
        if id(value) not in self._known:
            self._known[id(value)] = type(value)  # in case it holds itself
            self._known[id(value)] = (type(value), self._container(inner, depth + 1))
        return self._known[id(value)]

    def _container(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if len(value) > LONGEST:
            members = frozenset(map(id, value)) if isinstance(value, set | frozenset) else (*map(id, value),)
            return kind, hash(members), hash((*map(id, value.values()),)) if isinstance(value, dict) else 0
        if isinstance(value, dict):
            return kind, tuple((key, self._value(each, depth)) for key, each in value.items())
        if isinstance(value, set | frozenset):
            return kind, frozenset(each for each in value if isinstance(each, _PLAIN))
        return kind, tuple(self._value(each, depth) for each in value)

    def _tensor(self, tensor: Tensor) -> Any:
        if is_lazy(tensor):
            return ()
        if tensor.is_meta or tensor.layout is not torch.strided:
            return tuple(tensor.shape)
        if id(tensor) not in self._known:
            self._known[id(tensor)] = tensor.shape, tensor.stride(), tensor.dtype, checksum(tensor)
        return self._known[id(tensor)]


def _hooks(parameter: Tensor) -> tuple[Any, ...]:
    """What is done with its gradient."""
    kept = (parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None))
    return tuple(hook for hooks in kept for hook in (hooks or {}).values())


def _differs(before: Any, now: Any) -> bool:
    filled = before in _EMPTY and isinstance(now, tuple)
    return bool(before != now) and not filled


def _array(array: Any) -> Any:
    if array.dtype.hasobject:
        return array.shape
    octets: Any = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)
    return array.shape, array.dtype.str, zlib.crc32(octets)


def checksum(tensor: Tensor) -> int:
    """Of the numbers in a tensor, bit for bit; not of its shape."""
    octets: Any = tensor.detach().cpu().contiguous().unsqueeze(-1).view(torch.uint8).numpy()
    return zlib.crc32(octets)
