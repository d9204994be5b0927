"""Whose fault it is: what a plugin raises becomes an error that names it, and what it prints goes aside."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from harness.contracts import Skip
from harness.errors import (
    HarnessError,
    PluginError,
    ReturnedError,
    StoreError,
    describe,
    place_among,
    place_of_error,
    said,
)
from harness.schema import Failure, PluginUse
from harness.traces import moment, one_process


@contextmanager
def blame(use: PluginUse, doing: str) -> Iterator[None]:
    """Around a plugin's code: whatever it raises becomes a `PluginError` that names it (the cause keeps its traceback),
    and what it prints goes to standard error, since standard output is for results. What it leaves changed for all
    others in the process (`harness.traces`) is put back, and is an error, too."""
    traces = moment()
    try:
        with one_process(), redirect_stdout(cast(TextIO, Aside())):
            yield
    except BaseException as error:
        left = traces.removed()
        if isinstance(error, Skip) and left:
            raise accused(use, doing, RuntimeError(left)) from error
        if isinstance(error, KeyboardInterrupt | Skip | HarnessError) and not isinstance(error, StoreError):
            raise
        raise accused(use, doing, error) from error
    if left := traces.removed():
        cause = RuntimeError(left)
        raise accused(use, doing, cause) from cause


def accused(use: PluginUse, doing: str, error: BaseException) -> PluginError:
    """The error that names a plugin, what it did, and what came of it."""
    origin = f" ({use.target}, from {use.distribution} {use.version})" if use.distribution else ""
    return PluginError(f"{use.label!r}{origin} failed while {doing}: {describe(error)}{_place(error, use)}")


class Aside:
    """Standard error for what plugins print. On a terminal, a progress bar on the line gives way to it."""

    def __init__(self) -> None:
        self.at_start = True

    def write(self, text: str) -> int:
        erase = "\r\x1b[K" if self.at_start and text and sys.stderr.isatty() else ""
        self.at_start = text.endswith("\n") if text else self.at_start
        with suppress(OSError):  # nobody reads it any more, or its disk is full: no reason to fail
            return sys.stderr.write(erase + text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


def failure(error: BaseException) -> Failure:
    """An exception as a record keeps it, whatever it is."""
    cause = error if error.__cause__ is None else error.__cause__
    return Failure(type=type(cause).__name__, message=said(error), traceback=_traceback(error))


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # it asks the exception for what it says, for its notes, for the line of a SyntaxError
        return "".join([*traceback.format_tb(error.__traceback__), f"{type(error).__name__}: {said(error)}"])


def _place(error: BaseException, use: PluginUse) -> str:
    """The innermost frame in the plugin's own file or package, or in a file of the user's that the package calls, as a
    backbone does its mixer; if there is none, in whatever it uses."""
    where = place_of_error(error) if isinstance(error, ReturnedError) else _innermost(error, use)
    return f" (at {where})" if where else ""


def _innermost(error: BaseException, use: PluginUse) -> str:
    place = use.target.rpartition(":")[0]
    package = sys.modules.get(place.partition(".")[0])
    own = Path(place if place.endswith(".py") else getattr(package, "__file__", None) or "")
    own = own.parent if own.name == "__init__.py" else own
    frames = traceback.extract_tb(error.__traceback__)
    found = [n for n, f in enumerate(frames) if own in (path := Path(f.filename), *path.parents)]
    called = frames[found[-1] + 1 :] if found and use.distribution else []
    theirs = place_among((f.filename, f.lineno or 0) for f in reversed(called) if "-packages" not in f.filename)
    if theirs:
        return Path(theirs).name  # as of the plugin's own file, on every machine
    if not found:
        return place_of_error(error)
    frame = frames[found[-1]]
    return f"{Path(frame.filename).name}:{frame.lineno}"
