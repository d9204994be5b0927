"""A string, a separator, and the string again: as it was, or from its end."""

import string
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from harness_plugins.tasks.drawing import Use, ahead, between, check_range
from jaxtyping import Int
from pydantic import Field, PositiveInt
from torch import Tensor

from harness import IGNORE, Batch, Condition, Interface, Task, token_metrics

ALPHABET = string.ascii_letters

HELD_OUT = 8
"""One string of so many is for the test alone, and another for validation."""


class Copy(Task):
    """Letters, a separator, and the same letters; from the separator on the next letter is asked for.

        tokens    c  a  f  |  c  a        length 3; letters are drawn uniformly
        targets   -  -  -  c  a  f
        source    -  -  -  0  1  2        the position that holds the answer: the right alignment is the diagonal

    As the string copying of S. Jelassi et al., "Repeat after me: transformers are better than state space models at
    copying" (2024, arXiv 2402.01032), and as translation without a language (I. Sutskever et al., 2014). A batch has
    one length, in training drawn uniformly, so that there is no padding. `accuracy` is that of letters where the model
    is given the right ones before; `exact` counts strings that are right as a whole.

    Strings of two letters and more are in one of training, validation and test alone: for the test are those whose
    letters, counted from 0, sum to less than an eighth of the alphabet, modulo its size; for validation those of the
    next eighth, for training all others. Each letter alone is as frequent as any other in each of them. An alphabet of
    two leaves none for validation, which has those of training.

    Args:
        train_min: shortest string in training, in letters.
        train_max: longest string in training.
        lengths: lengths to evaluate.
        letters: size of the alphabet; chance accuracy is 1 in so many.
    """

    axis = "length (letters)"
    recommended_training: ClassVar[dict[str, Any]] = {"optimizer": "adam", "steps": 1000, "batch_size": 64}
    backwards: ClassVar[bool] = False

    def __init__(
        self,
        *,
        train_min: PositiveInt = 1,
        train_max: PositiveInt = 10,
        lengths: Annotated[list[PositiveInt], Field(min_length=1)] = [2, 4, 6, 8, 10, 15, 20],  # noqa: B006
        letters: Annotated[int, Field(ge=2, le=len(ALPHABET))] = 16,
    ) -> None:
        self.train_min = train_min
        self.train_max = train_max
        self.lengths = sorted(set(lengths))
        self.letters = letters
        self.interface = Interface(letters + 1, letters + 1, separator=letters)
        self.metrics = token_metrics(letters)
        aside = max(1, letters // HELD_OUT)
        self.sums: dict[Use, tuple[int, int]] = {
            "test": (0, aside),
            "validation": (aside, 2 * aside),
            "training": (2 * aside if letters > 2 else aside, letters),
        }
        self.notes = ["of two letters validation has the strings of training"] if letters == 2 else []
        if self.lengths[0] == train_min == 1:
            self.notes += [f"strings of one letter are the same in training and test: there are {letters} of them"]

    @staticmethod
    def check_arguments(train_min: int, train_max: int, **others: Any) -> None:
        """Refuse an empty range."""
        check_range(train_min, train_max)

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        return self._stream("training", batch_size, generator)

    def validation(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        return self._stream("validation", batch_size, generator)

    def conditions(self) -> Sequence[Condition]:
        return [Condition(n, inside=self.train_min <= n <= self.train_max) for n in self.lengths]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        return self._sequences(*self._drawn(examples, int(condition.x), generator, "test"))

    def token_names(self, tokens: Int[Tensor, " time"]) -> list[str]:
        """`c a f | c a`."""
        names = [*ALPHABET[: self.letters], "|"]
        return [names[token] if 0 <= token < len(names) else str(token) for token in tokens.tolist()]

    def _stream(self, use: Use, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        def draw() -> tuple[Tensor, ...]:
            return self._drawn(batch_size, between(self.train_min, self.train_max, generator), generator, use)

        return ahead(draw, self._sequences, batch_size, 2 * self.train_max)

    def _drawn(self, count: int, length: int, generator: torch.Generator, use: Use) -> tuple[Tensor, ...]:
        """Letters, and of two and more what they sum to: strings are drawn uniformly from those of a use."""
        letters = torch.randint(self.letters, (count, length), generator=generator)
        if length == 1:
            return (letters,)
        return letters, torch.randint(*self.sums[use], (count,), generator=generator)

    def _sequences(self, letters: Int[Tensor, "batch length"], sums: Int[Tensor, " batch"] | None = None) -> Batch:
        """Of these letters, the last of which gives way to the one that gives the sum."""
        n = letters.shape[1]
        if sums is not None:
            letters[:, -1] = (sums - letters[:, :-1].sum(1)) % self.letters
        answers, source = letters, torch.arange(n).expand_as(letters)
        if self.backwards:
            answers, source = answers.flip(1), source.flip(1)
        tokens = torch.cat([letters, torch.full_like(letters[:, :1], self.letters), answers[:, :-1]], 1)
        targets, source = F.pad(answers, (n, 0), value=IGNORE), F.pad(source, (n, 0), value=-1)
        return Batch(tokens, targets, torch.ones_like(tokens, dtype=torch.bool), source=source)


class Reverse(Copy):
    """Letters, a separator, and the same letters from the last to the first. Otherwise as `Copy`.

        tokens    c  a  f  |  f  a
        targets   -  -  -  f  a  c
        source    -  -  -  2  1  0        the right alignment is the other diagonal

    What is asked for first was read last, so that the shortest way from source to target is short however long the
    string is (Sutskever et al., 2014, section 3.3).

    Args:
        train_min: shortest string in training, in letters.
        train_max: longest string in training.
        lengths: lengths to evaluate.
        letters: size of the alphabet; chance accuracy is 1 in so many.
    """

    backwards = True
