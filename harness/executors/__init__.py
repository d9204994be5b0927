"""Where trials run, and how to write such a place: the one page about executors.

An executor is called with trials and yields their records as they are written. It is a plugin like any other:

    # pyproject.toml                          # acme_cluster/__init__.py
    [project.entry-points.harness]            from harness import ExecutorSpec, hookimpl
    acme-cluster = "acme_cluster"
                                              @hookimpl
                                              def harness_executors():
                                                  yield ExecutorSpec("cluster", "acme_cluster.run:Cluster")

    # acme_cluster/run.py                     # Work is in harness.work, Record in harness.schema
    class Cluster:
        '''What `harness show executor cluster` prints.'''

        def __init__(self, jobs: int, limits: Limits, queue: str = "short") -> None: ...

        def __call__(self, works: Sequence[Work], tell: Tell) -> Iterator[Record]:
            for index, work in enumerate(works):      # or all at once, and then whichever is finished
                records = elsewhere(run, work)
                tell(index, 1.0)
                yield from records

    def run(work: Work) -> list[Record]:              # on the other side
        return list(run_trial(work))                  # from harness.runner; writes each record into work.out

`harness run --executor cluster:queue=long` calls the target, a class or a function, with the user's arguments and, by
name if it asks for them, with `jobs` and `limits`; what comes back is called once. A user who sets a limit, or more
than one job, where the target does not ask for it is refused. Raise `ValueError` for arguments that do not fit.

What an executor owes to the run:

- Each cell of each trial gets one record in `work.out`, in the end, whatever becomes of the trial: `run_trial` sees to
  it as long as its process lives; where that dies, `harness.runner.failed_records` writes the ones that are missing.
- Trials do not meet. What a plugin does to its process (threads, patches, the current folder) would change what others
  measure, so each trial has a process that nothing of anybody ran in before: `Processes(1, limits)([work], tell)` gives
  that to whoever is on the right machine already.
- A trial ends, and what it has started ends with it; so does everything when the run ends: when its iterator is closed.
- Code given as it is (classes from a notebook) exists in the calling process alone. An executor that runs trials there
  says so by an attribute `here = True`; with any other one, plans are made in a process of their own.
- One that brings trials to other machines says so by `elsewhere = True`: `--device cuda` then needs no GPU here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:  # `harness list` looks for what is in this package, and needs none of them
    from harness.schema import Record
    from harness.work import Work

Tell = Callable[[int, float], None]
"""Called now and then with the index of a trial and its share that is done, 0 to 1."""


@dataclass(frozen=True)
class Limits:
    """What a trial may use, and how often it is tried."""

    timeout: float | None = None
    """Seconds that a trial may take, from when it begins to its last record; None: as long as it gets on."""
    retries: int = 0
    """New attempts for a trial whose process died."""
    memory: float | None = None
    """GiB of main memory for each process of a trial, where the platform can hold it to that."""


@runtime_checkable
class Executor(Protocol):
    """Runs trials."""

    def __call__(self, works: "Sequence[Work]", tell: Tell, /) -> "Iterator[Record]":
        """The records of the trials, as they are written.

        Args:
            works: the trials, in the order of the suite.
            tell: hears how far each one is.

        Raises:
            StoreError: the run directory can no longer be written.
            HarnessError: nothing can run at all.
        """
        ...
