"""The order-free baseline: a causal mean of embeddings."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from harness_plugins.models.ends import either, input_layer
from jaxtyping import Float, Shaped
from pydantic import PositiveInt
from torch import Tensor, nn

from harness import Interface


class Bag(nn.Module):
    """The mean of all embeddings up to a position, and one hidden layer:

        m_t = (e(x_1) + ... + e(x_t)) / t,  y_t = V relu(U m_t + b) + c

    It knows which tokens there were, in which shares, and not where: what it solves needs no order. After M. Iyyer et
    al., "Deep unordered composition rivals syntactic methods for text classification" (2015). Of vectors, e is a linear
    projection and a ReLU, so that a mean can tell which numbers stood together in one vector (M. Zaheer et al., "Deep
    sets", 2017).

    Args:
        vocab_size: the number of token ids.
        interface: what goes in and comes out, if it is not tokens and logits.
        embedding: width of e.
        hidden: width of the hidden layer.
    """

    accepts = ("tokens", "vectors")
    recommended_training: ClassVar[dict[str, float]] = {"lr": 3e-3}

    def __init__(
        self,
        vocab_size: int,
        *,
        embedding: PositiveInt = 64,
        hidden: PositiveInt = 128,
        interface: Interface | None = None,
    ) -> None:
        super().__init__()
        interface = either(vocab_size, interface)
        self.embedding = input_layer(interface, embedding)
        self.hidden = nn.Linear(embedding, hidden)
        self.head = nn.Linear(hidden, interface.output_size)

    def forward(self, tokens: Shaped[Tensor, "batch time *width"]) -> Float[Tensor, "batch time out"]:
        x = self.embedding(tokens)
        x = F.relu(x) if tokens.is_floating_point() else x
        count = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=x.dtype)
        logits: Tensor = self.head(F.relu(self.hidden(x.cumsum(1) / count[:, None])))
        return logits
