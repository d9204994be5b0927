"""Minimal pairs from local files: what the fields of BLiMP, of plain tables and of Gulordava et al. mean."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from harness_plugins.tasks.pair_tables import SIDES, read_table

Format = Literal["auto", "blimp", "csv", "tsv", "lines", "gulordava"]
Scoring = Literal["auto", "one_prefix", "two_prefix", "sentence"]
CHOICES = ("one_prefix", "two_prefix", "sentence")
"""Ways to score a pair, the finest first."""


@dataclass(frozen=True)
class Sentence:
    """One side of a pair. Words are what stands between spaces; indices count them from 0.

    Args:
        text: the sentence; whatever comes after the verb does not count where the verb is scored.
        verb: index of the first word that is scored.
        subject: index of the word that decides it.
        scored: how many words are scored, from `verb` on.
    """

    text: str
    verb: int | None = None
    subject: int | None = None
    scored: int = 1

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


SILENT = "the file does not say where they are"
"""Why a pair has no marks, if nobody made any."""


def read_pairs(
    path: Path,
    format: Format = "auto",
    scoring: Scoring = "auto",
    *,
    good_column: str | None = None,
    bad_column: str | None = None,
    first_index: Literal[0, 1] | None = None,
) -> PairFile:
    """Read a file; `auto` finds out its format, and scores pairs by the words that differ, after one prefix or two,
    whichever more pairs offer; as whole sentences if none does.

    Raises:
        ValueError: naming the file and the line that is wrong, or what the user must say.
    """
    given = {side: name for side, name in zip(SIDES, (good_column, bad_column), strict=True) if name is not None}
    table = read_table(path, format, given)
    if not table.rows:
        raise ValueError(f"the file {str(path)!r} holds no pair: nothing follows its first line")
    if table.format == "gulordava":
        found = list(_gulordava(path, table.rows))
    else:
        base = _checked_base(path, table.rows) if first_index is None else first_index
        found = [_offered(f"{path}, line {number}", number, fields, base) for number, fields in table.rows]
    count = {choice: sum(choice in ways for _, ways in found) for choice in CHOICES}
    offers = [choice for choice in CHOICES if count[choice]]
    chosen = max(offers, key=lambda way: (way != "sentence", count[way])) if scoring == "auto" and offers else scoring
    if chosen not in offers:
        there = ", ".join(offers) or "nothing"
        raise ValueError(f"no pair of {str(path)!r} can be scored by {chosen}; the file offers {there}")
    if scoring == "auto" and chosen == "sentence":
        _check_marks(path, found, first_index)
    pairs = [ways[chosen] for _, ways in found if chosen in ways]
    others = [line for line, ways in found if chosen not in ways]
    left_out = {f"the file does not offer {chosen} for them": others} if others else {}
    return PairFile(table.format, chosen, pairs, left_out)


def _offered(where: str, number: int, fields: Mapping[str, Any], base: int) -> Offered:
    """A line of named fields: two sentences, and perhaps BLiMP's prefixes and words (Warstadt et al., TACL 2020), or
    the indices of subject and verb, which count the words from `base`."""

    def text(name: str) -> str:
        if not isinstance(value := fields.get(name), str) or not value.strip():
            what = f"{name} sentence is" if name in SIDES else f"field {name!r} is missing,"
            raise ValueError(f"{where}: the {what} empty or no text")
        return value.strip()

    good, bad = text("good"), text("bad")
    if any(name in fields for name in BLIMP) and any(fields.get(name) for name in BLIMP):
        return number, _blimp(number, good, bad, fields, text)
    words = min(len(good.split()), len(bad.split()))
    subject, verb = (_index(where, name, fields.get(name), words, base) for name in ("subject", "verb"))
    attractors = _index(where, "attractors", fields.get("attractors"))
    pair = Pair(number, Sentence(good, verb, subject), Sentence(bad, verb, subject), attractors)
    ways = {"sentence": pair}
    if way := _way(pair.good.words, pair.bad.words, verb):
        ways[way] = pair
    return number, ways


BLIMP = ("one_prefix_word_good", "two_prefix_word")
"""Fields that say how BLiMP scores a pair by one word, or by several that stand for one."""


def _blimp(number: int, good: str, bad: str, fields: Mapping[str, Any], text: Callable[[str], str]) -> dict[str, Pair]:
    """The ways that BLiMP's fields offer. A prefix may be empty."""
    ways = {"sentence": Pair(number, Sentence(good), Sentence(bad))}
    if fields.get(BLIMP[0]):
        prefix = text("one_prefix_prefix").split() if fields.get("one_prefix_prefix") != "" else []
        words = [text(f"one_prefix_word_{side}").split() for side in SIDES]
        marks = [(len(prefix), None, len(each)) for each in words]
        right, wrong = (Sentence(" ".join([*prefix, *each]), *mark) for each, mark in zip(words, marks, strict=True))
        ways["one_prefix"] = Pair(number, right, wrong)
        ways["sentence"] = Pair(number, Sentence(good, *marks[0]), Sentence(bad, *marks[1]))
    if fields.get(BLIMP[1]):
        prefixes = [text(f"two_prefix_prefix_{side}") for side in SIDES]
        word, subject = text("two_prefix_word"), differing(*prefixes)
        right, wrong = (Sentence(f"{each} {word}", len(each.split()), subject, len(word.split())) for each in prefixes)
        ways["two_prefix"] = Pair(number, right, wrong)
    return ways


