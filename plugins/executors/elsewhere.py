"""The other end: a trial on the machine that it was sent to. Whatever brings trials there can use it."""

import atexit
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from queue import Empty, SimpleQueue

from harness import __version__
from harness.errors import PluginError
from harness.executors import Limits
from harness.executors.children import Line
from harness.executors.processes import Processes, trial_processes
from harness.plan import core_digest
from harness.schema import Record
from harness.store import RunDirectory
from harness.travel import Baggage, uses
from harness.work import Work

INTERVAL = 0.5
"""Seconds between two words about how far a trial is."""

PATIENCE = 3.0
"""Seconds in which the processes of a trial that was cancelled must have ended."""

Event = float | str | dict[str, bytes]
"""What is sent home: the share of the trial that is done, a record as JSON, or files of the run directory by their
places in it."""


def run_elsewhere(
    work: Work, trained: dict[str, bytes], baggage: Baggage, limits: Limits, core: str
) -> Iterator[Event]:
    """Run a trial in a new process and a temporary folder, and send home whatever is written, as it is written.

    Args:
        work: the trial as it is planned at home.
        trained: files that the run directory has of it.
        baggage: what its plugins need.
        limits: of the trial.
        core: `core_digest` at home.

    Raises:
        PluginError: this machine has another harness, or lacks a package.
    """
    _check_installed(work, core)
    with tempfile.TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True) as name:
        folder, out = Path(name).resolve(), Path(name).resolve() / "run"
        for place, content in trained.items():
            path = out / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        baggage.unpack(folder)
        sent = _written(out)
        with _found([folder / each for each in baggage.shared]):
            for event in _events(baggage.moved(work, folder, out), limits):
                new = {path: stamp for path, stamp in _written(out).items() if sent.get(path) != stamp}
                sent |= new
                if files := {
                    path.relative_to(out).as_posix(): text for path in new if (text := _read(path)) is not None
                }:
                    yield files
                yield event if isinstance(event, float) else baggage.homely(event.model_dump_json(), folder)


_version = cache(metadata.version)


def _check_installed(work: Work, core: str) -> None:
    here = platform.node()
    if core_digest() != core:
        raise PluginError(
            f"{here} has a harness ({__version__}) that measures with other code than the one that planned this run; "
            "install the same version on all machines"
        )
    for kind, use in uses([work]):
        try:
            _version(use.distribution or "sequence-harness")
        except metadata.PackageNotFoundError:
            raise PluginError(
                f"{here} has no package {use.distribution!r}, which {kind} {use.label!r} is from; run there: "
                f"pip install {use.distribution}=={use.version}"
            ) from None


def _written(out: Path) -> dict[Path, tuple[int, int]]:
    """The files of a run directory, the oldest first, and what tells that one has changed; records go home as they are
    yielded."""
    paths = [path for path in out.glob("*/*") if path.parent.name != "records" and not path.name.startswith(".")]
    stamps = {}
    for path in paths:
        with suppress(FileNotFoundError):  # half a training is deleted when it is whole
            status = path.stat()
            stamps[path] = status.st_mtime_ns, status.st_size
    return dict(sorted(stamps.items(), key=lambda each: each[1]))


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


@contextmanager
def _found(folders: list[Path]) -> Iterator[None]:
    """Python finds packages in these folders, here and in the processes that are started meanwhile."""
    before, path = os.environ.get("PYTHONPATH"), [*sys.path]
    sys.path[:0] = map(str, folders)
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *filter(None, [before])])
    try:
        yield
    finally:
        sys.path[:] = path
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _events(work: Work, limits: Limits) -> Iterator[float | Record]:
    """How far the trial is, now and then, and its records."""
    RunDirectory(work.out).create()
    events: SimpleQueue[float | Record | BaseException | None] = SimpleQueue()
    over = threading.Event()
    last = 0.0

    def tell(index: int, share: float) -> None:
        nonlocal last
        if over.is_set():
            raise InterruptedError
        if time.monotonic() - last > INTERVAL or share == 1:
            last = time.monotonic()
            events.put(float(share))

    line = _line()

    def run() -> None:
        try:
            for record in Processes(1, limits).along(line, [work], tell, more=True):
                events.put(record)
        except BaseException as error:
            line.close()
            events.put(error)
        else:
            events.put(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while (event := _next(events)) is not None:
            if isinstance(event, BaseException):
                raise event
            yield event
    except BaseException:  # whoever sent the trial cancels it, for example
        over.set()
        _line.cache_clear()
        line.abandon()
        thread.join(PATIENCE)  # nothing writes into the folder any more
        raise


@cache
def _line() -> Line:
    """Of this process, to which a cluster gives one trial after the other: the next one finds a process ready."""
    line = trial_processes()
    atexit.register(line.close)  # or the end of this process would wait for that of the one that is ready
    return line


def _next(events: "SimpleQueue[float | Record | BaseException | None]") -> float | Record | BaseException | None:
    """With a timeout, since a wait without one ends for nothing, and whoever cancels the trial interrupts it."""
    while True:
        try:
            return events.get(timeout=0.1)
        except Empty:
            continue
