"""Making a table fit: wrap cells, thin out columns of numbers, split what is still too wide."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

GAP = 2
"""Blanks between two columns."""


@dataclass(frozen=True)
class Column:
    """A column of text, and what may be done to it.

    Args:
        header: its title.
        cells: its content, row by row.
        role: `label` comes first and is repeated if the table is split, `text` and `number` make up the table,
            `shape` (a sparkline) comes last and is always kept.
        thin: whether it may be left out among its like, as one place of many on a curve.
    """

    header: str
    cells: list[str]
    role: Literal["label", "text", "number", "shape"] = "number"
    thin: bool = False

    @property
    def width(self) -> int:
        """Characters of the widest line."""
        return max(len(line) for text in (self.header, *self.cells) for line in text.split("\n"))


def fit(columns: Sequence[Column], width: int, *, wrap: bool = True) -> tuple[list[list[Column]], list[str]]:
    """The table as one or more tables of at most `width` characters, and notes on what was left out.

    Args:
        columns: the table.
        width: the characters there are.
        wrap: whether cells may have several lines: of a third of the width, or what is left for text at the end.
    """
    if wrap:
        columns = [_wrap(column, max(20, width // 3)) for column in columns[:-1]] + list(columns[-1:])
        if columns[-1].role == "text":
            columns[-1] = _wrap(columns[-1], max(20, width - _width(columns[:-1]) - GAP))
    notes = []
    places = [column for column in columns if column.thin]
    if _width(columns) > width and len(places) > 2:
        room = width - _width([c for c in columns if not c.thin])
        keep = max(2, min(len(places), room // (max(c.width for c in places) + GAP)))
        chosen = {id(places[round(i * (len(places) - 1) / (keep - 1))]) for i in range(keep)}
        columns = [c for c in columns if not c.thin or id(c) in chosen]
        if keep < len(places):
            notes.append(f"{keep} of {len(places)} columns shown; all of them: --format csv")
    fixed = [c for c in columns if c.role == "label"]
    last = [c for c in columns if c.role == "shape"]
    parts: list[list[Column]] = [[]]
    for column in columns:
        if column.role in ("label", "shape"):
            continue
        if parts[-1] and _width([*fixed, *parts[-1], column, *last]) > width:
            parts.append([])
        parts[-1].append(column)
    return [[*fixed, *part, *last] for part in parts], notes


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


def _wrap(column: Column, limit: int) -> Column:
    if column.role == "shape":
        return column
    cells = [break_lines(cell, limit) for cell in column.cells]
    widest = max((len(line) for cell in cells for line in cell.split("\n")), default=0)
    return replace(column, cells=cells, header=break_lines(column.header, max(12, widest)))


def break_lines(text: str, limit: int) -> str:
    """Lines of at most `limit` characters, broken after blanks and commas; a longer word stays whole."""
    lines = []
    for line in text.split("\n"):
        lines.append("")
        for piece in re.findall(r"[^\s,]*(?:,\s*|\s+|$)", line):
            if lines[-1] and len((lines[-1] + piece).rstrip()) > limit:
                lines.append("")
            lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)
