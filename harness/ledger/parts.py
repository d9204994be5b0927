"""Which part of a model each of its modules belongs to, told from outside: by what it is and by what it does."""

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from harness.attention import observe
from harness.offers import OffersState

MIXING = "mixing"
"""What is done without weights: products of queries and keys, and of what came of that and values."""

PARTS = ("embedding", "attention", MIXING, "recurrence", "mixer", "feed-forward", "norm", "output", "other")
"""The parts of a ledger, in its order. An output layer that shares its matrix with the embedding costs operations, and
has no parameters of its own."""

_NORM = re.compile("norm", re.IGNORECASE)
_MIXER = re.compile("(?<!channel)(?<!channel_)(?<!state)(?<!state_)mixer$", re.IGNORECASE)
_CONVOLUTION = re.compile("conv", re.IGNORECASE)
_KNOWN = ("attention", "recurrence")
_POSITION = re.compile("pos|wpe|embed", re.IGNORECASE)
_WITH_WEIGHTS = (nn.Linear, nn.Bilinear, nn.modules.conv._ConvNd)


def parts_of(model: nn.Module, inputs: Tensor, output_size: int) -> dict[str, str]:
    """The part of every module that begins one, by its path; what lies below it belongs to it, too. One forward pass.

    - embedding: `nn.Embedding` and its kin;
    - norm: a class whose name says so;
    - attention: a module that calls `scaled_dot_product_attention` itself, with its projections, and
      `nn.MultiheadAttention`;
    - recurrence: `nn.RNN`, `nn.LSTM`, `nn.GRU` and their cells, and layers that offer their state;
    - mixer: what brings positions together in another way: a module whose name or class ends in "mixer" (of channels
      or of a state: no), with neither of the above inside; a convolution over several positions;
    - output: the last layer with weights that gives as many numbers as the model does, and stands in no stack of layers
      (its path has no number) unless what it gives is what the model gives;
    - feed-forward: every other layer with weights.

    Args:
        model: any model.
        inputs: what it reads, `batch time` or `batch time width`.
        output_size: numbers that it gives at each position.
    """
    with _outputs_of_layers(model) as called, torch.no_grad(), observe() as seen:
        result: Tensor = model(inputs)
    last = next(
        (
            path
            for path, output in reversed(called)
            if output.shape[-1] == output_size and (_same(output, result) or not re.search(r"\d", path))
        ),
        "",
    )
    attending = {path for path in seen.modules if path}
    parts: dict[str, str] = {}
    for path, module in model.named_modules():
        if not path or any(path.startswith(f"{begun}.") for begun in parts):
            continue
        if part := _part(path, module, attending, last):
            parts[path] = part
    return parts


def parameters_by_part(model: nn.Module, parts: dict[str, str]) -> dict[str, int]:
    """The number of parameters of each part; one that is shared counts where it comes first."""
    numbers = dict.fromkeys(PARTS, 0)
    for path, parameter in model.named_parameters():
        owner = next((part for begun, part in parts.items() if path.startswith(f"{begun}.")), None)
        alone = "embedding" if _POSITION.search(path) and not re.search(r"\d", path) else "other"
        numbers[owner or alone] += parameter.numel()
    return numbers


def _part(path: str, module: nn.Module, attending: set[str], last: str) -> str:
    kind = type(module).__name__
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return "embedding"
    if path in attending or isinstance(module, nn.MultiheadAttention):
        return "attention"
    if isinstance(module, nn.RNNBase | nn.RNNCellBase | OffersState):
        return "recurrence"
    if _NORM.search(kind) and not isinstance(module, nn.ModuleList | nn.Sequential):
        return "norm"
    if path == last:
        return "output"
    if _mixes(path, module, attending):
        return "mixer"
    return "feed-forward" if _has_weights(module) else ""


def _mixes(path: str, module: nn.Module, attending: set[str]) -> bool:
    kind = type(module).__name__
    if isinstance(module, nn.modules.conv._ConvNd):
        return math.prod(module.kernel_size) > 1
    if _MIXER.search(path) or _MIXER.search(kind):
        return not any(_part(f"{path}.{name}", each, attending, "") in _KNOWN for name, each in _inside(module))
    return bool(_CONVOLUTION.search(kind)) and not _has_weights(module) and not _inside(module)


def _inside(module: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(name, each) for name, each in module.named_modules() if name]


def _has_weights(module: nn.Module) -> bool:
    # Conv1D is the linear layer of GPT-2 in transformers
    return isinstance(module, _WITH_WEIGHTS) or type(module).__name__ == "Conv1D"


def _same(output: Tensor, result: Tensor) -> bool:
    """Whether one is the other, or a view of it."""
    return bool(output.untyped_storage()._cdata == result.untyped_storage()._cdata)


@contextmanager
def _outputs_of_layers(model: nn.Module) -> Iterator[list[tuple[str, Tensor]]]:
    """What the layers with weights gave, in the order in which they were called, by their paths."""
    called: list[tuple[str, Tensor]] = []
    hooks = []
    for path, module in model.named_modules():
        if path and _has_weights(module):

            def note(_: nn.Module, __: object, output: Tensor, path: str = path) -> None:
                called.append((path, output))

            hooks.append(module.register_forward_hook(note))
    try:
        yield called
    finally:
        for hook in hooks:
            hook.remove()
