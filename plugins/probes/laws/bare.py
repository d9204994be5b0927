"""A bare attention: a model of vectors without parameters, y = softmax(x x' / sqrt(width)) x.

Its input is then queries, keys and values in one, so that all of them can be chosen from outside: the first numbers of
a vector decide its scores; a number that is 1 in one vector alone carries the weight of that vector into the outputs.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from harness import Skip
from harness.capabilities import Capabilities
from harness.laws import Case
from harness.offers import OffersState


def width_of(case: Case) -> int:
    """The width of a bare attention's vectors.

    Raises:
        Skip: the model is none.
    """
    interface = case.subject.task.interface
    if interface.input != "vectors" or interface.output != "numbers" or interface.input_size != interface.output_size:
        raise Skip("for an attention that reads vectors and gives vectors of the same width; ask for it on task noise")
    if any(True for _ in case.model.parameters()) or isinstance(case.model, OffersState):
        raise Skip("for a bare attention, softmax(x x' / sqrt(width)) x, without weights or state of its own")
    if interface.input_size < 8:
        raise Skip(f"for vectors of 8 numbers or more, not {interface.input_size}")
    return interface.input_size


def is_causal(case: Case) -> bool:
    """Whether a query sees its own position and earlier ones alone."""
    return Capabilities(case.model).sees != "all"


def at_last_query(case: Case, scores: Sequence[float]) -> Tensor:
    """The weights that a last query gives to all keys, if it has these scores; the last one is that of its own key.

    Args:
        scores: after they were divided by sqrt(width); the last one is at least 1/2.
    """
    width, own = width_of(case), scores[-1]
    assert len(scores) < width
    root = math.sqrt(width)
    query = math.sqrt(own * root - 1)  # its own mark adds 1 to its product with itself
    x = torch.zeros(1, len(scores), width, dtype=torch.float64)
    x[0, :-1, 0] = torch.tensor(scores[:-1], dtype=torch.float64) * root / query
    x[0, -1, 0] = query
    x[0, :, 1 : len(scores) + 1] = torch.eye(len(scores), dtype=torch.float64)
    return case.run(x.to(case.device))[0, -1, 1 : len(scores) + 1]


def marked(case: Case) -> Tensor:
    """Random vectors, each with a mark of its own (`1 time width`)."""
    width = width_of(case)
    length = min(6, width // 2)
    x = torch.randn(1, length, width, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x[0, :, :length] = torch.eye(length, dtype=torch.float64)
    x[0, :, -1] = 0.0  # free, for whoever wants to change one value
    return x.to(case.device)


def weights_of(case: Case, x: Tensor) -> Tensor:
    """The weights that a model gives in `marked` vectors: `query key`."""
    return case.run(x)[0, :, : x.shape[1]]


def by_the_formula(case: Case, x: Tensor) -> Tensor:
    """The weights of each query, number by number, in Python's own arithmetic."""
    rows = x[0].tolist()
    found = []
    for i, query in enumerate(rows):
        keys = rows[: i + 1] if is_causal(case) else rows
        exponents = [sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(len(query)) for key in keys]
        powers = [math.exp(each - max(exponents)) for each in exponents]
        found.append([power / math.fsum(powers) for power in powers] + [0.0] * (len(rows) - len(keys)))
    return torch.tensor(found, dtype=torch.float64)
