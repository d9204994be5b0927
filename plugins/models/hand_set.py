"""Recurrent cells whose weights are set by hand, for the task `both_seen`: what a state can hold, without any training.

Each has one unit for each number of the input vector, which is 1 when something is seen; all are seen when the least of
the units is above a threshold. Nothing in them is trained.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from harness_plugins.models.stepped import one_pass
from jaxtyping import Float
from torch import Tensor, nn

from harness import Interface, Skip

Unit = Float[Tensor, "batch unit"]


class HandSet(nn.Module):
    """The frame of all: a step for each position, and a readout that says no (logit 0 of class 0) or yes (class 1).

    Attributes:
        threshold: above which the least unit means yes.
    """

    accepts = ("vectors",)
    threshold: ClassVar[float] = 0.5

    def __init__(self, interface: Interface) -> None:
        super().__init__()
        if interface.output_size < 2:
            raise Skip(f"the model answers no or yes in two classes, but the task asks for {interface.output_size}")
        self.outputs = interface.output_size
        self.register_buffer("start", torch.zeros(interface.input_size))

    @staticmethod
    def pretrained(**arguments: Any) -> bool:
        """Its weights are set."""
        return True

    def initial_state(self, batch_size: int) -> Any:
        """The state before the first step."""
        start: Any = self.start
        return start.expand(batch_size, -1)

    def next(self, x: Unit, state: Any) -> tuple[Unit, Any, Mapping[str, Tensor]]:
        """The units after a step, the state, and gates."""
        raise NotImplementedError

    def step(self, x: Unit, state: Any) -> tuple[Float[Tensor, "batch out"], Any, Mapping[str, Tensor]]:
        """Output, state and gates."""
        units, state, gates = self.next(x, state)
        logits = units.new_zeros(len(units), self.outputs)
        logits[:, 1] = units.amin(-1) - self.threshold
        return logits, state, gates

    def forward(self, tokens: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time out"]:
        return one_pass(self, tokens)


class Contraction(HandSet):
    """h_t = x_t + h_{t-1} / 2, read with a generous threshold: everything is forgotten, at a constant rate."""

    threshold = 0.001

    def next(self, x: Unit, state: Unit) -> tuple[Unit, Unit, Mapping[str, Tensor]]:
        h = x + state / 2
        return h, h, {}


class Integrator(HandSet):
    """h_t = x_t + h_{t-1}: nothing is forgotten, noise neither."""

    def next(self, x: Unit, state: Unit) -> tuple[Unit, Unit, Mapping[str, Tensor]]:
        h = x + state
        return h, h, {}


class Latch(HandSet):
    """h_t = sigmoid(10 h_{t-1} + 10 x_t - 5): two stable points, which hold through noise; between them no gradient
    arrives (Y. Bengio et al., "Learning long-term dependencies with gradient descent is difficult", 1994)."""

    def next(self, x: Unit, state: Unit) -> tuple[Unit, Unit, Mapping[str, Tensor]]:
        h = (10 * state + 10 * x - 5).sigmoid()
        return h, h, {}


class LSTMByHand(HandSet):
    """An LSTM whose input gate opens for a 1 and not for noise: i = sigmoid(40 x - 20). Forget and output gate and what
    is to be written are open: sigmoid(20), sigmoid(20) and tanh(20), about 1."""

    threshold = 0.38
    """Half of tanh(1): the output of a cell that was written once is tanh(1) = 0.76."""

    def initial_state(self, batch_size: int) -> dict[str, Unit]:
        zero = super().initial_state(batch_size)
        return {"hidden": zero, "cell": zero}

    def next(self, x: Unit, state: dict[str, Unit]) -> tuple[Unit, dict[str, Unit], Mapping[str, Tensor]]:
        open_ = torch.full_like(x, 20.0).sigmoid()
        i, g = (40 * x - 20).sigmoid(), torch.full_like(x, 20.0).tanh()
        c = open_ * state["cell"] + i * g
        h = open_ * c.tanh()
        return h, {"hidden": h, "cell": c}, {"input": i, "forget": open_, "candidate": g, "output": open_}
