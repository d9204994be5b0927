"""Long short-term memory."""

from typing import ClassVar

from jaxtyping import Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn


class LSTM(nn.Module):
    """Long short-term memory and a linear readout.

        i, f, o = sigmoid(W x_t + U h_{t-1} + b),  g = tanh(W_g x_t + U_g h_{t-1} + b_g)
        c_t = f c_{t-1} + i g,  h_t = o tanh(c_t),  c_0 = h_0 = 0

    S. Hochreiter and J. Schmidhuber, "Long short-term memory", Neural Computation 9 (1997), with the forget gate
    of F. A. Gers et al., "Learning to forget", Neural Computation 12 (2000). Weights start as PyTorch draws them,
    uniform within 1/sqrt(hidden), except for the forget gate's bias.

    Args:
        vocab_size: the number of token ids.
        embedding: width of the token embedding x_t.
        hidden: width of the cell c_t, in each direction.
        layers: recurrent layers, each reading the states of the one below.
        forget_bias: the forget gate's bias at initialisation: the sum of the two vectors that PyTorch adds up.
            1 is the advice of R. Jozefowicz et al., "An empirical exploration of recurrent network
            architectures", 2015.
        bidirectional: a second set of cells reads from the end (Schuster and Paliwal, 1997), so that every output
            depends on the whole input, padding included: not for tasks that predict the next token.
    """

    recommended_training: ClassVar[dict[str, float]] = {"lr": 3e-3}

    def __init__(
        self,
        vocab_size: int,
        *,
        embedding: PositiveInt = 32,
        hidden: PositiveInt = 64,
        layers: PositiveInt = 1,
        forget_bias: float = 1.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding)
        self.rnn = nn.LSTM(embedding, hidden, layers, batch_first=True, bidirectional=bidirectional)
        self.head = nn.Linear(2 * hidden if bidirectional else hidden, vocab_size)

        forget = slice(hidden, 2 * hidden)  # the gates are stacked in the order i, f, g, o
        for name, parameter in self.rnn.named_parameters():
            if name.startswith("bias_ih"):
                nn.init.constant_(parameter.data[forget], forget_bias)
            elif name.startswith("bias_hh"):
                nn.init.zeros_(parameter.data[forget])

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time vocab"]:
        states: Float[Tensor, "batch time hidden"]
        states, _ = self.rnn(self.embedding(tokens))
        logits: Tensor = self.head(states)
        return logits
