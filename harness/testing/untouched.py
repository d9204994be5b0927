"""What must be as it was: the global random states, and tensors."""

import random
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from harness.batches import Batch


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


def same_batches(one: Batch, other: Batch) -> bool:
    """Whether two batches have the same in all that they have: tokens, targets, marks and whatever the task adds."""
    first, second = _tensors(one), _tensors(other)
    return first.keys() == second.keys() and all(same_values(first[name], second[name]) for name in first)


def _tensors(batch: Batch) -> dict[str, torch.Tensor]:
    own = {field.name: getattr(batch, field.name) for field in fields(batch) if field.name != "extra"}
    extra = {f"extra {name}": tensor for name, tensor in (batch.extra or {}).items()}
    return {name: tensor for name, tensor in (own | extra).items() if tensor is not None}
