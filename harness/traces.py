"""What a plugin's code leaves behind in its process, for others to stumble over: other settings, and other functions in
the place of torch's. Never imports torch itself, so that what only plans can use it."""

import importlib
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

from harness.settings import Settings

MODULES = (
    *("hashlib", "json", "math", "os", "random", "time"),
    "torch",
    "torch.autograd",
    "torch.linalg",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.utils",
    "torch.optim",
    "torch.optim.adam",
    "torch.optim.adamw",
)
OWN = (
    "batches",
    "build",
    "checkpoints",
    "contracts",
    "examples",
    "fingerprints",
    "fitting",
    "gradients",
    "inventory",
    "isolation",
    "laws",
    "needs",
    "partial",
    "preflight",
    "probing",
    "runner",
    "stacks",
    "statistics",
    "subject",
    "training",
    "truncation",
)
CLASSES = (
    "torch:Tensor",
    "torch.nn:Module",
    "torch.optim:Adam",
    "torch.optim:AdamW",
    "torch.optim:Optimizer",
    "harness.batches:Batch",
    "harness.contracts:Task",
    "harness.subject:Subject",
)
"""What all plugins use, and what names, trains and measures. Of these modules and classes, nothing may be replaced."""

NO_CHANGE = {"__annotations__", "__annotations_cache__", "__abstractmethods__", "_abc_impl", "__dict__", "__weakref__"}
"""Attributes that Python itself gives a class later."""

SHOWN = 3
"""So many changes are named."""

Namespace = dict[str, Any]


class Traces:
    """The process before a plugin's code runs, so that what the code leaves behind can be seen and removed.

    Looking costs some hundred microseconds, and with layers some milliseconds.

    Args:
        layers: whether torch's layers count as well, and methods of the plugins' classes; while a trial measures, it
            knows which of them it has.
    """

    def __init__(self, layers: bool = False) -> None:
        self.settings = Settings.now()
        self.names = {owner: vars(owner).copy() for owner in (*_owners(), *(_layers() if layers else ()))}
        self.classes = {owner: vars(owner).copy() for owner in (_plugin_classes() if layers else ())}
        self.hooks = {name: dict(hooks) for name, hooks in _global_hooks().items()}

    @property
    def none(self) -> bool:
        """Whether all is as it was."""
        return not (self.settings.changes() or any(self._replaced()) or any(self._hooked()))

    def removed(self) -> str:
        """Put everything back. Gives a sentence that says what was left, and how not to; "" if all was as it was."""
        changed = self.settings.put_back()
        found = [f"{setting.name} at {_shown(now)} instead of {_shown(before)}" for setting, before, now in changed]
        fixes = [setting.fix for setting, _, _ in changed]
        for owner, name in [*self._replaced()]:
            found.append(f"{_called(owner)}.{name} replaced")
            fixes.append("define a function of your own instead")
            put_back(owner, name, (self.names if owner in self.names else self.classes)[owner])
        for name in [*self._hooked()]:
            found.append(f"{name.strip('_').replace('_', ' ')} for all modules")
            fixes.append("remove them in a `finally`")
            hooks = _global_hooks()[name]
            hooks.clear()
            hooks.update(self.hooks[name])
        return f"it left {listed(found)}; {fixes[0]}" if found else ""

    def _replaced(self) -> Iterator[tuple[Any, str]]:
        for owner, before in [*self.names.items()]:
            if same(before, vars(owner)):
                continue
            if found := [*replaced(owner, before)]:
                yield from ((owner, name) for name in found)
            else:  # a module that was imported meanwhile, for example
                self.names[owner] = vars(owner).copy()
        for owner, before in self.classes.items():
            if not same(before, vars(owner)):
                yield from ((owner, name) for name in replaced(owner, before) if is_method(owner, name, before))

    def _hooked(self) -> Iterator[str]:
        hooks = _global_hooks()
        return (name for name, before in self.hooks.items() if before != dict(hooks[name]))


def replaced(owner: Any, before: Namespace) -> Iterator[str]:
    """The names in a module or class that stand for something else than before; of names that are new, only those by
    which a class now hides what it inherits."""
    now = vars(owner)
    for name in before:
        new = now.get(name)
        if new is not before[name] and name not in NO_CHANGE and not _wrapped_by_torch(new, before[name]):
            yield name
    if isinstance(owner, type):
        inherited = [vars(base) for base in owner.__mro__[1:]]
        for name in now.keys() - before.keys() - NO_CHANGE:
            hidden = [base[name] for base in inherited if name in base]
            if hidden and not _wrapped_by_torch(now[name], hidden[0]):
                yield name


def is_method(owner: Any, name: str, before: Namespace) -> bool:
    """Whether a name of a class stands for a method, or the like, or did so."""
    return any(callable(each) or hasattr(each, "__get__") for each in (before.get(name), vars(owner).get(name)))


def put_back(owner: Any, name: str, before: Namespace) -> None:
    """A name of a module or class stands for what it stood for."""
    if name in before:
        setattr(owner, name, before[name])
    else:
        delattr(owner, name)


