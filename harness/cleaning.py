"""What a run directory holds by kind, and freeing what nothing needs any more."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from harness.errors import RequestError
from harness.files import delete, remove_temporary, temporaries
from harness.matching import matches
from harness.schema import Record
from harness.seeds import Identity, identity
from harness.sharding import SHARDS
from harness.store import CONFLICTS, RunDirectory
from harness.suites import Suite

MEANING = {
    "records": "what was measured, the suite, and what shards and merges have noted",
    "learning-curves": "how training went",
    "needed": "trained models, and trainings kept on the way, with which cells are still to be measured",
    "checkpoints": "trained models that no cell needs any more; another probe would train them again",
    "partial": "trainings kept on the way, which are finished by now",
    "temporary": "what runs that were killed were writing; also what runs on other machines are writing now",
    "set-aside": "files that were damaged, under another name",
    "other": "files that no run has written",
}
"""Every kind of file in a run directory, with what it is."""

REMOVABLE = ("checkpoints", "partial", "temporary", "set-aside")
"""Kinds without which every report stays as it is, and a run goes on where it was."""


class Held(NamedTuple):
    """Files of one kind."""

    paths: list[Path]
    size: int
    """In bytes."""


def contents(run: Path) -> dict[str, Held]:
    """What a run directory holds, by kind (`MEANING`).

    Raises:
        RequestError: there is no run.
    """
    store = RunDirectory(run)
    trials = _Trials(store)
    paths: dict[str, list[Path]] = {kind: [] for kind in MEANING}
    writing = {path for folder in store.folders if folder.is_dir() for path in temporaries(folder)}
    for folder in store.folders:
        for path in sorted(folder.iterdir() if folder.is_dir() else ()):
            if path not in store.folders:
                paths["temporary" if path in writing else _kind(store, path, trials)].append(path)
    return {kind: Held(found, sum(map(_size, found))) for kind, found in paths.items()}


def remove(run: Path, kinds: Collection[str]) -> dict[str, Held]:
    """Delete all files of some kinds (of `REMOVABLE`), except what a run on this machine is writing; what was deleted.

    Raises:
        RequestError: there is no run, a kind is none of these, or a file cannot be deleted.
    """
    if wrong := [kind for kind in kinds if kind not in REMOVABLE]:
        raise RequestError(f"{wrong[0]!r} cannot be removed; choose from {', '.join(REMOVABLE)}")
    removed = {}
    for kind, held in contents(run).items():
        if kind in kinds:
            sizes = [(path, _size(path)) for path in held.paths]
            gone = [(path, size) for path, size in sizes if _removed(path, kind)]
            removed[kind] = Held([path for path, _ in gone], sum(size for _, size in gone))
    return removed


def _removed(path: Path, kind: str) -> bool:
    if kind == "temporary":
        return remove_temporary(path)
    try:
        delete(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RequestError(f"cannot delete {str(path)!r}: {error.strerror}; delete it by hand") from error
    return True


def _size(path: Path) -> int:
    every = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
    return sum(each.lstat().st_size for each in every if each.is_symlink() or each.is_file())


class _Trials:
    """What the records of a run say of its trials."""

    def __init__(self, store: RunDirectory) -> None:
        self.records: dict[str, list[Record]] = {}
        for record in store.read_records(lambda message: None):
            self.records.setdefault(record.trial, []).append(record)
        self.suite = _suite(store)
        self.measured: dict[object, set[object]] = {}
        for records in self.records.values():
            self.measured.setdefault(_without_seed(records[0]), set()).update(map(_cell, records))

    def unfinished(self, trial: str) -> bool:
        """Whether the same request would go on with this trial: nothing was measured after training, something failed,
        or is not measured that was so for another seed, or that the suite asks for. (What options of the command line
        added to a suite is not known.)"""
        records = self.records.get(trial, [])
        if not any(record.stage == "trained" for record in records) or any(r.status == "failed" for r in records):
            return True
        if self.measured[_without_seed(records[0])] - set(map(_cell, records)):
            return True
        return any(
            not any(matches(probe.bare, record.probe) for record in records)
            for experiment in (self.suite.experiments if self.suite else ())
            if any(matches(model.bare, records[0].model) for model in experiment.models)
            if any(matches(task.bare, records[0].task) for task in experiment.tasks)
            for probe in experiment.probes
        )


def _suite(store: RunDirectory) -> Suite | None:
    try:
        return store.read_suite()
    except RequestError:
        return None


def _without_seed(record: Record) -> tuple[Identity, str, Identity, str, str, str]:
    model, task, training = record.model, record.task, record.training.model_dump_json()
    return identity(model), model.digest, identity(task), task.digest, training, record.device


def _cell(record: Record) -> tuple[Identity, str, str, int]:
    return identity(record.probe), record.probe.digest, record.stage, record.examples


def _kind(store: RunDirectory, path: Path, trials: _Trials) -> str:
    if re.search(r"\.damaged\d*$", path.name):
        return "set-aside"
    measured = (store.path / "suite.json", store.packed.path, store.path / SHARDS, store.path / CONFLICTS)
    if (path.parent == store.records and path.suffix == ".json") or path in measured:
        return "records"
    if path.parent == store.trials and path.suffix == ".json":
        return "learning-curves"
    trial = path.name.partition(".")[0]
    if path == store.checkpoint(trial):
        return "needed" if trials.unfinished(trial) else "checkpoints"
    if path.parent == store.checkpoints and path.name.startswith(f"{trial}.partial"):
        return "needed" if trials.unfinished(trial) and store.read_trained(trial) is None else "partial"
    return "other"