def differing(one: str, other: str) -> int | None:
    """The index of the only word in which two texts differ, if there is just one."""
    words = [one.split(), other.split()]
    places = [index for index, (a, b) in enumerate(zip(*words, strict=False)) if a != b]
    return places[0] if len(words[0]) == len(words[1]) and len(places) == 1 else None


def _way(good: Sequence[str], bad: Sequence[str], verb: int | None) -> str | None:
    """How a pair is scored by its marked word: it differs after the same words, or is the same after others."""
    if verb is None or (good[:verb] == bad[:verb]) == (good[verb] == bad[verb]):
        return None
    return "one_prefix" if good[:verb] == bad[:verb] else "two_prefix"


def _checked_base(path: Path, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> int:
    """0, where the user does not say from what words are counted.

    Raises:
        ValueError: the marks of more pairs make sense counted from 1 than from 0; or those of all pairs make sense
            either way, as where nothing but a verb is marked that stays the same.
    """
    only_from = [0, 0]
    either = 0
    for _, fields in rows:
        good, bad = (_cell(fields.get(name)).split() for name in SIDES)
        subject, verb = (_cell(fields.get(name)) for name in ("subject", "verb"))
        if verb.isdecimal():
            fits = [_fits(good, bad, int(verb) - b, int(subject) - b if subject.isdecimal() else None) for b in (0, 1)]
            either += all(fits)
            for base in (0, 1):
                only_from[base] += fits[base] and not fits[1 - base]
    if only_from[1] > only_from[0] or (either and not any(only_from)):
        raise ValueError(
            f"{path}: is the first word 0 or 1? Subject and verb of {only_from[1]} pairs make sense only if words are "
            f"counted from 1, those of {only_from[0]} only from 0, and those of {either} either way. Say first_index=1 "
            "or first_index=0"
        )
    return 0


def _fits(good: Sequence[str], bad: Sequence[str], verb: int, subject: int | None) -> bool:
    """Whether these can be the indices of a pair's subject and verb: one of the two makes the difference."""
    words = min(len(good), len(bad))
    if not 0 <= verb < words or not 0 <= (subject or 0) < words:
        return False
    way = _way(good, bad, verb)
    return way == "one_prefix" or (way == "two_prefix" and (subject is None or good[subject] != bad[subject]))


def _check_marks(path: Path, found: Sequence[Offered], first_index: Literal[0, 1] | None) -> None:
    """Refuse marks that no pair can be scored by, rather than to leave them unused."""
    for line, ways in found:
        pair = ways.get("sentence")
        if pair is not None and pair.good.verb is not None:
            good, bad = pair.good.words[pair.good.verb], pair.bad.words[pair.bad.verb or 0]
            raise ValueError(
                f"{path}, line {line}: no pair can be scored by its marked verb (here {good!r} and {bad!r}): either it "
                "differs and all words before it are the same, or it is the same and they differ. Say scoring=sentence "
                f"to compare whole sentences, or {_other_base(first_index)}"
            )


def _other_base(first_index: int | None) -> str:
    """How to say that words are counted differently."""
    other = 0 if first_index else 1
    given = "" if first_index is None else f" instead of first_index={first_index}"
    return f"first_index={other}{given} if the words are counted from {other}"


def _cell(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _index(where: str, name: str, value: Any, words: int | None = None, base: int = 0) -> int | None:
    """A number; where `words` are given, the index of one of them, counted from 0."""
    if not (cell := _cell(value)):
        return None
    if not re.fullmatch(r"\d+", cell):
        raise ValueError(f"{where}: {name} = {cell!r}, where a number is expected, 0 or more")
    if words is not None and not base <= int(cell) < words + base:
        outside = {0: words, 1: 0}  # what only the other way of counting has
        hint = f"; say {_other_base(base or None)}" if int(cell) == outside[base] else ""
        raise ValueError(f"{where}: {name} = {cell}, but the words are counted from {base} to {words - 1 + base}{hint}")
    return int(cell) - (0 if words is None else base)


def _gulordava(path: Path, rows: Sequence[tuple[int, Mapping[str, str]]]) -> Iterator[Offered]:
    """Two lines a pair, `correct` and `wrong` (Gulordava et al., "Colorless green recurrent networks", NAACL 2018).

    The subject (or the first verb, for coordinated ones) is the word with which the context begins. A word that the
    authors' vocabulary lacked, `<unk>` in the prefix, is taken from the whole sentence, where it still stands.
    """
    halves: dict[tuple[str, ...], dict[str, tuple[int, Mapping[str, str]]]] = {}
    for number, row in rows:
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
        where = f"{path}, line {number}"
        counts = [_index(where, name, row[name]) for name in ("len_prefix", "len_context", "n_attr")]
        words = row["prefix"].split()
        if len(words) != counts[0] or not 0 < (counts[1] or 0) <= len(words):
            raise ValueError(f"{where}: len_prefix or len_context does not fit the prefix")
        for index, whole in enumerate(row.get("sent", "").split()[: len(words)]):
            words[index] = whole if words[index] == "<unk>" else words[index]
        subject = len(words) - (counts[1] or 0)
        forms = (sides[name][1]["form"] for name in ("correct", "wrong"))
        good, bad = (Sentence(" ".join([*words, form]), len(words), subject) for form in forms)
        yield number, {"one_prefix": Pair(number, good, bad, counts[2])}


def mark(pair: Pair, subject: int | None, before: str | None) -> tuple[Pair, str]:
    """The pair with its subject, found by the user's rule where the file does not say; or with none, and the reason,
    where it is not known in both sentences to come before the verb."""
    reasons = set()

    def with_subject(side: Sentence) -> Sentence:
        words = side.words[: side.verb]
        found = subject if side.subject is None else side.subject
        if found is None and before is not None:
            found = next((i - 1 for i, word in enumerate(words) if word.lower() in before.split("/") and i > 0), None)
            if found is None:
                reasons.add(f"no subject stands before {before}")
        if found is None or side.verb is None:
            reasons.add(SILENT)
        elif found >= side.verb:
            reasons.add("the subject does not come before the verb")
        return replace(side, subject=found)

    good, bad = with_subject(pair.good), with_subject(pair.bad)
    if not reasons:
        return replace(pair, good=good, bad=bad), ""
    reason = ", ".join(sorted(reasons - {SILENT})) or SILENT
    return replace(pair, good=replace(good, subject=None), bad=replace(bad, subject=None)), reason
