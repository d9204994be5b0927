"""DeltaNet: linear attention that writes what a key does not retrieve yet, in place of adding everything up."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
import torch.nn.functional as F
from harness_plugins.models.backbone import model_of
from harness_plugins.models.chunks import CHUNK, in_chunks, in_one
from harness_plugins.models.heads import check_heads
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor, nn

Activation = Literal["none", "silu"]


class DeltaNet(nn.Module):
    """The delta rule, whose state is a matrix for each head.

        S_t = (I - b_t k_t' k_t) S_{t-1} + b_t k_t' v_t,  y_t = q_t S_t

    What the key retrieves, k_t S_{t-1}, is moved towards v_t by a share b_t = sigmoid(w x_t) (I. Schlag et al., "Linear
    transformers are secretly fast weight programmers", 2021). Queries and keys have length 1, and y_t is divided by its
    root mean square (S. Yang et al., "Parallelizing linear transformers with the delta rule over sequence length",
    2024, whose section 3 has the form in chunks).

    Args:
        width: of what comes in and goes out; the heads share it equally as values.
        heads: states beside one another.
        key: numbers in each query and key.
        activation: of queries and keys, before they get their length. `none`: they point anywhere. `silu`: mostly to
            where all numbers are positive, as in Yang et al.; with few numbers there is then less room.
        negative: b_t = 2 sigmoid(w x_t), so that the transition has eigenvalues in (-1, 1) and not only in (0, 1):
            what a key retrieves can change its sign (R. Grazzi et al., "Unlocking state-tracking in linear RNNs through
            negative eigenvalues", 2024).
    """

    def __init__(
        self,
        width: int,
        *,
        heads: PositiveInt = 2,
        key: PositiveInt = 16,
        activation: Activation = "none",
        negative: bool = False,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.activation = activation
        self.most = 2.0 if negative else 1.0
        self.query = nn.Linear(width, heads * key, bias=False)
        self.key = nn.Linear(width, heads * key, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.share = nn.Linear(width, heads)
        self.norm = nn.RMSNorm(width // heads, eps=1e-6)
        self.out = nn.Linear(width, width, bias=False)

    @staticmethod
    def check_arguments(*, width: int, heads: int, **others: Any) -> None:
        """Refuse a width that the heads cannot share."""
        check_heads(width, heads)

    def parts(self, x: Float[Tensor, "*_ width"]) -> tuple[Tensor, Tensor, Tensor, Float[Tensor, "*_ head"]]:
        """Queries, keys, values, and the shares to write."""
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)) for layer in (self.query, self.key, self.value))
        if self.activation == "silu":
            q, k = F.silu(q), F.silu(k)
        return F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, self.most * self.share(x).sigmoid()

    def read_out(self, y: Float[Tensor, "*_ head value"]) -> Float[Tensor, "*_ width"]:
        """What is made of what the queries retrieve."""
        out: Tensor = self.out(self.norm(y).flatten(-2))
        return out

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        return self.read_out(delta_rule(*self.parts(x)))

    def initial_state(self, batch_size: int) -> Float[Tensor, "batch head key value"]:
        """Nothing written."""
        weight = self.value.weight
        return weight.new_zeros(batch_size, self.heads, len(self.key.weight) // self.heads, len(weight) // self.heads)

    def step(
        self, x: Float[Tensor, "batch width"], state: Float[Tensor, "batch head key value"]
    ) -> tuple[Float[Tensor, "batch width"], Float[Tensor, "batch head key value"], Mapping[str, Tensor]]:
        """One position; the share is the gate `write`."""
        q, k, v, share = self.parts(x)
        change = share[..., None] * (v - torch.einsum("bhk,bhkv->bhv", k, state))
        state = state + k[..., None] * change[..., None, :]
        return self.read_out(torch.einsum("bhk,bhkv->bhv", q, state)), state, {"write": share}


def delta_rule(
    q: Float[Tensor, "batch time head key"],
    k: Float[Tensor, "batch time head key"],
    v: Float[Tensor, "batch time head value"],
    share: Float[Tensor, "batch time head"],
    size: int = CHUNK,
) -> Float[Tensor, "batch time head value"]:
    """All y_t of the rule in `DeltaNet`.

    What a chunk writes at its places, u, depends on what it wrote before: (I + A) u = b (v - k S), where A is b k k'
    below its diagonal and S the state before the chunk. The triangular system is solved once for b v and b k, and then
    S' = S + k' u and y = q S + (q k' on and below its diagonal) u.
    """
    batch, time, heads, width = q.shape
    size = min(size, time)
    shared = in_chunks(share[..., None] * torch.cat((v, k), -1), size)
    q, k = in_chunks(q, size), in_chunks(k, size)
    inside = (q @ k.mT).tril()
    system = (shared[..., -width:] @ k.mT).tril(-1)
    exact = torch.promote_types(q.dtype, torch.float32)  # torch solves in no less
    solved = torch.linalg.solve_triangular(system.to(exact), shared.to(exact), upper=False, unitriangular=True)
    written, erased = solved.to(q.dtype).split((v.shape[-1], width), -1)
    state = q.new_zeros(batch, heads, width, v.shape[-1])
    outputs = []
    for query, key, within, new, old in zip(q, k, inside, written, erased, strict=True):
        change = new - old @ state
        outputs.append(query @ state + within @ change)
        state = state + key.mT @ change
    return in_one(torch.stack(outputs), time)


DeltaNetModel = model_of(DeltaNet)
