"""A plan becomes records: what is on disk already, what is left, and where that runs."""

import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from harness.claims import FirstLook
from harness.errors import PluginError, RequestError, StoreError
from harness.executors import Executor
from harness.executors.local import Local
from harness.garbage import uncollected
from harness.grids import argument_part
from harness.narrowing import Narrowing
from harness.plan import Plan, Planned
from harness.registry import default_registry
from harness.report.success import doubt
from harness.results import Results, incomplete, with_aliases
from harness.safe import visible
from harness.schema import Cell, PluginUse, Record
from harness.seeds import current, of_newest_code
from harness.sharding import remember
from harness.store import RunDirectory
from harness.suites import Suite
from harness.vocabulary import CROSSED
from harness.work import Work, git_state


class Progress(NamedTuple):
    """How far a run is."""

    trials: float
    """Trials done; one on its way counts as its share."""
    all_trials: int
    steps: float
    """Training steps done."""
    all_steps: int | None
    """None where a training is measured in epochs."""


def warned(text: str) -> None:
    """A warning of Python's, for whoever uses the harness as a library."""
    warnings.warn(visible(text), stacklevel=3)


def execute(
    plan: Plan,
    out: Path,
    *,
    fresh: bool = False,
    executor: Executor = Local(),  # noqa: B008 - it has no state
    report: Callable[[Progress], None] = lambda progress: None,
    warn: Callable[[str], None] = warned,
    failed: Callable[[Record], None] = lambda record: None,
) -> Results:
    """Run the cells of a plan that have no record yet (or a failed one); returns the records of all of them.

    Args:
        plan: what to run.
        out: the run directory.
        fresh: delete the records and trained models of this plan first; those of other plans stay.
        executor: where to run them.
        report: called now and then with how far the run is.
        warn: called with what is wrong with a claim, or with what is asked for as a success, as soon as a record shows
            it: those that are there already do so before anything is trained.
        failed: called with each record of a cell that fails, as soon as it does.

    Raises:
        PluginError: of every cell a plugin is broken; nothing is written.
        StoreError: in the end a cell has no record on disk, whatever became of it.
    """
    if plan.hopeless:
        raise PluginError(f"nothing can run: {plan.hopeless}")
    execution = Execution(plan, RunDirectory(out))
    execution.prepare(fresh)
    execution.reclaim()
    records = {**execution.measured}
    cells = {cell.id: cell for cell in plan.cells}
    look = FirstLook(plan.suite.claims, argument_part(plan.suite.grid))
    told = {""}

    def read(record: Record) -> None:
        cell = cells.get(record.id)
        for problem in look.problems(cell, record) if cell else ():
            warn(problem)
        if (problem := doubt(record, plan.suite)) not in told:
            told.add(problem)
            warn(problem)

    for record in records.values():
        read(record)
    with closing(execution.measure(executor, report)) as found:
        for record in found:
            records[record.id] = record
            read(record)
            if record.status == "failed":
                failed(record)
            default_registry().notify("harness_record_written", record=record)
    execution.store.remove_unfinished()
    _check_complete(plan, execution.store, records)
    ordered = [records[cell.id] for cell in plan.cells if cell.id in records]
    return Results(with_aliases(ordered, plan.suite), out, plan.suite, incomplete(execution.store, plan.suite, ordered))


def _check_complete(plan: Plan, store: RunDirectory, found: Mapping[str, Record]) -> None:
    """Refuse to call a run finished of which records are missing; those that somebody deleted meanwhile are written
    again."""
    kept = store.ids()
    for cell in plan.cells:
        if cell.id in found and cell.id not in kept:
            store.write_record(found[cell.id])
    lost = [cell.id for cell in plan.cells if cell.id not in found]
    if lost:
        raise StoreError(
            f"{len(lost)} of {len(plan.cells)} cells have no record in {str(store.records)!r}, the first one "
            f"{lost[0]}: their trials ended without one; the same command measures them"
        )


