"""The matrix memory of xLSTM as a mixer."""

from typing import Any

import torch
import torch.nn.functional as F
from harness_plugins.models.backbone import model_of
from harness_plugins.models.chunks import decayed_sums
from harness_plugins.models.heads import check_heads
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor, nn


class MLSTM(nn.Module):
    """An LSTM whose cell is a matrix, whose input gate is an exponential, and whose gates see the input alone.

        q, k, v, o~ = W x_t,  i~, f~ = w x_t + b for each head,  f = sigmoid(f~)
        C_t = f C_{t-1} + exp(i~) v k^T,  n_t = f n_{t-1} + exp(i~) k,  k divided by the root of its length
        h_t = C_t q / max(|n_t q|, 1),  output = W_o (sigmoid(o~) norm(h_t)), the norm of each head by itself

    M. Beck et al., "xLSTM: extended long short-term memory", 2024, section 2.3. What is kept is C and n times exp(-m),
    where m_t = max(log f + m_{t-1}, i~) and m_0 = 0 (equation 15), so that nothing overflows; m cancels in h. The
    forget gate starts almost open, with biases from 3 to 6, and the input gate almost closed, at exp(-2). The
    convolution that the paper puts before q and k is that of the backbone, `short=4`.

    Args:
        width: of what comes in and goes out; the heads share it equally as values.
        heads: matrices.
        key: numbers of a key in each head; None for as many as values have.
    """

    def __init__(self, width: int, *, heads: PositiveInt = 2, key: PositiveInt | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.key = key or width // heads
        self.sizes = [heads * self.key, heads * self.key, width, width]
        self.inputs = nn.Linear(width, sum(self.sizes), bias=False)
        self.gates = nn.Linear(width, 2 * heads)
        self.norm = nn.GroupNorm(heads, width)
        self.outputs = nn.Linear(width, width, bias=False)
        with torch.no_grad():
            self.gates.bias[:heads] = -2.0
            self.gates.bias[heads:] = torch.linspace(3, 6, heads)

    @staticmethod
    def check_arguments(*, width: int, heads: int, **others: Any) -> None:
        """Refuse a width that the heads cannot share."""
        check_heads(width, heads)

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        q, k, v, o, enter, forget = self.projected(x)
        kept = F.logsigmoid(forget)
        since = kept.cumsum(1)
        largest = since + (enter - since).cummax(1).values.clamp(min=0)  # m_t, of which any rounding cancels, too
        largest = largest.detach()
        change = largest - F.pad(largest[:, :-1], (0, 0, 1, 0))
        k = ((enter - largest).exp()[..., None] * k).to(q.dtype)
        both = decayed_sums(q, k, with_ones(v), (kept - change).exp())
        return self.read(both, largest, o)

    def initial_state(self, batch_size: int) -> dict[str, Tensor]:
        """Zeros: the matrix C, its last row n, and m."""
        shape = batch_size, self.heads, self.key, self.sizes[2] // self.heads + 1
        weight = self.outputs.weight
        exact = torch.promote_types(weight.dtype, torch.float32)
        return {each: weight.new_zeros(size, dtype=exact) for each, size in (("cell", shape), ("largest", shape[:2]))}

    def step(
        self, x: Float[Tensor, "batch width"], state: dict[str, Tensor]
    ) -> tuple[Float[Tensor, "batch width"], dict[str, Tensor], dict[str, Tensor]]:
        """One position; the gates are f, and exp(i~ - m)."""
        q, k, v, o, enter, forget = self.projected(x)
        kept = F.logsigmoid(forget)
        largest = torch.maximum(kept + state["largest"], enter)
        i = (enter - largest).exp()
        written = (i[..., None] * k)[..., None] * with_ones(v)[..., None, :]
        cell = (kept + state["largest"] - largest).exp()[..., None, None] * state["cell"] + written
        both = (q[..., None, :].to(cell.dtype) @ cell).squeeze(-2)
        return self.read(both, largest, o), {"cell": cell, "largest": largest}, {"forget": kept.exp(), "input": i}

    def projected(self, x: Float[Tensor, "*at width"]) -> tuple[Tensor, ...]:
        """q, k and v by head; o~; i~ and f~, one for each head, in float32 at least, since decays are near 1."""
        q, k, v, o = self.inputs(x).split(self.sizes, -1)
        q, k, v = (each.unflatten(-1, (self.heads, -1)) for each in (q, k, v))
        exact = torch.promote_types(x.dtype, torch.float32)
        return q, k * self.key**-0.5, v, o, *self.gates(x).to(exact).chunk(2, -1)

    def read(
        self, both: Float[Tensor, "*at head value"], largest: Float[Tensor, "*at head"], o: Float[Tensor, "*at width"]
    ) -> Float[Tensor, "*at width"]:
        """What leaves the mixer, from C q and, behind it, n q."""
        y, n = both[..., :-1], both[..., -1:]
        h = y / torch.maximum(n.abs(), (-largest).exp()[..., None])
        normed = self.norm(h.reshape(-1, o.shape[-1]).to(o.dtype)).view_as(o)
        outputs: Tensor = self.outputs(o.sigmoid() * normed)
        return outputs


def with_ones(v: Float[Tensor, "*at value"]) -> Float[Tensor, "*at _"]:
    """The values with a 1 behind them: what is written beside them is the normaliser."""
    return F.pad(v, (0, 1), value=1.0)


MLSTMModel = model_of(MLSTM)
