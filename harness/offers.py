"""Optional abilities: what a model, a module of one, a tokenizer or a task offers beyond the contract by having these
methods.

Nobody needs to import or subclass what stands here: an object that has the methods offers the ability. A model may also
state numbers, as attributes: `max_length`, the most tokens that it takes in one sequence (None: no limit);
`state_size`, how many numbers it carries from one token to the next; `padding_token`, a token id that changes none of
the earlier outputs when it is appended (a causal model cannot see it, and needs no such claim).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from harness.batches import Batch


@runtime_checkable
class Tokenizer(Protocol):
    """How a model reads text; what it offers to a task made of text."""

    @property
    def size(self) -> int:
        """The number of token ids that the model takes and predicts."""
        ...

    @property
    def start(self) -> int | None:
        """The token that the model expects before a text; None if it was trained without one."""
        ...

    @property
    def unknown(self) -> int | None:
        """The token that stands for what the vocabulary lacks, if there is one."""
        ...

    def encode(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The text's token ids, and for each the characters `first` to `last - 1` that it stands for."""
        ...

    def token(self, name: str) -> int | None:
        """The id of one token by name, for example `<s>`."""
        ...

    def name(self, token: int) -> str:
        """The inverse of `token`."""
        ...


@runtime_checkable
class OffersWordEnds(Protocol):
    """A tokenizer that knows which tokens continue a word."""

    @property
    def ends_word(self) -> Sequence[bool]:
        """For every token id, whether a word is over when this token comes next: it begins with a space or another sign
        that belongs to no word, or ends the text. False for a token that goes on with the word."""
        ...


@runtime_checkable
class OffersAttention(Protocol):
    """A model that computes attention by hand and shows its patterns itself."""

    def attention_patterns(self, tokens: Int[Tensor, "batch time"]) -> Sequence[Float[Tensor, "batch head time time"]]:
        """One tensor per layer; each row (over keys, the last axis) sums to 1, or less if a part goes to no token."""
        ...


@runtime_checkable
class OffersState(Protocol):
    """A recurrent model, or a module of one, that is written by hand and shows its state itself: a cell, a state-space
    model, linear attention. (`nn.RNN`, `nn.LSTM`, `nn.GRU` and their cells are seen without its help.)

    `forward` maps its input to outputs in one pass; `step`, from `initial_state` on and position by position, computes
    the same. It changes nothing, neither the module nor the state that it is given.

    A state is a tensor, or a tuple or dict of them, nested at will; the first axis of each is the example, and none
    grows with the length. The entry `cell` of a dict holds cells, as an LSTM has them. A list has one entry for each
    layer; gates are then a list, too.
    """

    def initial_state(self, batch_size: int) -> Any:
        """The state before the first step, on the device and in the precision of the module."""
        ...

    def step(
        self, x: Int[Tensor, " batch"] | Float[Tensor, "batch width"], state: Any
    ) -> tuple[Float[Tensor, "batch out"], Any, Mapping[str, Tensor] | list[Mapping[str, Tensor]]]:
        """One step: from the token ids, or vectors, at one position and the state before it to the outputs at that
        position, the state after it, and gates by name (`batch cell` each; `{}` if there is none to show)."""
        ...


@runtime_checkable
class OffersCache(Protocol):
    """A model of tokens that goes on from a sequence without reading it again, by what it keeps of it."""

    def go_on(self, tokens: Int[Tensor, "batch new"], cache: Any) -> tuple[Float[Tensor, "batch new out"], Any]:
        """The outputs for tokens that follow those behind `cache` (None: they are the first ones), equal to those of
        one pass over all; and what is kept of all. The cache that was given may be used up."""
        ...


@runtime_checkable
class OffersFit(Protocol):
    """A model that learns in its own way: a table of counts, a readout that is solved for, or nothing at all.

    `fit` is called in the place of the training loop. What it learns belongs into parameters and buffers, so that it is
    kept with the checkpoint; one whose size is known only afterwards is given its size in `_load_from_state_dict`, too
    (the built-in `ngram` is an example). Of the training settings only `steps`, `epochs` and `batch_size` have a
    meaning. Nothing is kept on the way: a training that was killed starts over.
    """

    def fit(self, stream: Iterator[Batch]) -> None:
        """Learn.

        Args:
            stream: training batches on the model's device, one for each step of the budget; of a finite set one pass at
                most, each example once. It may be left before its end.
        """
        ...


@runtime_checkable
class OffersPerfection(Protocol):
    """A task in which several answers count as right, so that outputs certain of the target do not get the best score.
    Only the conformance checks ask for it."""

    def perfect(self, batch: Batch) -> Float[Tensor, "batch time out"]:
        """Outputs that deserve the best score."""
        ...
