"""The equations of PyTorch's recurrent layers, one step at a time and with every gate by name."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

Kind = Literal["RNN_TANH", "RNN_RELU", "LSTM", "GRU"]
Gates = dict[str, Float[Tensor, "batch cell"]]


@dataclass(frozen=True)
class Equations:
    """One layer in one direction: what `nn.RNN`, `nn.LSTM`, `nn.GRU` and their cells compute, with their weights.

    What is carried from step to step is one vector: h; for an LSTM h, then c.

    Args:
        kind: which equations, in PyTorch's words.
        input_weight: W, with the gates stacked as PyTorch has them.
        state_weight: U.
        input_bias: the bias beside W, if there is one.
        state_bias: the bias beside U, if there is one.
        projection: from the LSTM's output to h, if there is one (`proj_size`).
    """

    kind: Kind
    input_weight: Float[Tensor, "stacked input"]
    state_weight: Float[Tensor, "stacked hidden"]
    input_bias: Float[Tensor, " stacked"] | None
    state_bias: Float[Tensor, " stacked"] | None
    projection: Float[Tensor, "hidden cell"] | None

    @property
    def hidden(self) -> int:
        """The width of h."""
        return self.state_weight.shape[1]

    @property
    def cells(self) -> int:
        """The width of c; 0 where there is none."""
        return self.state_weight.shape[0] // 4 if self.kind == "LSTM" else 0

    def of_inputs(self, inputs: Float[Tensor, "batch time input"]) -> Float[Tensor, "batch time stacked"]:
        """What the inputs give to the gates, for all steps at once."""
        return F.linear(inputs, self.input_weight, self.input_bias)

    def step(
        self, given: Float[Tensor, "batch stacked"], carried: Float[Tensor, "batch width"]
    ) -> tuple[Float[Tensor, "batch width"], Gates]:
        """What is carried on after a step, and the gates of that step.

        Args:
            given: from `of_inputs`.
            carried: what the step before carried on.
        """
        h, c = carried.split([self.hidden, self.cells], -1)
        recurrent = F.linear(h, self.state_weight, self.state_bias)
        if self.kind == "LSTM":
            i, f, g, o = (given + recurrent).chunk(4, -1)
            i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
            c = f * c + i * g
            h = o * c.tanh()
            h = h if self.projection is None else F.linear(h, self.projection)
            return torch.cat([h, c], -1), {"input": i, "forget": f, "candidate": g, "output": o}
        if self.kind == "GRU":
            (r, z, n), (of_r, of_z, of_n) = given.chunk(3, -1), recurrent.chunk(3, -1)
            r, z = (r + of_r).sigmoid(), (z + of_z).sigmoid()
            n = (n + r * of_n).tanh()
            return (1 - z) * n + z * h, {"reset": r, "update": z, "new": n}
        before = given + recurrent
        return before.relu() if self.kind == "RNN_RELU" else before.tanh(), {"pre_activation": before}


def equations_of(module: nn.RNNBase | nn.RNNCellBase) -> list[Equations]:
    """The equations of each layer, from the first; of a bidirectional one forward, then backward.

    The weights are looked up as the module itself does, so that parametrised and pruned ones are those in use.
    """

    def found(kind: str, suffix: str) -> Equations:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        w, u, b, d, p = (getattr(module, name + suffix, None) for name in names)
        assert w is not None
        assert u is not None
        return Equations(kind, w, u, b, d, p)  # type: ignore[arg-type]

    if isinstance(module, nn.RNNBase):
        directions = ("", "_reverse") if module.bidirectional else ("",)
        return [found(module.mode, f"_l{layer}{each}") for layer in range(module.num_layers) for each in directions]
    if isinstance(module, nn.RNNCell):
        return [found(f"RNN_{module.nonlinearity.upper()}", "")]
    return [found("LSTM" if isinstance(module, nn.LSTMCell) else "GRU", "")]
