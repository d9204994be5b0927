"""A model that does something of its own after each pass."""

from harness_plugins.models.gru import GRU
from interrupted import WORDS
from torch import Tensor


class Plain(GRU):
    """Calls a function of its own after each pass in training mode."""

    def __init__(self) -> None:
        super().__init__(WORDS, hidden=8)
        self.passes = 0

    def forward(self, tokens: Tensor) -> Tensor:
        outputs = super().forward(tokens)
        if self.training:
            self.passes += 1
            self.after()
        return outputs * self.factor()

    def after(self) -> None:
        """Change something."""

    def factor(self) -> float:
        """What that means for the outputs."""
        return 1.0
