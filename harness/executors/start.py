"""Where worker processes come from. Light, so that a run can begin to start them before it knows what it will do."""

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import BaseContext

from harness.interrupts import interrupts_held

LONGEST = 107 - len("/pymp-xxxxxxxx/listener-xxxxxxxx")
"""Bytes of the temporary folder's path at which the server's socket, a file in it, still has an address."""


def start() -> BaseContext:
    """What worker processes are started with; on Linux the server that they fork from begins to import torch now.

    A fork of a process that has used torch can hang in its thread pools; a new process takes seconds to import torch.
    The server has imported it and used nothing: workers start at once, and share its memory. Elsewhere each worker is
    a new process. (Environment variables that torch reads when it is imported are those of the server's start.)
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver, resource_tracker

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["harness.runner"])
    resource_tracker.ensure_running()  # before interrupts are held, since it lets them in again
    with interrupts_held(), _room_for_a_socket(), _without_the_current_folder():
        forkserver.ensure_running()
    return context


@contextmanager
def _room_for_a_socket() -> Iterator[None]:
    """A long `TMPDIR` is left for /tmp, as Python does by itself from 3.14 on."""
    chosen = tempfile.tempdir
    if len(os.fsencode(tempfile.gettempdir())) > LONGEST:
        tempfile.tempdir = "/tmp"
    try:
        yield
    finally:
        tempfile.tempdir = chosen


@contextmanager
def _without_the_current_folder() -> Iterator[None]:
    """The server is a `python -c`, which would take a `harness.py` or `torch.py` in the current folder for the real."""
    name = "PYTHONSAFEPATH"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def stop() -> None:
    """End the server, which may still be importing torch, and would then start the workers that it was asked for."""
    if sys.platform == "linux":
        from multiprocessing import forkserver

        pid = getattr(forkserver._forkserver, "_forkserver_pid", None)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
