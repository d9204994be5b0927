"""What goes between a task and a model: the shape of it (`Interface`), and the sequences themselves (`Batch`)."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from harness.examples import seeded

IGNORE = -100
"""The target of a position without loss (the default `ignore_index` of `cross_entropy`)."""


@dataclass(frozen=True)
class Interface:
    """What a task feeds a model and what it wants back.

    Args:
        input_size: the number of token ids, or the width of the input vectors.
        output_size: the number of classes, or of real outputs, per position.
        input: `"tokens"` (integers, `batch time`) or `"vectors"` (reals, `batch time width`).
        output: `"classes"` (logits) or `"numbers"`.
        separator: the token that ends the source and begins the target, for tasks that have both (copying,
            translation): every sequence has it once, after one source token at least. None for all others.
    """

    input_size: int
    output_size: int
    input: Literal["tokens", "vectors"] = "tokens"
    output: Literal["classes", "numbers"] = "classes"
    separator: int | None = None

    @property
    def least(self) -> int:
        """The fewest tokens of a sequence: one, or two where one of them is the separator."""
        return 1 if self.separator is None else 2

    def draw(
        self, batch: int, time: int, generator: torch.Generator | None = None, device: torch.device | str = "cpu"
    ) -> Int[Tensor, "batch time"] | Float[Tensor, "batch time width"]:
        """Random input of that shape: tokens drawn uniformly, with the separator in the middle where there is one;
        normal numbers.

        Raises:
            ValueError: no time for a source before the separator.
        """
        if self.input == "vectors":
            return torch.randn(batch, time, self.input_size, generator=generator, device=device)
        if time < self.least:
            raise ValueError(f"time = {time}, and a source has one token at least before its separator; give 2 or more")
        tokens = torch.randint(self.input_size, (batch, time), generator=generator, device=device)
        if self.separator is not None:
            tokens = torch.where(tokens == self.separator, self.others(tokens, 1), tokens)
            tokens[:, time // 2] = self.separator
        return tokens

    def others(self, tokens: Int[Tensor, "*shape"], by: int | Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Other token ids, `by` further on (from 1 to one less than there are ids besides the separator): never the
        separator; a separator becomes an ordinary token."""
        if self.separator is None:
            return (tokens + by) % self.input_size
        found = (tokens - (tokens > self.separator).long() + by) % (self.input_size - 1)
        return found + (found >= self.separator).long()

    def target_starts(self, tokens: Shaped[Tensor, "batch time *width"]) -> Int[Tensor, " batch"]:
        """The first position after the separator in each sequence; 0 where there is none, as in vectors."""
        if self.separator is None or self.input == "vectors":
            return torch.zeros(len(tokens), dtype=torch.long, device=tokens.device)
        found = tokens == self.separator
        return torch.where(found.any(1), found.int().argmax(1) + 1, 0)


@dataclass(frozen=True)
class Batch:
    """Sequences with everything that is known about them; every tensor's first axis is the example.

    Args:
        tokens: token ids, right-padded; a task with vector input puts its reals (`batch time width`) here.
        targets: the class to predict at each position, `IGNORE` where there is no loss; or real targets, NaN where
            there is none.
        mask: True where a position is real, False where it is padding.
        cue: position that holds the information needed at the query (key; subject), if the task has one; -1 for an
            example without it.
        query: position at which the answer is predicted (`?`; the token before the verb), if there is one; -1 for an
            example without it.
        source: where an example asks more than once: for each position that has a target the position that holds what
            is needed there (the value of a pair, the source token to copy); -1 for none, and where there is no target.
            A task that gives it need give no cue and query: `asked` makes them of it.
        roles: what each token is in its sentence, an index into `Task.roles`; -1 for none.
        extra: further per-example tensors that the task's own score needs.
    """

    tokens: Int[Tensor, "batch time"] | Float[Tensor, "batch time width"]
    targets: Int[Tensor, "batch time"] | Float[Tensor, "batch time out"]
    mask: Bool[Tensor, "batch time"]
    cue: Int[Tensor, " batch"] | None = None
    query: Int[Tensor, " batch"] | None = None
    roles: Int[Tensor, "batch time"] | None = None
    extra: Mapping[str, Tensor] | None = None
    source: Int[Tensor, "batch time"] | None = None

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def _tensors(self) -> dict[str, Tensor]:
        """All that are there, but `extra`."""
        return {name: value for name, value in vars(self).items() if value is not None and name != "extra"}

    def _map(self, change: Any) -> "Batch":
        changed = {name: change(value) for name, value in self._tensors().items()}
        return Batch(**changed, extra=None if self.extra is None else {k: change(v) for k, v in self.extra.items()})

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return self._map(lambda tensor: tensor.to(device))

    def copy(self) -> "Batch":
        """The same batch in tensors of its own."""
        return self._map(torch.clone)

    def __getitem__(self, rows: slice | Tensor) -> "Batch":
        """The chosen examples: a slice, an index tensor or a boolean mask."""
        if isinstance(rows, slice):
            return self._map(lambda tensor: tensor[rows])
        places = torch.arange(len(self), device=self.tokens.device)[rows]  # whole rows are copied faster than indexed
        return self._map(lambda tensor: tensor.index_select(0, places))

    @property
    def marked(self) -> Bool[Tensor, " batch"]:
        """Whether an example has a cue and a query not before it."""
        if self.cue is None or self.query is None:
            return torch.zeros(len(self), dtype=torch.bool, device=self.tokens.device)
        return (self.cue >= 0) & (self.cue <= self.query)

    def asked(self) -> "Batch":
        """The same examples, each with one of its questions: a cue, a query, and a target at the query alone. Which one
        is drawn, always the same, so that a batch covers all and its examples stay independent. A batch that marks its
        cue and query, or has no `source`, is given back as it is."""
        if self.source is None or self.cue is not None or self.query is not None:
            return self
        has = self.source >= 0
        drawn = torch.rand(has.shape, generator=seeded("which question"), dtype=torch.float64).to(has.device)
        query = torch.where(has, drawn, -1.0).argmax(1)
        some, rows = has.any(1), torch.arange(len(self), device=has.device)
        here = torch.arange(has.shape[1], device=has.device) == query[:, None]
        none = math.nan if self.targets.is_floating_point() else IGNORE
        kept = here if self.targets.ndim == 2 else here[..., None]
        return replace(
            self,
            targets=torch.where(kept, self.targets, none),
            cue=torch.where(some, self.source[rows, query], -1),
            query=torch.where(some, query, -1),
            source=torch.where(here, self.source, -1),
        )

    def split(self, size: int) -> Iterator["Batch"]:
        """Consecutive batches of at most `size` examples."""
        parts = {name: value.split(size) for name, value in self._tensors().items()}
        extra = self.extra and {name: value.split(size) for name, value in self.extra.items()}
        for n in range(math.ceil(len(self) / size)):
            some = {name: each[n] for name, each in parts.items()}
            yield Batch(**some, extra=extra and {name: each[n] for name, each in extra.items()})

    def with_tokens(self, tokens: Tensor) -> "Batch":
        """The same batch with other tokens of the same shape, for interventions on the input."""
        return replace(self, tokens=tokens)
