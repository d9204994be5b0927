"""Models whose answer on `recall` is known, since their weights are set by hand."""

import torch
import torch.nn.functional as F
from harness_plugins.tasks.recall import KEYS, VOCABULARY
from torch import Tensor, nn

SHARP = 30.0


def is_key(tokens: Tensor) -> Tensor:
    """1 at keys, 0 elsewhere."""
    return (tokens < KEYS).float()


class Lookup(nn.Module):
    """Two heads. The first looks at the key and answers with it; the second looks there too, unheard.

    Without the key in sight, the first head looks everywhere alike and answers with a distractor.
    """

    listens = (1.0, 0.0)
    remembers = 0.0
    """Weight of a second way round: the sum of all tokens so far, which no cut of attention stops."""

    def forward(self, tokens: Tensor) -> Tensor:
        kinds = F.one_hot(tokens, VOCABULARY).float()
        query, key = torch.ones(*tokens.shape, 1), SHARP * is_key(tokens)[..., None]
        q, k, v = (each[:, None].expand(-1, 2, -1, -1) for each in (query, key, kinds))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = torch.einsum("h,bhtv->btv", torch.tensor(self.listens), heads)
        return 20 * (mixed + self.remembers * kinds.cumsum(1))


class Leaky(Lookup):
    """A hybrid: a recurrence carries the key past any cut."""

    remembers = 0.01


class Blind(Lookup):
    """Looks at the key and never uses it: the answer is always the same."""

    listens = (0.0, 0.0)


class LastDistractor(nn.Module):
    """Answers with a key that depends on the last distractor alone."""

    def forward(self, tokens: Tensor) -> Tensor:
        before = tokens.roll(1, dims=1)
        return 10 * F.one_hot(before % KEYS, VOCABULARY).float()
