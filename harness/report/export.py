"""Records for programs: long rows, CSV and JSON."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.errors import describe
from harness.labels import aliases, full_labels
from harness.safe import spreadsheet
from harness.schema import PluginUse, Record, Training
from harness.seeds import Identity, current, identity, of_newest_code
from harness.vocabulary import CROSSED

COLUMNS = (
    "model",
    "task",
    "probe",
    "stage",
    "seed",
    "status",
    "measurement",
    "kind",
    "x",
    "row",
    "column",
    "value",
    "standard_error",
    "unit",
    "verdict",
    "inside",
    "parameters",
    "baseline",
    "pretrained",
    *(f"training.{name}" for name in Training.model_fields),
    "trained.steps",
    "validation_loss",
    "examples",
    "device",
    "machine",
    "threads",
    "torch",
    "trial",
    "record",
    "warnings",
    "message",
    "older_code",
)
"""Of every row, in this order; what a row does not have is None (empty in CSV). `standard_error` is over the examples
of that seed; `training.` are all settings, defaults too, and empty for a pretrained model; `trained.steps` were taken;
`machine` is the processor (or the accelerator) that measured; `older_code` is whether the code of the model or task was
edited since, so that reports compare it with nothing."""

NOT_WRITTEN = "this record could not be written"


def rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """One dictionary for each number of each seed, ready for a data frame.

    Superseded records are left out; plugins are named by their alias or in full. A skipped or failed record, or one
    without measurements, is one row without a value, with the reason in `message`.
    """
    return list(iterate(records))


def iterate(records: Iterable[Record], written: Callable[[str], str] = str) -> Iterator[dict[str, Any]]:
    """`rows`, one at a time, with texts as they are to be written."""
    kept, _ = current(records)
    older = {id(record) for record in of_newest_code(kept)[1]}
    called = {kind: _names(getattr(record, kind) for record in kept) for kind in CROSSED}
    for record in kept:
        own = {kind: found[identity(getattr(record, kind))] for kind, found in called.items()}
        about = {"stage": record.stage, "seed": record.seed, "status": record.status, "older_code": id(record) in older}
        cell = dict.fromkeys(COLUMNS) | own | about
        try:
            yield from _rows(record, cell, written)
        except Exception as error:  # the others are still to come
            yield _each(cell | {"record": record.id, "message": f"{NOT_WRITTEN}: {describe(error)}"}, written)


def _names(uses: Iterable[PluginUse]) -> dict[Identity, str]:
    """For programs, which have room: by alias, or else in full."""
    uses = list(uses)
    return full_labels(uses) | aliases(uses)


def _each(cells: dict[str, Any], written: Callable[[str], str]) -> dict[str, Any]:
    return {name: written(cell) if isinstance(cell, str) else cell for name, cell in cells.items()}


def _rows(record: Record, cell: dict[str, Any], written: Callable[[str], str]) -> Iterator[dict[str, Any]]:
    """The rows of a record, from the names of its plugins."""
    error = record.error
    cell = cell | {
        "parameters": record.model.parameters,
        "baseline": record.model.baseline,
        "pretrained": record.pretrained,
        "examples": record.examples,
        "device": record.device,
        "machine": record.provenance.device,
        "threads": record.provenance.threads,
        "torch": record.provenance.torch,
        "trial": record.trial,
        "record": record.id,
        "warnings": "; ".join(record.warnings) or None,
        "message": record.reason if error is None else f"{error.type}: {error.message}",
    }
    if not record.pretrained:
        cell |= {f"training.{name}": value for name, value in record.training.model_dump().items()}
    if record.trained is not None:
        cell |= {"trained.steps": record.trained.steps, "validation_loss": record.trained.validation_loss}
    cell = _each(cell, written)
    if not record.measurements:
        yield cell
    for measurement in record.measurements:
        what = {"measurement": measurement.name, "kind": measurement.kind, "unit": measurement.unit}
        common = cell | _each(what, written)
        for entry in measurement.points():
            own = entry._asdict()
            yield common | (_each(own, written) if str in map(type, entry) else own)


def to_csv(records: Iterable[Record]) -> str:
    """The rows as CSV with a header, each in one line; numbers in full precision, `nan` and `inf` where they are. Text
    is made safe for terminals and spreadsheets."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(row.values() for row in iterate(records, spreadsheet))
    return text.getvalue()


def table_csv(table: Sequence[Mapping[str, Any]]) -> str:
    """Rows of the same names as CSV, with text that is safe for terminals and spreadsheets."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table[0])
    writer.writerows([spreadsheet(v) if isinstance(v, str) else v for v in row.values()] for row in table)
    return text.getvalue()


def table_json(table: Sequence[Mapping[str, Any]]) -> str:
    """Rows as one JSON array, a row a line."""
    return "[\n" + ",\n".join(json.dumps(plain(dict(row))) for row in table) + "\n]\n"


def to_json(records: Iterable[Record]) -> str:
    """All records as one JSON array, a record a line; NaN and infinity as strings, as on disk."""
    return "[\n" + ",\n".join(map(_json, records)) + "\n]\n"


def _json(record: Record) -> str:
    try:
        return record.model_dump_json()
    except Exception:  # of half a character (a lone surrogate), which only Python's own JSON can escape
        try:
            return json.dumps(plain(record.model_dump(mode="json")))
        except Exception as error:  # the others are still to come
            return json.dumps({"id": record.id, "message": f"{NOT_WRITTEN}: {describe(error)}"})


def plain(value: Any) -> Any:
    """With NaN and infinity as strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return NOT_FINITE[str(value)]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [*map(plain, value)] if isinstance(value, list | tuple) else value


NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
