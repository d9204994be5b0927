"""From the words of a pair to the tokens that a model reads, exactly: every token belongs to one word or the pair is
refused."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from harness_plugins.tasks.pair_files import Pair, Sentence
from jaxtyping import Int
from torch import Tensor

from harness import IGNORE, Batch
from harness.offers import OffersWordEnds, Tokenizer

ROLES = ("start", "subject", "verb", "function", "other")

_CLOSED = (
    "a about above after against all an and another any are around as at be because been before behind being below "
    "beneath beside between both but by can could did do does down during each either every few for from had has have "
    "he her hers him his how i if in into is it its many may me might mine most must my near neither no nor not of off "
    "on onto or our out over she should since so some such than that the their them then there these they this those "
    "though through to toward under until up us was we were what when where which while who whom whose will with "
    "within without would you your"
)
FUNCTION_WORDS = frozenset(_CLOSED.split())
"""Closed-class words of English: determiners, prepositions, pronouns, conjunctions, auxiliaries."""


class Unscorable(Exception):  # noqa: N818 - an outcome, not an error
    """Why a pair cannot be scored."""


@dataclass(frozen=True)
class Row:
    """One sequence for the model.

    Args:
        tokens: what the model reads.
        first: position whose output predicts the first scored token; the others follow one by one.
        good: the scored tokens of the right sentence; empty where the row is for the wrong one alone.
        bad: those of the wrong sentence.
        ends: whether the end of the last scored word is scored too, at the position after `good` or `bad`.
        targets: the tokens to predict from `first` on: the right form's, also after the wrong context.
        roles: of each token, an index into `ROLES`.
        query: position of the last token before the verb, where subject and verb are known; else -1.
        cue: position of the last token of the subject, likewise.
    """

    tokens: list[int]
    first: int
    good: list[int] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)
    ends: bool = False
    targets: list[int] = field(default_factory=list)
    roles: list[int] = field(default_factory=list)
    query: int = -1
    cue: int = -1


@dataclass(frozen=True)
class Read:
    """A sentence as tokens, the start token included, with the index of each token's word (-1: the start token)."""

    tokens: list[int]
    words: list[int]
    sentence: Sentence

    def where(self, word: int) -> list[int]:
        """The positions of a word's tokens."""
        return [position for position, each in enumerate(self.words) if each == word]


def words_of(text: str, spans: list[tuple[int, int]]) -> list[int]:
    """The index of the word that each token belongs to, given the characters that it stands for.

    Spaces belong to the word that follows them, whether they are part of its first token or a token of their own.

    Raises:
        Unscorable: a token has parts of two words, or a word has no token.
    """
    words = [match.span() for match in re.finditer(r"\S+", text)]
    found: list[int] = []
    for first, last in spans:
        touched = [index for index, (start, end) in enumerate(words) if start < last and first < end]
        if len(touched) > 1:
            raise Unscorable("a token has parts of two words")
        following = [index for index, (start, _) in enumerate(words) if start >= first]
        found.append(touched[0] if touched else following[0] if following else len(words) - 1)
    if sorted(set(found)) != list(range(len(words))) or found != sorted(found):
        raise Unscorable("a word has no token of its own")
    return found


def read(sentence: Sentence, tokenizer: Tokenizer, start: int | None) -> Read:
    """The sentence as tokens.

    Raises:
        Unscorable: words and tokens cannot be matched.
    """
    try:
        tokens, spans = tokenizer.encode(sentence.text)
    except ValueError as error:
        raise Unscorable(str(error)) from None
    words = words_of(sentence.text, spans)
    return Read(tokens, words, sentence) if start is None else Read([start, *tokens], [-1, *words], sentence)


def rows(pair: Pair, scoring: str, tokenizer: Tokenizer, start: int | None) -> list[Row]:
    """The sequences that score a pair: one where both forms are a single token after the same tokens, else two.

    Where the tokens of one form begin those of the other, the shorter one would be likelier whatever the model: both
    have the end of the word scored too.

    Raises:
        Unscorable: with the reason.
    """
    good, bad = (read(side, tokenizer, start) for side in (pair.good, pair.bad))
    split = _split_whole if scoring == "sentence" else _split
    (before, right), (before_bad, wrong) = (split(each) for each in (good, bad))
    if not before or not before_bad:
        raise Unscorable("nothing stands before the word, and there is no start token")
    unknown = [each.count(tokenizer.unknown) for each in (right, wrong) if tokenizer.unknown is not None]
    if (before, right) == (before_bad, wrong):
        why = ": the tokenizer does not know some of their words" if any(unknown) else ""
        raise Unscorable(f"both sentences have the same tokens{why}")
    if before != before_bad and scoring == "sentence":
        raise Unscorable("the sentences differ in their first token, which no start token comes before")
    if before != before_bad and scoring == "one_prefix":
        raise Unscorable("the words before the verb have other tokens in the two sentences")
    if any(unknown) and (scoring != "sentence" or unknown[0] != unknown[1]):
        raise Unscorable("the tokenizer does not know the word")
    ends = before == before_bad and _begins(right, wrong, tokenizer)
    if before == before_bad and len(right) == len(wrong) == 1:
        return [_row(good, before, good=right, bad=wrong, targets=right)]
    # after a wrong context the right form's first token is the answer; a whole sentence has its own tokens for targets
    answer = wrong if scoring == "sentence" else right[:1]
    return [
        _row(good, before, good=right, targets=right, ends=ends),
        _row(bad, before_bad, bad=wrong, targets=answer, ends=ends),
    ]


