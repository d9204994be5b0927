"""What they keep cannot be written down: such a training starts over."""

from collections.abc import Callable
from typing import Any

import torch
from harness_plugins.models.gru import GRU
from interrupted import WORDS
from torch import Tensor, nn

from odd_models.base import Plain


class Averages(Plain):
    """Keeps a mean of its head in a list, where no `state_dict` finds it."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = [nn.Linear(1, 1)]

    @torch.no_grad()
    def after(self) -> None:
        self.mean[0].weight += next(self.parameters()).mean()

    def factor(self) -> float:
        return float(self.mean[0].weight.detach())


class Hooks(Plain):
    """Begins to scale what one of its layers gives."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Identity()

    def after(self) -> None:
        if self.passes == 3:
            self.last.register_forward_hook(lambda module, given, output: output * 2)

    def factor(self) -> float:
        return float(self.last(torch.ones(())))


class Swaps(Plain):
    """Replaces a layer without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.last: nn.Module = nn.Identity()

    def after(self) -> None:
        if self.passes == 3:
            self.last = nn.Tanh()

    def factor(self) -> float:
        return float(self.last(torch.ones(())))


class Closure(Plain):
    """Counts in a function."""

    def __init__(self) -> None:
        super().__init__()
        counted = 0.0

        def count(by: float) -> float:
            nonlocal counted
            counted += by
            return counted

        self.count = count

    def after(self) -> None:
        self.count(1)

    def factor(self) -> float:
        return 1 + self.count(0)


class Learns(Plain):
    """Takes steps of its own on something that is no parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.ones(8, requires_grad=True)

    def forward(self, tokens: Tensor) -> Tensor:
        if self.training and self.scale.grad is not None:
            with torch.no_grad():
                self.scale -= 0.1 * self.scale.grad
            self.scale.grad = None
        return super().forward(tokens) * self.scale.sum()


def remembering(value: Any, change: Callable[[Any], object]) -> Callable[[], nn.Module]:
    """A model that keeps something of a kind that cannot be written down, and changes it in each pass."""

    class Remembers(GRU):
        def __init__(self) -> None:
            super().__init__(WORDS, hidden=8)
            self.memory = value()

        def forward(self, tokens: Tensor) -> Tensor:
            change(self.memory)
            return super().forward(tokens)

    return Remembers
