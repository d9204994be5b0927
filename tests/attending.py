"""Models that attend in every way PyTorch has, and what tests of attention compare."""

# The call of a module gives Any.
# mypy: no-warn-return-any

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

# By name, as many models do: what a module has imported must be seen too.
from torch.nn.functional import scaled_dot_product_attention

BATCH, TIME, VOCAB, WIDTH, HEADS, LAYERS = 3, 8, 11, 16, 4, 2
INF = math.inf


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Block(nn.Module):
    """Causal self-attention by hand, optionally with grouped queries."""

    def __init__(self, heads: int = HEADS, groups: int | None = None) -> None:
        super().__init__()
        self.heads, self.groups = heads, groups or heads
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH * self.groups // heads)
        self.value = nn.Linear(WIDTH, WIDTH * self.groups // heads)
        self.out = nn.Linear(WIDTH, WIDTH)

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    def values(self, x: Tensor) -> Tensor:
        values = self.split(self.value(x), self.groups)
        return values.repeat_interleave(self.heads // self.groups, 1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y = scaled_dot_product_attention(
            self.split(self.query(x), self.heads),
            self.split(self.key(x), self.groups),
            self.split(self.value(x), self.groups),
            attn_mask=mask,
            is_causal=mask is None,
            enable_gqa=self.groups != self.heads,
        )
        return self.out(y.transpose(1, 2).flatten(2))


class Handwritten(nn.Module):
    def __init__(self, heads: Sequence[int] = (HEADS, HEADS), groups: int | None = None) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.positions = nn.Parameter(torch.randn(TIME, WIDTH))
        self.blocks = nn.ModuleList(Block(each, groups) for each in heads)
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.embed(tokens) + self.positions
        for block in self.blocks:
            x = x + block(x, mask)
        return self.out(x)


class MultiHead(nn.Module):
    def __init__(self, batch_first: bool, need_weights: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first) for _ in range(LAYERS))
        self.batch_first, self.need_weights = batch_first, need_weights
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        x = x if self.batch_first else x.transpose(0, 1)
        mask = torch.ones(TIME, TIME, dtype=torch.bool).triu(1)
        for layer in self.layers:
            x = x + layer(x, x, x, attn_mask=mask, need_weights=self.need_weights, is_causal=True)[0]
        return self.out(x if self.batch_first else x.transpose(0, 1))


class Encoder(nn.Module):
    """PyTorch's own Transformer, which knows nothing of the harness."""

    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True, norm_first=norm_first)
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=not norm_first)
        for parameter in self.layers.parameters():  # layers begin as copies of each other
            nn.init.normal_(parameter, std=0.3)
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor:
        mask = torch.ones(TIME, TIME, dtype=torch.bool).triu(1) if padding is None else None
        x = self.layers(self.embed(tokens), mask=mask, is_causal=mask is not None, src_key_padding_mask=padding)
        return self.out(x)


MODELS = {
    "handwritten": lambda: Handwritten(),
    "grouped": lambda: Handwritten(groups=2),
    "mha": lambda: MultiHead(True, False),
    "mha-weights": lambda: MultiHead(True, True),
    "mha-time-first": lambda: MultiHead(False, False),
    "mha-time-first-weights": lambda: MultiHead(False, True),
    "encoder": lambda: Encoder(False),
    "encoder-norm-first": lambda: Encoder(True),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> nn.Module:
    return MODELS[request.param]().eval()


def tokens_of(batch: int = BATCH) -> Tensor:
    return torch.randint(0, VOCAB, (batch, TIME))


def swap(tokens: Tensor, position: Tensor) -> Tensor:
    swapped = tokens.clone()
    rows = torch.arange(len(tokens))
    swapped[rows, position] = (swapped[rows, position] + 1) % VOCAB
    return swapped


def largest(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()
