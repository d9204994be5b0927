"""A document of headings, text and tables, written as text, Markdown or LaTeX."""

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tabulate import LATEX_ESCAPE_RULES, tabulate

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


Block = Heading | Paragraph | Items | Verbatim | Table


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
    tables = [_tabulate(columns, "simple") for columns in parts]
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
        parts, notes = fit(block.columns, width, wrap=False)
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
        parts, notes = fit([c for c in block.columns if c.role != "shape"], width, wrap=False)
        tables = [_tabulate(columns, "latex_booktabs") for columns in parts]
        title = [rf"\noindent\textbf{{{_latex(block.title)}}}"] if block.title else []
        return "\n\n".join([*title, *tables, *map(_latex, [*block.notes, *notes])])

    return "\n\n".join(map(write, blocks)) + "\n"


WRITERS = {"text": write_text, "markdown": write_markdown, "latex": write_latex}


def _tabulate(columns: list[Column], tablefmt: str, escape: Callable[[str], str] = str) -> str:
    return tabulate(
        list(zip(*([escape(cell) for cell in column.cells] for column in columns), strict=True)),
        headers=[escape(column.header) for column in columns],
        tablefmt=tablefmt,
        disable_numparse=True,
        colalign=["right" if column.role == "number" else "left" for column in columns],
    )


def _markdown(text: str) -> str:
    return re.sub(r"([\\|*<`])", r"\\\1", text).replace("\n", " ")


def _latex(text: str) -> str:
    return "".join(LATEX_ESCAPE_RULES.get(character, character) for character in text)
