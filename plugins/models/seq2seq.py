"""A recurrent encoder, a recurrent decoder, and attention between them."""

from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from harness_plugins.models.halves import Halves, separator_of
from harness_plugins.models.lstm import set_forget_bias
from jaxtyping import Bool, Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from harness import Interface
from harness.attention import observe

Score = Literal["none", "additive", "dot", "general", "scaled"]
Values = Literal["shared", "separate"]
CELLS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class Attention(nn.Module):
    """Attention of decoder states q to encoder states k, with the score

        additive  v . tanh(W q + U k + b)        (Bahdanau et al., 2015)
        dot       q . k                          (Luong et al., 2015)
        general   (W q) . k                      (Luong et al., 2015)
        scaled    (W q) . (U k) / sqrt(hidden)   (Vaswani et al., 2017)

    All are computed in `scaled_dot_product_attention`; additive scores go in as its mask, beside queries and keys of
    zeros.
    """

    def __init__(self, hidden: int, score: Score, values: Values) -> None:
        super().__init__()
        self.additive = score == "additive"
        self.scale = None if score == "scaled" else 1.0
        projects_keys = score in ("additive", "scaled") or values == "separate"
        self.query = nn.Identity() if score == "dot" else nn.Linear(hidden, hidden, bias=False)
        self.key = nn.Linear(hidden, hidden, bias=self.additive) if projects_keys else nn.Identity()
        self.value = nn.Linear(hidden, hidden, bias=False) if values == "separate" else nn.Identity()
        if self.additive:
            self.weigh = nn.Linear(hidden, 1, bias=False)

    def forward(
        self,
        queries: Float[Tensor, "batch target hidden"],
        encoded: Float[Tensor, "batch source hidden"],
        halves: Halves,
    ) -> Float[Tensor, "batch target hidden"]:
        """What each step of the targets looks up. Asked from all positions of the stream to all, of which sources alone
        are let through, so that the pattern is one of positions."""
        q, k, scores = self._scored(queries, self.key(encoded))
        behind = (0, 0, 0, halves.time - halves.source)
        mask = halves.from_target_to_source
        if scores is not None:
            mask = _hidden(halves.in_stream(F.pad(scores, behind[2:]))[:, None], mask)
        q, k, v = halves.in_stream(q), F.pad(k, behind), F.pad(self.value(encoded), behind)
        return halves.targets_of(self._attended(q, k, v, mask))

    def at_once(
        self,
        query: Float[Tensor, "batch 1 hidden"],
        keys: Float[Tensor, "batch source hidden"],
        values: Float[Tensor, "batch source hidden"],
        halves: Halves,
    ) -> Float[Tensor, "batch 1 hidden"]:
        """What one step of the targets looks up, from keys and values that are made already."""
        q, k, scores = self._scored(query, keys)
        mask: Tensor | None = halves.in_source[:, None, None, : halves.source] if halves.ragged else None
        if scores is not None:
            mask = scores[:, None] if mask is None else _hidden(scores[:, None], mask)
        return self._attended(q, k, values, mask)

    def _scored(
        self, queries: Float[Tensor, "batch query hidden"], keys: Float[Tensor, "batch key hidden"]
    ) -> tuple[Float[Tensor, "batch query _"], Float[Tensor, "batch key _"], Float[Tensor, "batch query key"] | None]:
        """Queries and keys whose products are the scores, or zeros and the scores."""
        queries = self.query(queries)
        if not self.additive:
            return queries, keys, None
        scores = self.weigh((queries[:, :, None] + keys[:, None]).tanh()).squeeze(-1)
        return torch.zeros_like(queries[..., :1]), torch.zeros_like(keys[..., :1]), scores

    def _attended(
        self,
        queries: Float[Tensor, "batch query _"],
        keys: Float[Tensor, "batch key _"],
        values: Float[Tensor, "batch key hidden"],
        mask: Tensor | None,
    ) -> Float[Tensor, "batch query hidden"]:
        q, k, v = queries[:, None], keys[:, None], values[:, None]
        return F.scaled_dot_product_attention(q, k, v, mask, scale=self.scale)[:, 0]


def _hidden(
    scores: Float[Tensor, "batch 1 query key"], shown: Bool[Tensor, "#batch 1 #query key"]
) -> Float[Tensor, "batch 1 query key"]:
    return scores.masked_fill(~shown, -torch.inf)


