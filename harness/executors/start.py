"""Where processes come from. Light, so that a run can begin to start them before it knows what it will do."""

import atexit
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from types import ModuleType

from harness.errors import HarnessError, RequestError
from harness.interrupts import interrupts_held

LONGEST_FOLDER = 107 - len("/pymp-xxxxxxxx/listener-xxxxxxxx")
"""Bytes of the temporary folder's path at which the server's socket, a file in it, still has an address."""

SERVER = {
    # it is a `python -c`, which would take a `harness.py` or `torch.py` in the current folder for the real one
    "PYTHONSAFEPATH": "1",
    # its memory lies in large pages, so that a fork, and the end of one, takes half as long
    "GLIBC_TUNABLES": ":".join(filter(None, (os.environ.get("GLIBC_TUNABLES"), "glibc.malloc.hugetlb=1"))),
}
"""Environment variables of the server."""

OURS = "sequence-harness"
"""The distribution with the built-in plugins."""

RUN, SOCKETS = "HARNESS_RUN", "HARNESS_SOCKETS"
"""Those with the run's process id, and with the folder of its socket, which it removes in its end, if it can."""


def start() -> ForkServerContext | SpawnContext:
    """What processes are started with; on Linux the server that they are forked from begins to import torch now.

    A fork of a process that has used torch can hang in its thread pools; a new process takes seconds to import torch.
    The server has imported it and used nothing: see `harness.executors.warm`. Elsewhere each one is a new process.
    (Environment variables that torch reads when it is imported are those of the server's start.)

    Raises:
        HarnessError: the platform gives no process.
        RequestError: the current folder is gone, and with it the place where a process would be.
    """
    try:
        os.getcwd()  # noqa: PTH109 - before each process, and a Path costs more
    except FileNotFoundError:
        raise RequestError("the current folder was deleted; change to another one (cd)") from None
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver, resource_tracker

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["harness.executors.warm"])
    try:
        resource_tracker.ensure_running()  # before interrupts are held, since it lets them in again
        with interrupts_held(), _room_for_a_socket(), _environment_of_the_server(), without_main():
            if server() is None:
                atexit.register(_folder_of_sockets)
            _end_lost_server()
            forkserver.ensure_running()
    except OSError as error:
        raise HarnessError(f"no process can be started: {error}; try --executor local") from error
    return context


@contextmanager
def starting() -> Iterator[None]:
    """Around what reads a request: the server gets ready meanwhile, and ends at once if the request turns out wrong."""
    new = server() is None
    with suppress(HarnessError):  # whoever needs a process is told
        start()
    try:
        yield
    except BaseException:
        if new and (pid := server()) is not None:
            stop()
            with suppress(ChildProcessError):  # its end is nobody's, where a supervisor ignores such signals
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # or whoever starts one next takes it for alive
        raise


def server() -> int | None:
    """The process id of the server, if there is one."""
    if sys.platform != "linux":
        return None
    from multiprocessing import forkserver

    return getattr(forkserver._forkserver, "_forkserver_pid", None)


def temporary() -> str | None:
    """The folder for temporary files that go with this process, whatever ends it; None, the usual one, where no server
    sees to that."""
    if server() is None:
        return None
    from multiprocessing import util

    return str(util.get_temp_dir())


def resume() -> None:
    """The server goes on, if a plugin has stopped it."""
    if (pid := server()) is not None:
        with suppress(OSError):  # it is gone, and its number may be another's by now
            os.kill(pid, signal.SIGCONT)


@contextmanager
def resuming() -> Iterator[None]:
    """Whoever waits for the server's answer in here does not wait for ever, should a plugin stop it meanwhile."""
    done = threading.Event()

    def keep_on() -> None:
        while not done.wait(1.0):
            resume()

    resume()
    threading.Thread(target=keep_on, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def leave_server() -> None:
    """In a process that was forked from the server: be no client of it, so that it sees the end of the run, and that
    a plugin which uses such a server gets one of its own."""
    if sys.platform != "linux":
        return
    from multiprocessing import forkserver

    known = forkserver._forkserver
    if (alive := getattr(known, "_forkserver_alive_fd", None)) is not None:
        os.close(alive)
    known.__init__()  # type: ignore[misc]


def stop() -> None:
    """End the server, which may still be importing torch, and would then start what it was asked for; what was forked
    from it ends with it."""
    if (pid := server()) is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


@contextmanager
def without_main() -> Iterator[None]:
    """Keep Python from importing the user's script or notebook again in processes that are started meanwhile: they need
    nothing of it, and without `if __name__ == "__main__":` it would run again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _folder_of_sockets() -> None:
    """Python takes it for granted, also when it deletes it in the end."""
    from multiprocessing import util

    if multiprocessing.parent_process() is None:
        Path(util.get_temp_dir()).mkdir(mode=0o700, parents=True, exist_ok=True)


def _end_lost_server() -> None:
    """One whose socket was deleted, with all that is in the temporary folder, for example, is of no use any more; what
    was forked from it goes on."""
    from multiprocessing import forkserver

    address, pid = forkserver._forkserver._forkserver_address, server()  # type: ignore[attr-defined]
    if pid is None or not address or Path(address).exists():
        return
    _folder_of_sockets()
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@contextmanager
def _room_for_a_socket() -> Iterator[None]:
    """A long `TMPDIR` is left for /tmp, as Python does by itself from 3.14 on."""
    chosen = tempfile.tempdir
    if len(os.fsencode(tempfile.gettempdir())) > LONGEST_FOLDER:
        tempfile.tempdir = "/tmp"
    try:
        yield
    finally:
        tempfile.tempdir = chosen


@contextmanager
def _environment_of_the_server() -> Iterator[None]:
    """Of the server alone: what is forked from it gets that of the run."""
    from multiprocessing import util

    # a process that was forked shares the folder of the one above, which still needs it
    own = util.get_temp_dir() if multiprocessing.parent_process() is None else ""
    variables = SERVER | {RUN: str(os.getpid()), SOCKETS: own}
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
