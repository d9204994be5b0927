"""The state that a model offers, in whatever form, as one vector for each example, and back."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from harness.errors import RequestError

CELL = "cell"
"""The key under which a state that is a dict holds its cells."""


def parts(state: Any) -> list[Any]:
    """One for each layer: the entries of a list, or the state as a whole."""
    return state if isinstance(state, list) else [state]


def flattened(state: Any, batch: int) -> tuple[Float[Tensor, "batch width"], int]:
    """All real and complex numbers of one layer's state, the cells last; and how many of them are cells.

    Raises:
        RequestError: there are none, or the first axis of a tensor is not the example.
    """
    found = [(is_cell, leaf) for is_cell, leaf in _leaves(state, False) if _carries(leaf)]
    if not found:
        raise RequestError(f"a state is made of tensors of real numbers, but this one is a {type(state).__name__}")
    for _, leaf in found:
        if leaf.ndim < 1 or leaf.shape[0] != batch:
            raise RequestError(
                f"the first axis of each tensor of a state is the example, but one for {batch} examples has shape "
                f"{tuple(leaf.shape)}"
            )
    vectors = [(is_cell, _vector(leaf)) for is_cell, leaf in found]
    ordered = sorted(vectors, key=lambda each: each[0])
    cells = sum(vector.shape[1] for is_cell, vector in vectors if is_cell)
    return torch.cat([vector for _, vector in ordered], 1), cells


def leaves(state: Any) -> Iterator[Tensor]:
    """All tensors of a state."""
    return (leaf for _, leaf in _leaves(state, False))


def mapped(state: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A state of the same form, with another tensor for each. What is no tensor (a counter) stays."""
    if isinstance(state, Tensor):
        return change(state)
    if isinstance(state, Mapping):
        return {key: mapped(value, change) for key, value in state.items()}
    if isinstance(state, tuple | list):
        found = [mapped(value, change) for value in state]
        return type(state)(*found) if hasattr(state, "_fields") else type(state)(found)
    return state


def rebuilt(state: Any, carried: Float[Tensor, "batch width"]) -> Any:
    """A state of the form of `state` with the numbers of `carried`, in the order of `flattened`. What is no real or
    complex number (a counter) stays."""
    found = [(is_cell, leaf) for is_cell, leaf in _leaves(state, False) if _carries(leaf)]
    order = sorted(range(len(found)), key=lambda index: found[index][0])
    sizes = [_vector(found[index][1]).shape[1] for index in order]
    pieces = dict(zip(order, carried.split(sizes, 1), strict=True))
    values = iter([_unvector(leaf, pieces[index]) for index, (_, leaf) in enumerate(found)])
    return mapped(state, lambda leaf: next(values) if _carries(leaf) else leaf)


def _carries(leaf: Tensor) -> bool:
    return leaf.is_floating_point() or leaf.is_complex()


def _leaves(state: Any, is_cell: bool) -> Iterator[tuple[bool, Tensor]]:
    if isinstance(state, Tensor):
        yield is_cell, state
    elif isinstance(state, Mapping):
        for key, value in state.items():
            yield from _leaves(value, is_cell or key == CELL)
    elif isinstance(state, tuple | list):
        for value in state:
            yield from _leaves(value, is_cell)


def _vector(leaf: Tensor) -> Float[Tensor, "batch width"]:
    return (torch.view_as_real(leaf) if leaf.is_complex() else leaf).reshape(len(leaf), -1)


def _unvector(leaf: Tensor, vector: Float[Tensor, "batch width"]) -> Tensor:
    if leaf.is_complex():
        return torch.view_as_complex(vector.reshape(*leaf.shape, 2).contiguous()).to(leaf.dtype)
    return vector.reshape(leaf.shape).to(leaf.dtype)
