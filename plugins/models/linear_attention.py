"""Linear attention: what has been seen is a sum of outer products of keys and values, which may fade."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from harness_plugins.models.backbone import model_of
from harness_plugins.models.chunks import decayed_sums
from harness_plugins.models.heads import check_heads
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor, nn

Decay = Literal["none", "fixed", "learned"]

SLOW = 16.0
"""The root that is taken of a learned decay, so that it starts near 1."""


class LinearAttention(nn.Module):
    """Linear attention, whose state is a matrix and a vector for each head.

        S_t = a_t S_{t-1} + f(k_t)' v_t,  z_t = a_t z_{t-1} + f(k_t),  y_t = f(q_t) S_t / (f(q_t) z_t')

    with f(x) = elu(x) + 1 (A. Katharopoulos et al., "Transformers are RNNs", 2020, section 3.2, where a_t = 1). In
    chunks, parallel inside of each.

    Args:
        width: of what comes in and goes out; the heads share it equally as values.
        heads: states beside one another.
        key: numbers in each query and key.
        decay: a_t of each head. `none`: 1. `fixed`: from 1 - 2^-5 in the first head towards 1 - 2^-12 (Y. Sun et al.,
            "Retentive network", 2023). `learned`: a gate, sigmoid(w x_t)^(1/16) (Y. Sun et al., "You only cache once",
            2024, section 3.1; the power is that of S. Yang et al., "Gated linear attention", 2023).
    """

    def __init__(self, width: int, *, heads: PositiveInt = 2, key: PositiveInt = 16, decay: Decay = "none") -> None:
        super().__init__()
        self.heads = heads
        self.decay = decay
        self.query = nn.Linear(width, heads * key, bias=False)
        self.key = nn.Linear(width, heads * key, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, heads) if decay == "learned" else None

    @staticmethod
    def check_arguments(*, width: int, heads: int, **others: Any) -> None:
        """Refuse a width that the heads cannot share."""
        check_heads(width, heads)

    def parts(self, x: Float[Tensor, "*_ width"]) -> tuple[Tensor, Tensor, Tensor]:
        """Features of queries and keys, and values with a 1 behind them, which the keys themselves are added up by; in
        float32 at least, since the sums of a long sequence are too large for float16."""
        exact = torch.promote_types(x.dtype, torch.float32)
        q, k, v = (layer(x).to(exact).unflatten(-1, (self.heads, -1)) for layer in (self.query, self.key, self.value))
        return feature(q), feature(k), F.pad(v, (0, 1), value=1.0)

    def decays(self, x: Float[Tensor, "*_ width"]) -> Float[Tensor, "*_ head"] | None:
        """a_t of each head, in float32 at least, since they are near 1; None where all are 1."""
        exact = torch.promote_types(x.dtype, torch.float32)
        if self.gate is not None:
            return (F.logsigmoid(self.gate(x).to(exact)) / SLOW).exp()
        if self.decay == "none":
            return None
        exponents = torch.linspace(5, 12, self.heads, dtype=exact, device=x.device)
        return (1 - 2.0**-exponents).expand(*x.shape[:-1], -1)

    def read_out(self, sums: Float[Tensor, "*_ head value"]) -> Float[Tensor, "*_ width"]:
        """The weighted means of values, and what is made of them."""
        y: Tensor = self.out((sums[..., :-1] / sums[..., -1:]).flatten(-2).to(self.out.weight.dtype))
        return y

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        return self.read_out(decayed_sums(*self.parts(x), self.decays(x)))

    def initial_state(self, batch_size: int) -> Float[Tensor, "batch head key value"]:
        """Nothing seen; the last column is z."""
        weight = self.value.weight
        key, value = len(self.key.weight) // self.heads, len(weight) // self.heads
        exact = torch.promote_types(weight.dtype, torch.float32)
        return weight.new_zeros(batch_size, self.heads, key, value + 1, dtype=exact)

    def step(
        self, x: Float[Tensor, "batch width"], state: Float[Tensor, "batch head key value"]
    ) -> tuple[Float[Tensor, "batch width"], Float[Tensor, "batch head key value"], Mapping[str, Tensor]]:
        """One position; a learned decay is the gate `forget`."""
        q, k, v = self.parts(x)
        decays = self.decays(x)
        if decays is not None:
            state = decays[..., None, None] * state
        state = state + k[..., None] * v[..., None, :]
        gates = {} if self.gate is None or decays is None else {"forget": decays}
        return self.read_out(torch.einsum("bhk,bhkv->bhv", q, state)), state, gates


def feature(x: Float[Tensor, "*_"]) -> Float[Tensor, "*_"]:
    """elu(x) + 1. Written like this it is above 0 where `F.elu`, which ends at -1, leaves nothing of it: below -17 in
    float32."""
    return x.clamp(max=0).exp() + x.relu()


LinearAttentionModel = model_of(LinearAttention)
