"""From a name to code: which plugin is meant, wherever it is, and its code, imported."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from pydantic import BaseModel

from harness.arguments import argument_model
from harness.capabilities import Capabilities
from harness.errors import PluginError, RequestError, did_you_mean, short_path
from harness.folders import is_file, module_from_file
from harness.given import text_of
from harness.interrupts import import_torch
from harness.registry import Entry, Origin, Registry, plugin_error
from harness.schema import PluginUse
from harness.specs import KINDS
from harness.traces import imported
from harness.vocabulary import CROSSED

MOST_NAMES = 12
"""At most this many of a module's names are shown."""


def find_entry(registry: Registry, kind: str, name: str) -> Entry:
    """The plugin of that name: from the registry, or code that needs no package (`./gru.py:GRU`, `package.module:GRU`).

    Raises:
        RequestError: there is no such plugin, file or module.
    """
    if (kind, name) in _given:
        code = _given[kind, name]
        return Given(KINDS[kind](name, f"{code.__module__}:{code.__qualname__}"), Origin("", "", ""), code)
    place, _, attribute = name.rpartition(":")
    if name.endswith(".py"):
        place, attribute = name, ""
    if place.endswith(".py"):
        if not is_file(place):
            raise RequestError(f"{kind} {name!r}: there is no file {place!r} in {str(Path.cwd())!r}")
        return Entry(KINDS[kind](name, f"{Path(place).resolve()}:{attribute}"), Origin("", "", ""))
    try:
        return registry.find(kind, name)
    except RequestError:
        distributions = {entry.origin.distribution for entry in registry.all(kind)}
        if place and place not in distributions and _importable(place):
            return Entry(KINDS[kind](name, name), Origin("", "", ""))
        if is_file(f"{place}.py"):
            raise RequestError(f"there is no {kind} {name!r}; if the file is meant, {place}.py:{attribute}") from None
        if hint := _other_writing(registry, kind, name):
            raise RequestError(f"there is no {kind} {name!r}{hint}") from None
        raise


def _other_writing(registry: Registry, kind: str, name: str) -> str:
    """How to write what a name that nobody has seems to mean; or ""."""
    place, _, attribute = name.rpartition(":")
    if len(names := [part.strip() for part in name.split(",")]) > 1:
        return "; for several, repeat the option: " + " ".join(f"--{kind} {each}" for each in names if each)
    if others := [each for each in registry.kinds_of(name) if each in CROSSED]:
        return "".join(f"; there is a {each} of that name: --{each} {name}" for each in others)
    if kind in registry.kinds_of(place):
        argument = attribute if attribute.isidentifier() else "ARGUMENT"
        return f"; to set an argument of {place}, write {place}:{argument}=VALUE"
    module = all(part.isidentifier() for part in place.split("."))
    if module and attribute.isidentifier() and ("." in place or not attribute.islower()):
        top = place.partition(".")[0]
        missing = place if _importable(top) else top
        file = f"./{place.replace('.', '/')}.py:{attribute}"
        return f": no module {missing!r} can be imported from here. A file needs no import: {file}"
    return ""


@dataclass(frozen=True)
class Given(Entry):
    """A class or function that was given as it is, and that only this process has: of a notebook cell or a script."""

    code: type | FunctionType


_given: dict[tuple[str, str], type | FunctionType] = {}
"""By kind and name."""


def give(registry: Registry, kind: str, code: type | FunctionType) -> str:
    """The name by which `find_entry` finds a class or function from now on: where it can be imported from, or its own,
    for which another one of the name, from an earlier run of a notebook cell, is forgotten.

    Raises:
        RequestError: its text cannot be found, or a plugin has its name.
    """
    path = f"{code.__module__}:{code.__qualname__}"
    found = getattr(sys.modules.get(code.__module__), code.__qualname__, None) is code
    if found and code.__module__ != "__main__" and _importable(code.__module__):
        return path
    name = code.__name__
    if name == "<lambda>":
        raise RequestError(f"a {kind} needs a name for tables to show: write it with def instead of lambda")
    if kind in registry.kinds_of(name):
        raise RequestError(f"there is a {kind} {name!r} already; give yours another name")
    if not text_of(code):
        raise RequestError(
            f"the text of {kind} {name!r} cannot be found, so that a change of it would go unnoticed; write it into a "
            f"file, and ask for ./file.py:{name}"
        )
    _given[kind, name] = code
    return name


