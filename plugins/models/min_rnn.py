"""Recurrent cells whose gates do not see the state, as mixers: all positions at once."""

import torch.nn.functional as F
from harness_plugins.models.backbone import model_of
from harness_plugins.models.scan import linear_scan
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor, nn


class MinRNN(nn.Module):
    """The frame of both: h_t = f_t h_{t-1} + i_t n_t, read out by a linear layer.

    Args:
        width: of what comes in and goes out.
        expand: width of the state in multiples of it.
        gates: linear layers on the input.
    """

    def __init__(self, width: int, expand: int, gates: int) -> None:
        super().__init__()
        self.hidden = expand * width
        self.inputs = nn.Linear(width, gates * self.hidden)
        self.outputs = nn.Linear(self.hidden, width)

    def gates(self, x: Float[Tensor, "*at width"]) -> dict[str, Float[Tensor, "*at hidden"]]:
        """By name."""
        raise NotImplementedError

    def parts(self, gates: dict[str, Tensor]) -> tuple[Float[Tensor, "*at hidden"], Float[Tensor, "*at hidden"]]:
        """f, and i n."""
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        outputs: Tensor = self.outputs(linear_scan(*self.parts(self.gates(x))))
        return outputs

    def initial_state(self, batch_size: int) -> Float[Tensor, "batch hidden"]:
        """Zeros."""
        return self.outputs.weight.new_zeros(batch_size, self.hidden)

    def step(
        self, x: Float[Tensor, "batch width"], state: Float[Tensor, "batch hidden"]
    ) -> tuple[Float[Tensor, "batch width"], Float[Tensor, "batch hidden"], dict[str, Tensor]]:
        """One position."""
        gates = self.gates(x)
        kept, written = self.parts(gates)
        h = kept * state + written
        return self.outputs(h), h, gates


class MinGRU(MinRNN):
    """A GRU whose gate and candidate are functions of the input alone, without tanh.

        z, n = sigmoid(W_z x_t + b_z), W_n x_t + b_n
        h_t = z h_{t-1} + (1 - z) n,  h_0 = 0,  output = W_o h_t + b_o

    L. Feng et al., "Were RNNs all we needed?", 2024, section 3.1; z is the share that stays, as in PyTorch's GRU.

    Args:
        width: of what comes in and goes out.
        expand: width of the state h, in multiples of what comes in.
    """

    def __init__(self, width: int, *, expand: PositiveInt = 2) -> None:
        super().__init__(width, expand, gates=2)

    def gates(self, x: Float[Tensor, "*at width"]) -> dict[str, Float[Tensor, "*at hidden"]]:
        update, new = self.inputs(x).chunk(2, -1)
        return {"update": update.sigmoid(), "new": new}

    def parts(self, gates: dict[str, Tensor]) -> tuple[Float[Tensor, "*at hidden"], Float[Tensor, "*at hidden"]]:
        return gates["update"], (1 - gates["update"]) * gates["new"]


class MinLSTM(MinRNN):
    """An LSTM whose gates and candidate are functions of the input alone, without tanh, and whose forget and input
    gate share 1.

        f~, i~, n = sigmoid(W_f x_t + b_f), sigmoid(W_i x_t + b_i), W_n x_t + b_n
        f, i = f~ / (f~ + i~), i~ / (f~ + i~)
        h_t = f h_{t-1} + i n,  h_0 = 0,  output = W_o h_t + b_o

    L. Feng et al., "Were RNNs all we needed?", 2024, section 3.2.

    Args:
        width: of what comes in and goes out.
        expand: width of the state h, in multiples of what comes in.
    """

    def __init__(self, width: int, *, expand: PositiveInt = 2) -> None:
        super().__init__(width, expand, gates=3)

    def gates(self, x: Float[Tensor, "*at width"]) -> dict[str, Float[Tensor, "*at hidden"]]:
        forget, enter, candidate = self.inputs(x).chunk(3, -1)
        share = F.softplus(-enter) - F.softplus(-forget)  # log f~ - log i~, without a quotient of two small numbers
        return {"forget": share.sigmoid(), "input": (-share).sigmoid(), "candidate": candidate}

    def parts(self, gates: dict[str, Tensor]) -> tuple[Float[Tensor, "*at hidden"], Float[Tensor, "*at hidden"]]:
        return gates["forget"], gates["input"] * gates["candidate"]


MinGRUModel = model_of(MinGRU)
MinLSTMModel = model_of(MinLSTM)
