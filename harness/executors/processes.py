"""Worker processes with one thread each: on small models faster than one process with several threads.

A worker that dies (out of memory, a crash in compiled code) costs its own trial only.
"""

import contextlib
import multiprocessing
import os
import queue
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TextIO, cast

from pebble import ProcessExpired, ProcessFuture, ProcessPool

from harness.blame import Aside, failure
from harness.errors import HarnessError, StoreError
from harness.executors import Limits, Tell
from harness.executors.start import start, stop
from harness.interrupts import interrupts_held
from harness.runner import failed_records, run_trial
from harness.schema import Record
from harness.store import RunDirectory
from harness.work import Work

AHEAD = 8
"""Trials handed over beyond those that run. All at once would fill the pipe to the workers, and an interrupt would find
a thread that writes into it; Python 3.13 prints what becomes of that."""

_shares: Any = None
"""In a worker: the queue that takes `(index of the trial, share done)`."""


class Processes:
    """Worker processes on this machine."""

    def __init__(self, jobs: int, limits: Limits) -> None:
        self.jobs = jobs

    def __call__(self, works: Sequence[Work], tell: Tell) -> Iterator[Record]:
        return run_in_processes(works, tell, min(self.jobs, len(works)))


def run_in_processes(works: Sequence[Work], report: Tell, jobs: int) -> Iterator[Record]:
    """Run the trials on `jobs` worker processes; the records of a trial come when it is finished.

    Raises:
        StoreError: the run directory can no longer be written.
        HarnessError: the worker processes die before they have a trial.
    """
    context = start()
    begun = datetime.now(UTC)
    shares: Any = context.Queue()
    waiting = enumerate(works)
    with ProcessPool(
        max_workers=jobs, initializer=_start_worker, initargs=(shares, dict(os.environ)), context=context
    ) as pool:
        try:
            # a server that workers fork from was started without interrupts, and while it gets ready they may end us
            with interrupts_held() if context.get_start_method() == "spawn" else contextlib.nullcontext():
                futures = _schedule(pool, islice(waiting, jobs + AHEAD))
            while futures:
                if not pool.active:
                    raise BrokenProcessPool
                with contextlib.suppress(queue.Empty):
                    report(*shares.get(timeout=0.1))
                for index in [index for index, future in futures.items() if future.done()]:
                    future = futures.pop(index)
                    report(index, 1.0)
                    error = future.exception()
                    if isinstance(error, StoreError):
                        raise error
                    yield from future.result() if error is None else _after_death(works[index], error, begun)
                    futures |= _schedule(pool, islice(waiting, 1))
        except BrokenProcessPool:
            pool.stop()
            raise HarnessError(
                "the worker processes die as soon as they start, perhaps for lack of memory; try --jobs 1"
            ) from None
        except BaseException:
            pool.stop()  # on Ctrl-C, for example: what is on disk stays, the rest runs next time
            stop()
            raise


def _schedule(pool: ProcessPool, works: Iterable[tuple[int, Work]]) -> dict[int, ProcessFuture[list[Record]]]:
    try:
        return {index: pool.schedule(_run, args=[index, work]) for index, work in works}
    except RuntimeError as error:  # the workers have died
        raise BrokenProcessPool from error


def _after_death(work: Work, error: BaseException, begun: datetime) -> list[Record]:
    """The records that the worker wrote before it died, and failed ones for the rest."""
    store = RunDirectory(work.out)
    found = (store.read_record(cell.id) for cell in work.planned.cells)
    written = [record for record in found if record and record.provenance.finished >= begun]
    known = {record.id for record in written}
    missing = [cell for cell in work.planned.cells if cell.id not in known]
    if isinstance(error, ProcessExpired):
        code = error.exitcode
        error = RuntimeError(f"the worker process died (exit code {code}), perhaps for lack of memory; try --jobs 1")
    return [*written, *failed_records(work, missing, failure(error))]


def _start_worker(shares: Any, environment: dict[str, str]) -> None:
    global _shares
    _shares = shares
    os.environ.clear()  # the server's is of the time when it was started
    os.environ.update(environment)
    sys.stdout = cast(TextIO, Aside())  # standard output is the parent's, for results
    threading.Thread(target=_end_with_the_run, daemon=True).start()


def _end_with_the_run() -> None:
    """Where the run was killed, leave the machine to the next one, whatever a plugin is doing."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _run(index: int, work: Work) -> list[Record]:
    return list(run_trial(work, lambda share: _shares.put((index, share))))
