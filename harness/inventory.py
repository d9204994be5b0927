"""All that decides the rest of a training, written down so that it can go on in another process, bit for bit.

That is: parameters and buffers; what model and task keep in attributes (also their classes and modules) and has
changed since training began; the optimiser; the global random states; and the loop's own `Course`. The stream of
batches is a generator, which nobody can write down: it is made anew from its seed, the batches that were taken are
skipped, and the last of them is compared.
Where something cannot be written down or does not match, training starts over: that costs time and changes no number.
"""

import hashlib
import math
import pickle
import random
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from harness.batches import Batch
from harness.contracts import Task
from harness.errors import HarnessError
from harness.fingerprints import checksum
from harness.partial import State

_ELSEWHERE = frozenset(vars(nn.Module())) - {"training", "_modules"}
"""Attributes in which every module keeps what is looked at by itself, or does not change; hooks aside."""

_SCALARS = (bool, int, float, str, type(None))

_GLOBALS = (*_SCALARS, list, dict, Tensor)
"""Of what a plugin's module has, what may count or remember something."""

_NOT_PLUGINS = ("torch", "builtins", "typing", "abc", "collections", "harness", "jaxtyping", "beartype")
"""Packages whose classes and modules keep nothing of a training."""


class CannotGoOnError(HarnessError):
    """What was kept is not of this training. The model may be changed in part: build it again, and start over."""


@dataclass
class Course:
    """How far a training is: what its loop keeps beside model and optimiser."""

    losses: Tensor
    """Of each step since the last validation; on the device, since reading each would make an accelerator wait."""
    norms: Tensor
    """Of the gradients of these steps, before clipping; on the device, too."""
    step: int = 0
    """Steps taken."""
    curve: list[dict[str, float]] = field(default_factory=list)
    """The learning curve."""
    gradient_norms: list[float] = field(default_factory=list)
    """Of every step until the last validation."""
    best: float = math.inf
    """The lowest validation loss."""
    since_best: int = 0
    """Validations since then."""
    best_state: dict[str, Any] | None = None
    """The model at that validation."""
    seconds: float = 0.0
    """Wall time of training."""


class Inventory:
    """What there is to write down of one training. Made before its first step, with the model in training mode.

    Args:
        model: on `device`.
        task: as it was built.
        optimizer: of the model's parameters.
        generator: from which the stream of batches draws.
        device: where the model is.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.generator = generator
        self.device = device
        self.attributes = _Attributes(model, task)

    def state(self, course: Course, batch: Batch) -> State | None:
        """All of it after a step, for `restore`; its tensors are those of the training and will change. None where
        something that has changed cannot be written down.

        Args:
            course: how far the loop is.
            batch: the last one that it took.
        """
        try:
            return {
                "parameters": {name: each.detach() for name, each in self.model.named_parameters()},
                "frozen": [name for name, each in self.model.named_parameters() if not each.requires_grad],
                "buffers": {name: module._buffers[name[1]] for name, module in _buffers(self.model)},
                "attributes": self.attributes.changed(),
                "optimizer": self.optimizer.state_dict(),
                "course": {**vars(course)},
                "random": _random_states(self.device),
                "generator": self.generator.get_state(),
                "batch": _checksums(batch),
            }
        except Exception:  # objects and tensors of plugins can be anything
            return None

    def restore(self, state: State, course: Course, stream: Iterator[Batch]) -> None:
        """Bring everything to where it was.

        Args:
            state: what `state` gave, or what was read of it.
            course: to be filled.
            stream: of batches, new.

        Raises:
            CannotGoOnError: the state is not of this training, or the stream gives other batches than it did: it also
                draws from a global random state that others draw from, for example.
        """
        try:
            for field_ in fields(course):
                setattr(course, field_.name, state["course"][field_.name])
            batch = None
            for _ in range(course.step):
                batch = next(stream)
            if batch is None or _checksums(batch) != state["batch"]:
                raise ValueError("its stream gives other batches")
            if not torch.equal(self.generator.get_state(), state["generator"]):
                raise ValueError("its stream draws otherwise")
            self._restore_tensors(state["parameters"], state["buffers"])
            for name, parameter in self.model.named_parameters():
                parameter.requires_grad_(name not in state["frozen"])
            self.attributes.restore(state["attributes"])
            self.optimizer.load_state_dict(state["optimizer"])
            _set_random_states(state["random"], self.device)
        except Exception as error:
            raise CannotGoOnError(f"training cannot go on from what was kept of it: {error}") from error

    @torch.no_grad()
    def _restore_tensors(self, parameters: dict[str, Tensor], buffers: dict[tuple[str, str], Tensor | None]) -> None:
        here = dict(self.model.named_parameters())
        modules = dict(_buffers(self.model))
        if here.keys() != parameters.keys() or modules.keys() != buffers.keys():
            raise ValueError("it has other parameters or buffers")
        for name, parameter in here.items():
            _copy(parameters[name], parameter)
        for place, value in buffers.items():
            now = modules[place]._buffers[place[1]]
            if now is None or value is None or now.shape != value.shape or now.is_inference():
                modules[place]._buffers[place[1]] = value
            else:
                _copy(value, now)


def _copy(value: Tensor, place: Tensor) -> None:
    if (value.shape, value.dtype) != (place.shape, place.dtype):
        raise ValueError(f"a {value.dtype} tensor of shape {tuple(value.shape)} is now {tuple(place.shape)}")
    place.copy_(value)


def _buffers(model: nn.Module) -> Iterator[tuple[tuple[str, str], nn.Module]]:
    """Every buffer's place, with its module; also those that no `state_dict` holds, and those that are empty yet."""
    for path, module in model.named_modules():
        for name in module._buffers.keys():  # noqa: SIM118 -- a scripted module's are no dictionary
            yield (path, name), module


