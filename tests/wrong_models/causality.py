"""Models that see what they must not: what comes later, how long the sequence is, its padding, more than they can."""

# The call of a module gives Any.
# mypy: no-warn-return-any

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wrong_models.base import Base


class OneAhead(nn.Module):
    """Attention whose mask is off by one."""

    def __init__(self, ahead: int = 1) -> None:
        super().__init__()
        self.ahead = ahead
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Tensor) -> Any:
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        visible = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril(self.ahead)
        return F.scaled_dot_product_attention(query[:, None], key[:, None], value[:, None], attn_mask=visible)[:, 0]


class LooksAhead(Base):
    ahead = 1

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.attention = OneAhead(self.ahead)

    def mix(self, x: Tensor) -> Tensor:
        return x + self.attention(x)


class LooksAheadBehindZero(LooksAhead):
    """The same, hidden at first: what the attention gives is scaled by a gate that starts at zero."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.gate = nn.Parameter(torch.zeros(()))

    def mix(self, x: Tensor) -> Tensor:
        return x + self.gate * self.attention(x)


class Bidirectional(Base):
    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.rnn = nn.LSTM(8, 4, batch_first=True, bidirectional=True)

    def mix(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


class CentredConvolution(Base):
    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.conv = nn.Conv1d(8, 8, 3, padding=1)

    def mix(self, x: Tensor) -> Tensor:
        return self.conv(x.mT).mT


class AheadLater(Base):
    """Sees ahead in sequences longer than `beyond`."""

    beyond = 13

    def mix(self, x: Tensor) -> Tensor:
        return x + x.roll(-1, 1) if x.shape[1] > self.beyond else x


class ScalesLater(Base):
    """Turns by another angle in sequences longer than `beyond`, as dynamic NTK scaling of rotary positions does."""

    beyond = 13

    def mix(self, x: Tensor) -> Tensor:
        base = 100.0 if x.shape[1] <= self.beyond else 400.0
        angle = torch.arange(x.shape[1], dtype=x.dtype, device=x.device) * base**-0.5
        return (x * angle.cos()[:, None]).cumsum(1)


class AheadBehindMask(LooksAhead):
    """The same, with an id that is never right: its outputs dwarf all others."""

    def forward(self, tokens: Tensor) -> Any:
        outputs = super().forward(tokens)
        return torch.cat([torch.full_like(outputs[..., :1], -1e30), outputs[..., 1:]], -1)


class OnlyAt(Base):
    """Sees ahead in sequences of 21 tokens and in no others."""

    def mix(self, x: Tensor) -> Tensor:
        return x + x.roll(-1, 1) if x.shape[1] == 21 else x


class Chaos(Base):
    """A logistic map, which makes everything of a difference in the last bit."""

    def mix(self, x: Tensor) -> Tensor:
        states, state = [], x[:, 0].sigmoid() * (1 + x.shape[1] * torch.finfo(x.dtype).eps)
        for step in x.unbind(1):
            state = (4 * state * (1 - state) * (1 - 1e-6 * step.sigmoid())).clamp(0, 1)
            states.append(state)
        return torch.stack(states, 1)


class BidirectionalInAList(Base):
    """Its guilty part is held by one of torch's modules, of which nobody wants to know the line."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.layers = nn.ModuleList([nn.LSTM(8, 4, batch_first=True, bidirectional=True)])

    def mix(self, x: Tensor) -> Tensor:
        return self.layers[0](x)[0]


class Encoder(Bidirectional):
    sees = "all"


class Misspelt(Bidirectional):
    sees = "al"


class DividesByLength(Base):
    def mix(self, x: Tensor) -> Tensor:
        return x.cumsum(1) / x.shape[1]


class FalsePadding(Base):
    padding_token = 0

    def mix(self, x: Tensor) -> Tensor:
        return x + x.sum(1, keepdim=True)


class Padded(FalsePadding):
    """Sees the whole sequence, but for its padding."""

    def forward(self, tokens: Tensor) -> Any:
        real = (tokens != 0)[..., None]
        return self.head(self.mix(self.embedding(tokens) * real))


class Limited(Base):
    """A table of positions that ends, which nobody is told."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.positions = nn.Embedding(40, 8)

    def mix(self, x: Tensor) -> Tensor:
        return x + self.positions(torch.arange(x.shape[1], device=x.device))


class LimitedAndSaysSo(Limited):
    max_length = 40


class LimitedAndSaysMore(Limited):
    max_length = 64


CAUGHT = [
    (
        LooksAhead,
        "causal",
        "it sees 1 token ahead, in `attention`, a OneAhead: changing token 1 changes the output at ",
    ),
    (LooksAheadBehindZero, "causal", "it sees 1 token ahead, in `attention`, a OneAhead"),
    (Bidirectional, "causal", "the whole sequence to its end, in `rnn`, an nn.LSTM with bidirectional=True"),
    (BidirectionalInAList, "causal", "in `layers.0`, an nn.LSTM with bidirectional=True"),
    (CentredConvolution, "causal", "it sees 1 token ahead, in `conv`, an nn.Conv1d"),
    (AheadLater, "causal", "in AheadLater.forward: changing the tokens from 15 on, of 16, changes outputs before them"),
    (AheadBehindMask, "causal", "it sees 1 token ahead, in `attention`, a OneAhead"),
    (Misspelt, "causal", "sees = 'al'; it is one of 'past', 'source', 'all'"),
    (ScalesLater, "prefixes", "of 256 tokens are others than those for these 13 alone"),
    (DividesByLength, "prefixes", "they depend on the length of the sequence"),
    (FalsePadding, "padding", "token 0 is padding, but appending it changes the outputs"),
    (Limited, "lengths", "it states no max_length, but 53 tokens raise IndexError"),
    (LimitedAndSaysMore, "lengths", "it states max_length = 64, but 53 tokens raise IndexError"),
]
