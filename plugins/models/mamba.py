"""A selective state space as a mixer."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from harness_plugins.models.backbone import model_of
from harness_plugins.models.chunks import decayed_sums
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor, nn


class Mamba(nn.Module):
    """Selective state space: what is kept and what is written depends on the input. One factor for each head.

        z, x, B, C, dt~ = W u_t,  x, B, C through SiLU,  dt = softplus(dt~ + b)
        a_t = exp(-exp(A) dt),  S_t = a_t S_{t-1} + dt B x^T,  y_t = S_t^T C + D x
        output = W_o norm(y_t SiLU(z))

    T. Dao and A. Gu, "Transformers are SSMs" (Mamba-2), 2024, section 7; the selection is of A. Gu and T. Dao, "Mamba:
    linear-time sequence modeling with selective state spaces", 2023. B and C are shared by all heads. The convolution
    over 4 positions that both put before x, B and C is that of the backbone, `short=4`. A starts within [1, 16] and dt
    within [0.001, 0.1], as the authors have them.

    Args:
        width: of what comes in and goes out.
        state: numbers of the state for each feature of x: the length of B and C.
        heads: what shares a factor; x is divided among them.
        expand: width of x and z, in multiples of what comes in.
        negative: a_t = 2 exp(-exp(A) dt) - 1, so that eigenvalues are within (-1, 1) in place of (0, 1): a state that
            changes its sign can count modulo 2 (R. Grazzi et al., "Unlocking state-tracking in linear RNNs through
            negative eigenvalues", 2024).
    """

    def __init__(
        self,
        width: int,
        *,
        state: PositiveInt = 16,
        heads: PositiveInt = 4,
        expand: PositiveInt = 2,
        negative: bool = False,
    ) -> None:
        super().__init__()
        self.inner = expand * width
        self.size = state
        self.heads = heads
        self.negative = negative
        self.inputs = nn.Linear(width, 2 * self.inner + 2 * state + heads, bias=False)
        self.rate = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())
        first = torch.empty(heads).uniform_(math.log(1e-3), math.log(1e-1)).exp()
        self.step_bias = nn.Parameter(first.expm1().log())  # softplus of it is `first`
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = nn.RMSNorm(self.inner, eps=1e-6)
        self.outputs = nn.Linear(self.inner, width, bias=False)

    @staticmethod
    def check_arguments(*, width: int, heads: int, expand: int, **others: Any) -> None:
        """Refuse widths that the heads cannot share."""
        if expand * width % heads:
            raise ValueError(
                f"the heads share {expand} x {width} = {expand * width} features equally, which heads={heads} does not "
                "divide; use another number of heads"
            )

    def forward(self, u: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        z, x, b, c, dt, a = self.selected(u)
        y = decayed_sums(c[..., None, :], b[..., None, :], (dt[..., None] * x).to(x.dtype), a)
        return self.gated(y, x, z)

    def initial_state(self, batch_size: int) -> Float[Tensor, "batch head state feature"]:
        """Zeros."""
        exact = torch.promote_types(self.rate.dtype, torch.float32)
        return self.rate.new_zeros(batch_size, self.heads, self.size, self.inner // self.heads, dtype=exact)

    def step(
        self, u: Float[Tensor, "batch width"], state: Float[Tensor, "batch head state feature"]
    ) -> tuple[Float[Tensor, "batch width"], Float[Tensor, "batch head state feature"], dict[str, Tensor]]:
        """One position; `decay` is a_t."""
        z, x, b, c, dt, a = self.selected(u)
        written = b[:, None, :, None] * (dt[..., None] * x)[:, :, None]
        state = a[..., None, None] * state + written
        y = (c[:, None, None].to(state.dtype) @ state).squeeze(-2).to(x.dtype)
        return self.gated(y, x, z), state, {"decay": a, "step": dt}

    def selected(self, u: Float[Tensor, "*at width"]) -> tuple[Tensor, ...]:
        """z; x by head; B; C; dt and a, one for each head, in float32 at least, since a is near 1."""
        z, xbc, dt = self.inputs(u).split((self.inner, self.inner + 2 * self.size, self.heads), -1)
        x, b, c = F.silu(xbc).split((self.inner, self.size, self.size), -1)
        exact = torch.promote_types(u.dtype, torch.float32)
        dt = F.softplus(dt.to(exact) + self.step_bias)
        a = (-self.rate.exp() * dt).exp()
        return z, x.unflatten(-1, (self.heads, -1)), b, c, dt, 2 * a - 1 if self.negative else a

    def gated(
        self, y: Float[Tensor, "*at head feature"], x: Float[Tensor, "*at head feature"], z: Float[Tensor, "*at inner"]
    ) -> Float[Tensor, "*at width"]:
        """What leaves the mixer."""
        y = (y + self.skip[:, None] * x).flatten(-2)
        outputs: Tensor = self.outputs(self.norm(y * F.silu(z)))
        return outputs


MambaModel = model_of(Mamba)
