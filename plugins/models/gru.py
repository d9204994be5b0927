"""The gated recurrent unit."""

from typing import ClassVar

from jaxtyping import Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn


class GRU(nn.Module):
    """Gated recurrent unit and a linear readout.

        r, z = sigmoid(W x_t + U h_{t-1} + b),  n = tanh(W_n x_t + b_n + r (U_n h_{t-1} + c_n))
        h_t = (1 - z) n + z h_{t-1},  h_0 = 0

    K. Cho et al., "Learning phrase representations using RNN encoder-decoder for statistical machine
    translation", 2014, section 2.3, in cuDNN's variant: the reset gate r acts on U_n h rather than on h. Weights
    start as PyTorch draws them, uniform within 1/sqrt(hidden).

    Args:
        vocab_size: the number of token ids.
        embedding: width of the token embedding x_t.
        hidden: width of the state h_t.
        layers: recurrent layers, each reading the states of the one below.
    """

    recommended_training: ClassVar[dict[str, float]] = {"lr": 3e-3}

    def __init__(
        self,
        vocab_size: int,
        *,
        embedding: PositiveInt = 32,
        hidden: PositiveInt = 64,
        layers: PositiveInt = 1,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding)
        self.rnn = nn.GRU(embedding, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, vocab_size)

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time vocab"]:
        states: Float[Tensor, "batch time hidden"]
        states, _ = self.rnn(self.embedding(tokens))
        logits: Tensor = self.head(states)
        return logits
