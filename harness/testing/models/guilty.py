"""Which part of a model is guilty of what goes wrong."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from harness.targets import place_of
from harness.testing.models.case import ModelCase


@dataclass(frozen=True)
class Part:
    """A part of a model in which something goes wrong.

    Args:
        words: what it is, for a message.
        where: file and line of its `forward`.
    """

    words: str
    where: str


def guilty_part(
    case: ModelCase,
    first: Tensor,
    second: Tensor,
    differs: Callable[[Tensor, Tensor], bool],
    seeds: tuple[int, int] = (0, 0),
) -> Part:
    """The innermost module whose output differs between two runs of a fresh model while its inputs do not.

    Args:
        case: the model.
        first: input of one run.
        second: input of the other one.
        differs: whether two tensors, of the same place in the two runs, differ in what should be equal. It gives False
            for tensors that it cannot compare.
        seeds: of the global random state in the two runs.
    """
    model = case.fresh()
    one, other = (_record(case, model, *each) for each in zip((first, second), seeds, strict=True))
    suspect = _suspect(one, other, differs)
    module = model.get_submodule(suspect)
    if _is_of_torch(module):
        words = f"`{suspect}`, an nn.{type(module).__name__}"
        if getattr(module, "bidirectional", False):
            words += " with bidirectional=True"
    else:
        words = f"`{suspect}`, a {type(module).__name__}" if suspect else f"{type(module).__name__}.forward"
    return Part(words, own_forward(model, suspect))


def own_forward(model: nn.Module, name: str) -> str:
    """File and line of a submodule's `forward`; of one of torch's own, that of the first around it that is not."""
    while name and _is_of_torch(model.get_submodule(name)):
        name = name.rpartition(".")[0]
    return place_of(type(model.get_submodule(name)).forward)


def _is_of_torch(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.")


@dataclass(frozen=True)
class _Call:
    name: str
    module: nn.Module
    inputs: tuple[Tensor, ...]
    output: Tensor


def _suspect(one: list[_Call], other: list[_Call], differs: Callable[[Tensor, Tensor], bool]) -> str:
    """The name of the module; "" for the model itself."""
    for a, b in zip(one, other, strict=False):
        if a.module is not b.module:
            break
        if differs(a.output, b.output):
            mixed_before = any(differs(x, y) for x, y in zip(a.inputs, b.inputs, strict=False))
            return a.name.rpartition(".")[0] if mixed_before else a.name
    return ""


def _record(case: ModelCase, model: nn.Module, inputs: Tensor, seed: int) -> list[_Call]:
    """Every call of a submodule that gives a tensor (alone or first), in the order in which they end."""
    calls: list[_Call] = []
    handles = []
    for name, module in model.named_modules():

        def remember(module: nn.Module, inputs: tuple[object, ...], output: object, name: str = name) -> None:
            given = output[0] if isinstance(output, tuple | list) and output else output
            if isinstance(given, Tensor):
                tensors = tuple(each.detach().clone() for each in inputs if isinstance(each, Tensor))
                calls.append(_Call(name, module, tensors, given.detach().clone()))

        handles.append(module.register_forward_hook(remember))
    try:
        case.run(model, inputs, seed)
    finally:
        for handle in handles:
            handle.remove()
    return calls
