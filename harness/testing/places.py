"""Where in a plugin something is or happened: `file:line`, and which part of a model."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from harness.registry import short_path


def place(code: object) -> str:
    """File and line of a class or function, or "" where Python does not know."""
    try:
        code = inspect.unwrap(code) if callable(code) else code
        file = inspect.getsourcefile(code)  # type: ignore[arg-type]
        _, line = inspect.getsourcelines(code)  # type: ignore[arg-type]
    except (TypeError, OSError):
        return ""
    return f"{short_path(Path(file))}:{line}" if file else ""


@dataclass(frozen=True)
class _Call:
    name: str
    module: nn.Module
    inputs: tuple[Tensor, ...]
    output: Tensor


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
    model: nn.Module,
    first: Callable[[], object],
    second: Callable[[], object],
    differs: Callable[[Tensor, Tensor], bool],
) -> Part:
    """The innermost module whose output differs between two runs while its inputs do not.

    Args:
        model: the model, which both runs call.
        first: one run.
        second: the other one.
        differs: whether two tensors, of the same place in the two runs, differ in what should be equal. It gives False
            for tensors that it cannot compare.
    """
    suspect, owner = "", ""
    one, other = _record(model, first), _record(model, second)
    for a, b in zip(one, other, strict=False):
        if a.module is not b.module:
            break
        if differs(a.output, b.output):
            mixed_before = any(differs(x, y) for x, y in zip(a.inputs, b.inputs, strict=False))
            suspect = a.name.rpartition(".")[0] if mixed_before else a.name
            owner = suspect.rpartition(".")[0]
            break
    module = model.get_submodule(suspect)
    where = place(type(module).forward)
    if type(module).__module__.startswith("torch."):
        words = f"`{suspect}`, an nn.{type(module).__name__}"
        if getattr(module, "bidirectional", False):
            words += " with bidirectional=True"
        where = place(type(model.get_submodule(owner)).forward)
    else:
        words = f"`{suspect}`, a {type(module).__name__}" if suspect else f"{type(module).__name__}.forward"
    return Part(words, where)


def _record(model: nn.Module, run: Callable[[], object]) -> list[_Call]:
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
        run()
    finally:
        for handle in handles:
            handle.remove()
    return calls
