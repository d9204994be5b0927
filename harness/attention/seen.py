"""What an observer saw: the pattern of every attention call, and the layer of the model that made it."""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from jaxtyping import Float, Shaped
from torch import Tensor, nn


@dataclass(frozen=True)
class Layer:
    """One attention call of a forward pass.

    Args:
        name: `layer 2`, or where calls and layers do not go together the module's path (see `layer_names`).
        heads: the number of heads; 0 where the pattern has no such axis.
        misfit: why the pattern cannot be read token by token, with its shape; "" if it can.
    """

    name: str
    heads: int
    misfit: str = ""

    @property
    def head_names(self) -> list[str]:
        """Every head by name, counted from 1 as in the literature: `layer 1 head 2`."""
        return [f"{self.name} head {head}" for head in range(1, self.heads + 1)]


@dataclass(eq=False)
class Seen:
    """What an observer saw.

    Args:
        patterns: the weights of each call in order (`batch head query key`), before dropout, in float32 at least. Rows
            sum to 1, or to 0 where no key was left. They are part of the graph if gradients are enabled. Those that a
            model offers itself are as it offers them.
        modules: the path of the module that made each call, as in `calling_module`.
    """

    patterns: list[Float[Tensor, "..."]] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)

    def layers(self, tokens: Shaped[Tensor, "batch time *width"]) -> list[Layer]:
        """The calls of one forward pass over `tokens`.

        A pattern can be read token by token if it is examples x heads x time x time. What is not: cross-attention, a
        prefix or register tokens that the model adds, heads that are folded into the examples.
        """
        batch, time = tokens.shape[:2]
        layers = []
        for name, pattern in zip(layer_names(self.modules), self.patterns, strict=True):
            shape = tuple(pattern.shape)
            heads = shape[1] if len(shape) == 4 else 0
            fits = len(shape) == 4 and shape[0] == batch and shape[2:] == (time, time)
            wanted = f"(examples, heads, time, time) = ({batch}, heads, {time}, {time})"
            layers.append(Layer(name, heads, "" if fits else f"{name} has attention of shape {shape}, not {wanted}"))
        return layers


def layer_names(modules: Sequence[str]) -> list[str]:
    """A name for each attention call of a forward pass, from the paths of the modules that made them.

    `layer 1`, `layer 2`, ... where every block of the model makes one call: the paths differ in one number alone, which
    counts 0, 1, 2, ...; or there is one call by a module that has no number. Otherwise (some blocks do not attend, a
    module makes several calls, every head makes its own) the paths: `blocks.2.attention`, `blocks.2.attention call 1`.
    """
    if _one_in_each_block(modules):
        return [f"layer {number}" for number in range(1, len(modules) + 1)]
    total, so_far = Counter(modules), Counter[str]()
    names = []
    for module in modules:
        so_far[module] += 1
        call = f"call {so_far[module]}" if total[module] > 1 or not module else ""
        names.append(f"{module} {call}".strip())
    return names


def _one_in_each_block(modules: Sequence[str]) -> bool:
    # "blocks.1.attention" becomes "blocks", "1", ".attention"; "attention" stays as it is
    parts = [re.split(r"(?:^|\.)(\d+)(?=\.|$)", module, maxsplit=1) for module in modules]
    around = {(part[0], *part[2:]) for part in parts}
    numbers = [part[1:2] for part in parts]
    if len(around) != 1 or "head" in next(iter(around))[0].rpartition(".")[2]:
        return False
    return numbers in ([[]], [[str(number)] for number in range(len(modules))])


def calling_module() -> str:
    """The path, below the outermost module that is being called in this thread, of the innermost one; "" for the
    outermost one itself, and where there is none.

    Read off the stack of Python frames, so that nothing is hooked and only who asks pays for it. A module that is not
    registered is left out in favour of the one that calls it.
    """
    called: list[nn.Module] = []
    frame = sys._getframe()
    while (caller := frame.f_back) is not None:
        frame = caller
        if frame.f_code is nn.Module._wrapped_call_impl.__code__:
            called.append(frame.f_locals["self"])
    if not called:
        return ""
    known = {id(module): name for name, module in called[-1].named_modules()}
    path: str = next(known[id(module)] for module in called if id(module) in known)
    return path
