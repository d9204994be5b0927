"""One attention, written five ways: from the formula read aloud to the fused kernel. For timing, not for training."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from harness import Interface


class AttentionForms(nn.Module):
    """Causal self-attention of real vectors with themselves as queries, keys and values; one head, no parameters.

    All forms compute softmax(x x' / sqrt(width) + causal mask) x (Vaswani et al., 2017, section 3.2.1) and agree to
    rounding.

    Args:
        interface: the width of the vectors that come in, and go out.
        form: `python` lists of numbers, `double_loop` over queries and keys, `row_loop` over queries, the explicit
            `matrix`, or `fused` in `scaled_dot_product_attention`.
    """

    accepts = ("vectors",)

    def __init__(
        self,
        interface: Interface,
        *,
        form: Literal["python", "double_loop", "row_loop", "matrix", "fused"] = "fused",
    ) -> None:
        super().__init__()
        self.attend = {
            "python": in_python,
            "double_loop": in_two_loops,
            "row_loop": row_by_row,
            "matrix": as_matrix,
            "fused": fused,
        }[form]

    def forward(self, vectors: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        return self.attend(vectors)


def in_python(x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
    """No tensors at all: what the formula says, number by number. Has no gradient."""
    return torch.tensor([_in_python(sequence) for sequence in x.tolist()], dtype=x.dtype, device=x.device)


def _in_python(rows: list[list[float]]) -> list[list[float]]:
    scale = 1 / math.sqrt(len(rows[0]))
    out = []
    for i, query in enumerate(rows):
        scores = [scale * sum(a * b for a, b in zip(query, key, strict=True)) for key in rows[: i + 1]]
        top = max(scores)
        weights = [math.exp(score - top) for score in scores]
        total = sum(weights)
        out.append(
            [sum(w * value[c] for w, value in zip(weights, rows, strict=False)) / total for c in range(len(query))]
        )
    return out


def in_two_loops(x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
    """A tensor operation for each pair of query and key."""
    scale = 1 / math.sqrt(x.shape[-1])
    out = []
    for i in range(x.shape[1]):
        scores = torch.stack([(x[:, i] * x[:, j]).sum(-1) * scale for j in range(i + 1)], dim=1)
        weights = scores.softmax(1)
        mixed = torch.zeros_like(x[:, 0])
        for j in range(i + 1):
            mixed = mixed + weights[:, j, None] * x[:, j]
        out.append(mixed)
    return torch.stack(out, dim=1)


def row_by_row(x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
    """A few tensor operations for each query."""
    scale = 1 / math.sqrt(x.shape[-1])
    out = []
    for i in range(x.shape[1]):
        seen = x[:, : i + 1]
        weights = torch.einsum("bw,bkw->bk", x[:, i], seen).mul(scale).softmax(1)
        out.append(torch.einsum("bk,bkw->bw", weights, seen))
    return torch.stack(out, dim=1)


def as_matrix(x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
    """The whole matrix of scores at once: time x time numbers in memory."""
    later = torch.full((x.shape[1], x.shape[1]), -math.inf, dtype=x.dtype, device=x.device).triu(1)
    scores = torch.baddbmm(later, x, x.mT, alpha=1 / math.sqrt(x.shape[-1]))
    return scores.softmax(-1) @ x


def fused(x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
    """PyTorch's kernel, which never holds the matrix (Dao et al., 2022)."""
    heads = x[:, None]
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)[:, 0]
