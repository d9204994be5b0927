"""Many records in one file: `RUN/records.sqlite`, as `harness merge --pack` writes it.

A file system takes 4 KiB and an inode for each record that is a file, and all of them are opened to find those of one
model. Here a record is a row, `id` and `content` (its JSON), and what reports are about is indexed. The file is never
changed: whatever is added or deleted makes a new one, which takes its place in one step. So readers need no locks,
which network file systems may not have, and a crash leaves the old file or the new one.
"""

import shutil
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from harness.narrowing import Narrowing
from harness.schema import Record

COLUMNS = ("model", "task", "probe", "stage", "seed", "status")
"""What of a record is indexed, beside its id; plugins by their labels."""

SCHEMA = f"""
CREATE TABLE IF NOT EXISTS records (id TEXT PRIMARY KEY, {", ".join(COLUMNS)}, content TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS by_column ON records ({", ".join(COLUMNS)});
"""


MOST_LABELS = 5000
"""In one query; SQLite takes 32,766 values."""


class DamagedError(Exception):
    """The file is no database, or a part of it cannot be read."""


class Packed:
    """The records of a run directory that are in one file; none where there is no such file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: tuple[object, sqlite3.Connection] | None = None
        """Which file is open, and its connection."""

    def ids(self) -> list[str]:
        """The ids of all records, in order.

        Raises:
            DamagedError: the file cannot be read.
        """
        return [_text(row[0]) for row in self._select("SELECT id FROM records ORDER BY id")]

    def read(self, cell_id: str) -> bytes | None:
        """The JSON of a record; None if there is none.

        Raises:
            DamagedError: the file cannot be read.
        """
        found = [content for _, content in self._contents("WHERE id = ?", cell_id)]
        return found[0] if found else None

    def read_all(self, narrowing: Narrowing | None = None) -> Iterator[tuple[str, bytes]]:
        """Every id with its record's JSON, by id; only what may be wanted, which the index finds.

        Raises:
            DamagedError: the file cannot be read, or not to its end.
        """
        conditions: list[str] = []
        labels: list[str] = []
        for kind in narrowing.words if narrowing else ():
            known = (_text(row[0]) for row in self._select(f"SELECT DISTINCT {kind} FROM records"))
            found = narrowing.labels(kind, known) if narrowing else []
            if len(found) <= MOST_LABELS:  # whoever wants more reads the rest, too, and leaves it out
                conditions.append(f"{kind} IN ({', '.join('?' * len(found))})")
                labels += found
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        yield from self._contents(f"{where}ORDER BY id", *labels)

    def add(self, records: Iterable[Record], temporary: Path) -> None:
        """Write a file with these records, in place of those of the same ids, and the others that are here.

        Args:
            records: what to add.
            temporary: the file to write, which the caller puts in place.
        """
        marks = ", ".join("?" * (len(COLUMNS) + 2))
        with self._copy(temporary) as database:
            database.executemany(f"INSERT OR REPLACE INTO records VALUES ({marks})", map(_row, records))

    def remove(self, ids: Collection[str], temporary: Path) -> None:
        """Write a file without these records; see `add`."""
        with self._copy(temporary) as database:
            database.executemany("DELETE FROM records WHERE id = ?", ((each,) for each in ids))

    @contextmanager
    def _copy(self, temporary: Path) -> Iterator[sqlite3.Connection]:
        """A copy to change.

        Raises:
            OSError: it cannot be written.
        """
        if self.path.exists():
            shutil.copyfile(self.path, temporary)
        try:
            with closing(sqlite3.connect(temporary)) as database, database:
                database.execute("PRAGMA page_size = 32768")  # a record takes most of a small one
                database.execute("PRAGMA journal_mode = OFF")  # whoever dies here leaves a temporary file
                database.execute("PRAGMA synchronous = OFF")
                database.executescript(SCHEMA)
                yield database
        except sqlite3.Error as error:
            raise OSError(str(error)) from error

    def _contents(self, condition: str, *values: str) -> Iterator[tuple[str, bytes]]:
        for cell_id, content in self._select(f"SELECT id, content FROM records {condition}", *values):
            yield _text(cell_id), content if isinstance(content, bytes) else _text(content).encode()

    def _select(self, query: str, *values: str) -> Iterator[tuple[Any, ...]]:
        if not self.path.exists():
            return
        try:
            yield from self._database().execute(query, values)
        except (sqlite3.Error, OSError) as error:
            raise DamagedError(f"{str(self.path)!r}: {error}") from error

    def _database(self) -> sqlite3.Connection:
        """A connection to the file that is there now, opened once."""
        status = self.path.stat()
        which = (status.st_ino, status.st_mtime_ns)
        if self._open is None or self._open[0] != which:
            self.close()
            self._open = which, sqlite3.connect(f"{self.path.absolute().as_uri()}?immutable=1", uri=True)
        return self._open[1]

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._open is not None:
            self._open[1].close()
        self._open = None


def _text(value: object) -> str:
    """The text of a column; "", which no record has, where a damaged file, or one that is not ours, has no text."""
    return value if isinstance(value, str) else ""


def _row(record: Record) -> tuple[object, ...]:
    uses = (record.model.label, record.task.label, record.probe.label)
    return (record.id, *uses, record.stage, record.seed, record.status, record.as_json(indent=None).decode())
