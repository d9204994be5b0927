"""New processes, in which nothing has run yet: started, listened to, and ended with everything they have started.

Each one leads a session of its own, in which Ctrl-C does not reach it, and is the parent of whatever its descendants
leave behind. On Linux nothing that runs as the same user outlives it. Elsewhere what leaves its process group does.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib.metadata import EntryPoint
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from harness.errors import HarnessError
from harness.executors.start import leave_server, resume, resuming, server, start, stop, without_main
from harness.executors.strays import descendants, end_descendants, end_group, keep_orphans, lives
from harness.interrupts import interrupts_held
from harness.registry import installed

Say = Callable[..., None]
"""In a child: send a word, and what goes with it, to whoever listens."""

PATIENCE = 10.0
"""Seconds to wait for the end of a process that was killed, before it is left to the kernel."""

TRIES = 3
"""How often a process is asked for: a plugin can kill its server, and then there is another one."""

LONGEST_ERROR = 500
"""Characters of an error that are told."""

UNKNOWN = 255
"""The exit code of a process whose server has ended before it."""

_alive: set[int] = set()
"""Process ids of all children."""
_changing = threading.Lock()
"""Held while one is started, or while what none of them has started is ended."""


class Child:
    """A process that runs one function, once it is given what to run it with.

    Args:
        run: called in the process with a `Say` and whatever is given; it must be importable there. It need not return.
        ahead: called before that, while the process waits; importable, too.

    Raises:
        HarnessError: the platform gives no process.
    """

    def __init__(self, run: Callable[..., None], ahead: Callable[[], object] = tuple) -> None:
        self.surroundings = _surroundings()
        self._open = True
        self.ended = False
        """Whether `end` was called."""
        for tries in range(1, TRIES + 1):
            try:
                self._start(run, ahead)
            except BrokenPipeError as error:  # it has ended before it was told what it is for, or its server has
                if tries == TRIES:
                    raise HarnessError(die_at_once()) from error
            except (OSError, EOFError) as error:
                if tries == TRIES:
                    raise HarnessError(f"no process can be started: {error}; try --executor local") from error
                if isinstance(error, ConnectionError | EOFError):
                    _await_end_of_server()
            else:
                return

    def _start(self, run: Callable[..., None], ahead: Callable[[], object]) -> None:
        context = start()
        self._link, theirs = context.Pipe()
        life = (theirs, dict(os.environ), installed(), ahead, run)
        self._process: BaseProcess = context.Process(target=_begin, args=life)
        # elsewhere than on Linux, it could be interrupted until it has a session of its own
        spawned = context.get_start_method() == "spawn"
        try:
            with _changing, without_main(), resuming(), interrupts_held() if spawned else nullcontext():
                self._process.start()
                assert self._process.pid is not None
                self.pid = self._process.pid
                _alive.add(self.pid)
        except (OSError, EOFError):
            self._link.close()
            raise
        finally:
            theirs.close()

    def give(self, *given: Any) -> None:
        """It begins with this: plain data."""
        with suppress(OSError):  # it is dead already, as whoever listens will find
            self._link.send(given)

    @property
    def exitcode(self) -> int | None:
        """As of `multiprocessing.Process`: minus the number of a signal; None while it lives."""
        return None if self.orphaned else self._process.exitcode

    @property
    def orphaned(self) -> bool:
        """Whether it lives, and its server does not, so that nobody will tell how it ends."""
        return self._process.exitcode == UNKNOWN and lives(self.pid)

    def heard(self) -> Iterator[tuple[Any, ...]]:
        """What it has said since the last time: tuples that begin with a word. Never waits for more."""
        try:
            while self._open and self._link.poll():
                yield self._link.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            self._open = False

    def kill(self) -> None:
        """It ends, if it lives, and its process group; what it says is not heard any more. `end` waits for its end."""
        self._open = False
        if self.exitcode is None or sys.platform != "linux":
            if self.orphaned:  # what it has started would be nobody's
                end_descendants(self.pid)
            end_group(self.pid)

    def leaves_others(self) -> bool:
        """Whether processes that it has started may live, now that it was killed."""
        parent = server()
        if parent is None:
            return True
        with _changing:
            return not {self.pid}.issuperset(descendants(parent, _alive - {self.pid}))

    def end(self) -> None:
        """End it, if it lives, and what it has started. Once is enough."""
        if self.ended:
            return
        self.ended = True
        self.kill()
        resume()
        self._process.join(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while self.orphaned and time.monotonic() < deadline:  # nobody tells
            time.sleep(0.01)
        with _changing:
            _alive.discard(self.pid)
            if (parent := server()) is not None:
                end_descendants(parent, spare=_alive)
        self._link.close()
        with suppress(ValueError):  # if it lives, against all expectations
            self._process.close()


def _await_end_of_server() -> None:
    """It answers nobody any more, and is about to end: before that, nobody starts another one."""
    deadline = time.monotonic() + PATIENCE
    while (pid := server()) is not None and lives(pid) and time.monotonic() < deadline:
        time.sleep(0.01)


def _surroundings() -> tuple[object, ...]:
    """What a child takes over when it is started, and may be something else by the time it begins."""
    with suppress(OSError):  # the current folder is gone
        return dict(os.environ), [*sys.path], Path.cwd()
    return dict(os.environ), [*sys.path]


@contextmanager
def working(run: Callable[..., None], *given: Any) -> Iterator[Child]:
    """A process that does one thing, and ends with everything it has started. Whoever is interrupted meanwhile ends the
    server, too.

    Args:
        run: see `Child`.
        given: what it is run with.
    """
    child = Child(run)
    try:
        child.give(*given)
        yield child
    except BaseException as error:
        if not isinstance(error, Exception):
            stop()
        raise
    finally:
        child.end()


class Line:
    """Children one after the other that run one function. The next one is started while the others are at work, and one
    that is done with may still be ending when its successor begins.

    Args:
        run: as of a `Child`.
        ahead: as of a `Child`.
    """

    def __init__(self, run: Callable[..., None], ahead: Callable[[], object]) -> None:
        self._new = partial(Child, run, ahead)
        self._ready: list[Child] = []
        self._ending: list[Child] = []
        self._abandoned = False

    def next(self, *given: Any) -> Child:
        """One that begins with this; not one that was made ready in other surroundings.

        Raises:
            HarnessError: the platform gives no process, or the line was abandoned.
        """
        child = self._ready.pop() if self._ready else self._start()
        if self._abandoned or child.surroundings != _surroundings():
            child.end()
            child = self._start()
        child.give(*given)
        return child

    def prepare(self) -> None:
        """Have one ready, if the platform gives it."""
        if not self._ready:
            with suppress(HarnessError):  # whoever needs it is told
                self._ready.append(self._start())

    def _start(self) -> Child:
        if self._abandoned:
            raise HarnessError("the trial was cancelled")
        return self._new()

    def abandon(self) -> None:
        """End all of them, and the server, from whatever thread; none begins any more."""
        self._abandoned = True
        stop()

    def leave(self, child: Child) -> None:
        """It is done with, and ends meanwhile, unless it has been ended."""
        if not child.ended:
            child.kill()
            self._ending.append(child)

    def listen(self, children: list[Child], timeout: float) -> None:
        """As the function of that name does; and what those that have ended had started ends as well."""
        listen([*children, *self._ending], timeout)
        for child in [each for each in self._ending if each.exitcode is not None]:
            self._ending.remove(child)
            child.end()

    def settle(self) -> None:
        """End what those that are done with have left. One that was killed and has left nothing may still be ending."""
        for child in [each for each in self._ending if each.leaves_others()]:
            self._ending.remove(child)
            child.end()

    def close(self) -> None:
        """End those that are ready, and those that are done with."""
        for children in (self._ready, self._ending):
            while children:
                children.pop().end()


def listen(children: list[Child], timeout: float) -> None:
    """Wait until one of them says something or ends, but not longer than so many seconds."""
    resume()  # it tells how they end
    ends = [each._process.sentinel for each in children if not each.orphaned]
    wait([*ends, *(each._link for each in children if each._open)], timeout)


def in_short(raised: str) -> str:
    """What a child raised, of its traceback the last line, and how to see the rest."""
    last = next((line for line in reversed(raised.splitlines()) if line.strip()), "")
    hint = " (--executor local says where)" if last != raised else ""
    return f"{last.strip()[:LONGEST_ERROR]}{hint}"


def how_it_ended(exitcode: int) -> str:
    """An exit code in words."""
    if exitcode >= 0:
        return f"it ended with exit code {exitcode}"
    with suppress(ValueError):
        return f"it was ended by {signal.Signals(-exitcode).name}"
    return f"it was ended by signal {-exitcode}"


def die_at_once(exitcode: int | None = None) -> str:
    """What is wrong where children end before they can say anything; the exit code, if it is known."""
    how = "" if exitcode is None else f" ({how_it_ended(exitcode)})"
    return f"the worker processes die as soon as they start{how}, perhaps for lack of memory; try --executor local"


def _begin(
    link: Connection,
    environment: dict[str, str],
    plugins: tuple[EntryPoint, ...],
    ahead: Callable[[], object],
    run: Callable[..., None],
) -> None:
    """Run in a child process, and end it: what a plugin leaves to Python's own shutdown (threads, exit handlers,
    processes to wait for) could take forever."""
    leave = os._exit
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    if hasattr(os, "setsid"):
        os.setsid()
    leave_server()
    keep_orphans()
    os.environ.clear()  # the server's is of the time when it was started
    os.environ.update(environment)
    installed(plugins)
    os.dup2(2, 1)  # standard output is the parent's, for results
    threading.Thread(target=_end_with_the_run, daemon=True).start()

    def say(*what: Any) -> None:
        with suppress(OSError):
            link.send(what)

    try:
        from harness.blame import Aside

        sys.stdout = cast(TextIO, Aside())
        ahead()
        given = link.recv()
        say("begun")
        run(say, *given)
    except BaseException as error:
        say("raised", "".join(traceback.format_exception(error)))
    with suppress(Exception):
        sys.stderr.flush()
    leave(0)


def _end_with_the_run() -> NoReturn:
    """Where the run was killed, leave the machine to the next one, whatever a plugin is doing."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    end_descendants(os.getpid())
    end_group(os.getpid())
    os._exit(1)
