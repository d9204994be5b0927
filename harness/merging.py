"""Run directories of several machines become one."""

import glob
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge as in_order
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from harness.errors import RequestError
from harness.files import opened, read_file, replacing, write_atomic
from harness.packed import DamagedError
from harness.schema import Record
from harness.sharding import remember, remembered
from harness.store import CONFLICTS, RunDirectory
from harness.suites import Suite


class Conflict(NamedTuple):
    """A cell that was measured twice, with different outcomes."""

    record: str
    """The cell's id."""
    trial: str
    """Its trial's."""
    what: str
    """Which cell, in words."""
    runs: tuple[Path, ...]
    """Where the different outcomes are."""
    difference: str
    """The first difference between the first two."""


@dataclass
class Merged:
    """What became of a merge."""

    records: int = 0
    """Records in the merged directory."""
    conflicts: list[Conflict] = field(default_factory=list)
    """Cells of which the merged directory has no record, but every outcome in its folder `conflicts`."""
    recovered: dict[tuple[Path, Path], int] = field(default_factory=dict)
    """By run where cells failed and run whose outcome was taken: how many."""
    unreadable: list[str] = field(default_factory=list)
    """What could not be read, a sentence each."""


class _Candidate(NamedTuple):
    cell: str
    run: Path
    record: Record
    open: bool
    """Whether it is one of several outcomes, and not the record of its run."""


def merge(
    runs: Sequence[Path], out: Path, *, prefer: Path | None = None, checkpoints: bool = True, pack: bool = False
) -> Merged:
    """Copy the records, learning curves and checkpoints of several runs into one directory.

    A cell that several runs have is kept once if they agree, whenever and wherever each was measured. Where one failed
    and another did not, the other counts. Where outcomes differ, no record is kept: all of them go into the folder
    `conflicts`, until a merge prefers a run. What `out` has already takes part like one more run, the first; so a merge
    that was interrupted goes on, and merging again changes nothing.

    Args:
        runs: run directories; they are only read.
        out: the directory to write.
        prefer: one of the runs, whose outcome counts where others differ.
        checkpoints: whether to copy trained models.
        pack: whether to write all records into one file.

    Raises:
        RequestError: there is no run somewhere, or the runs have different suites with claims; nothing is written.
        StoreError: the directory can no longer be written.
    """
    store = RunDirectory(out)
    places = [*([out] if store.exists else []), *(run for run in runs if not _same(run, out))]
    if prefer is not None and not any(_same(run, prefer) for run in (*runs, out)):
        raise RequestError(f"{str(prefer)!r} is preferred, but is none of the runs to merge: {_listed(runs)}")
    if missing := [run for run in runs if not RunDirectory(run).exists]:
        raise RequestError(f"there is no run in {_listed(missing)}: a run directory has a folder 'records'")
    suite = _suite(places)
    if pack:
        _check_packed(store)
    store.create()
    merged = Merged()
    chosen = _writable(_chosen(places, store, prefer, merged), store, merged)
    if pack:
        store.pack(cell.record for cell in chosen)
    else:
        for cell in chosen:
            if cell.run != out or cell.open:
                store.write_record(cell.record)
    store.clear({conflict.record for conflict in merged.conflicts})
    if suite is not None:
        store.write_suite(suite)
    disputed = {conflict.trial for conflict in merged.conflicts}
    for run in places if prefer is None else [prefer, *places]:
        if not _same(run, out):
            _copy_trials(RunDirectory(run), store, checkpoints, disputed, merged.unreadable.append)
            for shard in remembered(run):
                remember(out, str(shard))
    return merged


_by_id = attrgetter("cell")


def _writable(chosen: Iterator[_Candidate], store: RunDirectory, merged: Merged) -> Iterator[_Candidate]:
    """Those of which the merged directory has no record of a later version, which would be lost. (Who reads it has
    said that there are such.)"""
    for cell in chosen:
        try:
            if cell.run != store.path:
                store.read_record(cell.cell)
        except RequestError:
            merged.records -= 1
        else:
            yield cell


def _suite(runs: Sequence[Path]) -> Suite | None:
    """The suite of all runs: the one with claims, and of several with the same claims the one with most seeds.

    Raises:
        RequestError: there are several with claims, or one cannot be read.
    """
    found = [(run, suite) for run in runs if (suite := RunDirectory(run).read_suite())]
    judged = [(run, suite) for run, suite in found if suite.claims]
    for run, suite in judged:
        first_run, first = judged[0]
        if (suite.name, suite.claims) != (first.name, first.claims):
            names = f"{first.name!r} ({first_run}) and {suite.name!r} ({run})"
            other = "have different claims" if suite.name == first.name else "are different suites with claims"
            raise RequestError(
                f"{names} {other}, and a directory keeps one suite: merge the runs of each by themselves"
            )
    return max((suite for _, suite in judged or found), key=lambda suite: suite.seeds, default=None)


def _check_packed(store: RunDirectory) -> None:
    try:
        store.packed.ids()
    except DamagedError as error:
        raise RequestError(f"nothing can be packed into {error}; merge into another directory, or delete it") from error


