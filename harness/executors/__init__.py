"""Where trials run: in this process, or in worker processes.

An executor is given trials and yields their records once they are written; one that brings trials elsewhere must write
the records itself. Whatever happens to a trial, each of its cells gets a record, and the other trials go on.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from harness.runner import Work
from harness.schema import Record

Report = Callable[[int, float], None]
"""Called with the index of a trial and its share that is done, 0 to 1."""


@runtime_checkable
class Executor(Protocol):
    """Runs trials."""

    def __call__(self, works: Sequence[Work], report: Report, /) -> Iterator[Record]:
        """The records of the trials, as they are written.

        Raises:
            StoreError: the run directory can no longer be written.
            HarnessError: nothing can run at all.
        """
        ...


def executor(jobs: int) -> Executor:
    """Where so many trials at once run best."""
    if jobs == 1:
        from harness.executors.local import run_local

        return run_local
    from harness.executors.processes import run_in_processes

    return partial(run_in_processes, jobs=jobs)