def _split(each: Read) -> tuple[list[int], list[int]]:
    """The tokens before the scored words, and those of these words."""
    verb = each.sentence.verb
    assert verb is not None
    first, last = each.where(verb)[0], each.where(verb + each.sentence.scored - 1)[-1]
    return each.tokens[:first], each.tokens[first : last + 1]


def _split_whole(each: Read) -> tuple[list[int], list[int]]:
    """The first token, and all others: the start token and the sentence if there is one."""
    return each.tokens[:1], each.tokens[1:]


def _begins(one: list[int], other: list[int], tokenizer: Tokenizer) -> bool:
    """Whether one form's tokens begin the other's, which goes on with the same word."""
    shorter, longer = sorted((one, other), key=len)
    if longer[: len(shorter)] != shorter:
        return False
    if not isinstance(tokenizer, OffersWordEnds):
        raise Unscorable("the tokens of one form begin the other's, and the tokenizer does not say where a word ends")
    if tokenizer.ends_word[longer[len(shorter)]]:
        raise Unscorable("one form is the beginning of the other, which adds a word or a punctuation mark")
    return True


def _row(each: Read, before: list[int], **scored: Any) -> Row:
    form = scored.get("good") or scored["bad"]
    tokens = [*before, *form] if scored.get("ends") else [*before, *form[:-1]]
    query, cue, roles = _marks(each)
    return Row(tokens, len(before) - 1, roles=roles[: len(tokens)], query=query, cue=cue, **scored)


def _marks(each: Read) -> tuple[int, int, list[int]]:
    """Query, cue, and the role of every token."""
    names = each.sentence.words
    subject, verb = each.sentence.subject, each.sentence.verb
    roles = []
    for word in each.words:
        if word == -1:
            role = "start"
        elif word == subject:
            role = "subject"
        elif verb is not None and verb <= word < verb + each.sentence.scored:
            role = "verb"
        else:
            role = "function" if names[word].lower().strip(".,;:!?\"'") in FUNCTION_WORDS else "other"
        roles.append(ROLES.index(role))
    if subject is None or verb is None:
        return -1, -1, roles
    return each.where(verb)[0] - 1, each.where(subject)[-1], roles


def batch(examples: Sequence[tuple[int, Row]]) -> Batch:
    """Sequences with the line of their pair, padded on the right."""
    lines, each = [line for line, _ in examples], [row for _, row in examples]

    def padded(lists: Sequence[Sequence[int]], value: int, longest: int) -> Int[Tensor, "batch longest"]:
        return torch.tensor([[*ids, *[value] * (longest - len(ids))] for ids in lists], dtype=torch.long)

    length = max(len(row.tokens) for row in each)
    span = max(max(len(row.good), len(row.bad)) for row in each)
    tokens = padded([row.tokens for row in each], 0, length)
    targets = torch.full_like(tokens, IGNORE)
    for index, row in enumerate(each):
        targets[index, row.first : row.first + len(row.targets)] = torch.tensor(row.targets)
    marked = any(row.cue >= 0 for row in each)
    return Batch(
        tokens=tokens,
        targets=targets,
        mask=padded([[1] * len(row.tokens) for row in each], 0, length).bool(),
        cue=torch.tensor([row.cue for row in each]) if marked else None,
        query=torch.tensor([row.query for row in each]) if marked else None,
        roles=padded([row.roles for row in each], -1, length),
        extra={
            "good": padded([row.good for row in each], -1, span),
            "bad": padded([row.bad for row in each], -1, span),
            "first": torch.tensor([row.first for row in each]),
            "end": torch.tensor([len(row.tokens) - 1 if row.ends else -1 for row in each]),
            "pair": torch.tensor(lines),
        },
    )
