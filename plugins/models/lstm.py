"""Long short-term memory."""

from typing import Annotated, Any, ClassVar

import torch
from harness_plugins.models.ends import check_dropout, either, input_layer
from harness_plugins.models.stepped import Stepped
from jaxtyping import Float, Shaped
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from harness import Interface


class LSTM(nn.Module):
    """Long short-term memory and a linear readout.

        i, f, o = sigmoid(W x_t + U h_{t-1} + b),  g = tanh(W_g x_t + U_g h_{t-1} + b_g)
        c_t = f c_{t-1} + i g,  h_t = o tanh(c_t),  c_0 = h_0 = 0

    S. Hochreiter and J. Schmidhuber, "Long short-term memory", Neural Computation 9 (1997), with the forget gate
    of F. A. Gers et al., "Learning to forget", Neural Computation 12 (2000). Weights start as PyTorch draws them,
    uniform within 1/sqrt(hidden), except for the forget gate's bias. For tokens, or for vectors, of which x_t is a
    linear projection.

    Args:
        vocab_size: the number of token ids.
        interface: what goes in and comes out, if it is not tokens and logits.
        embedding: width of the token embedding x_t.
        hidden: width of the cell c_t, in each direction.
        layers: recurrent layers, each reading the states of the one below.
        forget_bias: the forget gate's bias at initialisation: the sum of the two vectors that PyTorch adds up.
            1 is the advice of R. Jozefowicz et al., "An empirical exploration of recurrent network
            architectures", 2015.
        bidirectional: a second set of cells reads from the end (Schuster and Paliwal, 1997), so that every output
            depends on the whole input, padding included: not for tasks that predict the next token.
        peephole: the gates see the cells, each its own: i and f those of the step before, o those of this step
            (F. A. Gers and J. Schmidhuber, "Recurrent nets that time and count", 2000). Written by hand, and slower.
        dropout: rate between layers while training.
    """

    accepts = ("tokens", "vectors")
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
        peephole: bool = False,
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
        interface: Interface | None = None,
    ) -> None:
        super().__init__()
        self.check_arguments(bidirectional=bidirectional, peephole=peephole, dropout=dropout, layers=layers)
        interface = either(vocab_size, interface)
        self.embedding = input_layer(interface, embedding)
        self.rnn: nn.Module
        if peephole:
            widths = [embedding, *[hidden] * (layers - 1)]
            self.rnn = Stepped(*(PeepholeCell(width, hidden) for width in widths), dropout=dropout)
        else:
            self.rnn = nn.LSTM(
                embedding, hidden, layers, batch_first=True, bidirectional=bidirectional, dropout=dropout
            )
        self.head = nn.Linear(2 * hidden if bidirectional else hidden, interface.output_size)

        set_forget_bias(self.rnn, forget_bias)

    @staticmethod
    def check_arguments(*, bidirectional: bool, peephole: bool, dropout: float, layers: int, **others: Any) -> None:
        """Refuse what does not go together."""
        if peephole and bidirectional:
            raise ValueError("peephole=true is written for one direction; leave bidirectional out")
        check_dropout(dropout, layers)

    def forward(self, tokens: Shaped[Tensor, "batch time *width"]) -> Float[Tensor, "batch time out"]:
        states: Any = self.rnn(self.embedding(tokens))
        outputs: Tensor = self.head(states[0] if isinstance(states, tuple) else states)
        return outputs


def set_forget_bias(rnn: nn.Module, bias: float) -> None:
    """Let the two biases of each forget gate sum to this."""
    for name, parameter in rnn.named_parameters():
        if "bias" in name:
            _, forget, _, _ = parameter.data.chunk(4)  # the gates are stacked in the order i, f, g, o
            nn.init.constant_(forget, bias if "bias_ih" in name else 0.0)


class PeepholeCell(nn.Module):
    """i, f = sigmoid(W x_t + U h_{t-1} + p c_{t-1} + b),  o = sigmoid(W_o x_t + U_o h_{t-1} + p_o c_t + b_o); the rest
    as in `LSTM`. Each p is a vector, since a gate sees its own cell alone."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden, width))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden, hidden))
        self.bias_ih = nn.Parameter(torch.empty(4 * hidden))
        self.peephole = nn.Parameter(torch.empty(3, hidden))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden**-0.5), hidden**-0.5)

    def initial_state(self, batch_size: int) -> dict[str, Float[Tensor, "batch hidden"]]:
        zero = self.weight_hh.new_zeros(batch_size, self.weight_hh.shape[1])
        return {"hidden": zero, "cell": zero}

    def step(
        self, x: Float[Tensor, "batch width"], state: dict[str, Float[Tensor, "batch hidden"]]
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        c = state["cell"]
        sums = x @ self.weight_ih.T + state["hidden"] @ self.weight_hh.T + self.bias_ih
        i, f, g, o = sums.chunk(4, -1)
        i, f = (i + self.peephole[0] * c).sigmoid(), (f + self.peephole[1] * c).sigmoid()
        g = g.tanh()
        c = f * c + i * g
        o = (o + self.peephole[2] * c).sigmoid()
        h = o * c.tanh()
        return h, {"hidden": h, "cell": c}, {"input": i, "forget": f, "candidate": g, "output": o}
