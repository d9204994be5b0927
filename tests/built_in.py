"""Built-in models with weights that hide nothing."""

from typing import Any, TypeVar

import pytest
import torch
import torch.nn.functional as F
from harness_plugins.models.gpt import Position
from torch import nn
from torch.overrides import TorchFunctionMode

M = TypeVar("M", bound=nn.Module)

POSITIONS: list[Position] = ["learned", "sinusoidal", "none", "rope", "alibi"]

positions = pytest.mark.parametrize("position", POSITIONS)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def enlarge(model: M) -> M:
    """Weights far from their small beginnings, in float64, so that a dependence cannot hide in rounding."""
    for parameter in model.double().parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model.eval()


class Recorder(TorchFunctionMode):
    """Keeps the arguments of every call of `scaled_dot_product_attention`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, Any]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
            self.calls.append({**dict(zip(names, args, strict=False)), **(kwargs or {})})
        return func(*args, **(kwargs or {}))
