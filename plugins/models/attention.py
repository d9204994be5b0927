"""Softmax attention as a mixer: over all earlier positions, or over a window of the last ones."""

from typing import Any, Literal

import torch.nn.functional as F
from harness_plugins.models.backbone import model_of
from harness_plugins.models.gpt import alibi, rotate, rotations
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor, nn

Position = Literal["none", "rope", "alibi"]


class Attention(nn.Module):
    """Causal multi-head attention (A. Vaswani et al., "Attention is all you need", 2017, section 3.2).

    Args:
        width: of what comes in and goes out.
        heads: they share the width equally.
        position: how a score knows the distance of its key: not at all, by turning queries and keys (`rope`, Su et al.,
            2021), or by falling with it (`alibi`, Press et al., 2022).
    """

    def __init__(self, width: int, *, heads: PositiveInt = 2, position: Position = "none") -> None:
        super().__init__()
        self.heads = heads
        self.position = position
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    @staticmethod
    def check_arguments(*, width: int, heads: int, position: Position, **others: Any) -> None:
        """Refuse widths that the heads cannot share."""
        if width % heads:
            raise ValueError(f"the heads share d_model equally, but d_model={width} is not divisible by heads={heads}")
        if position == "rope" and width // heads % 2:
            raise ValueError(f"rope turns pairs of features, but a head has {width // heads} of them, an odd number")

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        bias = None
        if self.position == "rope":
            turn = rotations(x.shape[1], q.shape[-1], like=x)
            q, k = rotate(q, turn), rotate(k, turn)
        elif self.position == "alibi":
            bias = alibi(x.shape[1], self.heads, like=x)
        mixed = F.scaled_dot_product_attention(q, k, v, bias, is_causal=bias is None)
        y: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return y


AttentionModel = model_of(Attention)
