"""What must be as it was: the global random states, and tensors."""

import random
from typing import Any

import numpy as np
import torch


def random_states() -> dict[str, Any]:
    """The global random states of torch and numpy. Python's own does not count: runtime type checkers draw from it."""
    return {"torch": torch.get_rng_state(), "numpy": np.random.get_state()}


def moved_since(before: dict[str, Any]) -> list[str]:
    """The modules whose random state is another one now."""
    now = random_states()
    same = {
        "torch": torch.equal(before["torch"], now["torch"]),
        "numpy": all(np.array_equal(a, b) for a, b in zip(before["numpy"], now["numpy"], strict=True)),
    }
    return [name for name, equal in same.items() if not equal]


def move_random_states() -> None:
    """Draw once from each global random state."""
    torch.rand(1)
    np.random.rand()
    random.random()


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal, NaN (no target) included."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())
