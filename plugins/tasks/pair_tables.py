"""From a file to rows of named fields: JSON lines, tables between commas, semicolons or tabs, alternating lines."""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

COLUMNS = ("good", "bad", "subject", "verb", "attractors")
"""What a table holds, in the order of one whose first line names no columns."""

SIDES = ("good", "bad")

_STEMS = {
    "good": ("good", "right", "correct", "grammatical", "acceptable"),
    "bad": ("bad", "wrong", "incorrect", "ungrammatical", "unacceptable"),
    "subject": ("subject",),
    "verb": ("verb",),
    "attractors": ("attractors", "attractor", "attr"),
}
_PATTERNS = {
    "good": ("{}", "sentence_{}", "{}_sentence"),
    "bad": ("{}", "sentence_{}", "{}_sentence"),
    "subject": ("{}", "{}_index"),
    "verb": ("{}", "{}_index"),
    "attractors": ("{}", "n_{}", "number_of_{}"),
}
NAMES = {what: {pattern.format(stem) for stem in _STEMS[what] for pattern in _PATTERNS[what]} for what in COLUMNS}
"""The names by which a column is known, as `plain` writes them."""

GULORDAVA = ("pattern", "constr_id", "sent_id", "form", "class", "prefix", "n_attr", "len_context", "len_prefix")
"""Columns by which a table of Gulordava et al. is known."""


@dataclass(frozen=True)
class Table:
    """Rows of named fields.

    Args:
        format: how the file was read.
        rows: for each its line, counted from 1, and its fields.
    """

    format: str
    rows: list[tuple[int, dict[str, Any]]]


def read_table(path: Path, format: str, given: Mapping[str, str]) -> Table:
    """Read a file; `auto` finds out its format.

    Args:
        path: the file.
        format: `auto`, `blimp`, `csv`, `tsv`, `lines` or `gulordava`.
        given: names of the columns of the good and the bad sentence, where the user says them.

    Raises:
        ValueError: naming the file and the line that is wrong, or what cannot be known.
    """
    lines = _lines(path)
    begin = next((index for index, line in enumerate(lines) if line.strip()), None)
    if begin is None:
        raise ValueError(f"the file {str(path)!r} is empty")
    known = _guess(path, begin, lines, given) if format == "auto" else format
    if given and known in ("lines", "gulordava"):
        raise ValueError(
            f"{' and '.join(f'{side}_column' for side in given)}: a file of format={known} has none to name"
        )
    if known == "blimp":
        return Table(known, list(_objects(path, lines, given)))
    if known == "lines":
        return Table(known, list(_alternating(path, lines)))
    delimiter = _delimiter(lines[begin]) if known == "csv" else "\t"
    return _named(path, known, list(_records(path, lines, delimiter)), given)


def _lines(path: Path) -> list[str]:
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            found.append(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}, line {number}: it is not UTF-8 ({error.reason})") from None
    return found


def _guess(path: Path, begin: int, lines: Sequence[str], given: Mapping[str, str]) -> str:
    """The format by the first line that is not empty, and by the file's name where that line is no header."""
    first, where = lines[begin], f"{path}, line {begin + 1}"
    if re.match(r"\s*(\{|\[\s*(\{|$))", first):
        return "blimp"
    if "\t" in first:
        return "gulordava" if set(GULORDAVA) <= set(first.split("\t")) else "tsv"
    cells = _cells(first, _delimiter(first))
    if len(cells) > 1 and (path.suffix.lower() == ".csv" or _is_header(cells, given)):
        return "csv"
    if len(cells) > 1 and len({len(_cells(line, _delimiter(first))) for line in lines if line.strip()}) == 1:
        raise ValueError(
            f"{where}: {len(cells)} columns with {_delimiter(first)!r} between them, or one sentence? Say "
            "format=csv for a table, or format=lines for good and bad sentences on alternating lines"
        )
    raise ValueError(
        f"{where}: one column, where a good and a bad sentence are expected. Put a tab between them, or say "
        "format=lines if they stand on alternating lines, the good one first"
    )


def _cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))]


def _delimiter(line: str) -> str:
    """Comma or semicolon, whichever makes more columns."""
    return max((",", ";"), key=lambda each: len(_cells(line, each)))


def _records(path: Path, lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Lines as cells, quotes taken off as spreadsheets put them; empty lines left out.

    In a table with tabs, quotes are part of the text unless they enclose whole cells throughout: a sentence may begin
    with one.
    """
    try:
        found = list(_quoted(lines, delimiter))
    except csv.Error as error:
        if delimiter != "\t":
            raise ValueError(
                f"{path}, line {error.args[1]}: the quotes do not enclose a cell ({error.args[0]})"
            ) from None
        found = []
    if delimiter == "\t" and (not found or any("\t" in cell or "\n" in cell for _, cells in found for cell in cells)):
        found = [(number, line.split("\t")) for number, line in enumerate(lines, 1)]
    for number, cells in found:
        if any(cell.strip() for cell in cells):
            yield number, [cell.strip() for cell in cells]


def _quoted(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    begin = 1
    try:
        for cells in reader:
            yield begin, cells
            begin = reader.line_num + 1
    except csv.Error as error:
        raise csv.Error(str(error), begin) from None


def _objects(path: Path, lines: Sequence[str], given: Mapping[str, str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """One JSON object a line."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: it is no JSON object ({error})") from None
        if not isinstance(fields, dict):
            raise ValueError(f"{path}, line {number}: it is no JSON object, but {line.strip()[:40]!r}")
        places = _places(f"{path}, line {number}", list(fields), given, "field")
        yield number, {**fields, **{what: fields[name] for what, name in places.items()}}


