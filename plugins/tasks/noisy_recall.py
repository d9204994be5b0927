"""Noisy recall: pairs of a key and a value, of which many come again, among tokens that mean nothing."""

from typing import Annotated

from harness_plugins.tasks.drawing import numbered
from harness_plugins.tasks.in_context_recall import InContextRecall, Length
from pydantic import Field, PositiveInt


class NoisyRecall(InContextRecall):
    """In-context recall in which some places of a pair have two tokens of noise instead, which no key or value is.

        tokens   K2 V5 n1 n4 K7 V1 n3 n3 K2 V5 K7 V1      length 12
        targets   -  -  -  -  -  -  -  - V5  - V1  -

    M. Poli et al., "Mechanistic design and scaling of hybrid architectures" (2024), section 3.1. The first place and
    the last have a pair.

    Args:
        vocabulary: keys and values together; half of it each.
        noises: how many tokens of noise there are besides.
        noise: share of the places that have noise.
        train_min: smallest length in training, in tokens.
        train_max: largest length in training.
        lengths: lengths to evaluate.
    """

    at_once = 2**15

    def __init__(
        self,
        *,
        vocabulary: Annotated[int, Field(ge=4)] = 16,
        noises: PositiveInt = 16,
        noise: Annotated[float, Field(ge=0, lt=1)] = 0.2,
        train_min: Length = 32,
        train_max: Length = 64,
        lengths: Annotated[list[Length], Field(min_length=1)] = [32, 64, 128],  # noqa: B006
    ) -> None:
        self.others = numbered("n", noises)
        self.noise = noise
        super().__init__(vocabulary=vocabulary, train_min=train_min, train_max=train_max, lengths=lengths)
