"""The gated recurrent unit."""

from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from harness_plugins.models.ends import check_dropout, either, input_layer
from harness_plugins.models.stepped import Stepped
from jaxtyping import Float, Shaped
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from harness import Interface


class GRU(nn.Module):
    """Gated recurrent unit and a linear readout.

        r, z = sigmoid(W x_t + U h_{t-1} + b),  n = tanh(W_n x_t + b_n + r (U_n h_{t-1} + c_n))
        h_t = (1 - z) n + z h_{t-1},  h_0 = 0

    K. Cho et al., "Learning phrase representations using RNN encoder-decoder for statistical machine
    translation", 2014, section 2.3, in cuDNN's variant: the reset gate r acts on U_n h rather than on h. Weights
    start as PyTorch draws them, uniform within 1/sqrt(hidden). For tokens, or for vectors, of which x_t is a linear
    projection.

    Args:
        vocab_size: the number of token ids.
        interface: what goes in and comes out, if it is not tokens and logits.
        embedding: width of the token embedding x_t.
        hidden: width of the state h_t.
        layers: recurrent layers, each reading the states of the one below.
        reset: the reset gate acts `after` U_n, as above, or `before` it, on h, as in the original:
            n = tanh(W_n x_t + U_n (r h_{t-1}) + b_n). That form is written by hand, and slower.
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
        reset: Literal["after", "before"] = "after",
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
        interface: Interface | None = None,
    ) -> None:
        super().__init__()
        self.check_arguments(dropout=dropout, layers=layers)
        interface = either(vocab_size, interface)
        self.embedding = input_layer(interface, embedding)
        self.rnn: nn.Module
        if reset == "before":
            widths = [embedding, *[hidden] * (layers - 1)]
            self.rnn = Stepped(*(ResetBeforeCell(width, hidden) for width in widths), dropout=dropout)
        else:
            self.rnn = nn.GRU(embedding, hidden, layers, batch_first=True, dropout=dropout)
        self.head = nn.Linear(hidden, interface.output_size)

    @staticmethod
    def check_arguments(*, dropout: float, layers: int, **others: Any) -> None:
        """Refuse dropout between the layers of one."""
        check_dropout(dropout, layers)

    def forward(self, tokens: Shaped[Tensor, "batch time *width"]) -> Float[Tensor, "batch time out"]:
        states: Any = self.rnn(self.embedding(tokens))
        outputs: Tensor = self.head(states[0] if isinstance(states, tuple) else states)
        return outputs


class ResetBeforeCell(nn.Module):
    """The unit of Cho et al.: r acts on h before U_n does. One bias vector, since here two would be one."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(3 * hidden, width))
        self.weight_hh = nn.Parameter(torch.empty(3 * hidden, hidden))
        self.bias = nn.Parameter(torch.empty(3 * hidden))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden**-0.5), hidden**-0.5)

    def initial_state(self, batch_size: int) -> Float[Tensor, "batch hidden"]:
        return self.weight_hh.new_zeros(batch_size, self.weight_hh.shape[1])

    def step(
        self, x: Float[Tensor, "batch width"], state: Float[Tensor, "batch hidden"]
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        of_r, of_z, of_n = F.linear(x, self.weight_ih, self.bias).chunk(3, -1)
        u_r, u_z, u_n = self.weight_hh.chunk(3)
        r, z = (of_r + state @ u_r.T).sigmoid(), (of_z + state @ u_z.T).sigmoid()
        n = (of_n + (r * state) @ u_n.T).tanh()
        h = (1 - z) * n + z * state
        return h, h, {"reset": r, "update": z, "new": n}
