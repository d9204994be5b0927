"""Minimal pairs from local files: BLiMP's JSON lines, plain tables, and the tables of Gulordava et al."""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Format = Literal["auto", "blimp", "tsv", "gulordava"]
Scoring = Literal["auto", "one_prefix", "two_prefix", "sentence"]
CHOICES = ("one_prefix", "two_prefix", "sentence")
"""Ways to score a pair, the finest first."""


@dataclass(frozen=True)
class Sentence:
    """One side of a pair. Words are what stands between spaces; indices count them from 0.

    Args:
        text: the sentence; whatever comes after the verb does not count where the verb is scored.
        verb: index of the word that is scored.
        subject: index of the word that decides it.
    """

    text: str
    verb: int | None = None
    subject: int | None = None

    @property
    def words(self) -> list[str]:
        """The words in order."""
        return self.text.split()


@dataclass(frozen=True)
class Pair:
    """A right and a wrong sentence.

    Args:
        line: where it stands in its file, counted from 1.
        good: the right one.
        bad: the wrong one.
        attractors: how many nouns of the other number stand between subject and verb, if the file says so.
    """

    line: int
    good: Sentence
    bad: Sentence
    attractors: int | None = None


@dataclass(frozen=True)
class PairFile:
    """What a file holds.

    Args:
        format: how it was read.
        scoring: how its pairs are to be scored.
        pairs: those that can be scored in this way.
        left_out: why others cannot, and the lines where they stand.
    """

    format: str
    scoring: str
    pairs: list[Pair]
    left_out: dict[str, list[int]]


Offered = tuple[int, dict[str, Pair]]
"""A line, and for each way to score it the pair."""


