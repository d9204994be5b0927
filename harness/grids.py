"""A grid: values of training settings and of model arguments, which a suite crosses with everything else."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from harness.measurements import Strict
from harness.schema import Training

MOST_TRIALS = 10_000
"""Of a run with a grid, unless the user asks for more: a list too long multiplies all others."""


def _apart(grid: dict[str, list[Any]]) -> dict[str, list[Any]]:
    for name, values in grid.items():
        known: list[tuple[type, Any]] = []
        for value in values:
            seen = (bool if isinstance(value, bool) else object, value)  # `true` equals 1
            if seen in known:
                raise ValueError(f"{name} has {value!r} twice; give each value once")
            known.append(seen)
    return grid


Grid = Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], AfterValidator(_apart)]
"""By the name of a training setting or a model argument, the values that it takes."""


class Default(Strict):
    """How a model would be trained on a task if there were no grid: what reports call the default."""

    model: str
    """Its label, without the arguments of the grid."""
    task: str
    """Its label."""
    training: dict[str, Any]
    """The settings that the grid varies, with the values that they would have."""


def training_part(grid: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The training settings in it. A name that is also an argument of a model means the setting."""
    return {name: values for name, values in grid.items() if name in Training.model_fields}


def argument_part(grid: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The model arguments in it."""
    return {name: values for name, values in grid.items() if name not in Training.model_fields}


def cells(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """One value of each field, in every combination; of an empty grid the one that says nothing."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def count_cells(grid: Mapping[str, Sequence[Any]]) -> int:
    """How many cells that are."""
    return math.prod(map(len, grid.values()))


def clashing(grid: Iterable[str], ways: Iterable[Mapping[str, Any]]) -> str:
    """The first field of a grid that one of several ways of training sets, too; "" for none."""
    ways = list(ways)
    return next((name for name in grid if any(name in way for way in ways)), "")
