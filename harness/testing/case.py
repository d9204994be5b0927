"""A plugin as checks see it: from what an author points at (a name, a file, a class) to code that can be built."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.capabilities import Capabilities
from harness.errors import RequestError
from harness.plugin import Plugin, resolve
from harness.registry import Entry, Origin, default_registry
from harness.specs import KINDS
from harness.suites import Request
from harness.targets import Definition, find_entry, load_definition, place_of

PluginLike = str | type[Any] | Any
"""A name with or without arguments (`gpt:layers=4`), a file (`./gru.py:GRU`), or the class or function itself."""


@dataclass
class PluginCase:
    """One plugin with the arguments that were asked for.

    Args:
        definition: its code.
        request: the arguments.
    """

    definition: Definition
    request: Request

    @cached_property
    def plugin(self) -> Plugin:
        """It with all arguments, as a run would use it."""
        return resolve(self.definition, self.request)

    @property
    def says(self) -> Capabilities:
        """What the class or function says of itself."""
        return self.definition.says

    @property
    def declared_at(self) -> str:
        """File and line of the class or function."""
        return place_of(self.definition.code)

    @property
    def where(self) -> str:
        """File and line to look at, if a check knows no better."""
        return self.declared_at


def as_definition(kind: str, plugin: PluginLike) -> tuple[Definition, Request]:
    """The code of a plugin and the arguments that were asked for.

    Raises:
        RequestError: there is no such plugin.
        PluginError: it cannot be imported.
    """
    if isinstance(plugin, str):
        request = Request.model_validate(plugin)
        return load_definition(find_entry(default_registry(), kind, request.name)), request
    if not callable(plugin):
        raise RequestError(f"a {kind} is a class or a function, or the name of one; this is {plugin!r:.60}")
    name = getattr(plugin, "__qualname__", type(plugin).__name__)
    spec = KINDS[kind](name, f"{getattr(plugin, '__module__', '')}:{name}")
    return Definition(Entry(spec, Origin("", "", "")), plugin), Request(name=name)
