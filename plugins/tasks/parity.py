"""Parity: say after every bit whether the number of ones so far is odd."""

from typing import Annotated

from harness_plugins.tasks.word_problem import Products, cyclic
from pydantic import Field, PositiveInt


class Parity(Products):
    """Bits, and under each of them whether the ones up to it are odd in number.

        tokens   1 0 1 1 0      length 5
        targets  1 1 0 1 1

    As in G. Delétang et al., "Neural networks and the Chomsky hierarchy" (2022), and R. Grazzi et al., "Unlocking
    state-tracking in linear RNNs through negative eigenvalues" (2024), with an answer at every position. `accuracy` is
    that of the last position alone, `every` that of all. Bits are drawn uniformly.

    Args:
        train_min: smallest length in training, in bits.
        train_max: largest length in training.
        lengths: lengths to evaluate.
    """

    def __init__(
        self,
        *,
        train_min: PositiveInt = 2,
        train_max: PositiveInt = 20,
        lengths: Annotated[list[PositiveInt], Field(min_length=1)] = [2, 8, 20, 40, 80],  # noqa: B006
    ) -> None:
        super().__init__(cyclic(2), "01", train_min, train_max, lengths)
