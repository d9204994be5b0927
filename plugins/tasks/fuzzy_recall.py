"""Fuzzy recall: keys and values are words of one to three letters."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from harness_plugins.tasks.drawing import Drawn
from harness_plugins.tasks.in_context_recall import occurrences
from jaxtyping import Int
from pydantic import Field, PositiveInt
from torch import Tensor

from harness import IGNORE, Batch, Condition, Interface, token_metrics

LETTERS, LONGEST = 4, 3
"""Letters of keys, and as many of values; letters of a word."""

WORDS = [word for n in range(1, LONGEST + 1) for word in itertools.permutations(range(LETTERS), n)]
"""All words: no letter twice in one (as the authors have it). 4 of one letter, 12 of two, 24 of three."""


class FuzzyRecall(Drawn):
    """Keys of letters `a b c d`, each before its value of letters `A B C D`; a sequence gives each of its keys one
    value. Where a key comes again, all letters of its value are asked for, one by one.

        tokens   b  a  C  A  D  c  B  b  a  C  A  D  c  B      length 14
        targets  -  -  -  -  -  -  -  -  C  A  D  -  B  -

    M. Poli et al., "Mechanistic design and scaling of hybrid architectures" (2024), section 3.1. A word has one, two or
    three letters, each equally often, none twice. A sequence has `keys` different keys, drawn uniformly; it ends with
    the last pair that fits, and its rest is padding. `source` is the place of the letter at the first time, for
    questions at the second one: later ones have more than one answer in sight. Chance is one of 4 letters.

    Args:
        keys: how many different keys a sequence has.
        train_min: smallest length in training, in tokens.
        train_max: largest length in training.
        lengths: lengths to evaluate.
    """

    names = [*"abcdABCD", "_"]  # noqa: RUF012
    interface = Interface(2 * LETTERS + 1, 2 * LETTERS + 1)
    metrics = token_metrics(LETTERS)
    recommended_training: ClassVar[Mapping[str, Any]] = {"steps": 1000, "batch_size": 64}
    at_once = 2**16

    def __init__(
        self,
        *,
        keys: Annotated[int, Field(ge=2, le=len(WORDS))] = 4,
        train_min: PositiveInt = 32,
        train_max: PositiveInt = 64,
        lengths: Annotated[list[PositiveInt], Field(min_length=1)] = [32, 64, 128],  # noqa: B006
    ) -> None:
        self.keys = keys
        self.sizes = torch.tensor([len(word) for word in WORDS])
        counts = self.sizes.bincount()
        # each word so many times that each size is drawn equally often
        self.tickets = torch.arange(len(WORDS)).repeat_interleave(counts.max() // counts[self.sizes])
        self.pairs: Int[Tensor, "pair place"]
        self.pairs = torch.tensor([_pair(key, value) for key in WORDS for value in WORDS])
        super().__init__(train_min, train_max, lengths)

    @staticmethod
    def check_arguments(  # type: ignore[override]
        *, keys: int, train_min: int, train_max: int, lengths: Sequence[int], **others: Any
    ) -> None:
        """Refuse sequences in which no key need come again."""
        Drawn.check_arguments(train_min=train_min, train_max=train_max)
        shortest, needed = min(train_min, *lengths), 2 * LONGEST * (keys + 1)
        if shortest < needed:
            raise ValueError(
                f"in {shortest} tokens each of {keys} keys may come once, and nothing be asked; use lengths of "
                f"{needed} tokens or more, or fewer keys"
            )

    def bits(self, condition: Condition) -> float:
        word = sum(math.log2(LONGEST * math.perm(LETTERS, size)) for size in range(1, LONGEST + 1)) / LONGEST
        return 2 * self.keys * word + condition.x / (4 * LONGEST / 3) * math.log2(self.keys)

    def draw(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        length = int(condition.x)
        which = torch.randint(self.keys, (examples, (length + 1) // 2), generator=generator)
        keys = self._different(examples, generator)
        values = self._words(examples, self.keys, generator)

        # for each position the pair that stands there, and its cell in the table of the pairs of the sequence
        sizes = self.sizes.take(keys) + self.sizes.take(values)
        sizes = sizes.gather(1, which)
        ends = sizes.cumsum(1)
        starts = ends - sizes
        position = torch.arange(length)
        pair = torch.zeros(examples, length + 1, dtype=torch.long)
        pair = pair.scatter_(1, ends.clamp(max=length), 1)[:, :length].cumsum(1)  # as many as have ended
        cell = position + (2 * LONGEST * which - starts).gather(1, pair)
        letters = F.embedding(len(WORDS) * keys + values, self.pairs).flatten(1).gather(1, cell)
        fits = position < (ends * (ends <= length)).amax(1, keepdim=True)
        tokens = torch.where(fits, letters, len(self.names) - 1)

        # asked for, at the position before, is each letter of a value that was told, so many positions ago; `length`
        # stands for a pair that was there more than once
        first, again, second = occurrences(which, self.keys)
        since = starts - starts.gather(1, first)
        since = since.masked_fill(again & ~second, length).gather(1, pair)
        asked = fits & (tokens >= LETTERS) & (since > 0)
        targets = torch.where(asked, tokens, IGNORE)
        source = torch.where(asked, position - since, -1).clamp(min=-1)
        return Batch(tokens, F.pad(targets, (-1, 1), value=IGNORE), fits, source=F.pad(source, (-1, 1), value=-1))

    def _words(self, examples: int, count: int, generator: torch.Generator) -> Int[Tensor, "batch count"]:
        return self.tickets.take(torch.randint(len(self.tickets), (examples, count), generator=generator))

    def _different(self, examples: int, generator: torch.Generator) -> Int[Tensor, "batch key"]:
        """As many different words as there are keys: of those drawn one after the other each that is new."""
        words = self._words(examples, 3 * self.keys, generator)
        while True:
            _, again, _ = occurrences(words, len(WORDS))
            rank = (~again).cumsum(1)
            if bool((rank[:, -1] >= self.keys).all()):
                return words[~again & (rank <= self.keys)].view(examples, self.keys)
            words = torch.cat([words, self._words(examples, words.shape[1], generator)], 1)


def _pair(key: Sequence[int], value: Sequence[int]) -> list[int]:
    """The letters of a key and of its value, filled up."""
    letters = [*key, *(LETTERS + letter for letter in value)]
    return [*letters, *[0] * (2 * LONGEST - len(letters))]
