"""Modular sums: say after every number what all so far add up to."""

from typing import Annotated

from harness_plugins.tasks.word_problem import Products, cyclic
from pydantic import Field, PositiveInt


class ModularSum(Products):
    """Numbers below the modulus, and under each of them the sum up to it, modulo the modulus.

        tokens   3 1 4 0 2      modulus 5
        targets  3 4 3 3 0

    The modular arithmetic of G. Delétang et al., "Neural networks and the Chomsky hierarchy" (2022), with additions
    alone and an answer at every position. `accuracy` is that of the last position alone, `every` that of all. Numbers
    are drawn uniformly.

    Args:
        modulus: answers there are.
        train_min: smallest length in training, in numbers.
        train_max: largest length in training.
        lengths: lengths to evaluate.
    """

    def __init__(
        self,
        *,
        modulus: Annotated[int, Field(ge=2, le=999)] = 5,
        train_min: PositiveInt = 2,
        train_max: PositiveInt = 20,
        lengths: Annotated[list[PositiveInt], Field(min_length=1)] = [2, 8, 20, 40, 80],  # noqa: B006
    ) -> None:
        super().__init__(cyclic(modulus), [str(n) for n in range(modulus)], train_min, train_max, lengths)
