"""Two runs side by side, made of records that are in no folder, or stored in one."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import harness
from harness.comparing import Comparison
from harness.measurements import Scalar
from harness.results import Results
from harness.schema import Record
from harness.store import RunDirectory

LEVELS = {"chance": 0.125, "best": 1.0}


def run(records: Iterable[Record], name: str = "a") -> Results:
    """A run of these records, which is in no folder."""
    return Results(tuple(records), Path(name))


def compared(a: Iterable[Record], b: Iterable[Record], **more: Any) -> Comparison:
    return harness.compare(run(a, "a"), run(b, "b"), **more)


def score(value: float, error: float | None = None, **more: Any) -> Scalar:
    return Scalar(name="score", unit="share", value=value, standard_error=error, headline=True, **more)


def stored(folder: Path, records: Iterable[Record], *, pack: bool = False) -> Path:
    """A run directory of these records."""
    store = RunDirectory(folder)
    store.create()
    for index, each in enumerate(records):
        store.write_record(each.model_copy(update={"id": f"{index:016}"}))
    if pack:
        store.pack(list(store.read_records()))
    return folder
