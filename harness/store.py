"""The run directory: one file per record, written whole or not at all, and doubted when it is read."""

import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import merge
from operator import itemgetter
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import from_json

from harness.errors import HarnessError, RequestError
from harness.files import (
    file_stamp,
    read_file,
    remove_abandoned,
    remove_temporary,
    replacing,
    set_aside,
    sha256,
    write_atomic,
)
from harness.narrowing import Narrowing
from harness.packed import DamagedError, Packed
from harness.schema import SCHEMA_VERSION, Record, Trained
from harness.suites import Suite

CONFLICTS = "conflicts"
"""The folder of a merged run with the outcomes of cells that have several, `<cell>.<number>.json`."""


def _refuse(message: str) -> None:
    raise RequestError(message)


class _NewerError(ValueError):
    """A record of a later version."""

    def __init__(self, version: int) -> None:
        super().__init__(f"it has schema version {version}")


class RunDirectory:
    """`RUN/records/<cell>.json`, `RUN/trials/<trial>.json` (learning curves), `RUN/checkpoints/<trial>.safetensors` and
    `RUN/suite.json`; perhaps `RUN/records.sqlite`, which has many records in one file: one with a file of its own wins.
    Several runs may write into one directory. Whatever cannot be read, or is not what its name says, counts as not
    there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records = path / "records"
        self.trials = path / "trials"
        self.checkpoints = path / "checkpoints"
        self.packed = Packed(path / "records.sqlite")

    @property
    def exists(self) -> bool:
        """Whether there is a run."""
        # a Path raises if a name is too long
        return os.path.isdir(self.records) or os.path.isfile(self.packed.path)  # noqa: PTH112, PTH113

    @property
    def folders(self) -> tuple[Path, ...]:
        """All folders that runs write to."""
        return self.path, self.records, self.trials, self.checkpoints

    def create(self) -> None:
        """Make the folders, check that files can be written, and remove what runs that were killed were writing.

        Raises:
            RequestError: the directory cannot be made or written.
        """
        try:
            for folder in self.folders:
                folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.records):
                pass
            self.remove_unfinished()
        except OSError as error:
            raise RequestError(
                f"cannot write to the run directory {str(self.path)!r}: {error.strerror}; choose another (--out, or "
                "out= in Python)"
            ) from error

    def remove_unfinished(self) -> None:
        """Remove what processes that died were writing."""
        for folder in self.folders:
            remove_abandoned(folder)

    def write_suite(self, suite: Suite) -> Path | None:
        """Keep what was asked for, so that reports can judge its claims.

        Returns:
            Where a suite that cannot be read was set aside, if there was one: its claims may still be saved.

        Raises:
            StoreError: it cannot be written.
        """
        aside = None
        try:
            self.read_suite()
        except RequestError:
            with suppress(FileNotFoundError):  # another run was faster
                aside = set_aside(self._suite)
        write_atomic(self._suite, suite.as_json())
        return aside

    def read_suite(self) -> Suite | None:
        """The suite last run into this directory, if there is one.

        Raises:
            RequestError: it is damaged.
        """
        if not os.path.lexists(self._suite):
            return None
        try:
            return Suite.model_validate_json(read_file(self._suite))
        except (OSError, ValueError, HarnessError) as error:
            raise RequestError(
                f"the suite {str(self._suite)!r} cannot be read, so that its claims are not judged: {_problem(error)}. "
                "Run the suite again, and the file is set aside"
            ) from error

    def suites_set_aside(self) -> list[Path]:
        """Suites that could not be read when another one was written."""
        return sorted(self.path.glob(f"{self._suite.name}.damaged*"))

    @property
    def _suite(self) -> Path:
        return self.path / "suite.json"

    def write_record(self, record: Record) -> None:
        """Write a record so that after any crash the file is there as a whole, or not at all."""
        write_atomic(self.records / f"{record.id}.json", record.as_json())

    def read_record(self, cell_id: str) -> Record | None:
        """The record of a cell; None if there is none, or if the file is damaged (the cell then runs again).

        Raises:
            RequestError: a later version of the harness wrote it, and to measure the cell again would overwrite that.
        """
        path = f"{self.records}/{cell_id}.json"  # no Path: there may be very many
        for read in (partial(read_file, path), partial(self.packed.read, cell_id)):
            try:
                if (content := read()) is not None:
                    return _checked(content, cell_id)
            except _NewerError as error:
                raise RequestError(
                    f"{_newer(f'the record {path!r} was', error)}, choose another directory (--out, or out= in "
                    "Python), or measure it anew (--fresh, or fresh=True)"
                ) from None
            except (OSError, ValueError, DamagedError):
                continue
        return None

    def ids(self) -> set[str]:
        """The cells that have a file, or are packed; whether it can be read is another matter."""
        packed: list[str] = []
        with suppress(DamagedError):
            packed = self.packed.ids()
        return {*packed, *(name.removesuffix(".json") for name in self._record_names())}

    def read_records(
        self, warn: Callable[[str], None] = _refuse, narrowing: Narrowing | None = None
    ) -> Iterator[Record]:
        """Every record that can be read, by id.

        Args:
            narrowing: leaves out most of what is not wanted; of what is packed, the index finds the rest.
            warn: called after the last record if some cannot be read: how many, which one first, what to do; once for
                those of a later version, and once for others.

        Raises:
            RequestError: there is no run here; or, unless `warn` is given, some records cannot be read.
        """
        if not self.exists:
            raise RequestError(f"there is no run in {str(self.path)!r}: it has no folder 'records'")
        newer: dict[str, tuple[str, _NewerError]] = {}
        unreadable: dict[str, str] = {}
        damaged: list[str] = []
        read, last = 0, None
        for cell_id, place, content in merge(self._loose(), self._packed(damaged, narrowing), key=itemgetter(0)):
            if cell_id == last:
                continue
            try:
                content = content if isinstance(content, bytes) else read_file(content)
                if narrowing and not narrowing.fits(content):
                    last = cell_id
                    continue
                record = _checked(content, cell_id)
            except _NewerError as error:
                newer[cell_id] = place, error
            except (OSError, ValueError) as error:
                unreadable[cell_id] = f"{place!r}: {_problem(error)}"
            else:
                unreadable.pop(cell_id, None)  # its file is damaged, and it is packed as well
                read, last = read + 1, cell_id
                yield record
        total = read + len(newer) + len(unreadable)
        if newer:
            place, first = next(iter(newer.values()))
            warn(
                _newer(f"{len(newer)} of {total} records are left out, since they were", first)
                + f" to read them, the first one {place!r}."
            )
        if unreadable:
            damaged.append(
                f"{len(unreadable)} of {total} record files cannot be read and are left out, the first one "
                f"{next(iter(unreadable.values()))}. Run the same command again to measure what is missing, or delete "
                "the files."
            )
        if damaged:
            warn(" ".join(damaged))

    def _loose(self) -> Iterator[tuple[str, str, Path | bytes]]:
        found = sorted(self._record_names(), key=lambda name: name.removesuffix(".json"))
        return ((name.removesuffix(".json"), str(path := self.records / name), path) for name in found)

    def _packed(
        self, damaged: list[str], narrowing: Narrowing | None = None
    ) -> Iterator[tuple[str, str, Path | bytes]]:
        try:
            for cell_id, content in self.packed.read_all(narrowing):
                yield cell_id, f"{self.packed.path}, {cell_id}", content
        except DamagedError as error:
            damaged.append(
                f"The packed records cannot be read, or not all of them: {error}. Put a copy in its place or merge "
                "again (harness merge --pack); or delete the file, and the same command measures what is missing."
            )

    def _record_names(self) -> list[str]:
        if not self.records.is_dir():
            return []
        with os.scandir(self.records) as entries:
            return [entry.name for entry in entries if re.fullmatch(r"[^.].*\.json", entry.name, re.DOTALL)]

    def pack(self, records: Iterable[Record]) -> None:
        """Put records into the one file, beside those that are there, instead of files of their own.

        Raises:
            StoreError: it cannot be written; nothing has changed.
        """
        loose = {path: file_stamp(path) for path in (self.records / name for name in self._record_names())}
        with replacing(self.packed.path) as temporary:
            self.packed.add(records, temporary)
        packed = set(self.packed.ids())
        for path, stamp in loose.items():
            if path.stem in packed and file_stamp(path) == stamp:  # or a run has written it meanwhile
                path.unlink(missing_ok=True)

    def begin(self) -> datetime:
        """The time at which a run begins: now, but later than every record that is there. Clocks go wrong, and a record
        from the future would count as the newest one until then."""
        contents: Iterator[Path | bytes] = (content for _, _, content in (*self._loose(), *self._packed([])))
        return max([datetime.now(UTC), *(time for content in contents if (time := _time(content)))])

    def clear(self, ids: Collection[str]) -> None:
        """Delete the records of these cells, the learning curves, checkpoints and half-finished trainings of these
        trials, and what a run that was killed left of them; nothing else.

        Raises:
            RequestError: something cannot be deleted; of packed records, since their file is damaged.
        """
        try:
            if not set(ids).isdisjoint(self.packed.ids()):
                with replacing(self.packed.path) as temporary:
                    self.packed.remove(ids, temporary)
        except DamagedError as error:
            raise RequestError(f"nothing can be deleted from {error}; run into another directory (--out)") from error
        for folder in (self.records, self.trials, self.checkpoints):
            for path in folder.iterdir():
                match = re.fullmatch(r"\.?([0-9a-f]{16})\.(json|safetensors|partial.*?)(\..*\.tmp)?", path.name)
                if not match or match[1] not in ids:
                    continue
                if match[3]:
                    remove_temporary(path)
                    continue
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    raise RequestError(f"cannot delete {str(path)!r}: {error.strerror}; delete it by hand") from error

    def checkpoint(self, trial_id: str) -> Path:
        """Where the trained parameters of a trial are kept."""
        return self.checkpoints / f"{trial_id}.safetensors"

    def partial(self, trial_id: str) -> Path:
        """Where a training that takes long is kept on the way."""
        return self.checkpoints / f"{trial_id}.partial"

    def write_trained(self, trial_id: str, trained: Trained, curve: list[dict[str, float]]) -> None:
        """Mark a trial as trained, with its learning curve; written after the checkpoint, whose digest it keeps."""
        written = ""
        with suppress(OSError):  # deleted meanwhile: then it matches nothing
            written = sha256(self.checkpoint(trial_id))
        content = {
            "trial": trial_id,
            "checkpoint": written,
            "trained": trained.model_dump(mode="json"),
            "learning_curve": curve,
        }
        write_atomic(self.trials / f"{trial_id}.json", json.dumps(content, indent=1).encode())

    def read_trained(self, trial_id: str) -> Trained | None:
        """How a trial's training went, if it is finished and its checkpoint is there, as it was written. (Earlier
        versions wrote no digest; what they left is trusted.)"""
        checkpoint = self.checkpoint(trial_id)
        try:
            content = from_json(read_file(self.trials / f"{trial_id}.json"))
            if content.get("trial", trial_id) != trial_id or not checkpoint.is_file():
                return None
            if "checkpoint" in content and content["checkpoint"] != sha256(checkpoint):
                return None
            return Trained.model_validate(content["trained"])
        except (OSError, ValueError, KeyError, AttributeError):
            return None

    def read_learning_curve(self, trial_id: str) -> list[dict[str, float]]:
        """How the losses of a trial went, a dictionary for each validation; empty where nothing is kept."""
        try:
            curve = from_json(read_file(self.trials / f"{trial_id}.json"))["learning_curve"]
            return [{str(key): float(value) for key, value in each.items()} for each in curve]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return []


def _checked(content: bytes, cell_id: str) -> Record:
    """A record that is what it is kept as.

    Raises:
        ValueError: it is no record of that cell; or, as a `_NewerError`, one of a later version.
    """
    try:
        record = Record.model_validate_json(content)
    except ValidationError:
        if (version := _version(content)) > SCHEMA_VERSION:
            raise _NewerError(version) from None
        raise
    if record.schema_version > SCHEMA_VERSION:
        raise _NewerError(record.schema_version)
    if record.id != cell_id:
        raise ValueError(f"it is the record of {record.id!r} under another name")
    return record


def _version(content: bytes) -> int:
    try:
        version = from_json(content)["schema_version"]
    except (ValueError, KeyError, TypeError):
        return 0
    return version if isinstance(version, int) else 0


def _time(content: Path | bytes) -> datetime | None:
    """A time after all those in a record; read without the rest of it, since there may be thousands."""
    try:
        provenance = from_json(content if isinstance(content, bytes) else read_file(content))["provenance"]
        times = [provenance[name] for name in ("started", "finished") if provenance.get(name)]
        return max(datetime.fromisoformat(time).astimezone(UTC) for time in times) + timedelta(milliseconds=1)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


def _newer(subject: str, error: _NewerError) -> str:
    return (
        f"{subject} written by a later version of the harness: {error}, and this version reads {SCHEMA_VERSION} at "
        "most. Upgrade (pip install --upgrade sequence-harness)"
    )


def _problem(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}" if where else first["msg"]
    return (isinstance(error, OSError) and error.strerror) or str(error)
