"""A process of its own for each trial, several at a time: on small models faster than one with several threads.

What a plugin does to its process ends with its trial. A process that dies (out of memory, a crash in compiled code, an
exit of the plugin's own) costs the cell that it was measuring, and the next process measures the rest; where it dies
while the model is built or trained, there is nothing to measure, and all its cells fail.

Nobody can see all that code may leave behind in a process. So probes that are not built in look after those that are,
and what comes after each of them has a process of its own.
"""

import errno
import os
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from harness.errors import HarnessError, StoreError
from harness.executors import Limits, Tell
from harness.executors.children import Child, Line, Say, die_at_once, how_it_ended, in_short
from harness.executors.start import OURS, start, stop
from harness.files import file_stamp
from harness.schema import Cell, Failure, Record
from harness.store import RunDirectory
from harness.work import Work

SILENCE = 3600.0
"""Seconds after which a trial that shows no sign of progress (a training step, a finished cell) is taken for one that
hangs, if no timeout is set. Ten training steps, or one cell, of what anybody studies with this take minutes at most,
and a run that is left alone for a night should still use most of it."""

TICK = 0.25
"""Seconds between looks at the clock."""

STARTS = 3
"""Processes in a row that end before they can do anything, before the run is given up."""

OF_THE_DISK = (errno.ENOENT, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""Errors of writing that everybody has. Others may be a process's own, since a plugin has used up or given away what it
may do; if they are not, the run finds them itself."""

SHARE_EVERY = 0.1
"""Seconds between two messages about how far a training is."""


class Processes:
    """A new process for each trial, `jobs` at a time: on Linux forked, within milliseconds, from a process that has
    imported torch and the built-in plugins and nothing else; elsewhere started anew, within seconds.

    The process of the next trial is started while others run, and waits for it. With a trial ends whatever it has
    started. Where a process dies, the cell that it was measuring fails, and a new one measures the rest.
    """

    def __init__(self, jobs: int, limits: Limits) -> None:
        self.jobs = jobs
        self.limits = limits
        start()  # it gets ready while the run is planned

    def __call__(self, works: Sequence[Work], tell: Tell) -> Iterator[Record]:
        """The records of the trials, as they are written.

        Raises:
            StoreError: the run directory can no longer be written.
            HarnessError: processes cannot be started, or die before they can do anything.
        """
        line = trial_processes()
        try:
            yield from self.along(line, works, tell)
        finally:
            line.close()

    def along(self, line: Line, works: Sequence[Work], tell: Tell, *, more: bool = False) -> Iterator[Record]:
        """The same by processes of a line that is kept, for whoever is given one trial after the other.

        Args:
            line: made by `trial_processes`.
            works: the trials.
            tell: hears how far each one is.
            more: whether to have a process ready in the end, for a trial that comes later.
        """
        waiting = deque(_Trial(index, work, self.limits, tell, line) for index, work in enumerate(works))
        running: list[_Trial] = []
        clock = _Clock()
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    waiting[0].begin(clock())
                    running.append(waiting.popleft())
                if waiting or more or any(trial.needs_another for trial in running):
                    line.prepare()
                line.listen([trial.child for trial in running], TICK)
                now = clock()
                for trial in list(running):
                    yield from trial.advance(now)
                    if not trial.left:
                        running.remove(trial)
                        if trial.work.planned.trial.device == "cpu":
                            line.leave(trial.child)
                        else:  # an accelerator's memory is free when the process is gone, and not sooner
                            trial.child.end()
                        tell(trial.index, 1.0)
        except BaseException:
            stop()  # on Ctrl-C, for example, also where one is just being started: what is on disk stays
            raise
        finally:
            for trial in running:
                trial.child.end()
            line.settle()


def trial_processes() -> Line:
    """Processes for trials, one after the other; whoever makes it closes it."""
    return Line(_run, _ahead)


class _Clock:
    """Seconds in which this process was there to listen: while the machine sleeps, or Ctrl-Z stops the run, no trial
    comes closer to its timeout."""

    def __init__(self) -> None:
        self.seconds, self.last = 0.0, time.monotonic()

    def __call__(self) -> float:
        now = time.monotonic()
        self.seconds += min(now - self.last, 4 * TICK)
        self.last = now
        return self.seconds


class _Trial:
    """One trial on its way through as many processes as it takes."""

    child: Child

    def __init__(self, index: int, work: Work, limits: Limits, tell: Tell, line: Line) -> None:
        self.index = index
        self.work = work
        self.limits = limits
        self.tell = tell
        self.line = line
        self.store = RunDirectory(work.out)
        self.left: dict[str, Cell] = {cell.id: cell for cell in work.planned.cells}
        """Cells without a record of this run, by id."""
        self.lost: dict[str, Failure] = {}
        """Why cells will not be measured any more; the next process writes their records."""
        self.before = {cell: self._stamp(cell) for cell in self.left}
        """The files that lie where records will be: failed ones of an earlier run."""
        self.retries = limits.retries
        self.false_starts = 0
        self.deadline: float | None = None

    @property
    def needs_another(self) -> bool:
        """Whether its process will not measure all that is left."""
        left = sorted(self.left.values(), key=_foreign)
        return any(_alone(cell, left) for cell in left[:-1])

    def begin(self, now: float) -> None:
        """Start a process for what is left."""
        planned = replace(self.work.planned, cells=list(self.left.values()))
        lost = {cell: failure for cell, failure in self.lost.items() if cell in self.left}
        self.begun, self.measuring, self.sign = False, "", now
        self.child = self.line.next(replace(self.work, planned=planned), lost, self.limits.memory)

    def advance(self, now: float) -> Iterator[Record]:
        """Hear what the process says, and do what has to be done about it."""
        ended = self.child.exitcode is not None  # looked at first, so that nothing it said is missed
        for what, *more in self.child.heard():
            self.sign = now
            if what == "begun":
                self.begun, self.false_starts = True, 0
                if self.deadline is None and self.limits.timeout:
                    self.deadline = now + self.limits.timeout
            elif what == "share":
                self.tell(self.index, more[0])
            elif what == "measuring":
                self.measuring = more[0]
            elif what == "written":
                self.measuring = ""
                yield from self._told(more[0])
            elif what == "again":
                self.child.end()
                if self.left:
                    self.begin(now)
                return
            elif what == "full":
                raise StoreError(more[0])
            elif what == "raised":
                yield from self._lose(now, f"the worker process failed: {in_short(more[0])}", "RuntimeError", more[0])
                return
        if not self.left:
            return
        if ended:
            yield from self._after_its_end(now)
        elif self.deadline is not None and now > self.deadline:
            self.deadline, self.retries, self.measuring = None, 0, ""
            yield from self._lose(now, f"no answer in {self.limits.timeout:g} s (--timeout)", "TimeoutError")
        elif self.deadline is None and now > self.sign + SILENCE:
            message = f"no sign of progress for {SILENCE:g} s; with --timeout a trial may take longer, or less"
            yield from self._lose(now, message, "TimeoutError")

    def _after_its_end(self, now: float) -> Iterator[Record]:
        code = self.child.exitcode
        assert code is not None
        if not self.begun:
            self.false_starts += 1
            if self.false_starts >= STARTS:
                raise HarnessError(die_at_once(code))
            self.child.end()
            self.begin(now)
            return
        memory = ", perhaps for lack of memory; try --jobs 1" if code in (-9, 255) else ""
        yield from self._lose(now, f"the worker process died: {how_it_ended(code)}{memory}", "ProcessDied")

    def _lose(self, now: float, message: str, kind: str, raised: str = "") -> Iterator[Record]:
        """End the process; the cell that it was measuring fails, or all that are left if it was measuring none. Another
        process writes that, and measures the rest; where there was nothing else to do for it, this one writes."""
        self.child.end()
        yield from self._found()
        if self.lost.keys() >= self.left.keys():
            yield from self._write_lost()
            return
        if self.measuring and self.measuring not in self.left:
            pass  # it got on, and could not say so
        elif self.retries:
            self.retries -= 1
        else:
            lost = [self.measuring] if self.measuring in self.left else list(self.left)
            self.lost |= dict.fromkeys(lost, Failure(type=kind, message=message, traceback=raised))
        self.begin(now)

    def _write_lost(self) -> Iterator[Record]:
        from harness.runner import failed_records  # imports torch

        for cell in list(self.left):
            yield from failed_records(self.work, [self.left.pop(cell)], self.lost[cell])

    def _told(self, content: bytes) -> Iterator[Record]:
        """The record that the process reports as written."""
        with suppress(ValueError):
            record = Record.model_validate_json(content)
            if self.left.pop(record.id, None):
                yield record

    def _found(self) -> Iterator[Record]:
        """Records that the process wrote without reporting them."""
        for cell in list(self.left):
            if self._stamp(cell) not in (None, self.before[cell]) and (record := self.store.read_record(cell)):
                del self.left[cell]
                yield record

    def _stamp(self, cell: str) -> tuple[int, int] | None:
        """Changes when a record of the cell is written."""
        return file_stamp(self.store.records / f"{cell}.json")


def _ahead() -> None:
    """In the new process, which may have to wait for its trial: what each trial needs, so that it is found and its
    pages of memory are the process's own."""
    import torch

    from harness.isolation import one_trial
    from harness.registry import default_registry

    default_registry()
    with one_trial(torch.device("cpu"), 1):
        pass


def _run(say: Say, work: Work, lost: dict[str, Failure], memory: float | None) -> None:
    """In the new process: write what is lost, and run the rest."""
    from harness.runner import failed_records, run_trial
    from harness.traces import threads

    last = 0.0
    looking, others, limits = "", threads(), _limits()

    def begins(cell: Cell) -> None:
        nonlocal looking, others, limits
        looking, others, limits = cell.id, threads(), _limits()
        say("measuring", cell.id)

    def share(done: float) -> None:
        nonlocal last
        if (now := time.monotonic()) - last > SHARE_EVERY:
            last = now
            say("share", done)

    rest = sorted((cell for cell in work.planned.cells if cell.id not in lost), key=_foreign)
    ahead = {cell.id: cell for cell in rest}
    try:
        for cell in work.planned.cells:
            if cell.id in lost:
                (record,) = failed_records(work, [cell], lost[cell.id])
                say("written", record.as_json())
        if rest:
            if memory is not None:
                _limit(memory)
            work = replace(work, planned=replace(work.planned, cells=rest))
            for record in run_trial(work, share, begins):
                say("written", record.as_json())
                cell = ahead.pop(record.id)
                if not ahead or cell.id != looking:
                    continue
                # a probe's threads go on, and draw random numbers, or it has taken away what others need
                if _alone(cell, ahead.values()) or threads() - others or _limits() != limits:
                    say("again")
                    os._exit(0)  # at once: what would be put back, the probe may have broken
    except StoreError as error:
        full = getattr(error.__cause__, "errno", None) in OF_THE_DISK
        say("full" if full else "raised", str(error))


def _foreign(cell: Cell) -> bool:
    """Whether its probe is not built in."""
    return cell.probe.distribution != OURS


def _alone(cell: Cell, ahead: Collection[Cell]) -> bool:
    """Whether what comes after a cell needs another process, whatever the cell did: that costs a tenth of a second, or
    seconds where an accelerator wakes up or weights are loaded. There only training does."""
    quick = cell.trial.device == "cpu" and not cell.trial.pretrained
    return _foreign(cell) and (quick or all(each.stage != cell.stage for each in ahead))


def _limits() -> list[Any]:
    """What the system lets this process take of everything."""
    try:
        import resource
    except ImportError:  # Windows
        return []
    return [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]


def _limit(memory: float) -> None:
    """Hold this process, and each that it starts, to so many GiB of memory of their own; an allocation beyond raises
    an error, which fails a cell as any other does. Memory of an accelerator does not count."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limit = int(memory * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
