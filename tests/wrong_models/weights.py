"""Models whose weights are wrong: drawn from elsewhere, not trained, not saved, not counted."""

# The call of a module gives Any.
# mypy: no-warn-return-any

import numpy as np
import torch
from torch import Tensor, nn

from wrong_models.base import Base


class Complex(Base):
    """A linear recurrence with complex weights."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.turn = nn.Parameter(0.5 * torch.exp(1j * torch.rand(8)))

    def mix(self, x: Tensor) -> Tensor:
        states, state = [], torch.zeros_like(x[:, 0] * self.turn)
        for step in x.unbind(1):
            state = self.turn * state + step
            states.append(state)
        return torch.stack(states, 1).real


class BufferOfNaN(Base):
    """Marks what is not known yet."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.register_buffer("unknown", torch.tensor(torch.nan))


class FromNumpy(Base):
    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        generator = np.random.default_rng()
        self.head.weight.data += torch.tensor(generator.normal(size=self.head.weight.shape), dtype=torch.float32)


class Unused(Base):
    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.forgotten = nn.Linear(8, 8)


class Detached(Base):
    def mix(self, x: Tensor) -> Tensor:
        return x.detach()


class Unsaved(Base):
    """A random projection that is kept outside the state."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.projection = torch.randn(8, 8).tolist()

    def mix(self, x: Tensor) -> Tensor:
        return x @ torch.tensor(self.projection, dtype=x.dtype, device=x.device)


class InAList(Base):
    """Layers in a plain list, which torch does not know."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.layers = [nn.Linear(8, 8)]

    def mix(self, x: Tensor) -> Tensor:
        return self.layers[0](x)


class WrongState(Base):
    state_size = -1


CAUGHT = [
    (FromNumpy, "seeded", "the same seed gives other initial values of head.weight"),
    (Unused, "gradients", "no gradient reaches forgotten.weight, forgotten.bias"),
    (Detached, "gradients", "no gradient reaches embedding.weight"),
    (Unsaved, "state_dict", "after saving and loading, the outputs are others"),
    (InAList, "size", "(72 numbers) are not among its parameters(): layers[0].weight, layers[0].bias"),
    (WrongState, "size", "state_size = -1"),
]
