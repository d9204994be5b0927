"""The transformer with an encoder and a decoder, and the blocks that it shares with the encoder alone."""

import math
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from harness_plugins.models.gpt import Norm, sinusoids
from harness_plugins.models.halves import Halves, separator_of
from jaxtyping import Bool, Float, Int
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from harness import Interface

Position = Literal["sinusoidal", "learned"]
Mask = Bool[Tensor, "#batch 1 time time"]


class Attention(nn.Module):
    """Multi-head attention from one sequence to another, or to itself (Vaswani et al., 2017, section 3.2)."""

    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(d_model, d_model)
        self.key_value = nn.Linear(d_model, 2 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch time d_model"], memory: Float[Tensor, "batch time d_model"], mask: Mask | None
    ) -> Float[Tensor, "batch time d_model"]:
        """What x finds in the memory, where the mask is True; everywhere without one."""
        parts = (self.query(x), *self.key_value(memory).chunk(2, dim=-1))
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=self.dropout.p if self.training else 0.0)
        y: Tensor = self.dropout(self.out(mixed.transpose(1, 2).flatten(2)))
        return y


class Block(nn.Module):
    """Attention to the own sequence, in a decoder then to the source, and a feed-forward net on each position; each
    with a residual connection and a layer norm, before (`pre`) or after (`post`) it."""

    def __init__(self, d_model: int, heads: int, norm: Norm, dropout: float, *, cross: bool = False) -> None:
        super().__init__()
        self.pre_norm = norm == "pre"
        self.norm1 = nn.LayerNorm(d_model)
        self.attention = Attention(d_model, heads, dropout)
        if cross:
            self.norm_cross = nn.LayerNorm(d_model)
            self.cross = Attention(d_model, heads, dropout)
        self.norm2 = nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(
            nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model), nn.Dropout(dropout)
        )

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        mask: Mask | None,
        source: Float[Tensor, "batch time d_model"] | None = None,
        source_mask: Mask | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        """`mask` is that of the attention to itself, `source_mask` that of the attention to the source."""
        x = self._added(x, self.norm1, lambda y: self.attention(y, y, mask))
        if source is not None:
            x = self._added(x, self.norm_cross, lambda y: self.cross(y, source, source_mask))
        return self._added(x, self.norm2, self.mlp)

    def _added(self, x: Tensor, norm: nn.Module, branch: Callable[[Tensor], Tensor]) -> Tensor:
        y: Tensor = x + branch(norm(x)) if self.pre_norm else norm(x + branch(x))
        return y


class Transformer(nn.Module):
    """Transformer with an encoder, which sees the whole source, and a decoder, which sees it and the target's past.

    A. Vaswani et al., "Attention is all you need", 2017. Positions count from 0 in the source, and anew from the
    separator on. Both halves are computed over the whole sequence, and masked, so that every attention is one of its
    positions: this costs as much as two stacks of GPT. Weights start as PyTorch draws them. At source positions the
    outputs are zeros.

    Args:
        interface: what goes in and comes out; it names the separator.
        layers: blocks of the encoder, and as many of the decoder.
        heads: attention heads per block; they share `d_model` equally.
        d_model: width of the embedding and of everything between the blocks.
        position: `sinusoidal`, added to the embedding, or a `learned` vector for each.
        max_length: the longest sequence in tokens, source and target together. Only learned positions have a limit.
        norm: layer norm before (`pre`) or after (`post`, as published) the branches.
        dropout: rate on embeddings, attention weights and residual branches while training.
    """

    sees = "source"
    recommended_training: ClassVar[dict[str, float]] = {"lr": 1e-3}

    def __init__(
        self,
        interface: Interface,
        *,
        layers: PositiveInt = 2,
        heads: PositiveInt = 2,
        d_model: PositiveInt = 32,
        position: Position = "sinusoidal",
        max_length: PositiveInt = 120,
        norm: Norm = "pre",
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    ) -> None:
        super().__init__()
        check_heads(heads=heads, d_model=d_model)
        self.separator = separator_of(interface)
        self.embedding = nn.Embedding(interface.input_size, d_model)
        self.positions = Positions(d_model, position, max_length)
        self.max_length = self.positions.most
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.ModuleList(Block(d_model, heads, norm, dropout) for _ in range(layers))
        self.decoder = nn.ModuleList(Block(d_model, heads, norm, dropout, cross=True) for _ in range(layers))
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(d_model) if norm == "pre" else nn.Identity() for _ in range(2)
        )
        self.head = nn.Linear(d_model, interface.output_size)

    @staticmethod
    def check_arguments(**arguments: Any) -> None:
        """Refuse widths that the heads cannot share."""
        check_heads(**arguments)

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time out"]:
        halves = Halves.of(tokens, self.separator)
        x = self.dropout(self.embedding(tokens) + self._positions(halves))
        in_source = halves.in_source[:, None]  # of keys; as many rows as are needed
        itself = torch.eye(halves.time, dtype=torch.bool, device=x.device)
        among_source = (in_source.mT & in_source | itself)[:, None]
        past_of_target = (~in_source & torch.ones_like(itself).tril() | itself)[:, None]
        source = x
        for block in self.encoder:
            source = block(source, among_source)
        source = self.encoder_norm(source)
        for block in self.decoder:
            x = block(x, past_of_target, source, halves.from_target_to_source)
        logits: Tensor = self.head(self.decoder_norm(x))
        return logits.masked_fill(halves.in_source[:, :, None], 0.0)

    def _positions(self, halves: Halves) -> Float[Tensor, "#batch time d_model"]:
        """Those of the source, and of the target from its separator on."""
        table, starts = self.positions(halves.time, self.head.weight), halves.starts
        places = torch.arange(halves.time, device=starts.device).expand(len(halves.in_source), -1)
        starts = starts[: len(places), None]
        vectors: Tensor = table[torch.where(halves.in_source, places, places - starts)]
        return vectors


class Positions(nn.Module):
    """A vector for each position, to be added to the embedding.

    Attributes:
        most: the number of positions; None for no limit.
    """

    def __init__(self, d_model: int, position: Position, most: int) -> None:
        super().__init__()
        self.most = most if position == "learned" else None
        self.width = d_model
        if position == "learned":
            self.learned = nn.Parameter(torch.empty(most, d_model).normal_(std=0.02))

    def forward(self, length: int, like: Tensor) -> Float[Tensor, "time d_model"]:
        """The first `length` of them; sinusoids are made on the device of `like`.

        Raises:
            ValueError: there are fewer.
        """
        if self.most is None:
            return sinusoids(length, self.width, like)
        if length > self.most:
            raise ValueError(
                f"the input has {length} tokens, source and target together, but there are learned positions for "
                f"max_length={self.most}; build the model with a larger max_length, or with position=sinusoidal"
            )
        return self.learned[:length]


def check_heads(*, heads: int, d_model: int, **others: Any) -> None:
    """Refuse widths that the heads cannot share.

    Raises:
        ValueError: they cannot.
    """
    if d_model % heads:
        raise ValueError(
            f"the heads share d_model equally, but d_model={d_model} is not divisible by heads={heads}; "
            f"use d_model={math.ceil(d_model / heads) * heads} or another number of heads"
        )