@dataclass(frozen=True)
class Execution:
    """A plan on its way into a run directory."""

    plan: Plan
    store: RunDirectory

    def prepare(self, fresh: bool) -> None:
        """Make the run directory ready.

        Raises:
            RequestError: it cannot be written, keeps another suite with claims, or has records of a later version.
        """
        kept = self._kept_suite()
        if not fresh:
            _ = self.measured  # records of a later version are refused before anything is written
        self.store.create()
        if fresh:
            plan = self.plan
            self.store.clear({cell.id for cell in plan.cells} | {planned.trial.id for planned in plan.trials})
        self.store.write_suite(kept or self.plan.suite)
        remember(self.store.path, self.plan.shard)

    @cached_property
    def measured(self) -> dict[str, Record]:
        """The records that are there, failed ones left out."""
        found = (self._read(cell) for cell in self.plan.cells)
        with uncollected():
            return {record.id: record for record in found if record and record.status != "failed"}

    def _read(self, cell: Cell) -> Record | None:
        """The record of a cell, with the files of its plugins where they are now: they may have been moved since it was
        written, and reports tell plugins of one name apart by their places."""
        record = self.store.read_record(cell.id)
        if record is None:
            return None
        moved: dict[str, PluginUse] = {}
        for kind, use in (("model", cell.trial.model), ("task", cell.trial.task), ("probe", cell.probe)):
            if use.file:
                then: PluginUse = getattr(record, kind)
                now = then.model_copy(update={"name": use.name, "label": use.label, "target": use.target})
                if now != then:
                    moved[kind] = now
        if moved:
            record = record.model_copy(update=moved)
            self.store.write_record(record)
        return record

    def reclaim(self) -> None:
        """Records that were there already count again where those of other sources had taken their place, or are of
        newer code of their model or task: a file was edited, run, and put back as it was."""
        if not self.measured or self.store.ids() <= {cell.id for cell in self.plan.cells}:
            return
        words = {kind: [*{getattr(r, kind).label for r in self.measured.values()}] for kind in CROSSED}
        words["model"] = [*{record.model.name for record in self.measured.values()}]  # a grid may vary its arguments
        own, _ = current(self.measured.values())
        there, _ = current(self.store.read_records(lambda unreadable: None, Narrowing(words, None)))
        counting = {record.id for record in there}
        older = {r.id for r in of_newest_code(there)[1]} - {r.id for r in of_newest_code(own)[1]}
        lost = [record for record in own if record.id not in counting or record.id in older]
        if lost:
            started = self.store.begin()
            for record in lost:
                provenance = record.provenance.model_copy(update={"started": started})
                self.measured[record.id] = record.model_copy(update={"provenance": provenance})
                self.store.write_record(self.measured[record.id])

    @property
    def unfinished(self) -> list[Planned]:
        """The trials with cells that are left to measure, and only those cells."""
        left = (
            replace(planned, cells=[cell for cell in planned.cells if cell.id not in self.measured])
            for planned in self.plan.trials
        )
        return [planned for planned in left if planned.cells]

    def measure(self, executor: Executor, report: Callable[[Progress], None]) -> Generator[Record, None, None]:
        """Run what is left; records come as soon as they are on disk."""
        unfinished = self.unfinished
        if not unfinished:
            return
        revision, dirty = git_state(Path.cwd())
        started = self.store.begin()
        works = [Work(each, self.store.path, revision=revision, dirty=dirty, started=started) for each in unfinished]
        shares = [0.0] * len(works)
        steps = [planned.trial.training.steps for planned in unfinished]
        total = None if None in steps else sum(filter(None, steps))

        def tell(index: int, share: float) -> None:
            shares[index] = max(shares[index], share)  # a late message of a finished trial changes nothing
            done = sum(share * (n or 0) for share, n in zip(shares, steps, strict=True))
            report(Progress(sum(shares), len(works), done, total))

        tell(0, 0.0)
        yield from executor(works, tell)

    def _kept_suite(self) -> Suite | None:
        """The suite that the run directory keeps, if it is another one with claims, which reports would lose.

        Raises:
            RequestError: both have claims, and a directory keeps one suite.
        """
        try:
            found = self.store.read_suite()
        except RequestError:
            return None
        if found is None or not found.claims or found.name == self.plan.suite.name:
            return None
        if self.plan.suite.claims:
            raise RequestError(
                f"{str(self.store.path)!r} holds the suite {found.name!r} with its claims; choose another directory "
                "(--out, or out= in Python)"
            )
        return found
