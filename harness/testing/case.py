"""A plugin as checks see it: from what an author points at (a name, a file, a class) to code that can be built."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.capabilities import Capabilities
from harness.errors import RequestError
from harness.registry import Entry, Origin, default_registry, short_path
from harness.specs import KINDS
from harness.suites import Request
from harness.targets import Target, find, load

Plugin = str | type[Any] | Any
"""A name with or without arguments (`gpt:layers=4`), a file (`./gru.py:GRU`), or the class or function itself."""


@dataclass
class Case:
    """One plugin with the arguments that were asked for.

    Args:
        target: its code.
        request: the arguments.
    """

    target: Target
    request: Request

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that were asked for."""
        return self.request.arguments

    @property
    def resolved(self) -> dict[str, Any]:
        """All arguments, with their defaults."""
        return self.target.resolve(self.request).arguments

    @property
    def says(self) -> Capabilities:
        """What the class or function says of itself."""
        return self.target.says

    @property
    def declared_at(self) -> str:
        """File and line of the class or function."""
        return place(self.target.code)

    @property
    def where(self) -> str:
        """File and line to look at, if a check knows no better."""
        return self.declared_at


def as_target(kind: str, plugin: Plugin) -> tuple[Target, Request]:
    """The code of a plugin and the arguments that were asked for.

    Raises:
        RequestError: there is no such plugin.
        PluginError: it cannot be imported.
    """
    if isinstance(plugin, str):
        request = Request.model_validate(plugin)
        return load(find(default_registry(), kind, request.name)), request
    if not callable(plugin):
        raise RequestError(f"a {kind} is a class or a function, or the name of one; this is {plugin!r:.60}")
    name = getattr(plugin, "__qualname__", type(plugin).__name__)
    spec = KINDS[kind](name, f"{getattr(plugin, '__module__', '')}:{name}")
    return Target(Entry(spec, Origin("", "", "")), plugin), Request(name=name)


def place(code: object) -> str:
    """File and line of a class or function, or "" where Python does not know."""
    try:
        code = inspect.unwrap(code) if callable(code) else code
        file = inspect.getsourcefile(code)  # type: ignore[arg-type]
        _, line = inspect.getsourcelines(code)  # type: ignore[arg-type]
    except (TypeError, OSError):
        return ""
    return f"{short_path(Path(file))}:{line}" if file else ""
