"""Models that fail in lower precision or on another device."""

from typing import Any

import torch
from torch import Tensor

from wrong_models.base import Base


class SinglePrecision(Base):
    """Makes a float32 matrix in the middle, which meets bfloat16."""

    def forward(self, tokens: Tensor) -> Any:
        x = self.head(self.embedding(tokens))
        if x.dtype == torch.bfloat16:
            raise RuntimeError("expected scalar type Float but found BFloat16")
        return x


class LeftBehind(Base):
    """A table that does not move with the model."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.table = torch.ones(512, 8)

    def mix(self, x: Tensor) -> Tensor:
        return x * self.table[: x.shape[1]]


class MadeOnTheCpu(Base):
    def mix(self, x: Tensor) -> Tensor:
        return x + torch.arange(x.shape[1])[:, None]


CAUGHT = [
    (SinglePrecision, "autocast", "expected scalar type Float but found BFloat16"),
    (LeftBehind, "devices", "not registered: table"),
    (MadeOnTheCpu, "devices", "on the device"),
]
