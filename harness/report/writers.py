"""A document of headings, text and tables, written as text, Markdown or LaTeX."""

import re
import textwrap
from collections.abc import Callable, Iterable
from itertools import zip_longest

from tabulate import LATEX_ESCAPE_RULES, SEPARATING_LINE, DataRow, Line, TableFormat, tabulate

from harness.report.elements import Block, Heading, Items, Paragraph, Verbatim, not_drawn
from harness.report.layout import NARROWEST, Column, fit


def write(blocks: Iterable[Block], format: str, width: int) -> str:
    """The document in one of the formats of `WRITERS`; a block that cannot be written is a line that says so."""
    return "\n\n".join(_written(block, WRITERS[format], width) for block in blocks) + "\n"


def _written(block: Block, writer: "Writer", width: int) -> str:
    try:
        return writer(block, width)
    except Exception as error:  # a report shows what it can
        return writer(not_drawn(error), width)


def text(block: Block, width: int) -> str:
    """For a terminal: no line of a table is longer than `width`, and no other one, unless one word is."""
    if isinstance(block, Heading):
        lines = textwrap.wrap(block.text, width, break_long_words=False, break_on_hyphens=False)
        return "\n".join([*lines, ("=" if block.level == 1 else "-") * max(map(len, lines), default=0)])
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
    if block.narrow and (len(parts) > 1 or any(cell.count("\n") > 1 for c in parts[0] for cell in c.cells)):
        parts, notes = fit(block.narrow, width, narrowest=NARROWEST)
    tables = [_text_table(columns) for columns in parts]
    title = [textwrap.fill(block.title, width, break_on_hyphens=False)] if block.title else []
    below = [textwrap.fill(note, width, break_on_hyphens=False) for note in [*block.notes, *notes]]
    return "\n".join([*title, "\n\n".join(tables), *below])


def markdown(block: Block, width: int) -> str:
    """For GitHub and its like."""
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_markdown(block.text)}"
    if isinstance(block, Paragraph):
        return _markdown_line(block.text)
    if isinstance(block, Items):
        return "\n".join(f"- {_markdown_line(item)}" for item in block.items)
    if isinstance(block, Verbatim):
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
        return f"{fence}\n{block.text}\n{fence}"
    parts, notes = fit(block.columns, width, wrap=False, split=False)
    tables = [_tabulate(columns, "pipe", _markdown) for columns in parts]
    title = [f"**{_markdown(block.title)}**"] if block.title else []
    return "\n\n".join([*title, *tables, *map(_markdown_line, [*block.notes, *notes])])


def latex(block: Block, width: int) -> str:
    """For a paper; the tables need the package `booktabs`. Sparklines are left out."""
    if isinstance(block, Verbatim):
        inside = block.text.replace(r"\end{verbatim}", r"\end {verbatim}")  # or it would end there
        return f"\\begin{{verbatim}}\n{inside}\n\\end{{verbatim}}"
    return _signs(_latex_block(block, width))


def _latex_block(block: Block, width: int) -> str:
    if isinstance(block, Heading):
        return rf"\{'sub' * (block.level - 1)}section*{{{_latex(block.text)}}}"
    if isinstance(block, Paragraph | Verbatim):
        return _latex(block.text)
    if isinstance(block, Items):
        items = "\n".join(rf"  \item {_no_argument(_latex(item))}" for item in block.items)
        return f"\\begin{{itemize}}\n{items}\n\\end{{itemize}}"
    columns = [column for column in block.columns if column.role != "shape"]
    parts, notes = fit(columns, width, wrap=False, split=not block.whole)
    tables = [_no_argument(_tabulate(columns, "latex_booktabs", _one_line)) for columns in parts]
    title = [rf"\noindent\textbf{{{_latex(block.title)}}}"] if block.title else []
    return "\n\n".join([*title, *tables, *map(_latex, [*block.notes, *notes])])


Writer = Callable[[Block, int], str]
WRITERS: dict[str, Writer] = {"text": text, "markdown": markdown, "latex": latex}
"""What writes a block, with the columns that a table may take, by format."""


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
        list(zip(*([escape(_beside(cell)) for cell in column.cells] for column in columns), strict=True)),
        headers=[escape(column.header) for column in columns],
        tablefmt=tablefmt,
        disable_numparse=True,
        colalign=_alignment(columns),
    )


MARKDOWN = re.compile(
    r"[\\|*<`$~]"  # tables, HTML, emphasis, code, formulas
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis, which `_` within a word is not
    r"|\](?=[\[(:])"  # links, images, and what defines them
    r"|&(?=#?\w+;)"
)
"""What Markdown would take for its own."""

AT_THE_BEGINNING = re.compile(r"^\s*(\d+(?=[.)]\s)|(?=[#>+\-\[]))")
"""Up to the sign that would make a line a heading, a quotation, an item or a box to tick."""


def _markdown(text: str) -> str:
    return MARKDOWN.sub(r"\\\g<0>", _one_line(text))


def _markdown_line(text: str) -> str:
    """The same for a line of its own."""
    return AT_THE_BEGINNING.sub(r"\g<0>\\", _markdown(text))


def _beside(cell: str) -> str:
    """What stands below one another in a cell, in one line."""
    return re.sub(r"(?<![.,:;])\n(?=.)", "; ", cell)


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


def _no_argument(text: str) -> str:
    r"""With braces around a `[` or `*` that begins a line: `\\` and `\item` would take it for an argument."""
    return re.sub(r"^(\s*)([\[*])", r"\1{\2}", text, flags=re.MULTILINE)
