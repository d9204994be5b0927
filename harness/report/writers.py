"""A document of headings, text and tables, written as text, Markdown or LaTeX."""

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Literal

from tabulate import LATEX_ESCAPE_RULES, SEPARATING_LINE, DataRow, Line, TableFormat, tabulate

from harness.report.layout import Column, fit


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


Block = Heading | Paragraph | Items | Verbatim | Table


def in_ascii(block: Block) -> Block:
    """The same without the one sign of reports that some terminals lack. (Labels and messages are the user's own.)"""
    if isinstance(block, Table):
        return replace(block, columns=[replace(c, cells=[*map(_plain, c.cells)]) for c in block.columns])
    if isinstance(block, Items):
        return Items([*map(_plain, block.items)])
    return block


def _plain(text: str) -> str:
    return text.replace("±", "+-")


def write_text(blocks: Sequence[Block], width: int) -> str:
    """For a terminal: no line longer than `width`, unless one word is."""
    return "\n\n".join(_text_block(block, width) for block in blocks) + "\n"


def _text_block(block: Block, width: int) -> str:
    if isinstance(block, Heading):
        lines = textwrap.wrap(block.text, width, break_long_words=False, break_on_hyphens=False)
        return "\n".join([*lines, ("=" if block.level == 1 else "-") * max(map(len, lines))])
    if isinstance(block, Paragraph):
        return textwrap.fill(block.text, width, break_long_words=False, break_on_hyphens=False)
    if isinstance(block, Items):
        return "\n".join(
            textwrap.fill(
                item,
                width,
                initial_indent="  - ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
            for item in block.items
        )
    if isinstance(block, Verbatim):
        return block.text
    parts, notes = fit(block.columns, width)
    tables = [_text_table(columns) for columns in parts]
    title = [textwrap.fill(block.title, width, break_on_hyphens=False)] if block.title else []
    below = [textwrap.fill(note, width, break_on_hyphens=False) for note in [*block.notes, *notes]]
    return "\n".join([*title, "\n\n".join(tables), *below])


def write_markdown(blocks: Sequence[Block], width: int) -> str:
    """For GitHub and its like."""

    def write(block: Block) -> str:
        if isinstance(block, Heading):
            return f"{'#' * block.level} {_markdown(block.text)}"
        if isinstance(block, Paragraph):
            return _markdown(block.text)
        if isinstance(block, Items):
            return "\n".join(f"- {_markdown(item)}" for item in block.items)
        if isinstance(block, Verbatim):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
            return f"{fence}\n{block.text}\n{fence}"
        parts, notes = fit(block.columns, width, wrap=False, split=False)
        tables = [_tabulate(columns, "pipe", _markdown) for columns in parts]
        title = [f"**{_markdown(block.title)}**"] if block.title else []
        return "\n\n".join([*title, *tables, *map(_markdown, [*block.notes, *notes])])

    return "\n\n".join(map(write, blocks)) + "\n"


def write_latex(blocks: Sequence[Block], width: int) -> str:
    """For a paper; the tables need the package `booktabs`. Sparklines are left out."""

    def write(block: Block) -> str:
        if isinstance(block, Heading):
            return rf"\{'sub' * (block.level - 1)}section*{{{_latex(block.text)}}}"
        if isinstance(block, Paragraph):
            return _latex(block.text)
        if isinstance(block, Items):
            items = "\n".join(rf"  \item {_latex(item)}" for item in block.items)
            return f"\\begin{{itemize}}\n{items}\n\\end{{itemize}}"
        if isinstance(block, Verbatim):
            return f"\\begin{{verbatim}}\n{block.text}\n\\end{{verbatim}}"
        columns = [column for column in block.columns if column.role != "shape"]
        parts, notes = fit(columns, width, wrap=False, split=not block.whole)
        tables = [_tabulate(columns, "latex_booktabs", _one_line) for columns in parts]
        title = [rf"\noindent\textbf{{{_latex(block.title)}}}"] if block.title else []
        return "\n\n".join([*title, *tables, *map(_latex, [*block.notes, *notes])])

    parts = [write(block) if isinstance(block, Verbatim) else _signs(write(block)) for block in blocks]
    return "\n\n".join(parts) + "\n"


WRITERS = {"text": write_text, "markdown": write_markdown, "latex": write_latex}


_PLAIN_ROW = DataRow("", "  ", "")
_UNDERLINED = TableFormat(
    lineabove=None,
    linebelowheader=Line("", "-", "  ", ""),
    linebetweenrows=None,
    linebelow=None,
    headerrow=_PLAIN_ROW,
    datarow=_PLAIN_ROW,
    padding=0,
    with_header_hide=None,
)


def _text_table(columns: list[Column]) -> str:
    """Headers and lines of cells as rows: tabulate pads real headers, and splits cells in its own formats only."""
    headers, *rows = zip(*((column.header, *column.cells) for column in columns), strict=True)
    return tabulate(
        [*_lines(headers), SEPARATING_LINE, *(line for row in rows for line in _lines(row))],
        tablefmt=_UNDERLINED,
        disable_numparse=True,
        colalign=_alignment(columns),
    )


def _lines(row: tuple[str, ...]) -> list[tuple[str, ...]]:
    return list(zip_longest(*(cell.split("\n") for cell in row), fillvalue=""))


def _alignment(columns: list[Column]) -> list[str]:
    return ["right" if column.role == "number" else "left" for column in columns]


def _tabulate(columns: list[Column], tablefmt: str, escape: Callable[[str], str]) -> str:
    return tabulate(
        list(zip(*([escape(cell) for cell in column.cells] for column in columns), strict=True)),
        headers=[escape(column.header) for column in columns],
        tablefmt=tablefmt,
        disable_numparse=True,
        colalign=_alignment(columns),
    )


def _markdown(text: str) -> str:
    return re.sub(r"([\\|*<`])", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


MACROS = {"±": "pm", "×": "times", "·": "cdot", "→": "to", "←": "gets", "≤": "le", "≥": "ge", "≈": "approx"}
SIGNS = {
    **{sign: rf"\ensuremath{{\{macro}}}" for sign, macro in MACROS.items()},
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "--": "-{}-",
}
"""Signs that fonts of LaTeX lack, or make something else of, by what is written for them."""


def _signs(text: str) -> str:
    """LaTeX in its own macros."""
    return re.sub("|".join(SIGNS), lambda match: SIGNS[match.group()], text)


def _latex(text: str) -> str:
    return "".join(LATEX_ESCAPE_RULES.get(character, character) for character in text)
