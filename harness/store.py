"""The run directory: one file per record, written whole or not at all."""

import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from heapq import merge
from operator import itemgetter
from pathlib import Path

from pydantic import ValidationError

from harness.errors import RequestError, StoreError
from harness.packed import DamagedError, Packed
from harness.schema import Record, Trained
from harness.suites import Suite

CONFLICTS = "conflicts"
"""The folder of a merged run with the outcomes of cells that have several, `<cell>.<number>.json`."""


def _refuse(message: str) -> None:
    raise RequestError(message)


class RunDirectory:
    """`RUN/records/<cell>.json`, `RUN/trials/<trial>.json` (learning curves), `RUN/checkpoints/<trial>.safetensors` and
    `RUN/suite.json`; perhaps `RUN/records.sqlite`, which has many records in one file. One with a file of its own wins.
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
        return self.records.is_dir() or self.packed.path.exists()

    def create(self) -> None:
        """Make the folders and check that files can be written.

        Raises:
            RequestError: the directory cannot be made or written.
        """
        try:
            for folder in (self.records, self.trials, self.checkpoints):
                folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.records):
                pass
        except OSError as error:
            raise RequestError(
                f"cannot write to the run directory {str(self.path)!r}: {error.strerror}; choose another (--out, or "
                "out= in Python)"
            ) from error

    def write_suite(self, suite: Suite) -> None:
        """Keep what was asked for, so that reports can judge its claims."""
        write_atomic(self.path / "suite.json", suite.model_dump_json(indent=1).encode())

    def read_suite(self) -> Suite | None:
        """The suite last run into this directory, if there is one."""
        path = self.path / "suite.json"
        if not path.exists():
            return None
        try:
            return Suite.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise RequestError(f"the suite {str(path)!r} cannot be read; delete it and run the suite again") from error

    def write_record(self, record: Record) -> None:
        """Write a record so that after any crash the file is there as a whole, or not at all."""
        write_atomic(self.records / f"{record.id}.json", record.model_dump_json(indent=1).encode())

    def read_record(self, cell_id: str) -> Record | None:
        """The record of a cell; None if there is none, or if the file is damaged (the cell then runs again)."""
        with suppress(OSError, ValidationError):
            return Record.model_validate_json((self.records / f"{cell_id}.json").read_bytes())
        with suppress(DamagedError, ValidationError):
            content = self.packed.read(cell_id)
            return None if content is None else Record.model_validate_json(content)
        return None

    def read_records(self, tell: Callable[[str], None] = _refuse) -> Iterator[Record]:
        """Every record that can be read, by id.

        Args:
            tell: called once, after the last record, if some cannot be read: how many, which one first, what to do.

        Raises:
            RequestError: there is no run here; or, unless `tell` is given, some records cannot be read.
        """
        if not self.exists:
            raise RequestError(f"there is no run in {str(self.path)!r}: it has no folder 'records'")
        unreadable: dict[str, str] = {}
        damaged: list[str] = []
        read, last = 0, None
        for cell_id, place, content in merge(self._loose(), self._packed(damaged), key=itemgetter(0)):
            if cell_id == last:
                continue
            try:
                record = Record.model_validate_json(content if isinstance(content, bytes) else content.read_bytes())
            except (OSError, ValidationError) as error:
                unreadable[cell_id] = f"{place!r}: {_problem(error)}"
            else:
                unreadable.pop(cell_id, None)  # its file is damaged, and it is packed as well
                read, last = read + 1, cell_id
                yield record
        if unreadable:
            damaged.append(
                f"{len(unreadable)} of {read + len(unreadable)} record files cannot be read and are left out, the "
                f"first one {next(iter(unreadable.values()))}. Run the same command again to measure what is missing, "
                "or delete the files."
            )
        if damaged:
            tell(" ".join(damaged))

    def _loose(self) -> Iterator[tuple[str, str, Path | bytes]]:
        paths = sorted(self.records.glob("*.json"), key=lambda path: path.stem)
        return ((path.stem, str(path), path) for path in paths)

    def _packed(self, damaged: list[str]) -> Iterator[tuple[str, str, Path | bytes]]:
        try:
            for cell_id, content in self.packed.read_all():
                yield cell_id, f"{self.packed.path}, {cell_id}", content
        except DamagedError as error:
            damaged.append(
                f"The packed records cannot be read, or not all of them: {error}. Put a copy in its place or merge "
                "again (harness merge --pack); or delete the file, and the same command measures what is missing."
            )

    def pack(self, records: Iterable[Record]) -> None:
        """Put records into the one file, beside those that are there, instead of files of their own.

        Raises:
            StoreError: it cannot be written; nothing has changed.
        """
        with replaced(self.packed.path) as temporary:
            self.packed.add(records, temporary)
        packed = set(self.packed.ids())
        for path in self.records.glob("*.json"):
            if path.stem in packed:
                path.unlink()

    def clear(self, ids: Collection[str]) -> None:
        """Delete the records of these cells, the learning curves and checkpoints of these trials, and what a run that
        was killed left of them; nothing else.

        Raises:
            RequestError: records that are packed cannot be deleted, since their file is damaged.
        """
        try:
            if not set(ids).isdisjoint(self.packed.ids()):
                with replaced(self.packed.path) as temporary:
                    self.packed.remove(ids, temporary)
        except DamagedError as error:
            raise RequestError(f"nothing can be deleted from {error}; run into another directory (--out)") from error
        for folder in (self.records, self.trials, self.checkpoints):
            for path in folder.iterdir():
                match = re.fullmatch(r"\.?([0-9a-f]{16})\.(json|safetensors)(\..*\.tmp)?", path.name)
                if match and match[1] in ids:
                    path.unlink()

    def checkpoint(self, trial_id: str) -> Path:
        """Where the trained parameters of a trial are kept."""
        return self.checkpoints / f"{trial_id}.safetensors"

    def write_trained(self, trial_id: str, trained: Trained, curve: list[dict[str, float]]) -> None:
        """Mark a trial as trained, with its learning curve; written after the checkpoint."""
        content = {"trained": trained.model_dump(mode="json"), "learning_curve": curve}
        write_atomic(self.trials / f"{trial_id}.json", json.dumps(content, indent=1).encode())

    def read_trained(self, trial_id: str) -> Trained | None:
        """How a trial's training went, if it is finished and its checkpoint is there."""
        path = self.trials / f"{trial_id}.json"
        if not path.exists() or not self.checkpoint(trial_id).exists():
            return None
        try:
            return Trained.model_validate(json.loads(path.read_bytes())["trained"])
        except (ValueError, KeyError):
            return None


def _problem(error: OSError | ValidationError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that readers see the old content or the new one, never part of it, even after a power cut."""
    with replaced(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A temporary file to write to, which takes the place of `path` in one step once it is safely on disk.

    Raises:
        StoreError: it cannot be written.
    """
    temporary = path
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise StoreError(
            f"cannot write {str(path)!r}: {error.strerror or error}; what was written before is kept, and the same "
            "command goes on from there"
        ) from error
    finally:
        if temporary != path:
            with suppress(OSError):
                temporary.unlink()