def read_pairs(path: Path, format: Format = "auto", scoring: Scoring = "auto") -> PairFile:
    """Read a file; `auto` finds out its format, and scores pairs in the finest way that the file offers.

    Raises:
        ValueError: naming the file and the line that is wrong.
    """
    lines = list(_lines(path))
    if not lines:
        raise ValueError(f"the file {str(path)!r} is empty")
    known = _guess(lines[0][1]) if format == "auto" else format
    reader = {"blimp": _blimp, "tsv": _table, "gulordava": _gulordava}[known]
    found = list(reader(path, lines))
    offers = [choice for choice in CHOICES if any(choice in pairs for _, pairs in found)]
    chosen = offers[0] if scoring == "auto" and offers else scoring
    if chosen not in offers:
        there = ", ".join(offers) or "nothing"
        raise ValueError(f"no pair of {str(path)!r} can be scored by {chosen}; the file offers {there}")
    pairs = [ways[chosen] for _, ways in found if chosen in ways]
    others = [line for line, ways in found if chosen not in ways]
    return PairFile(known, chosen, pairs, {f"the file does not offer {chosen} for them": others} if others else {})


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, numbered from 1."""
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}, line {number}: it is not UTF-8 ({error.reason})") from None
        if text.strip():
            yield number, text


def _guess(first: str) -> str:
    if first.lstrip().startswith("{"):
        return "blimp"
    return "gulordava" if set(GULORDAVA) <= set(first.split("\t")) else "tsv"


def _blimp(path: Path, lines: Sequence[tuple[int, str]]) -> Iterator[Offered]:
    """One JSON object a line (Warstadt et al., "BLiMP", TACL 2020)."""
    for number, line in lines:
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: it is no JSON object ({error})") from None
        if not isinstance(fields, dict):
            raise ValueError(f"{path}, line {number}: it is no JSON object, but {line.strip()[:40]!r}")

        def text(name: str, fields: dict[str, Any] = fields, number: int = number) -> str:
            if not isinstance(value := fields.get(name), str) or not value.strip():
                raise ValueError(f"{path}, line {number}: the field {name!r} is missing or no text")
            return value.strip()

        verb = len(text("one_prefix_prefix").split()) if "one_prefix_prefix" in fields else None
        good, bad = text("sentence_good"), text("sentence_bad")
        ways = {"sentence": Pair(number, Sentence(good, verb), Sentence(bad, verb))}
        if verb is not None:
            prefix = text("one_prefix_prefix")
            good, bad = (f"{prefix} {text(f'one_prefix_word_{side}')}" for side in ("good", "bad"))
            ways["one_prefix"] = Pair(number, Sentence(good, verb), Sentence(bad, verb))
        if "two_prefix_word" in fields:
            prefixes = [text(f"two_prefix_prefix_{side}") for side in ("good", "bad")]
            word, subject = text("two_prefix_word"), differing(*prefixes)
            right, wrong = (Sentence(f"{each} {word}", len(each.split()), subject) for each in prefixes)
            ways["two_prefix"] = Pair(number, right, wrong)
        yield number, ways


def differing(one: str, other: str) -> int | None:
    """The index of the only word in which two texts differ, if there is just one."""
    words = [one.split(), other.split()]
    places = [index for index, (a, b) in enumerate(zip(*words, strict=False)) if a != b]
    return places[0] if len(words[0]) == len(words[1]) and len(places) == 1 else None


COLUMNS = ("good", "bad", "subject", "verb", "attractors")


def _table(path: Path, lines: Sequence[tuple[int, str]]) -> Iterator[Offered]:
    """Columns between tabs: good and bad sentence, then perhaps word indices of subject and verb, and attractors. A
    first line of column names lets them come in any order."""
    first = [name.strip().lower() for name in lines[0][1].split("\t")]
    names: Sequence[str] = first if {"good", "bad"} <= set(first) else COLUMNS
    for number, line in lines[1:] if names is first else lines:
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) > len(names) or len(cells) < 2:
            raise ValueError(f"{path}, line {number}: {len(cells)} columns, where {', '.join(names)} are expected")
        row = dict(zip(names, cells, strict=False))
        for name in ("good", "bad"):
            if not row.get(name):
                raise ValueError(f"{path}, line {number}: the {name} sentence is empty")
        words = min(len(row["good"].split()), len(row["bad"].split()))
        subject, verb = (_index(path, number, name, row.get(name, ""), words) for name in ("subject", "verb"))
        attractors = _index(path, number, "attractors", row.get("attractors", ""), None)
        good, bad = Sentence(row["good"], verb, subject), Sentence(row["bad"], verb, subject)
        pair = Pair(number, good, bad, attractors)
        ways = {"sentence": pair}
        if verb is not None:
            if good.words[:verb] == bad.words[:verb] and good.words[verb] != bad.words[verb]:
                ways["one_prefix"] = pair
            elif good.words[verb] == bad.words[verb]:
                ways["two_prefix"] = pair
        yield number, ways


def _index(path: Path, line: int, name: str, cell: str, words: int | None) -> int | None:
    if not cell:
        return None
    if not re.fullmatch(r"\d+", cell):
        raise ValueError(f"{path}, line {line}: {name} = {cell!r}, where a number is expected")
    if words is not None and int(cell) >= words:
        raise ValueError(f"{path}, line {line}: {name} = {cell}, but the words are counted from 0 to {words - 1}")
    return int(cell)


GULORDAVA = ("pattern", "constr_id", "sent_id", "form", "class", "prefix", "n_attr", "len_context", "len_prefix")


def _gulordava(path: Path, lines: Sequence[tuple[int, str]]) -> Iterator[Offered]:
    """Two lines a pair, `correct` and `wrong` (Gulordava et al., "Colorless green recurrent networks", NAACL 2018).

    The subject (or the first verb, for coordinated ones) is the word with which the context begins. A word that the
    authors' vocabulary lacked, `<unk>` in the prefix, is taken from the whole sentence, where it still stands.
    """
    header = lines[0][1].split("\t")
    if missing := [name for name in GULORDAVA if name not in header]:
        raise ValueError(f"{path}, line 1: the columns {', '.join(missing)} are missing")
    halves: dict[tuple[str, ...], dict[str, tuple[int, dict[str, str]]]] = {}
    for number, line in lines[1:]:
        cells = next(csv.reader([line], delimiter="\t"))
        if len(cells) != len(header):
            raise ValueError(f"{path}, line {number}: {len(cells)} columns, where {len(header)} are expected")
        row = dict(zip(header, cells, strict=True))
        if row["class"] not in ("correct", "wrong"):
            raise ValueError(f"{path}, line {number}: class = {row['class']!r}, where correct or wrong is expected")
        key = tuple(row[name] for name in ("pattern", "constr_id", "sent_id", "prefix"))
        if row["class"] in halves.setdefault(key, {}):
            raise ValueError(f"{path}, line {number}: a second {row['class']} form of the pair in line "
                             f"{halves[key][row['class']][0]}")  # fmt: skip
        halves[key][row["class"]] = (number, row)
    for sides in halves.values():
        if len(sides) < 2:
            yield next(iter(sides.values()))[0], {}
            continue
        number, row = sides["correct"]
        counts = [_index(path, number, name, row[name], None) for name in ("len_prefix", "len_context", "n_attr")]
        words = row["prefix"].split()
        if len(words) != counts[0] or not 0 < (counts[1] or 0) <= len(words):
            raise ValueError(f"{path}, line {number}: len_prefix or len_context does not fit the prefix")
        for index, whole in enumerate(row.get("sent", "").split()[: len(words)]):
            words[index] = whole if words[index] == "<unk>" else words[index]
        subject = len(words) - (counts[1] or 0)
        forms = (sides[name][1]["form"] for name in ("correct", "wrong"))
        good, bad = (Sentence(" ".join([*words, form]), len(words), subject) for form in forms)
        yield number, {"one_prefix": Pair(number, good, bad, counts[2])}
