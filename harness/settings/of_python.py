"""Python's own settings, and numpy's."""

import importlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.settings.setting import Setting

FOLDER = "use absolute paths instead"


def of_python() -> Iterator[Setting]:
    """In the order in which they are put back."""
    yield Setting("the current folder", _folder, os.chdir, fix=FOLDER)
    yield Setting("sys.path", lambda: [*sys.path], lambda value: sys.path.__setitem__(slice(None), value))
    yield Setting("environment variables", lambda: {**_variables()}, _put_variables)
    yield Setting("which standard files are open", _open_files, _put_open_files)
    yield Setting("the rights of new files", _umask, os.umask)
    if hasattr(signal, "setitimer"):  # Windows has none
        yield Setting("alarms", _alarms, _put_alarms)
    yield Setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit)
    yield Setting("warnings that are errors", _strict_warnings, _put_strict_warnings)
    numpy: Any = importlib.import_module("numpy")
    yield Setting("numpy's error state", numpy.geterr, lambda value: numpy.seterr(**value))
    for number in (signal.SIGINT, signal.SIGTERM):
        yield Setting(f"the handler of {number.name}", *_handler(number))


def _folder() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _variables() -> dict[Any, Any]:
    found: dict[Any, Any] = vars(os.environ)["_data"]
    return found  # as Python keeps them: a copy of os.environ itself takes a hundred times as long


def _put_variables(before: dict[Any, Any]) -> None:
    """What had a value has it again; what is new stays."""
    for key, value in before.items():
        if _variables().get(key) != value:
            os.environ[os.environ.decodekey(key)] = os.environ.decodevalue(value)


def _open_files() -> tuple[bool, ...]:
    """Standard input, output and error, and Python's own file for the last."""
    return (*map(_is_open, range(3)), not getattr(sys.stderr, "closed", True))


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _put_open_files(before: tuple[bool, ...]) -> None:
    """What was closed is open again, and leads nowhere: the next file that is opened must not take its place, and with
    it whatever is printed."""
    *numbers, python = before
    for number in (number for number, was_open in enumerate(numbers) if was_open and not _is_open(number)):
        file = os.open(os.devnull, os.O_RDWR)
        if file != number:
            os.dup2(file, number)
            os.close(file)
    if python and getattr(sys.stderr, "closed", True):
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def _umask() -> int:
    os.umask(mask := os.umask(0o077))
    return mask


def _alarms() -> list[bool]:
    """Whether one is set, of each kind: by the clock, and by processor time without and with the system's."""
    return [signal.getitimer(each)[0] > 0 for each in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)]


def _put_alarms(before: list[bool]) -> None:
    """One that was set meanwhile would end the process while another plugin is at work."""
    for each, was_set in zip((signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF), before, strict=True):
        if not was_set:
            signal.setitimer(each, 0)


def _strict_warnings() -> list[Any]:
    return [each for each in warnings.filters if each[0] == "error"]


def _put_strict_warnings(before: list[Any]) -> None:
    """Warnings that became errors are warnings again; libraries may silence what they like."""
    kept: Any = warnings.filters
    kept[:] = [each for each in kept if each[0] != "error" or each in before]
    with warnings.catch_warnings():  # which has Python look at the filters anew
        pass


def _handler(number: signal.Signals) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    def put(handler: Any) -> None:
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(number, handler)

    getsignal = importlib.import_module("_signal").getsignal  # the one in `signal` looks for the handler's name
    return lambda: getsignal(number), put