def _alternating(path: Path, lines: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """A good sentence, and its bad one on the next line."""
    there = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if len(there) % 2:
        raise ValueError(f"{path}, line {there[-1][0]}: the last sentence has no partner; {len(there)} lines are there")
    for (number, good), (_, bad) in zip(there[::2], there[1::2], strict=True):
        yield number, {"good": good, "bad": bad}


def _named(path: Path, format: str, records: list[tuple[int, list[str]]], given: Mapping[str, str]) -> Table:
    """The table with names for its columns: those of its first line, or the usual ones in their order."""
    if not records:
        raise ValueError(f"the file {str(path)!r} is empty")
    line, first = records[0]
    if format == "gulordava":
        if missing := [name for name in GULORDAVA if name not in first]:
            raise ValueError(f"{path}, line {line}: the columns {', '.join(missing)} are missing")
        names, places = first, {}
    elif _is_header(first, given):
        places = _places(f"{path}, line {line}", first, given, "column")
        names = first
    else:
        _check_pair(f"{path}, line {line}", first)
        names, places = list(COLUMNS), {name: name for name in COLUMNS}
    rows = []
    for number, cells in records[1:] if names is first else records:
        # the last columns may be left out, all but the sentences
        needed = len(names) if format == "gulordava" else 2
        if not needed <= len(cells) <= len(names):
            hint = " (a cell with commas needs quotes)" if format == "csv" and len(cells) > len(names) else ""
            expected = f"{len(names)} are" if format == "gulordava" else f"{', '.join(names)} are"
            raise ValueError(f"{path}, line {number}: {len(cells)} columns, where {expected} expected{hint}")
        fields: dict[str, Any] = dict(zip(names, cells, strict=False))
        rows.append((number, {**fields, **{what: fields.get(name, "") for what, name in places.items()}}))
    return Table(format, rows)


@lru_cache(1000)
def plain(name: str) -> str:
    """A column's name in lower case, with `_` for everything else than letters and digits."""
    return re.sub(r"[\W_]+", "_", name.lower()).strip("_")


def _is_header(cells: Sequence[str], given: Mapping[str, str]) -> bool:
    """Whether one cell at least is a known name of the column of a sentence, or the user names columns."""
    return bool(given) or any(plain(cell) in NAMES[side] for cell in cells for side in SIDES)


def _places(where: str, names: Sequence[str], given: Mapping[str, str], what: str) -> dict[str, str]:
    """For each known column its name in the file.

    Raises:
        ValueError: it is not clear which holds the good sentence, and which the bad one.
    """
    found = {column: [name for name in names if plain(name) in NAMES[column]] for column in COLUMNS}
    for side, name in given.items():
        if name not in names:
            raise ValueError(f"{where}: no {what} is called {name!r} ({side}_column); there are {', '.join(names)}")
        found[side] = [name]
    for side in SIDES:
        if len(found[side]) != 1:
            which = f"{' and '.join(found[side])} may" if found[side] else f"no {what} is known to"
            raise ValueError(
                f"{where}: {which} hold the {side} sentence; say {side}_column=NAME. There are {', '.join(names)}"
            )
    if found["good"] == found["bad"]:
        raise ValueError(f"{where}: the {what} {found['good'][0]} cannot hold both sentences")
    return {column: each[0] for column, each in found.items() if each}


def _check_pair(where: str, cells: Sequence[str]) -> None:
    """Refuse a first line that may name columns: one whose sentences share no word, or are named like columns."""
    good, bad = ([*cells, "", ""][index].split() for index in (0, 1))
    numbers = all(not cell or cell.isdecimal() for cell in cells[2:])
    named = all(re.fullmatch(r"[\w-]+([ _-]?(\d+|[a-zA-Z]))?", cell) for cell in cells[:2])
    if len(cells) < 2:
        raise ValueError(
            f"{where}: 1 columns, where {', '.join(COLUMNS)} are expected; say format=lines if good and bad sentences "
            "stand on alternating lines, the good one first"
        )
    if named or not numbers or not set(good) & set(bad):
        shown = ", ".join(map(repr, cells))
        raise ValueError(
            f"{where}: is {shown} a pair of sentences or the names of columns? If they are names, say which hold the "
            "sentences: good_column=NAME,bad_column=NAME. If it is a pair, put a line above it that names the columns: "
            f"{', '.join(COLUMNS)}"
        )
