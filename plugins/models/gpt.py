"""The decoder-only transformer, with the usual choices of position and normalisation."""

import math
from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from harness_plugins.models.ends import either, input_layer
from jaxtyping import Complex, Float, Shaped
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from harness import Interface

Position = Literal["learned", "sinusoidal", "none", "rope", "alibi"]
Norm = Literal["pre", "post"]

# Position tables are made anew in each forward pass, once for all layers. That takes little of its time and gets
# any length, device and precision right, with no state to move, to copy or to leak out of inference mode.


def angles(length: int, width: int, like: Tensor) -> Float[Tensor, "time pair"]:
    """Position times frequency 10000^(-2i/width), for each pair i of features; on the device of `like`."""
    dtype = torch.promote_types(like.dtype, torch.float32)  # bfloat16 cannot count beyond 256
    positions = torch.arange(length, dtype=dtype, device=like.device)
    exponents = torch.arange(0, width, 2, dtype=dtype, device=like.device) / width
    return positions[:, None] * 10_000.0**-exponents


def sinusoids(length: int, width: int, like: Tensor) -> Float[Tensor, "time width"]:
    """PE[p, 2i] = sin(p / 10000^(2i/width)), PE[p, 2i+1] = cos(the same) (Vaswani et al., 2017, section 3.5)."""
    angle = angles(length, width, like)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :width].to(like.dtype)


def rotations(length: int, width: int, like: Tensor) -> Complex[Tensor, "time pair"]:
    """Unit complex numbers, to turn each pair of features by its angle (Su et al., 2021, section 3.2)."""
    angle = angles(length, width, like)
    return torch.polar(torch.ones_like(angle), angle)


