"""When Ctrl-C must wait."""

import importlib
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def import_torch() -> None:
    """Import torch, which loses an interrupt, or aborts, if one comes meanwhile: so it waits for the end."""
    if "torch" not in sys.modules:
        with interrupts_held():
            importlib.import_module("torch")


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C reaches the whole process group, and this process alone decides what it means: processes that are started
    in here never see it (nor do those that they start); this one sees it at the end."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
