"""A comparison for programs: CSV with a row for each number, JSON with everything."""

import csv
import io
import json
from typing import Any

from harness.comparing.comparison import Comparison
from harness.comparing.differences import Difference
from harness.report.export import plain
from harness.safe import spreadsheet

COLUMNS = (
    *("model", "task", "probe", "stage", "way", "measurement", "kind", "unit", "x", "row", "column", "inside"),
    *("headline", "seeds", "a", "b", "difference", "lowest", "highest", "up", "down", "level", "verdict", "why"),
)
"""Of every row: what it is; the seeds in common; the medians of both runs; median and range of the paired differences
B - A; in how many seeds B is higher, lower, the same; the verdict, and why there is none."""


def row(each: Difference) -> dict[str, Any]:
    """A difference as one dictionary."""
    up, down, level = each.ways
    return {
        **each.cell._asdict(),
        "measurement": each.measurement,
        "kind": each.of.kind,
        "unit": each.unit,
        "x": each.place.x,
        "row": each.place.row,
        "column": each.place.column,
        "inside": each.inside,
        "headline": each.of.headline,
        "seeds": len(each.seeds),
        "a": each.median_a,
        "b": each.median_b,
        "difference": each.summary.median,
        "lowest": each.summary.minimum,
        "highest": each.summary.maximum,
        "up": up,
        "down": down,
        "level": level,
        "verdict": each.verdict,
        "why": each.why if each.verdict in ("undecided", "not comparable") else "",
    }


def to_csv(comparison: Comparison) -> str:
    """Numbers in full precision; text is made safe for terminals and spreadsheets."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for each in map(row, comparison.rows):
        writer.writerow({name: spreadsheet(cell) if isinstance(cell, str) else cell for name, cell in each.items()})
    return text.getvalue()


def to_json(comparison: Comparison) -> str:
    """Runs, changes, rows with the numbers of every seed, what is in one run only, and what could not be measured."""
    content = {
        "a": str(comparison.a.out),
        "b": str(comparison.b.out),
        "changes": [each._asdict() for each in comparison.changes],
        "rows": [
            row(each) | {"seeds": each.seeds, "a_by_seed": each.a, "b_by_seed": each.b, "differences": each.differences}
            for each in comparison.rows
        ],
        **{
            name: [each.cell._asdict() | {"seeds": each.seeds, "lacks": each.lacks} for each in lone]
            for name, lone in (("only_a", comparison.only_a), ("only_b", comparison.only_b))
        },
        "outcomes": [
            each.cell._asdict() | {"seeds": each.seeds, "a": each.a, "b": each.b} for each in comparison.outcomes
        ],
    }
    return json.dumps(plain(content), indent=1) + "\n"
