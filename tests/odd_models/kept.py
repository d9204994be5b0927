"""What they keep is found, and can be written down."""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from harness_plugins.tasks.recall import Recall
from interrupted import WORDS
from torch import Tensor, nn

from harness import Batch
from odd_models.base import Plain


class Peculiar(nn.Module):
    """Keeps things in buffers that no `state_dict` holds, and beside all buffers, and they decide what it computes."""

    unseen: Tensor
    late: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 8)
        self.head = nn.Linear(8, WORDS)
        self.register_buffer("unseen", torch.zeros(8), persistent=False)
        self.register_buffer("late", None)
        self.calls = 0
        self.last: dict[str, Any] = {}
        self.generator = torch.Generator().manual_seed(5)
        self.views = [self.head.weight[0]]  # of a parameter: changes with it
        self.norm: Callable[[Tensor], Tensor] = lambda x: x  # cannot be pickled, and does not change

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.unseen + self.last.get("mean", 0.0)
        if self.training:
            self.calls += 1
            self.unseen += x.detach().mean((0, 1)) * 0.1
            self.late = x.detach()[0, 0] if self.late is None else self.late * 0.5
            self.last = {"mean": x.mean().detach() * 0.1, "at": [self.calls]}
            if self.calls == 20:
                self.head.eval()
        x = x + torch.randn(8, generator=self.generator) / self.calls if self.calls else x
        logits: Tensor = self.head(self.norm(x if self.late is None else x + self.late))
        return logits if self.head.training else logits * 0.5


class Counts(Recall):
    """A task whose loss depends on how often it was asked."""

    asked = 0

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        self.asked += torch.is_grad_enabled()
        return super().loss(outputs, batch) * (1 + self.asked / 10)


class Anneals(Plain):
    """Changes its dropout, which is PyTorch's own module's."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def after(self) -> None:
        self.drop.p *= 0.9

    def factor(self) -> float:
        return self.drop.p


class Freezes(Plain):
    """Stops learning some of its parameters."""

    def after(self) -> None:
        if self.passes == 5:
            next(self.parameters()).requires_grad_(False)


class Layer(nn.Module):
    """Reads what its model writes down."""

    def __init__(self, shared: dict[str, float]) -> None:
        super().__init__()
        self.shared = shared


class Shares(Plain):
    """One dictionary in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = {"passes": 0.0}
        self.layer = Layer(self.shared)

    def after(self) -> None:
        self.shared["passes"] += 1

    def factor(self) -> float:
        return 1 + self.layer.shared["passes"]


class Counter(Plain):
    """Counts in its class."""

    counted: ClassVar[list[float]] = [0.0]

    def after(self) -> None:
        self.counted[0] += 1

    def factor(self) -> float:
        return 1 + self.counted[0]


COUNTED = 0.0


class Global(Plain):
    """Counts in its module."""

    def after(self) -> None:
        global COUNTED
        COUNTED += 1

    def factor(self) -> float:
        return 1 + COUNTED