def only_here(kind: str, name: str) -> bool:
    """Whether a plugin was given as it is, so that only this process has it."""
    return (kind, name) in _given


def is_given(use: PluginUse) -> bool:
    """Whether only this process has the code."""
    return not use.distribution and any(use.name == name for _, name in _given)


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
    except Exception:  # the package around it is there, and raises
        return True


@dataclass(frozen=True)
class Definition:
    """A plugin's code, imported; what it takes and what it says, whatever its arguments will be.

    Args:
        entry: where it was found.
        code: a class or function.
        supplied: what whoever builds it gives it by name, besides what the harness gives to all of its kind.
    """

    entry: Entry
    code: Callable[..., Any]
    supplied: frozenset[str] = frozenset()

    @cached_property
    def says(self) -> Capabilities:
        """What the code says of itself."""
        return Capabilities(self.code)

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """A pydantic model of the keyword arguments a user may set."""
        return argument_model(self.entry, self.code, self.supplied)

    @cached_property
    def takes(self) -> frozenset[str]:
        """All parameters of the code, those included that the harness supplies."""
        return frozenset(inspect.signature(self.code).parameters)

    @property
    def module(self) -> ModuleType:
        """The module the code was loaded from."""
        return _module_of(self.entry)


_loaded: dict[Entry, Definition] = {}
"""As they were last loaded."""


def load_definition(entry: Entry) -> Definition:
    """Import a plugin's code.

    Raises:
        RequestError: somebody asked for a file or module without the name of a class or function that is in it.
        PluginError: the module raises on import; or a package's own target is no class or function.
    """
    if isinstance(entry, Given):
        return Definition(entry, entry.code)
    place, _, attribute = entry.spec.target.rpartition(":")
    needs_torch = entry.spec.kind != "executor"
    if needs_torch:
        import_torch()  # which the plugin imports
    try:
        alone = entry.spec.kind != "probe"  # others look at the same model
        module = imported(place, lambda: _module_of(entry), alone) if needs_torch else _module_of(entry)
        code = getattr(module, attribute, None)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        fix = f"Try: python -c 'import {place}'" if not place.endswith(".py") else f"Try: python {place}"
        raise plugin_error(entry, "being imported", error, fix) from error
    if not callable(code):
        raise (PluginError if entry.origin.distribution else RequestError)(_explain_target(entry, module, code))
    known = _loaded.get(entry)
    if known is None or known.code is not code:  # first loaded, or loaded anew
        known = _loaded[entry] = Definition(entry, code)
    return known


def _explain_target(entry: Entry, module: ModuleType, found: Any) -> str:
    """What is wrong with a target that is no class or function, and what could be meant."""
    place, _, attribute = entry.spec.target.rpartition(":")
    offered = {name: code for name, code in vars(module).items() if not name.startswith("_") and callable(code)}
    own = [name for name, code in offered.items() if str(code.__module__).startswith(module.__name__)]
    names = own or list(offered)
    if not attribute:
        problem = f"say what in the file is meant, for example {entry.spec.name.rstrip(':')}:{(*names, 'Name')[0]}."
    elif attribute in vars(module):
        problem = f"{attribute!r} in {place!r} is a {type(found).__name__}, not a class or function."
    else:
        problem = f"there is no {attribute!r} in {place!r}.{did_you_mean(attribute, offered)}"
    shown = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
    return f"{entry}: {problem} It has: {shown or 'no class or function'}."


def place_of(code: object) -> str:
    """File and line of a class or function, or "" where Python does not know."""
    try:
        code = inspect.unwrap(code) if callable(code) else code
        file = inspect.getsourcefile(code)  # type: ignore[arg-type]
        _, line = inspect.getsourcelines(code)  # type: ignore[arg-type]
    except (TypeError, OSError):
        return ""
    return f"{short_path(Path(file))}:{line}" if file else ""


def _module_of(entry: Entry) -> ModuleType:
    place = entry.spec.target.rpartition(":")[0]
    return module_from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
