"""No model at all: every answer is as likely as any other."""

from collections.abc import Iterator

import torch
from harness_plugins.models.ends import either
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from harness import Batch, Interface, Skip


class Uniform(nn.Module):
    """Equal logits, whatever the input: the score of knowing nothing.

    It has no parameters and learns nothing; its loss is log V for V classes.

    Args:
        vocab_size: the number of token ids.
        interface: what goes in and comes out, if it is not tokens and logits.
    """

    logits: Float[Tensor, " out"]

    accepts = ("tokens", "vectors")

    def __init__(self, vocab_size: int, *, interface: Interface | None = None) -> None:
        super().__init__()
        interface = either(vocab_size, interface)
        if interface.output != "classes":
            raise Skip("the task asks for numbers, of which none is as likely as any other")
        self.register_buffer("logits", torch.zeros(interface.output_size))

    def fit(self, stream: Iterator[Batch]) -> None:
        """There is nothing to learn."""

    def forward(self, tokens: Shaped[Tensor, "batch time *width"]) -> Float[Tensor, "batch time out"]:
        return self.logits.expand(*tokens.shape[:2], -1).clone()
