"""Making a table fit: wrap cells, thin out columns of numbers, split what is still too wide."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

GAP = 2
"""Blanks between two columns."""

NARROW = 13
"""Characters that text gets in a table that is too wide, before the table is split; `never learned` fits."""

NARROWEST = 9
"""The same of a table that has something shorter to say; `not` over `measured` fits."""

PIECES = re.compile(r"(?:[^\s,]|(?<=\d),(?=\d{3}(?!\d)))*(?:,\s*|\s+|$)")
"""What stays in one line: a word, with the comma or the blanks behind it."""

WHOLE = re.compile(r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?|\.\.|.")
"""What stays in one line where words do not: a number."""


@dataclass(frozen=True)
class Column:
    """A column of text, and what may be done to it.

    Args:
        header: its title.
        cells: its content, row by row.
        role: `label` comes first and is repeated if the table is split, `text` and `number` make up the
            table, `shape` (a sparkline) comes last and is always kept.
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


def fit(
    columns: Sequence[Column], width: int, *, wrap: bool = True, split: bool = True, narrowest: int = NARROW
) -> tuple[list[list[Column]], list[str]]:
    """The table as one or more tables of at most `width` characters, and notes on what was left out.

    Args:
        columns: the table.
        width: the characters there are.
        wrap: whether cells may have several lines; labels and numbers get a third of the width, text what is left.
        split: whether it may become several tables; otherwise it may stay too wide.
        narrowest: characters that text gets before the table is split.
    """
    whole: dict[int, Column] = {}
    if wrap:
        wrapped = [_wrap(c, narrowest if c.role == "text" else max(20, width // 3)) for c in columns]
        whole = {id(narrow): column for narrow, column in zip(wrapped, columns, strict=True)}
        columns = wrapped
    notes = []
    places = [column for column in columns if column.thin]
    if _width(columns) > width and len(places) > 2:
        columns = _thinned(columns, places, width)
        shown = sum(column.thin for column in columns)
        notes.append(f"{shown} of {len(places)} columns shown; all of them: --format csv")
    fixed = [c for c in columns if c.role == "label"]
    last = [c for c in columns if c.role == "shape"]
    parts: list[list[Column]] = [[]]
    for column in columns:
        if column.role in ("label", "shape"):
            continue
        if split and parts[-1] and _width([*fixed, *parts[-1], column, *last]) > width:
            # a verdict stays beside the number it is about
            parts.append([parts[-1].pop()] if column.role == "text" and len(parts[-1]) > 1 else [])
        parts[-1].append(column)
    tables = [_widened([*fixed, *part, *last], whole, width) for part in parts]
    return [_squeezed(table, width) for table in tables] if wrap else tables, notes


def _widened(columns: list[Column], whole: Mapping[int, Column], width: int) -> list[Column]:
    """The table with its text, so far as narrow as it may be, as wide as the page allows."""
    text = {id(column) for column in columns if column.role == "text" and id(column) in whole}
    if not text:
        return columns

    def with_text(limit: int) -> list[Column]:
        return [_wrap(whole[id(c)], limit) if id(c) in text else c for c in columns]

    limits = range(width, NARROWEST, -1)
    return next((wider for wider in map(with_text, limits) if _width(wider) <= width), columns)


def _squeezed(columns: list[Column], width: int) -> list[Column]:
    """What one column alone, beside the labels, makes too wide: without its sparkline, and then with words broken in
    two, those of the widest columns first, and no column narrower than an equal share of the page."""
    if _width(columns) <= width:
        return columns
    columns = [column for column in columns if column.role != "shape"] or columns
    fair = max(1, (width - GAP * (len(columns) - 1)) // len(columns))
    while (excess := _width(columns) - width) > 0:
        widest = max(range(len(columns)), key=lambda index: columns[index].width)
        if columns[widest].width <= fair:
            break
        columns[widest] = _cut(columns[widest], max(fair, columns[widest].width - excess))
    return columns


def _cut(column: Column, limit: int) -> Column:
    """Its cells and its header in lines of at most `limit` characters, whatever the words."""

    def cut(text: str) -> str:
        return "\n".join(part for line in break_lines(text, limit).split("\n") for part in _pieces(line, limit))

    return replace(column, header=cut(column.header), cells=[*map(cut, column.cells)])


def _pieces(line: str, limit: int) -> list[str]:
    """A line in parts of at most `limit` characters: whatever the words, but numbers that fit stay whole."""
    words = (word[at : at + limit] for word in WHOLE.findall(line) for at in range(0, len(word), limit))
    parts = [""]
    for word in words:
        if len(parts[-1] + word) > limit:
            parts.append("")
        parts[-1] += word
    return parts


def _thinned(columns: Sequence[Column], places: list[Column], width: int) -> list[Column]:
    """The table with as many places as fit, evenly spread, the first and last always among them. If not even two fit
    beside the rest, which is split then, as many as would fit without it."""
    most = (width + GAP) // (min(place.width for place in places) + GAP)

    def spread(keep: int) -> list[Column]:
        chosen = {id(places[round(i * (len(places) - 1) / (keep - 1))]) for i in range(keep)}
        return [column for column in columns if not column.thin or id(column) in chosen]

    tried = map(spread, range(min(len(places) - 1, most), 1, -1))
    found = next((table for table in tried if _width(table) <= width), None)
    return found or (spread(most) if 1 < most < len(places) else list(columns))


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


def _wrap(column: Column, limit: int) -> Column:
    """Its cells in lines of at most `limit` characters. The header becomes no narrower than its longest word, which may
    be the name by which claims call a measurement, so that there is room for its unit in one line."""
    cells = [break_lines(cell, limit) for cell in column.cells]
    widest = max((len(line) for cell in cells for line in cell.split("\n")), default=0)
    longest = max(map(len, column.header.split()), default=0)
    return replace(column, cells=cells, header=break_lines(column.header, max(12, widest, longest)))


def break_lines(text: str, limit: int) -> str:
    """Lines of at most `limit` characters, broken at blanks and after commas (but for those of thousands); longer words
    stay whole."""
    lines = []
    for line in text.split("\n"):
        lines.append("")
        for piece in PIECES.findall(line):
            if piece and lines[-1] and len((lines[-1] + piece).rstrip()) > limit:
                lines.append("")
            lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)
