"""Which part of a model an operation belongs to, in a forward pass and in the backward pass after it."""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

REST = "rest"
"""Whose operations are of no part."""

_BACKWARD = "backward"


class Owners:
    """Tells PyTorch's counter which part of a model an operation belongs to.

    That of a forward pass belongs to the innermost part that runs; that of a backward pass to the part that ran when
    its node of the graph was made. Nodes are numbered as they are made, so that all that are made from one call of a
    hook to the next are one part's, in whichever order the engine comes to them. What is computed anew in a backward
    pass belongs to the part that runs again, or else to the node that asks for it.

    It stands where `FlopCounterMode` has its `ModuleTracker`. For that one a backward pass is in every module that has
    the gradients of its outputs and waits for those of its inputs: in several at once where branches meet, and to the
    end in one whose inputs need none.

    Args:
        model: any model.
        parts: the part of each module that begins one, by its path.
    """

    def __init__(self, model: nn.Module, parts: Mapping[str, str]) -> None:
        self._parts = {model: REST, **{model.get_submodule(path): part for path, part in parts.items()}}
        self._hooks: list[Any] = []
        self._running: list[str] = []
        self._numbers = [0]  # of nodes: the first of each stretch
        self._owners = [REST]
        self._last = REST

    @property
    def parents(self) -> set[str]:
        """The owner, as a set: the counter allows for modules in modules."""
        owner = self._running[-1] if self._running else _BACKWARD
        node: Any = torch._C._current_autograd_node()
        if owner in (REST, _BACKWARD) and node is not None:
            owner = self._owners[bisect_right(self._numbers, node._sequence_nr()) - 1]
        if owner != _BACKWARD:  # else made by the node whose operation came last
            self._last = owner
        return {self._last}

    def __enter__(self) -> None:
        for module, part in self._parts.items():
            self._hooks += (
                module.register_forward_pre_hook(lambda *_, part=part: self._enter(part), prepend=True),
                module.register_forward_hook(lambda *_: self._leave(), always_call=True),
            )

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _enter(self, part: str) -> None:
        self._running.append(part)
        self._note()

    def _leave(self) -> None:
        self._running.pop()
        self._note()

    def _note(self) -> None:
        number = torch._C._autograd._get_sequence_nr()
        if number >= self._numbers[-1]:  # each thread counts for itself: on cuda that of the backward pass does
            self._numbers.append(number)
            self._owners.append(self._running[-1] if self._running else _BACKWARD)
