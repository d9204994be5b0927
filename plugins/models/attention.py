"""Softmax attention as a mixer: over all earlier positions, or over a window of the last ones."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from harness_plugins.models.backbone import model_of
from harness_plugins.models.gpt import alibi, rotate, rotations
from harness_plugins.models.heads import check_heads
from jaxtyping import Bool, Float
from pydantic import PositiveInt
from torch import Tensor, nn

from harness.attention import watched

Position = Literal["none", "rope", "alibi"]

BLOCK = 16
"""Queries of a block, at least: products of smaller matrices take longer than what they save."""


class Attention(nn.Module):
    """Causal multi-head attention (A. Vaswani et al., "Attention is all you need", 2017, section 3.2).

    Args:
        width: of what comes in and goes out; the heads share it equally.
        heads: each with its own pattern.
        position: how a score knows the distance to its key. `none`: not at all. `rope`: queries and keys turn with
            their position (J. Su et al., "RoFormer", 2021). `alibi`: scores fall linearly with it (O. Press et al.,
            "Train short, test long", 2022).
    """

    def __init__(self, width: int, *, heads: PositiveInt = 2, position: Position = "none") -> None:
        super().__init__()
        self.heads = heads
        self.position = position
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    @staticmethod
    def check_arguments(*, width: int, heads: int, position: Position, **others: Any) -> None:
        """Refuse widths that the heads cannot share, or rotary positions cannot turn."""
        check_heads(width, heads)
        if position == "rope" and width // heads % 2:
            raise ValueError(
                f"rope turns pairs of features, but d_model={width} with heads={heads} gives each head "
                f"{width // heads}, an odd number; use d_model={width + heads} or another position"
            )

    def parts(self, x: Float[Tensor, "batch *time width"]) -> Float[Tensor, "3 batch head *time d_head"]:
        """Queries, keys and values."""
        whole = self.qkv(x).unflatten(-1, (3, self.heads, -1))
        parts: Tensor = whole.movedim((-3, -2), (0, 2))
        return parts

    def attend(
        self,
        q: Float[Tensor, "batch head query d_head"],
        k: Float[Tensor, "batch head key d_head"],
        v: Float[Tensor, "batch head key d_head"],
        seen: Bool[Tensor, "*_ query key"] | None = None,
    ) -> Float[Tensor, "batch query width"]:
        """What the last positions, as queries, get of all.

        Args:
            q: of the last positions.
            k: of all; only their distance to the query matters.
            v: of all.
            seen: which of them a query sees; if it is not said, there are as many queries as keys, and all keys up to
                the query are seen.
        """
        bias, queries, keys = None, q.shape[-2], k.shape[-2]
        if self.position == "rope":
            turn = rotations(keys, q.shape[-1], like=q)
            q, k = rotate(q, turn[keys - queries :]), rotate(k, turn)
        elif self.position == "alibi":
            bias = alibi(keys, self.heads, like=q)[..., keys - queries :, :]
        if seen is not None:
            bias = seen if bias is None else bias.where(seen, -math.inf)
        mixed = F.scaled_dot_product_attention(q, k, v, bias, is_causal=bias is None)
        y: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return y

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        return self.attend(*self.parts(x))


class WindowAttention(Attention):
    """Attention to the last positions alone (I. Beltagy et al., "Longformer", 2020, section 3.1; A. Q. Jiang et al.,
    "Mistral 7B", 2023). Their keys and values are its state. Time grows with the length alone, but where attention is
    observed or cut (`harness.attention`): there is then one whole pattern, in a time that grows with its square.

    Args:
        width: of what comes in and goes out; the heads share it equally.
        window: positions that a query sees, its own included.
        heads: each with its own pattern.
        position: how a score knows the distance to its key; as for `attention`.
    """

    def __init__(
        self, width: int, *, window: PositiveInt = 16, heads: PositiveInt = 2, position: Position = "none"
    ) -> None:
        super().__init__(width, heads=heads, position=position)
        self.window = window
        self.block = max(window, BLOCK)

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        time = x.shape[1]
        q, k, v = self.parts(x)
        if watched() or time <= self.block:
            return self.attend(q, k, v, self.near(time, time, x.device))
        return self.in_blocks(q, k, v)

    def in_blocks(
        self,
        q: Float[Tensor, "batch head time d_head"],
        k: Float[Tensor, "batch head time d_head"],
        v: Float[Tensor, "batch head time d_head"],
    ) -> Float[Tensor, "batch time width"]:
        """The same, where queries see the keys of their own block and of the one before, as if these were all."""
        time, size = q.shape[2], self.block
        blocks = math.ceil(time / size)
        q, k, v = (F.pad(each, (0, 0, 0, blocks * size - time)).unflatten(2, (blocks, size)) for each in (q, k, v))
        k, v = (torch.cat((F.pad(each[:, :, :-1], (0, 0, 0, 0, 1, 0)), each), 3) for each in (k, v))
        seen = self.near(size, 2 * size, q.device).repeat(blocks, 1, 1)
        seen[0, :, :size] = False  # there is none before the first
        seen = seen.repeat(len(q), 1, 1)[:, None]
        q, k, v = (each.transpose(1, 2).flatten(0, 1) for each in (q, k, v))
        y: Tensor = self.attend(q, k, v, seen).unflatten(0, (-1, blocks))
        return y.flatten(1, 2)[:, :time]

    def near(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "query key"]:
        """Which of all keys the last positions see."""
        places = torch.arange(keys, device=device)
        distance = places[keys - queries :, None] - places
        return (distance >= 0) & (distance < self.window)

    def initial_state(self, batch_size: int) -> dict[str, Tensor]:
        """Keys and values of the positions before the next, and which of them there are: none."""
        weight, before = self.out.weight, self.window - 1
        nothing = weight.new_zeros(2, batch_size, self.heads, before, len(weight) // self.heads)
        there = torch.zeros(batch_size, before, dtype=torch.bool, device=weight.device)
        return {"keys": nothing[0], "values": nothing[1], "there": there}

    def step(
        self, x: Float[Tensor, "batch width"], state: dict[str, Tensor]
    ) -> tuple[Float[Tensor, "batch width"], dict[str, Tensor], Mapping[str, Tensor]]:
        """One position, which drives out the oldest."""
        q, k, v = (each[:, :, None] for each in self.parts(x))
        keys, values = torch.cat((state["keys"], k), 2), torch.cat((state["values"], v), 2)
        there = F.pad(state["there"], (0, 1), value=True)
        y = self.attend(q, keys, values, there[:, None, None])[:, 0]
        return y, {"keys": keys[:, :, 1:], "values": values[:, :, 1:], "there": there[:, 1:]}, {}


AttentionModel = model_of(Attention)
WindowAttentionModel = model_of(WindowAttention)