def _random_states(device: torch.device) -> State:
    """The global random states of torch, numpy and Python."""
    of_numpy = numpy.random.get_state(legacy=False)
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "numpy": [of_numpy["state"]["key"].tolist(), of_numpy["state"]["pos"], of_numpy["has_gauss"]],
        "numpy_gauss": float(of_numpy["gauss"]),
        "python": random.getstate(),
    }


def _set_random_states(states: State, device: torch.device) -> None:
    torch.set_rng_state(states["torch"])
    if states["cuda"] is not None:
        torch.cuda.set_rng_state(states["cuda"], device)
    key, position, has_gauss = states["numpy"]
    numpy.random.set_state(("MT19937", key, position, has_gauss, states["numpy_gauss"]))
    random.setstate(states["python"])


def _checksums(batch: Batch) -> list[Any]:
    tensors = [getattr(batch, each.name) for each in fields(batch) if each.name != "extra"]
    tensors += (batch.extra or {}).values()
    return [None if tensor is None else _checksum(tensor) for tensor in tensors]


def _checksum(tensor: Tensor) -> list[Any]:
    return [list(tensor.shape), str(tensor.dtype), checksum(tensor)]


class _Attributes:
    """What model and task keep beside parameters and buffers: a counter, the last state, a generator of their own."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        self.model = model
        self.modules = {id(module): path for path, module in model.named_modules()}
        self.owners: dict[str, Any] = {f"model.{path}": module for path, module in model.named_modules()}
        self.owners["task"] = task
        self.owners |= _shared_by_instances([*self.owners.values()])
        self.begun = self._digests()
        self._written: dict[int, Any] = {}

    def changed(self) -> dict[tuple[str, str], Any]:
        """Those that are not what they were in the beginning; what is one object in several places stays so.

        Raises:
            TypeError: one of them cannot be written down, or compared.
        """
        now = self._digests()
        places = [place for place, digest in now.items() if digest is None or digest != self.begun.get(place)]
        if self.begun.keys() - now.keys():
            raise TypeError("attributes are gone")
        self._written.clear()
        return {place: self._plain(vars(self.owners[place[0]])[place[1]]) for place in places}

    def restore(self, values: dict[tuple[str, str], Any]) -> None:
        """What `changed` gave."""
        for (owner, name), value in values.items():
            it = self.owners[owner]
            if isinstance(generator := vars(it).get(name), torch.Generator):
                generator.set_state(value)
            elif isinstance(it, type):
                setattr(it, name, value)
            else:
                vars(it)[name] = value

    def _digests(self) -> dict[tuple[str, str], Any]:
        owned = self._owned()
        found = {
            (owner, name): _digest(value, owned, self.modules)
            for owner, it in self.owners.items()
            for name, value in [*getattr(it, "__dict__", {}).items()]
            if _may_change(it, name, value)
        }
        shared = (type, ModuleType)  # which have much that is nobody's memory
        return {place: each for place, each in found.items() if each or not isinstance(self.owners[place[0]], shared)}

    def _owned(self) -> dict[int, str]:
        tensors = [*self.model.named_parameters(), *self.model.named_buffers()]
        dense = [(name, tensor) for name, tensor in tensors if tensor.layout is torch.strided]
        return {tensor.untyped_storage().data_ptr(): name for name, tensor in dense}

    def _plain(self, value: Any) -> Any:
        """The value without what cannot be written: a generator's state in its place, tensors without their history."""
        if type(value) in _SCALARS:
            return value
        if type(value) is torch.Generator:
            return value.get_state()
        if id(value) not in self._written:
            self._written[id(value)] = self._plain_object(value)
        return self._written[id(value)]

    def _plain_object(self, value: Any) -> Any:
        learned = isinstance(value, Tensor) and value.is_leaf and value.requires_grad
        if type(value) is Tensor and not learned and value.untyped_storage().data_ptr() not in self._owned():
            return value.detach()
        if type(value) in (list, tuple):
            return type(value)(self._inner(each) for each in value)
        if type(value) is dict:
            return {self._inner(key): self._inner(each) for key, each in value.items()}
        raise TypeError(f"a {type(value).__name__} cannot be written down")

    def _inner(self, value: Any) -> Any:
        if isinstance(value, torch.Generator):
            raise TypeError("a generator in a list cannot be written down")
        return self._plain(value)


