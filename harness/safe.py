"""Text of plugins, labels, notes and errors, made safe where it is shown: a terminal, a pipe, a spreadsheet."""

import re
from functools import lru_cache

INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of characters that act instead of being seen: control characters, formats (bidi, zero width),
lone surrogates, line and paragraph separators."""

FORMULA = r"[=+\-@]"
"""How a cell begins that a spreadsheet would compute. (Tabs and line ends, which it skips, are visible by then.)"""
NUMBER = r"(?i)[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)"


def visible(text: str, keep: str = "") -> str:
    r"""The text with every invisible character as its escape: `\x1b`, `\n`, `\u202e`, `\ud800`.

    No terminal obeys what is left, it has one line, and UTF-8 can hold it.

    Args:
        text: any text.
        keep: invisible characters to leave as they are, for example line ends.
    """
    if text.translate(dict.fromkeys(map(ord, keep))).isprintable():
        return text
    from unicodedata import category  # here, since hardly any text needs it

    def shown(character: str) -> str:
        acts = category(character) in INVISIBLE and character not in keep
        return character.encode("unicode_escape").decode() if acts else character

    return "".join(map(shown, text))


def visible_lines(text: str) -> str:
    """The same with the lines of the text, which may be indented."""
    return visible(text.replace("\r\n", "\n"), keep="\n\t")


def sentence(text: str) -> str:
    """The same of running text, whose lines become one."""
    lines = re.split(r"[\n\r]+", text)
    return visible(" ".join(map(str.strip, lines)) if len(lines) > 1 else text)


def bounded(text: str, most: int) -> str:
    """At most about `most` characters: of longer text the beginning and the end, in which labels differ most."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]} [...] {text[-most // 3 :]}"


@lru_cache(maxsize=4096)
def spreadsheet(text: str) -> str:
    """A cell of CSV, visible; behind an apostrophe where a spreadsheet would take it for a formula."""
    shown = visible(text)
    return f"'{shown}" if re.match(FORMULA, shown) and not re.fullmatch(NUMBER, shown) else shown
