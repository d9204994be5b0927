"""Settings that all code of a process shares, and that decide numbers or what other code does: torch's, and a few of
Python's. Read, compared and put back. Never imports torch itself, so that what only plans can use it.

What counts as changed is chosen so that honest plugins are not hit. A trial decides how many threads it takes, so a
`torch.set_num_threads` in a file is put back without a word; so are an entry on `sys.path`, numpy's answer to a
division by zero, and environment variables that had a value. New environment variables stay: libraries set them when
they are imported, and nobody else reads them.
"""

import faulthandler
import importlib
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from harness.settings.of_python import of_python
from harness.settings.of_torch import of_torch
from harness.settings.setting import ANY, Setting


@cache
def settings() -> tuple[Setting, ...]:
    """All of them, in the order in which they are put back."""
    return (*of_torch(importlib.import_module("torch")), *of_python())


@dataclass(frozen=True)
class Settings:
    """The settings at one moment."""

    values: tuple[Any, ...]

    @classmethod
    def now(cls) -> "Settings":
        """As they are."""
        return cls(tuple(setting.get() for setting in settings()))

    def changes(self, now: "Settings | None" = None) -> list[tuple[Setting, Any, Any]]:
        """The settings that are not what they were, except those that are put back without a word: which, before,
        now."""
        pairs = zip(settings(), self.values, (now or Settings.now()).values, strict=True)
        found = [(setting, before, value) for setting, before, value in pairs if setting.fix and value != before]
        return [each for each in found if not each[0].implied] or found

    def put_back(self) -> list[tuple[Setting, Any, Any]]:
        """Every setting gets its old value again. Gives what `changes` found before that."""
        if multiprocessing.parent_process():  # or it may be the user's; nobody can ask whether there is one
            faulthandler.cancel_dump_traceback_later()
        now = Settings.now()
        if now == self:
            return []
        found = self.changes(now)
        for setting, before in zip(settings(), self.values, strict=True):
            if setting.get() != before:
                with suppress(OSError):  # a folder that is gone
                    setting.put(before)
        return found


@contextmanager
def standard_settings(threads: int) -> Iterator[None]:
    """The settings of a trial, whatever the caller has chosen; the caller's come back afterwards."""
    before = Settings.now()
    try:
        for setting in settings():
            wanted = threads if setting.name == "torch's threads" else setting.standard
            if wanted is not ANY and setting.get() != wanted:
                setting.put(wanted)
        yield
    finally:
        before.put_back()


def in_force() -> dict[str, str]:
    """What decides the last digits of results, in words, for a record."""
    wanted = {
        "torch's default dtype": "dtype",
        "torch's float32 matmul precision": "float32_matmul_precision",
        "torch.backends.cudnn.allow_tf32": "cudnn_tf32",
        "torch.backends.cudnn.benchmark": "cudnn_benchmark",
        "torch.backends.mkldnn.enabled": "mkldnn",
        "torch's deterministic algorithms (on, only warns)": "deterministic_algorithms",
    }
    found = {wanted[each.name]: each.get() for each in settings() if each.name in wanted}
    return {name: _word(value[0] if isinstance(value, tuple) else value) for name, value in found.items()}


def _word(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value).removeprefix("torch.")
