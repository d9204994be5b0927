"""What a check is, and how to write one: a function with `@check` above it."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any


class Failed(Exception):  # noqa: N818 - an outcome, not an error
    """Raised by a check whose plugin does not do what it should; `where` is the file and line, if the check knows
    better than `PluginCase.where`."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.where = where


class NotApplicable(Exception):  # noqa: N818 - an outcome, not an error
    """Raised by a check that has nothing to look at in this plugin."""


@dataclass(frozen=True)
class Check:
    """One property that every plugin of a kind should have.

    Args:
        name: how reports call it.
        asks: the property, in one line.
        means: what a failure means for results.
        fix: what usually repairs it.
        run: looks at a case; returns a note, or raises `Failed` or `NotApplicable`.
        after: checks that must not have failed, since this one could not tell their failures from its own.
        builds: whether it looks at the plugin at work, and not only at how its code is declared.
    """

    name: str
    asks: str
    means: str
    fix: str
    run: Callable[[Any], str | None]
    after: tuple[str, ...] = ()
    builds: bool = True

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by reference: in another process it is the check of that name in its module."""
        return _found, (self.run.__module__, self.name)


def _found(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def check(
    *, asks: str, means: str, fix: str, after: tuple[str, ...] = (), builds: bool = True
) -> Callable[[Callable[[Any], str | None]], Check]:
    """Makes a check of a function, under the function's name; see `Check`."""

    def checked(run: Callable[[Any], str | None]) -> Check:
        return Check(run.__name__, asks, means, fix, run, after, builds)

    return checked


def checks_in(*modules: ModuleType) -> tuple[Check, ...]:
    """All checks that these modules define, in the order of definition, which is that of reports."""
    return tuple(
        item
        for module in modules
        for item in vars(module).values()
        if isinstance(item, Check) and item.run.__module__ == module.__name__
    )
