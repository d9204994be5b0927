"""From the words of a pair to the tokens that a model reads, exactly: every token belongs to one word or the pair is
refused."""

import re
from dataclasses import dataclass, field

from harness_plugins.tasks.pair_files import Pair, Sentence

from harness.contracts import Tokenizer

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
        targets: the tokens to predict from `first` on: the right form's, also after the wrong context.
        roles: of each token, an index into `ROLES`.
        query: position of the last token before the verb, if it is known.
        cue: position of the last token of the subject, if it is known.
    """

    tokens: list[int]
    first: int
    good: list[int] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    roles: list[int] = field(default_factory=list)
    query: int | None = None
    cue: int | None = None


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

    Raises:
        Unscorable: with the reason.
    """
    good, bad = (read(side, tokenizer, start) for side in (pair.good, pair.bad))
    if scoring == "sentence":
        return [_whole(good, good=True, other=bad), _whole(bad, good=False, other=good)]
    (before, right), (before_bad, wrong) = (_split(each) for each in (good, bad))
    if not before or not before_bad:
        raise Unscorable("nothing stands before the word, and there is no start token")
    if tokenizer.unknown is not None and tokenizer.unknown in (*right, *wrong):
        raise Unscorable("the tokenizer does not know the word")
    if (before, right) == (before_bad, wrong):
        raise Unscorable("both sentences have the same tokens")
    if scoring == "one_prefix" and before != before_bad:
        raise Unscorable("the words before the verb have other tokens in the two sentences")
    if before == before_bad and len(right) == len(wrong) == 1:
        return [_row(good, before, right, good=right, bad=wrong, targets=right)]
    return [
        _row(good, before, right, good=right, targets=right),
        _row(bad, before_bad, wrong, bad=wrong, targets=right[:1]),
    ]


def _split(each: Read) -> tuple[list[int], list[int]]:
    """The tokens before the verb, and those of the verb."""
    assert each.sentence.verb is not None
    place = each.where(each.sentence.verb)
    return each.tokens[: place[0]], each.tokens[place[0] : place[-1] + 1]


def _row(each: Read, before: list[int], verb: list[int], **scored: list[int]) -> Row:
    tokens = [*before, *verb[:-1]]
    query, cue, roles = _marks(each)
    return Row(tokens, len(before) - 1, roles=roles[: len(tokens)], query=query, cue=cue, **scored)


def _whole(each: Read, *, good: bool, other: Read) -> Row:
    """All tokens of a sentence, the first one too if there is a start token to predict it from."""
    if each.tokens == other.tokens:
        raise Unscorable("both sentences have the same tokens")
    if -1 not in each.words and each.tokens[0] != other.tokens[0]:
        raise Unscorable("the sentences differ in their first token, which no start token comes before")
    scored = each.tokens[1:]
    query, cue, roles = _marks(each)
    return Row(each.tokens[:-1], 0, scored if good else [], [] if good else scored, scored, roles[:-1], query, cue)


def _marks(each: Read) -> tuple[int | None, int | None, list[int]]:
    """Query, cue, and the role of every token."""
    names = each.sentence.words
    subject, verb = each.sentence.subject, each.sentence.verb
    roles = []
    for word in each.words:
        if word == -1:
            role = "start"
        elif word in (subject, verb):
            role = "subject" if word == subject else "verb"
        else:
            role = "function" if names[word].lower().strip(".,;:!?\"'") in FUNCTION_WORDS else "other"
        roles.append(ROLES.index(role))
    query = each.where(verb)[0] - 1 if verb is not None else None
    cue = each.where(subject)[-1] if subject is not None else None
    return (query if query is not None and query >= 0 else None), cue, roles