def _chosen(runs: Sequence[Path], store: RunDirectory, prefer: Path | None, merged: Merged) -> Iterator[_Candidate]:
    """The record of every cell that has one outcome; the others become conflicts. One cell at a time, since all records
    of many runs may not fit into memory."""
    conflicts = {path.name.split(".")[0] for path in (store.path / CONFLICTS).glob("*.json")}
    streams = [_candidates(run, merged.unreadable.append) for run in runs]
    for cell, group in groupby(in_order(*streams, key=_by_id), key=_by_id):
        outcomes = _outcomes(list(group), merged)
        preferred = [each for each in outcomes if prefer and any(_same(one.run, prefer) for one in each)]
        kept = preferred if len(preferred) == 1 else outcomes
        if len(kept) == 1:
            if cell in conflicts:
                _write_outcomes(store, cell, [])
            merged.records += 1
            yield kept[0][0]
        else:
            _write_outcomes(store, cell, [each[0].record for each in outcomes])
            merged.conflicts.append(_conflict(outcomes))


def _candidates(run: Path, warn: Callable[[str], None]) -> Iterator[_Candidate]:
    """The records of a run by id, and of cells without one the outcomes that an earlier merge could not choose from."""
    measured = (_Candidate(record.id, run, record, False) for record in RunDirectory(run).read_records(warn))
    paths = sorted((run / CONFLICTS).glob("*.json"), key=lambda path: (len(path.name), path.name))
    outcomes = [_Candidate(record.id, run, record, True) for record in map(_read, paths) if record]
    for _, group in groupby(in_order(measured, sorted(outcomes, key=_by_id), key=_by_id), key=_by_id):
        known = list(group)
        yield from (each for each in known if each.open == known[0].open)


def _read(path: Path) -> Record | None:
    try:
        return Record.model_validate_json(read_file(path))
    except (OSError, ValidationError):
        return None


def _outcomes(candidates: list[_Candidate], merged: Merged) -> list[list[_Candidate]]:
    """The candidates by what they say, those that failed left out if there are others."""
    if len(candidates) == 1:
        return [candidates]
    failed = [each for each in candidates if each.record.status == "failed"]
    others = [each for each in candidates if each.record.status != "failed"]
    if not others:
        return [failed]
    for each in failed:
        if not _same(each.run, others[0].run):
            pair = (each.run, others[0].run)
            merged.recovered[pair] = merged.recovered.get(pair, 0) + 1
    outcomes: dict[str, list[_Candidate]] = {}
    for each in others:
        outcomes.setdefault(_numbers(each.record), []).append(each)
    return list(outcomes.values())


def _numbers(record: Record) -> str:
    """All that two measurements of a cell must agree in, as text, in which NaN equals itself: not where, when and how
    fast it was measured."""
    content = record.model_dump_json(include={"status", "measurements", "data"})
    return content + (record.trained.model_dump_json(exclude={"seconds"}) if record.trained else "")


def _write_outcomes(store: RunDirectory, cell: str, outcomes: Sequence[Record]) -> None:
    """Keep these outcomes of a cell beside the records, and no others."""
    folder = store.path / CONFLICTS
    if outcomes:
        folder.mkdir(exist_ok=True)
    for number, record in enumerate(outcomes, 1):
        write_atomic(folder / f"{cell}.{number}.json", record.as_json())
    for path in folder.glob(f"{glob.escape(cell)}.*.json") if folder.exists() else ():
        if int(path.name.split(".")[-2]) > len(outcomes):
            path.unlink()


def _conflict(outcomes: list[list[_Candidate]]) -> Conflict:
    first, second = (each[0].record for each in outcomes[:2])
    uses = f"{first.model.called} on {first.task.called}, {first.probe.called} ({first.stage}), seed {first.seed}"
    runs = tuple(dict.fromkeys(one.run for each in outcomes for one in each))
    return Conflict(first.id, first.trial, uses, runs, _difference(first, second))


def _difference(one: Record, other: Record) -> str:
    if one.status != other.status:
        return f"{one.status}, and {other.status}"
    for a, b in zip(one.measurements, other.measurements, strict=False):
        for x, y in zip(a.points(), b.points(), strict=False):
            if repr(x.value) != repr(y.value):
                return f"{a.name}: {x.value!r}, and {y.value!r}"
    return "they agree in their numbers, but not in how they were trained or on which data they were measured"


def _copy_trials(
    source: RunDirectory, store: RunDirectory, checkpoints: bool, disputed: set[str], warn: Callable[[str], None]
) -> None:
    """Copy learning curves, each with the checkpoint of the same run; those of conflicts are left out, so that what is
    measured later is measured on a model of its own; and so is what cannot be read."""
    damaged: list[str] = []
    for path in sorted(source.trials.glob("*.json")):
        curve, checkpoint = store.trials / path.name, store.checkpoint(path.stem)
        copied = source.checkpoint(path.stem)
        wanted = checkpoints and copied.exists() and not checkpoint.exists()
        if path.stem in disputed or (curve.exists() and not wanted):
            continue
        found = [(copied, checkpoint), (path, curve)] if wanted else [(path, curve)]
        try:
            for old, _ in found:
                with opened(old):
                    pass
        except OSError as error:
            damaged.append(f"{str(old)!r}: {error.strerror or error}")
            continue
        for old, new in found:
            with replacing(new) as temporary:
                shutil.copyfile(old, temporary)
    if damaged:
        more = f", and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        warn(f"a trained model cannot be read and is left out: {damaged[0]}{more}.")


def _same(run: Path, other: Path) -> bool:
    return run.resolve() == other.resolve()


def _listed(runs: Sequence[Path]) -> str:
    return ", ".join(repr(str(run)) for run in runs)