def _shared_by_instances(owners: list[object]) -> dict[str, Any]:
    """The classes of these objects and the modules that define them, those of plugins: what is kept there, as a counter
    may be, is kept for all instances."""
    kinds = {base for owner in owners for base in type(owner).__mro__}
    kinds = {kind for kind in kinds if kind.__module__.partition(".")[0] not in _NOT_PLUGINS}
    modules = {kind.__module__: sys.modules.get(kind.__module__) for kind in kinds}
    classes = {f"class {kind.__module__}.{kind.__qualname__}": kind for kind in kinds}
    return classes | {f"module {name}": module for name, module in modules.items() if module is not None}


def _may_change(owner: object, name: str, value: Any) -> bool:
    """Whether something that an owner has may be other in the end than in the beginning."""
    if isinstance(owner, type):
        return not (name.startswith(("__", "_abc_")) or callable(value) or hasattr(value, "__get__"))
    if isinstance(owner, ModuleType):
        return type(value) in _GLOBALS and not name.startswith("__")
    if isinstance(owner, nn.Module):
        if name.endswith("_hooks"):
            return bool(value)
        ours = not type(owner).__module__.startswith("torch.")
        return name not in _ELSEWHERE and (ours or name == "_modules" or type(value) in _SCALARS)
    return True


def _digest(value: Any, owned: dict[int, str], modules: dict[int, str]) -> Any:
    """Equal as long as the value is; None for what cannot be compared, such as an open file."""
    if type(value) in _SCALARS:
        return type(value), value
    digest = hashlib.blake2b()
    try:
        _Content(SimpleNamespace(write=digest.update), owned, modules).dump(value)
    except Exception:  # whatever an object does when it is written
        return None
    return digest.digest()


class _Content(pickle.Pickler):
    """Writes a value in order to compare it; nobody reads it back."""

    def __init__(self, file: Any, owned: dict[int, str], modules: dict[int, str]) -> None:
        super().__init__(file)
        self.owned = owned
        self.modules = modules
        self.functions: set[int] = set()

    def persistent_id(self, value: Any) -> Any:
        """Parameters, buffers and modules of the model by their names, other tensors and generators by what is in them,
        code by identity, with the values that it has caught."""
        if isinstance(value, Tensor):
            dense = value.layout is torch.strided
            if dense and (name := self.owned.get(value.untyped_storage().data_ptr())):
                return name, value.storage_offset(), tuple(value.shape), value.stride()
            grad = value.grad if value.is_leaf and value.requires_grad else None
            return _checksum(value), value.requires_grad, None if grad is None else _checksum(grad)
        if isinstance(value, torch.Generator):
            return value.get_state().numpy().tobytes()
        if isinstance(value, nn.Module):
            return self.modules.get(id(value))
        if isinstance(value, FunctionType) and id(value) not in self.functions:
            self.functions.add(id(value))
            return id(value), [_caught(cell) for cell in value.__closure__ or ()]
        if isinstance(value, FunctionType | BuiltinFunctionType | ModuleType | type | weakref.ref):
            return id(value)
        return None


def _caught(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return None