def listed(found: list[str]) -> str:
    """The first of them, and how many there are."""
    return ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")


@contextmanager
def one_process() -> Iterator[None]:
    """Around a plugin's code, which may fork. The copy of the process is the plugin's own affair until it comes back
    from there: it would measure and write everything a second time, and ends instead."""
    process, leave = os.getpid(), os._exit
    try:
        yield
    finally:
        if os.getpid() != process:
            leave(0)


_kept: list[Traces] = []


@contextmanager
def kept() -> Iterator[None]:
    """Whatever plugin's code runs in here is held against this moment."""
    _kept.append(Traces())
    try:
        yield
    finally:
        _kept.pop()


def moment() -> Traces:
    """What a plugin's code is held against: the moment that is kept, or this one."""
    return _kept[-1] if _kept else Traces()


def threads() -> set[threading.Thread]:
    """Those that live, but for that of progress bars: it draws no random numbers."""
    return {each for each in threading.enumerate() if type(each).__module__.partition(".")[0] != "tqdm"}


@contextmanager
def undone() -> Iterator[None]:
    """Around a plugin's code that is no part of a measurement: what it leaves changed is put back, and is an error.

    Raises:
        RuntimeError: says what it left, and how not to.
    """
    traces = Traces(layers=True)
    try:
        with one_process():
            yield
    finally:
        left = traces.removed()
    if left:
        raise RuntimeError(left)


@contextmanager
def no_threads() -> Iterator[None]:
    """In here this thread starts no other one: nobody could end it, and it might draw random numbers beside others."""
    start, here = threading.Thread.start, threading.current_thread()

    def refuse(thread: threading.Thread) -> None:
        if threading.current_thread() is here:
            raise RuntimeError(
                f"it starts a thread ({thread.name}), beside what others do; start it where it is needed"
            )
        start(thread)

    threading.Thread.start = refuse  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


_imported: dict[str, tuple[ModuleType, str, str]] = {}
"""By the place of a module: what was imported from there, what that left changed, and which threads."""


def imported(place: str, load: Callable[[], ModuleType], alone: bool = True) -> ModuleType:
    """The module of a place, which `load` imports unless it is there.

    Args:
        place: where it is.
        load: imports it.
        alone: whether all that runs beside it is its own affair, threads that it has started included.

    Raises:
        RuntimeError: its import left something changed, which was put back, or a thread; also when it is asked for
            again.
    """
    module, left, running = _imported.get(place, (None, "", ""))
    if module is None or sys.modules.get(module.__name__) is not module:
        traces, before = Traces(layers=True), threads()
        try:
            with one_process():
                module = load()
        finally:
            left = traces.removed()
        running = listed([each.name for each in threads() - before])
        _imported[place] = module, left, running
    if left:
        raise RuntimeError(left)
    if running and not alone:
        raise RuntimeError(f"it left a thread running ({running}), beside what others do; start it where it is needed")
    return module


def same(before: Namespace, now: Any) -> bool:
    """Whether every name stands for what it stood for."""
    try:
        return bool(before == now)
    except Exception:  # two tensors, for example, which compare to many answers
        return False


def _wrapped_by_torch(new: Any, old: Any) -> bool:
    """Whether torch itself put a function around one of its own, as its compiler does when it is imported or used."""
    torch, code = sys.modules["torch"].__path__[0], getattr(new, "__code__", None)
    if code is None or not code.co_filename.startswith(torch):
        return False
    return inspect.unwrap(new) is inspect.unwrap(old) or any(
        each.cell_contents is old for each in new.__closure__ or ()
    )


def _called(owner: Any) -> str:
    return f"{owner.__module__}.{owner.__qualname__}" if isinstance(owner, type) else str(owner.__name__)


def _shown(value: Any) -> str:
    return str(value)[:80]


def _owners() -> Iterator[Any]:
    for name in MODULES:
        yield _module(name)
    for name in OWN:
        if module := sys.modules.get(f"{__package__}.{name}"):
            yield module
    for place in CLASSES:
        name, _, attribute = place.partition(":")
        if name in sys.modules:
            yield getattr(sys.modules[name], attribute)


def _layers() -> Iterator[type]:
    return (each for each in vars(_module("torch.nn")).values() if isinstance(each, type))


def _plugin_classes() -> Iterator[type]:
    """Classes in the packages, and the folders, of all plugins that were imported."""
    packages = {module.__name__.partition(".")[0] for module, _, _ in _imported.values() if module}
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] in packages:
            yield from (each for each in vars(module).values() if isinstance(each, type) and each.__module__ == name)


@cache
def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


def _global_hooks() -> dict[str, Any]:
    found = vars(_module("torch.nn.modules.module"))
    return {name: found[name] for name in _hook_names()}


@cache
def _hook_names() -> tuple[str, ...]:
    found = vars(_module("torch.nn.modules.module"))
    return tuple(name for name in found if name.startswith("_global_") and name.endswith("hooks"))
