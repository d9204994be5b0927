"""Double precision, and what passes for rounding in it."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

EXACT, ROUGH, SINGLE = 1e-9, 1e-5, 1e-4
"""Largest differences that pass for rounding, relative to the largest output: in float64; in float64 with steps in
lower precision inside the model; in float32."""


def in_double(model: nn.Module) -> nn.Module:
    """The model itself, moved to double precision, real and complex."""
    model.double()._apply(lambda tensor: tensor.to(torch.complex128) if tensor.is_complex() else tensor)
    return model


class NarrowResults(TorchFunctionMode):
    """Notices results in less than float64."""

    found = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for item in result if isinstance(result, tuple) else (result,):
            if isinstance(item, Tensor) and (item.is_floating_point() or item.is_complex()):
                self.found |= item.dtype not in (torch.float64, torch.complex128)
        return result
