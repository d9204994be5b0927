"""From records to what a person or a program reads.

`render` writes tables for people (text, Markdown, LaTeX) or data for programs (CSV, JSON); `rows` is the same
long format for use in Python, one dictionary for each number of each seed.
"""

from collections.abc import Iterable
from typing import Any

from harness.errors import RequestError, did_you_mean
from harness.report.blocks import document
from harness.report.elements import Paragraph, in_safety
from harness.report.export import rows, table_csv, table_json, to_csv, to_json
from harness.report.grid_table import grid_blocks
from harness.report.learnability import cell_rows, learnability
from harness.report.sparkline import can_draw
from harness.report.writers import write
from harness.schema import Record
from harness.seeds import current
from harness.suites import Suite
from harness.vocabulary import FORMATS

__all__ = ["can_draw", "learnable", "render", "render_grid", "rows"]


def render(
    records: Iterable[Record],
    suite: Suite | None = None,
    format: str = "text",
    *,
    width: int = 100,
    ascii: bool = False,
    sections: Iterable[object] = (),
    note: str = "",
) -> str:
    """A report on records. What cannot be drawn is a line that says so, and the rest is shown; control characters and
    what a format would take for its own are escaped.

    Args:
        records: any records, in any order. Tables and CSV leave out superseded ones and JSON keeps all.
        suite: the suite they come from: its order, and the claims to judge.
        format: a `Format`: `text`, `markdown` or `latex` for people, `csv` (a row for each number) or `json`.
        width: the columns a table may take; wider ones are thinned out or split.
        ascii: draw curves without block characters, for terminals that lack them (see `can_draw`).
        sections: further `(title, text)` pairs, for example from plugins, at the end of a report for people.
        note: what to say of all records, in a report for people.

    Raises:
        RequestError: there is no such format.
    """
    if format not in FORMATS:
        raise RequestError(
            f"unknown report format {format!r}; choose from {', '.join(FORMATS)}.{did_you_mean(format, FORMATS)}"
        )
    if format == "csv":
        return to_csv(records)
    if format == "json":
        return to_json(records)
    blocks = document(list(records), suite, sections, note, ascii=ascii, compact=format == "text")
    return write(blocks, format, width)


def learnable(records: Iterable[Record], suite: Suite | None = None) -> list[dict[str, Any]]:
    """What a grid says, one dictionary for each model, task and cell; empty where nothing was varied."""
    return cell_rows(learnability(current(records)[0], suite))


def render_grid(
    records: Iterable[Record], suite: Suite | None = None, format: str = "text", *, width: int = 100, note: str = ""
) -> str:
    """What a grid says, after what is to be said of all records, and nothing else, in any `Format`; as data, a row for
    each model, task and cell.

    Raises:
        RequestError: nothing was varied.
    """
    found = learnability(current(records)[0], suite)
    if not (rows := cell_rows(found)):
        raise RequestError("these records are of one way of training; for a grid: harness run --grid lr=1e-4,1e-3,1e-2")
    if format in ("csv", "json"):
        return table_csv(rows) if format == "csv" else table_json(rows)
    return write(map(in_safety, [*([Paragraph(note)] if note else []), *grid_blocks(found)]), format, width)
