"""No model at all: every answer is as likely as any other."""

from collections.abc import Iterator
from typing import ClassVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from harness import Batch, Interface


class Uniform(nn.Module):
    """Equal logits, whatever the input (or the number 0): what a score is worth that knows nothing.

    It has no parameters and learns nothing; its loss is log V for V classes.

    Args:
        vocab_size: the number of token ids.
        interface: what goes in and comes out, if it is not tokens and logits.
    """

    accepts = ("tokens", "vectors")
    recommended_training: ClassVar[dict[str, int]] = {"steps": 0}

    def __init__(self, vocab_size: int, *, interface: Interface | None = None) -> None:
        super().__init__()
        outputs = interface.output_size if interface else vocab_size
        self.register_buffer("logits", torch.zeros(outputs))

    def fit(self, stream: Iterator[Batch]) -> None:
        """There is nothing to learn."""

    def forward(self, tokens: Shaped[Tensor, "batch time *width"]) -> Float[Tensor, "batch time out"]:
        logits: Tensor = self.logits
        return logits.expand(*tokens.shape[:2], -1).clone()
