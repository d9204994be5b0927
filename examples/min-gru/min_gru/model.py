"""minGRU: what is left of a GRU when the gates no longer look at the state, and what that buys: a parallel scan."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn


class MinGRU(nn.Module):
    """Layers of minGRU with residual connections, between an embedding and a linear readout.

        z_t = sigmoid(W_z x_t),  c_t = g(W_c x_t),  h_t = (1 - z_t) h_{t-1} + z_t c_t,  h_0 = 0

    with g(x) = x + 0.5 for x >= 0 and sigmoid(x) below, which keeps states positive, so that their logarithms exist.

    L. Feng, F. Tung, M. O. Ahmed, Y. Bengio and H. Hajimirsadeghi, "Were RNNs all we needed?", 2024, section 3.1 and
    appendix B. Since z_t and c_t depend on the input alone, all states of a layer come out of one scan; it runs in log
    space, as in the paper, where products of many factors below 1 do not vanish.

    Args:
        vocab_size: the number of token ids.
        width: of the embedding and between the layers.
        hidden: width of the state of each layer.
        layers: how many.
    """

    recommended_training = {"lr": 3e-3}

    def __init__(
        self, vocab_size: int, *, width: PositiveInt = 32, hidden: PositiveInt = 64, layers: PositiveInt = 2
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.layers = nn.ModuleList(Layer(width, hidden) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab_size)
        self.state_size = layers * hidden

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time vocab"]:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = x + layer(x)
        logits: Tensor = self.head(self.norm(x))
        return logits


class Layer(nn.Module):
    """Norm, gate and candidate, scan, and a projection back to the width."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, hidden)
        self.candidate = nn.Linear(width, hidden)
        self.out = nn.Linear(hidden, width)

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        x = self.norm(x)
        update: Tensor = self.out(scan(self.gate(x), self.candidate(x)).to(x.dtype))
        return update


def scan(
    gate: Float[Tensor, "batch time hidden"], candidate: Float[Tensor, "batch time hidden"]
) -> Float[Tensor, "batch time hidden"]:
    """All states at once: h_t = exp(A_t + log sum_{s<=t} exp(log z_s c_s - A_s)) with A_t = sum_{s<=t} log(1 - z_s)."""
    precise = torch.promote_types(gate.dtype, torch.float32)  # sums over a long sequence need it
    gate, candidate = gate.to(precise), candidate.to(precise)
    keep = F.logsigmoid(-gate).cumsum(dim=1)
    new = F.logsigmoid(gate) + log_g(candidate)
    return (keep + (new - keep).logcumsumexp(dim=1)).exp()


def loop(
    gate: Float[Tensor, "batch time hidden"], candidate: Float[Tensor, "batch time hidden"]
) -> Float[Tensor, "batch time hidden"]:
    """The same states one after another, straight from the definition."""
    state = torch.zeros_like(gate[:, 0])
    states = []
    for z, c in zip(gate.sigmoid().unbind(1), g(candidate).unbind(1), strict=True):
        state = (1 - z) * state + z * c
        states.append(state)
    return torch.stack(states, dim=1)


def g(x: Tensor) -> Tensor:
    """A positive activation (Feng et al., 2024, appendix B.2.1)."""
    return torch.where(x >= 0, x + 0.5, x.sigmoid())


def log_g(x: Tensor) -> Tensor:
    """Its logarithm; `relu` keeps the branch that is not taken from giving NaN gradients."""
    return torch.where(x >= 0, (x.relu() + 0.5).log(), F.logsigmoid(x))
