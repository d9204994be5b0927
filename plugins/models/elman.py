"""The simple recurrent network."""

from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field, PositiveInt
from torch import Tensor, nn


class Elman(nn.Module):
    """Simple recurrent network and a linear readout.

        h_t = tanh(W_ih x_t + W_hh h_{t-1} + b),  h_0 = 0

    J. L. Elman, "Finding structure in time", Cognitive Science 14 (1990). Weights start as PyTorch draws them,
    uniform within 1/sqrt(hidden).

    Args:
        vocab_size: the number of token ids.
        embedding: width of the token embedding x_t.
        hidden: width of the state h_t.
        layers: recurrent layers, each reading the states of the one below.
        biases: bias vectors per layer: the one of the equation, or two that add up, as cuDNN has them.
        spectral_radius: rescale each W_hh at initialisation so that its largest eigenvalue has this modulus.
            While tanh is near linear, gradients through time shrink or grow by about this factor a step
            (Pascanu et al., "On the difficulty of training recurrent neural networks", 2013, section 2.1).
            None leaves W_hh as drawn.
    """

    recommended_training: ClassVar[dict[str, float]] = {"lr": 3e-3}

    def __init__(
        self,
        vocab_size: int,
        *,
        embedding: PositiveInt = 32,
        hidden: PositiveInt = 64,
        layers: PositiveInt = 1,
        biases: Literal[1, 2] = 2,
        spectral_radius: Annotated[float, Field(gt=0)] | None = None,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding)
        self.rnn = nn.RNN(embedding, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, vocab_size)

        if biases == 1:
            for layer in range(layers):
                # The fused kernel takes two vectors. With a constant zero as the second, one is learned.
                zero = torch.zeros_like(self.rnn.get_parameter(f"bias_hh_l{layer}"), requires_grad=False)
                delattr(self.rnn, f"bias_hh_l{layer}")
                self.rnn.register_buffer(f"bias_hh_l{layer}", zero, persistent=False)

        if spectral_radius is not None:
            for layer in range(layers):
                weight = self.rnn.get_parameter(f"weight_hh_l{layer}").data
                weight *= spectral_radius / torch.linalg.eigvals(weight.double()).abs().max().item()

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time vocab"]:
        states: Float[Tensor, "batch time hidden"]
        states, _ = self.rnn(self.embedding(tokens))
        logits: Tensor = self.head(states)
        return logits
