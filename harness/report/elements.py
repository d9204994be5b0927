"""What a report is made of: headings, text, lists and tables, with text that is safe to show."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.errors import describe
from harness.report.layout import Column
from harness.safe import bounded, sentence, visible, visible_lines

LONGEST_CELL = 400
"""Characters of a cell, a header or a title."""


@dataclass(frozen=True)
class Heading:
    """A title."""

    text: str
    level: Literal[1, 2] = 2


@dataclass(frozen=True)
class Paragraph:
    """Running text, wrapped to the width."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list."""

    items: list[str]


@dataclass(frozen=True)
class Verbatim:
    """Text whose lines are left as they are."""

    text: str


@dataclass(frozen=True)
class Table:
    """Columns under a title, with notes below."""

    columns: list[Column]
    title: str = ""
    notes: list[str] = field(default_factory=list)
    whole: bool = False
    """Whether it must stay one table, because it is mostly prose."""
    narrow: list[Column] = field(default_factory=list)
    """The same with less in it, for where it would be too wide."""


Block = Heading | Paragraph | Items | Verbatim | Table


def drawn(draw: Callable[[], Iterable[Block]]) -> Iterator[Block]:
    """The blocks of a section, as far as they can be had; then a line with the error, if there was one."""
    try:
        yield from draw()
    except Exception as error:  # a report shows what it can
        yield not_drawn(error)


def not_drawn(error: Exception) -> Paragraph:
    """What stands in the place of what could not be drawn."""
    return Paragraph(f"this section could not be drawn: {describe(error)}")


def in_safety(block: Block) -> Block:
    """The same with every text as it may be shown: one line where it is no verbatim text, nothing that a terminal
    obeys, and cells and titles of bounded length. (Lines in cells of text are those of the report itself.)"""
    if isinstance(block, Table):
        notes = [sentence(note) for note in block.notes]
        columns, narrow = ([*map(_safe, each)] for each in (block.columns, block.narrow))
        return replace(block, columns=columns, narrow=narrow, title=_title(block.title), notes=notes)
    if isinstance(block, Items):
        return Items([*map(sentence, block.items)])
    if isinstance(block, Verbatim):
        return Verbatim(visible_lines(block.text))
    return replace(block, text=_title(block.text) if isinstance(block, Heading) else sentence(block.text))


def _title(text: str) -> str:
    return bounded(sentence(text), LONGEST_CELL)


def _safe(column: Column) -> Column:
    own_lines = {"text": "\n", "shape": "\n"}.get(column.role, "")

    def safe(text: str) -> str:
        if text.isprintable() and len(text) <= LONGEST_CELL:
            return text
        return bounded(visible(text, keep=own_lines), LONGEST_CELL)

    return replace(column, header=safe(column.header), cells=[*map(safe, column.cells)])


def in_ascii(block: Block) -> Block:
    """The same without the one sign of reports that some terminals lack. (Labels and messages are the user's own.)"""
    if isinstance(block, Table):
        columns, narrow = (
            [replace(c, cells=[*map(_plain, c.cells)]) for c in each] for each in (block.columns, block.narrow)
        )
        return replace(block, columns=columns, narrow=narrow)
    if isinstance(block, Items):
        return Items([*map(_plain, block.items)])
    return block


def _plain(text: str) -> str:
    return text.replace("±", "+-")
