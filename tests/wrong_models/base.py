"""What wrong models have in common: all that is right about them."""

# The call of a module gives Any.
# mypy: no-warn-return-any

from typing import Any

from torch import Tensor, nn


class Base(nn.Module):
    """An embedding and a readout; what is between them is `mix`."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, 8)
        self.head = nn.Linear(8, vocab_size)

    def mix(self, x: Tensor) -> Tensor:
        return x

    def forward(self, tokens: Tensor) -> Any:
        return self.head(self.mix(self.embedding(tokens)))
