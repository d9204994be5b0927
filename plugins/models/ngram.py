"""Counts of n-grams, smoothed: what can be known from having seen the same few words before.

Written here since no library fits: `nltk.lm` counts in Python dictionaries, answers for one word at a time and wants
padded texts of its own; `kenlm` is compiled, knows Kneser-Ney alone and reads files. A table of sorted numbers answers
for all words after all positions of a batch at once, on any device, and is saved as weights are.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from harness_plugins.models.ends import either
from jaxtyping import Bool, Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn

from harness import IGNORE, Batch, Interface, Skip

AT_ONCE = 2**20
"""At most this many n-grams are kept as they come before they are counted."""


class NGram(nn.Module):
    """Probabilities of the answer after the last n - 1 tokens, from counts, smoothed after Witten and Bell:

        P(w | h) = (c(h, w) + T(h) P(w | h')) / (c(h) + T(h))

    with c(h, w) how often w was the answer after the context h, c(h) their sum, T(h) how many different answers h had,
    and h' the context without its farthest token; below the empty context all answers are alike, and a context that was
    never seen leaves the word to the shorter one. (I. H. Witten and T. C. Bell, "The zero-frequency problem", 1991,
    method C; interpolated as by S. F. Chen and J. Goodman, "An empirical study of smoothing techniques for language
    modeling", 1998.) Where a sequence begins, the context is as long as there are tokens.

    There are no parameters and no gradients: training counts. What stands farther back than n - 1 tokens it cannot
    know, and of what is nearer only what it has seen in just these words.

    Contexts form a tree, in which a child adds the token before. Node 0 is the empty context, node i + 1 the one whose
    `parent * tokens + token` is at place i of `contexts`, which ascends.

    Args:
        vocab_size: the number of token ids.
        interface: what goes in and comes out, if it is not tokens and logits.
        n: how many tokens go together, the answer among them.
    """

    contexts: Int[Tensor, " nodes"]
    pairs: Int[Tensor, " pairs"]
    """`node * answers + answer`, ascending, for each answer that followed a context."""
    counts: Float[Tensor, " pairs"]
    """How often it did."""

    def __init__(self, vocab_size: int, *, n: PositiveInt = 5, interface: Interface | None = None) -> None:
        super().__init__()
        interface = either(vocab_size, interface)
        if interface.output != "classes":
            raise Skip("the task asks for numbers, and the model counts answers")
        self.n = n
        self.tokens = interface.input_size
        self.answers = interface.output_size
        self.register_buffer("contexts", torch.empty(0, dtype=torch.long))
        self.register_buffer("pairs", torch.empty(0, dtype=torch.long))
        self.register_buffer("counts", torch.empty(0))

    def fit(self, stream: Iterator[Batch]) -> None:
        """Count the n-grams of all batches, wherever there is a target."""
        parts: list[_Counted] = []
        for batch in stream:
            parts.append(_ngrams(batch, self.n))
            if sum(len(counts) for _, counts in parts[1:]) > AT_ONCE:
                parts = [_together(parts)]
        if parts:
            self._tabulate(*_together(parts))

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time out"]:
        # in float64, since a factor for each of n contexts may leave nothing of a probability in float32
        shape = (*tokens.shape, self.answers)
        probabilities = torch.full(shape, 1 / self.answers, dtype=torch.float64, device=tokens.device)
        for node in self._nodes(tokens) if len(self.pairs) else ():
            known = node >= 0
            counts = self._followers(node[known])
            kinds = (counts > 0).sum(-1, keepdim=True)
            smoothed = counts + kinds * probabilities[known]
            probabilities[known] = smoothed / (counts.sum(-1, keepdim=True) + kinds)
        return probabilities.log().to(self.counts.dtype)

    def unseen(self, batch: Batch) -> Bool[Tensor, "batch time"]:
        """Where training never had the target after the last n - 1 tokens, or after all of them where there are fewer;
        False where there is no target."""
        position = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
        context = torch.zeros_like(batch.tokens)
        for length, node in enumerate(self._nodes(batch.tokens)):
            context = torch.where(position + 1 >= length, node, context)
        pair = _places(self.pairs, context * self.answers + batch.targets)
        return ((context < 0) | (pair < 0)) & (batch.targets != IGNORE)

    def _tabulate(self, rows: Int[Tensor, "ngrams n"], counts: Int[Tensor, " ngrams"]) -> None:
        """Make the tables from distinct n-grams (`_ngrams`): the tree grows by a token at a time, back from the
        answer."""
        node, nodes = torch.zeros_like(counts), 1
        contexts, pairs, totals = [self.contexts.new_empty(0)], [], []
        for length in range(self.n):
            if length:
                there = rows[:, length] >= 0
                rows, counts, node = rows[there], counts[there], node[there]
                keys, place = (node * self.tokens + rows[:, length]).unique(return_inverse=True)
                node, nodes = place + nodes, nodes + len(keys)
                contexts.append(keys)
            keys, place = (node * self.answers + rows[:, 0]).unique(return_inverse=True)
            pairs.append(keys)
            totals.append(torch.zeros_like(keys).index_add_(0, place, counts))
        self.contexts, self.pairs = torch.cat(contexts), torch.cat(pairs)
        self.counts = torch.cat(totals).to(self.counts.dtype)

    def _nodes(self, tokens: Int[Tensor, "batch time"]) -> Iterator[Int[Tensor, "batch time"]]:
        """The node of the context of each position, of no token and then of one more each time; -1 where training did
        not have it, or there are not so many tokens."""
        node = torch.zeros_like(tokens)
        yield node
        for steps in range(self.n - 1):
            token = _before(tokens, steps)
            place = _places(self.contexts, node * self.tokens + token)
            node = torch.where((node >= 0) & (token >= 0) & (place >= 0), place + 1, -1)
            yield node

    def _followers(self, nodes: Int[Tensor, " nodes"]) -> Float[Tensor, "nodes answers"]:
        """How often each answer followed these contexts."""
        distinct, place = nodes.unique(return_inverse=True)
        first, end = (torch.searchsorted(self.pairs, each * self.answers) for each in (distinct, distinct + 1))
        many = end - first
        row = torch.arange(len(distinct), device=nodes.device).repeat_interleave(many)
        pair = torch.arange(len(row), device=nodes.device) + (first - many.cumsum(0) + many)[row]
        table = torch.zeros(len(distinct), self.answers, dtype=torch.float64, device=nodes.device)
        table[row, self.pairs[pair] % self.answers] = self.counts[pair].double()
        return table[place]

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *others: Any) -> None:
        """Tables have the size that training gave them, here and in a checkpoint."""
        for name, table in self.named_buffers():
            if (saved := state_dict.get(prefix + name)) is not None:
                setattr(self, name, table.new_empty(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *others)


_Counted = tuple[Int[Tensor, "_ n"], Int[Tensor, " _"]]
"""N-grams, each a target and then the tokens before it, the nearest first, -1 where there is none; and how often."""


def _ngrams(batch: Batch, n: int) -> _Counted:
    """Those of all positions that have a target."""
    columns = [batch.targets, *(_before(batch.tokens, steps) for steps in range(n - 1))]
    rows = torch.stack(columns, dim=-1)[batch.targets != IGNORE]
    return rows, rows.new_ones(len(rows))


def _together(parts: Sequence[_Counted]) -> _Counted:
    """Each n-gram once."""
    rows, counts = (torch.cat(each) for each in zip(*parts, strict=True))
    distinct, place = rows.unique(dim=0, return_inverse=True)
    return distinct, counts.new_zeros(len(distinct)).index_add_(0, place, counts)


def _before(tokens: Int[Tensor, "batch time"], steps: int) -> Int[Tensor, "batch time"]:
    """For each position the token so many steps before; -1 where there is none."""
    return F.pad(tokens, (steps, 0), value=-1)[:, : tokens.shape[1]]


def _places(ascending: Int[Tensor, " known"], wanted: Int[Tensor, "batch time"]) -> Int[Tensor, "batch time"]:
    """Where each number is in a table; -1 where it is not."""
    if not len(ascending):
        return torch.full_like(wanted, -1)
    place = torch.searchsorted(ascending, wanted).clamp(max=len(ascending) - 1)
    return torch.where(ascending[place] == wanted, place, -1)