def rotate(
    x: Float[Tensor, "batch head time d_head"], by: Complex[Tensor, "time pair"]
) -> Float[Tensor, "batch head time d_head"]:
    """Turn features 2i and 2i+1, read as one complex number: faster than four real products and a concatenation."""
    pairs = torch.view_as_complex(x.to(by.real.dtype).unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * by).flatten(-2).to(x.dtype)


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), ... if the number of heads n is a power of two (Press et al., 2022, section 3).

    Otherwise those of the power below, then every other one of the power above (the authors' code).
    """
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    return slopes + [2 ** (-4 * i / power) for i in range(1, 2 * (heads - power), 2)]


def alibi(length: int, heads: int, like: Tensor) -> Float[Tensor, "1 head time time"]:
    """Attention bias: minus slope times distance; -inf for keys in the future (Press et al., 2022, section 3)."""
    positions = torch.arange(length, device=like.device)
    distance = positions[:, None] - positions
    slopes = torch.tensor(alibi_slopes(heads), dtype=like.dtype, device=like.device)
    bias = (-slopes[:, None, None] * distance).masked_fill(distance < 0, -math.inf)
    return bias[None]  # with a batch axis, or the fused CPU kernel does not take it


class Attention(nn.Module):
    """Causal multi-head self-attention (Vaswani et al., 2017, section 3.2)."""

    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        turn: Complex[Tensor, "time pair"] | None = None,
        bias: Float[Tensor, "1 head time time"] | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        """Turn queries and keys by their position or add a bias to their scores, where one is given."""
        parts = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        if turn is not None:
            q, k = rotate(q, turn), rotate(k, turn)
        dropout = self.dropout.p if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, bias, dropout_p=dropout, is_causal=bias is None)
        y: Tensor = self.dropout(self.out(mixed.transpose(1, 2).flatten(2)))
        return y


class Block(nn.Module):
    """Attention, then a feed-forward net on each position; each with a residual connection and a layer norm.

    The norm comes after the addition (Vaswani et al., 2017, section 3.1) or before the branch (GPT-2; R. Xiong et
    al., "On layer normalization in the transformer architecture", 2020).
    """

    def __init__(self, d_model: int, heads: int, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.pre_norm = norm == "pre"
        self.norm1 = nn.LayerNorm(d_model)
        self.attention = Attention(d_model, heads, dropout)
        self.norm2 = nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(
            nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model), nn.Dropout(dropout)
        )

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        turn: Complex[Tensor, "time pair"] | None = None,
        bias: Float[Tensor, "1 head time time"] | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        """`turn` and `bias` are handed on to the attention."""
        if self.pre_norm:
            x = x + self.attention(self.norm1(x), turn, bias)
            x = x + self.mlp(self.norm2(x))
        else:
            x = self.norm1(x + self.attention(x, turn, bias))
            x = self.norm2(x + self.mlp(x))
        return x


class GPT(nn.Module):
    """Decoder-only transformer.

    A. Radford et al., "Improving language understanding by generative pre-training", 2018 (post-norm), and
    "Language models are unsupervised multitask learners", 2019 (pre-norm). Weights start from N(0, 0.02) and
    biases at 0, as in the first; the second's smaller start for residual projections is left out, since it is for
    deep nets. A block has 12 d_model^2 + 13 d_model parameters.

    Args:
        vocab_size: the number of token ids.
        interface: what goes in and comes out, if it is not tokens and logits; of vectors there is a linear projection.
        layers: blocks of attention and feed-forward net.
        heads: attention heads per block; they share `d_model` equally.
        d_model: width of the embedding and of everything between the blocks.
        max_length: the longest sequence in tokens. Only learned positions have a limit; others ignore this.
        position: how a token knows where it stands.
            `learned`: a vector per position, added to the embedding (GPT and GPT-2).
            `sinusoidal`: sines and cosines, added. Tokens of size 0.02 would drown in them, so the embedding
            starts with variance 1/d_model and is multiplied by sqrt(d_model) (Vaswani et al., "Attention is all
            you need", 2017, section 3.4 and the authors' code). A tied output then starts above the loss of
            guessing, since each token predicts itself.
            `none`: only the causal mask (Haviv et al., "Transformer language models without positional encodings
            still learn positional information", 2022).
            `rope`: queries and keys turn with position, so that scores depend on distance (Su et al.,
            "RoFormer", 2021).
            `alibi`: scores fall linearly with distance (Press et al., "Train short, test long", 2022).
        norm: layer norm before (`pre`) or after (`post`) the branches. Only `pre` needs one more at the end.
        tied: the output projection is the embedding matrix, without bias. For vectors, and where outputs are other
            than inputs, there is nothing to tie.
        dropout: rate on embeddings, attention weights and residual branches while training.
    """

    accepts = ("tokens", "vectors")
    recommended_training: ClassVar[dict[str, float]] = {"lr": 1e-3}

    def __init__(
        self,
        vocab_size: int,
        *,
        layers: PositiveInt = 2,
        heads: PositiveInt = 2,
        d_model: PositiveInt = 32,
        max_length: PositiveInt = 120,
        position: Position = "learned",
        norm: Norm = "pre",
        tied: bool = True,
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
        interface: Interface | None = None,
    ) -> None:
        super().__init__()
        self.check_arguments(heads=heads, d_model=d_model, position=position)
        self.heads = heads
        self.position = position
        self.max_length = max_length if position == "learned" else None
        interface = either(vocab_size, interface)
        self.embedding = input_layer(interface, d_model)
        if position == "learned":
            self.positions = nn.Parameter(torch.empty(max_length, d_model))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(d_model, heads, norm, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model) if norm == "pre" else nn.Identity()
        tied = tied and interface.input == "tokens" and interface.input_size == interface.output_size
        self.head = None if tied else nn.Linear(d_model, interface.output_size, bias=False)

        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        if position == "sinusoidal":
            nn.init.normal_(self.embedding.weight, std=d_model**-0.5)

    @staticmethod
    def check_arguments(*, heads: int, d_model: int, position: Position, **others: Any) -> None:
        """Refuse widths that the heads cannot share."""
        if d_model % heads:
            raise ValueError(
                f"the heads share d_model equally, but d_model={d_model} is not divisible by heads={heads}; "
                f"use d_model={math.ceil(d_model / heads) * heads} or another number of heads"
            )
        if position == "rope" and (d_model // heads) % 2:
            raise ValueError(
                f"rope turns pairs of features, but d_model={d_model} with heads={heads} gives each head "
                f"{d_model // heads}, an odd number; use d_model={d_model + heads} or another position"
            )

    def position_vectors(self, length: int) -> Float[Tensor, "time d_model"]:
        """What is added to the embeddings; zeros where positions act in the attention, or nowhere."""
        like = self.get_parameter("blocks.0.norm1.weight")
        match self.position:
            case "learned":
                return self.positions[:length]
            case "sinusoidal":
                return sinusoids(length, len(like), like)
            case _:
                return like.new_zeros(length, len(like))

    def forward(self, tokens: Shaped[Tensor, "batch time *width"]) -> Float[Tensor, "batch time out"]:
        x: Float[Tensor, "batch time d_model"] = self.embedding(tokens)
        length, d_model = x.shape[1:]
        if self.max_length is not None and length > self.max_length:
            raise ValueError(
                f"the input has {length} tokens, but there are learned positions for max_length={self.max_length}; "
                "build the model with a larger max_length, or with position none, rope, alibi or sinusoidal"
            )
        turn = bias = None
        match self.position:
            case "learned":
                x = x + self.positions[:length]
            case "sinusoidal":
                x = x * math.sqrt(d_model) + sinusoids(length, d_model, like=x)
            case "rope":
                turn = rotations(length, d_model // self.heads, like=x)
            case "alibi":
                bias = alibi(length, self.heads, like=x)
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x, turn, bias)
        y = self.norm(x)
        outputs: Tensor = F.linear(y, self.embedding.weight) if self.head is None else self.head(y)
        return outputs
