"""The simple recurrent network."""

from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from harness_plugins.models.ends import check_dropout, either, input_layer
from harness_plugins.models.stepped import Stepped
from jaxtyping import Float, Shaped
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from harness import Interface


class Elman(nn.Module):
    """Simple recurrent network and a linear readout.

        h_t = tanh(W_ih x_t + W_hh h_{t-1} + b),  h_0 = 0

    J. L. Elman, "Finding structure in time", Cognitive Science 14 (1990). Weights start as PyTorch draws them,
    uniform within 1/sqrt(hidden). For tokens, or for vectors, of which x_t is a linear projection.

    Args:
        vocab_size: the number of token ids.
        interface: what goes in and comes out, if it is not tokens and logits.
        embedding: width of the token embedding x_t.
        hidden: width of the state h_t.
        layers: recurrent layers, each reading the states of the one below.
        activation: of the units. `identity` makes a linear network, written by hand.
        biases: bias vectors per layer: the one of the equation, or two that add up, as cuDNN has them.
        orthogonal: W_hh starts as a random orthogonal matrix, whose eigenvalues all have modulus 1 (A. M. Saxe et al.,
            "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks", 2014).
        spectral_radius: rescale each W_hh at initialisation so that its largest eigenvalue has this modulus.
            While tanh is near linear, gradients through time shrink or grow by about this factor a step
            (Pascanu et al., "On the difficulty of training recurrent neural networks", 2013, section 2.1).
            None leaves W_hh as drawn.
        bidirectional: a second set of units reads from the end (Schuster and Paliwal, 1997), so that every output
            depends on the whole input, padding included: not for tasks that predict the next token.
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
        activation: Literal["tanh", "relu", "identity"] = "tanh",
        biases: Literal[1, 2] = 2,
        orthogonal: bool = False,
        spectral_radius: Annotated[float, Field(gt=0)] | None = None,
        bidirectional: bool = False,
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
        interface: Interface | None = None,
    ) -> None:
        super().__init__()
        self.check_arguments(activation=activation, bidirectional=bidirectional, dropout=dropout, layers=layers)
        interface = either(vocab_size, interface)
        self.embedding = input_layer(interface, embedding)
        self.rnn: nn.Module
        if activation == "identity":
            widths = [embedding, *[hidden] * (layers - 1)]
            self.rnn = Stepped(*(LinearCell(width, hidden, biases) for width in widths), dropout=dropout)
        else:
            self.rnn = nn.RNN(
                embedding,
                hidden,
                layers,
                nonlinearity=activation,
                batch_first=True,
                bidirectional=bidirectional,
                dropout=dropout,
            )
            if biases == 1:
                _with_one_bias(self.rnn)
        self.head = nn.Linear(2 * hidden if bidirectional else hidden, interface.output_size)

        for name, parameter in self.rnn.named_parameters():
            if "weight_hh" in name:
                if orthogonal:
                    nn.init.orthogonal_(parameter)
                if spectral_radius is not None:
                    largest = torch.linalg.eigvals(parameter.data.double()).abs().max().item()
                    parameter.data *= spectral_radius / largest

    @staticmethod
    def check_arguments(*, activation: str, bidirectional: bool, dropout: float, layers: int, **others: Any) -> None:
        """Refuse what does not go together."""
        if activation == "identity" and bidirectional:
            raise ValueError("activation=identity is written for one direction; leave bidirectional out, or use tanh")
        check_dropout(dropout, layers)

    def forward(self, tokens: Shaped[Tensor, "batch time *width"]) -> Float[Tensor, "batch time out"]:
        states: Any = self.rnn(self.embedding(tokens))
        outputs: Tensor = self.head(states[0] if isinstance(states, tuple) else states)
        return outputs


def _with_one_bias(rnn: nn.RNN) -> None:
    """The fused kernel takes two vectors. With a constant zero as the second, one is learned."""
    for name in [name for name, _ in rnn.named_parameters() if name.startswith("bias_hh")]:
        zero = torch.zeros_like(rnn.get_parameter(name), requires_grad=False)
        delattr(rnn, name)
        rnn.register_buffer(name, zero, persistent=False)


class LinearCell(nn.Module):
    """h_t = W_ih x_t + W_hh h_{t-1} + b: what `nn.RNN` computes, with the identity in place of tanh."""

    def __init__(self, width: int, hidden: int, biases: Literal[1, 2]) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(hidden, width))
        self.weight_hh = nn.Parameter(torch.empty(hidden, hidden))
        self.bias_ih = nn.Parameter(torch.empty(hidden))
        self.bias_hh = nn.Parameter(torch.empty(hidden)) if biases == 2 else None
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden**-0.5), hidden**-0.5)

    def initial_state(self, batch_size: int) -> Float[Tensor, "batch hidden"]:
        return self.weight_hh.new_zeros(batch_size, len(self.weight_hh))

    def step(
        self, x: Float[Tensor, "batch width"], state: Float[Tensor, "batch hidden"]
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        h = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(state, self.weight_hh, self.bias_hh)
        return h, h, {"pre_activation": h}
