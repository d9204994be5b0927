"""Whoever waits for a process that hangs need not wait in a test: after a few looks, much time has gone by."""

import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from harness.executors.children import Child, listen

Hangs = Callable[[ModuleType, Path], None]
"""For a module that listens to processes: as soon as the file is there, one of them hangs."""

LOOKS = 3
"""So that whatever was said before the file was there has been heard, and nothing since then."""


class _Clock:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.looks = 0

    def listen(self, children: list[Child], timeout: float) -> None:
        hangs = self.looks < LOOKS and self.file.exists()
        self.looks += hangs
        listen(children, 0.01 if hangs else timeout)

    def monotonic(self) -> float:
        return time.monotonic() + (1e6 if self.looks == LOOKS else 0.0)


@pytest.fixture
def hangs(monkeypatch: pytest.MonkeyPatch) -> Hangs:
    """Days pass, once, when a process hangs."""

    def install(module: ModuleType, file: Path) -> None:
        clock = _Clock(file)
        monkeypatch.setattr(module, "listen", clock.listen)
        if hasattr(module, "monotonic"):
            monkeypatch.setattr(module, "monotonic", clock.monotonic)
        else:
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock.monotonic))

    return install