class Seq2seq(nn.Module):
    """A recurrent encoder reads the source, and a recurrent decoder goes on from its last state.

        source a b c       ->  encoder states e1 e2 e3, the last one begins the decoder
        target | a b       ->  decoder states d1 d2 d3, which name the next token each

    I. Sutskever et al., "Sequence to sequence learning with neural networks", 2014: without attention the whole source
    must go through one state. D. Bahdanau et al., "Neural machine translation by jointly learning to align and
    translate", 2015, and M.-T. Luong et al., "Effective approaches to attention-based neural machine translation",
    2015: each step looks at all encoder states. What it found, c, is read with the state, tanh(W [d; c]).

    One layer of cells on either side. Source and target share their embedding. Weights start as PyTorch draws them,
    an LSTM's forget gates with bias 1. At source positions the outputs are zeros.

    Args:
        interface: what goes in and comes out; it names the separator.
        cell: of encoder and decoder.
        score: how the decoder looks at the encoder's states (see `Attention`); `none`: not at all.
        values: what a step looks up is the encoder's state that the score reads (`shared`), or keys and values are two
            linear projections of it (`separate`).
        query: the decoder's state `after` its step looks, and no step depends on what was found (Luong, without input
            feeding): all steps at once. Or that `before` it does, and the step reads what it found beside its token
            (Bahdanau): step by step, slower; attention can then be read by probes, and not be cut.
        reversed: the encoder reads the source from its end (Sutskever).
        bidirectional: half of the encoder's cells read from the end; a state is both halves.
        embedding: width of the token embedding.
        hidden: width of the states.
    """

    sees = "source"
    recommended_training: ClassVar[dict[str, float]] = {"lr": 3e-3}

    def __init__(
        self,
        interface: Interface,
        *,
        cell: Literal["rnn", "lstm", "gru"] = "lstm",
        score: Score = "additive",
        values: Values = "shared",
        query: Literal["after", "before"] = "after",
        reversed: bool = False,
        bidirectional: bool = False,
        embedding: PositiveInt = 32,
        hidden: PositiveInt = 64,
    ) -> None:
        super().__init__()
        self.check_arguments(
            score=score, values=values, query=query, reversed=reversed, bidirectional=bidirectional, hidden=hidden
        )
        self.separator = separator_of(interface)
        self.reversed = reversed
        self.feeds_back = query == "before"
        self.embedding = nn.Embedding(interface.input_size, embedding)
        make = CELLS[cell]
        own = hidden // 2 if bidirectional else hidden
        self.encoder = make(embedding, own, batch_first=True, bidirectional=bidirectional)
        self.decoder = make(embedding + hidden * self.feeds_back, hidden, batch_first=True)
        self.attention = None if score == "none" else Attention(hidden, score, values)
        self.join = None if score == "none" else nn.Linear(2 * hidden, hidden)
        self.head = nn.Linear(hidden, interface.output_size)
        if cell == "lstm":
            for each in (self.encoder, self.decoder):
                set_forget_bias(each, 1.0)
        if self.feeds_back:
            self.attention_patterns = self._patterns  # of the instance, since otherwise it can be seen from outside

    @staticmethod
    def check_arguments(
        *, score: Score, values: Values, query: str, reversed: bool, bidirectional: bool, hidden: int, **others: Any
    ) -> None:
        """Refuse what does not go together."""
        if score == "none" and (values, query) != ("shared", "after"):
            raise ValueError("score=none has no attention, to which values and query would apply; leave them out")
        if reversed and bidirectional:
            raise ValueError("bidirectional=true reads the source in both directions; leave reversed out")
        if bidirectional and hidden % 2:
            raise ValueError(f"bidirectional=true halves the states; hidden={hidden} is odd, use hidden={hidden + 1}")

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time out"]:
        halves = Halves.of(tokens, self.separator)
        x = self.embedding(tokens)
        encoded, state = self._encoded(x[:, : halves.source], halves)
        steps = halves.targets_of(x)
        if self.attention is None or self.join is None:
            read, _ = self.decoder(steps, state)
        else:
            if self.feeds_back:
                states, found = self._step_by_step(steps, state, encoded, halves)
            else:
                states, _ = self.decoder(steps, state)
                found = self.attention(states, encoded, halves)
            read = self.join(torch.cat([states, found], -1)).tanh()
        return halves.in_stream(self.head(read))

    def _encoded(
        self, source: Float[Tensor, "batch source width"], halves: Halves
    ) -> tuple[Float[Tensor, "batch source hidden"], Any]:
        """The state at each token of the source, and the one that the decoder begins with."""
        if self.reversed:
            source = halves.turned(source)
        if halves.ragged:
            packed = pack_padded_sequence(source, halves.starts.cpu(), batch_first=True, enforce_sorted=False)
            states, last = self.encoder(packed)
            states, _ = pad_packed_sequence(states, batch_first=True, total_length=halves.source)
        else:
            states, last = self.encoder(source)
        both = tuple(map(_side_by_side, last)) if isinstance(last, tuple) else _side_by_side(last)
        return halves.turned(states) if self.reversed else states, both

    def _step_by_step(
        self,
        steps: Float[Tensor, "batch target width"],
        state: Any,
        encoded: Float[Tensor, "batch source hidden"],
        halves: Halves,
    ) -> tuple[Float[Tensor, "batch target hidden"], Float[Tensor, "batch target hidden"]]:
        """States, and what was found before each."""
        assert self.attention is not None
        keys, values = self.attention.key(encoded), self.attention.value(encoded)
        states, looked_up = [], []
        for x in steps.split(1, 1):
            before = state[0] if isinstance(state, tuple) else state
            found = self.attention.at_once(before.transpose(0, 1), keys, values, halves)
            output, state = self.decoder(torch.cat([x, found], -1), state)
            states.append(output)
            looked_up.append(found)
        return torch.cat(states, 1), torch.cat(looked_up, 1)

    def _patterns(self, tokens: Int[Tensor, "batch time"]) -> list[Float[Tensor, "batch 1 time time"]]:
        """The weights of a decoder that looks step by step, in one pattern; no weights at source positions."""
        halves = Halves.of(tokens, self.separator)
        with observe() as seen:
            self(tokens)
        steps = torch.cat([each[:, 0] for each in seen.patterns], 1)
        return [halves.in_stream(F.pad(steps, (0, halves.time - halves.source)))[:, None]]


def _side_by_side(last: Float[Tensor, "direction batch own"]) -> Float[Tensor, "1 batch hidden"]:
    """The last states of one direction or both as one state."""
    return last.transpose(0, 1).flatten(1)[None].contiguous()
