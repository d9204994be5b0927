"""The neural model of a window: as much context as an n-gram has, and embeddings to generalise from."""

from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from harness_plugins.models.ends import either, input_layer
from jaxtyping import Float, Shaped
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from harness import Interface


class WindowMLP(nn.Module):
    """The last n - 1 embeddings side by side, and one hidden layer:

        y_t = b + U tanh(d + H [e(x_t), ..., e(x_{t-n+2})])

    Y. Bengio et al., "A neural probabilistic language model" (2003), equation 1 without the direct connections (W = 0),
    which it found not to help. Before the first token the window is filled with zeros. For tokens, or for vectors, of
    which e is a linear projection.

    Args:
        vocab_size: the number of token ids.
        interface: what goes in and comes out, if it is not tokens and logits.
        n: as in n-gram: the answer is the n-th token, after n - 1 that are seen.
        embedding: width of e.
        hidden: width of the hidden layer.
    """

    accepts = ("tokens", "vectors")
    recommended_training: ClassVar[dict[str, float]] = {"lr": 3e-3}

    def __init__(
        self,
        vocab_size: int,
        *,
        n: Annotated[int, Field(ge=2)] = 5,
        embedding: PositiveInt = 32,
        hidden: PositiveInt = 64,
        interface: Interface | None = None,
    ) -> None:
        super().__init__()
        interface = either(vocab_size, interface)
        self.seen = n - 1
        self.embedding = input_layer(interface, embedding)
        self.hidden = nn.Linear(self.seen * embedding, hidden)
        self.head = nn.Linear(hidden, interface.output_size)

    def forward(self, tokens: Shaped[Tensor, "batch time *width"]) -> Float[Tensor, "batch time out"]:
        x = self.embedding(tokens)
        windows = F.pad(x, (0, 0, self.seen - 1, 0)).unfold(1, self.seen, 1)
        logits: Tensor = self.head(torch.tanh(self.hidden(windows.flatten(2))))
        return logits
