"""What wrong tasks have in common: one that is right, and a way to break its batches."""

import copy
from typing import Any

import torch

from harness.testing.toys import Marked


def replace(batch: Any, **values: Any) -> Any:
    """A batch that breaks the rules, past the type checks that run in tests."""
    changed = copy.copy(batch)
    for name, value in values.items():
        object.__setattr__(changed, name, value)
    return changed


class Changed(Marked):
    """Changes what `_draw` gives."""

    def change(self, batch: Any) -> Any:
        return batch

    def _draw(self, size: int, distance: int, group: str, generator: torch.Generator) -> Any:
        return self.change(super()._draw(size, distance, group, generator))
