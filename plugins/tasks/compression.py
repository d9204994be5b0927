"""Compression: one output must tell the whole sequence."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from harness_plugins.tasks.drawing import Drawn, Use, asking, batches_of, numbered
from jaxtyping import Float
from pydantic import Field, PositiveInt
from torch import Tensor

from harness import Batch, Condition, Interface, token_metrics

AT_ONCE = 2**20
"""Numbers in the targets that training makes at once, about: 4 MB."""


class Compression(Drawn):
    """Random letters and a question, at which the output names all of them at once: one distribution for each place.

        tokens   x3 x1 x4  ?                length 3
        targets   -  -  - (x3, x1, x4)      one-hot, one after the other

    M. Poli et al., "Mechanistic design and scaling of hybrid architectures" (2024), section 3.1: a model encodes a
    sequence in one token, from which it must be restored. There a net decodes it, which is told the place; here the
    model's own readout does, whose output is `places * vocabulary` wide. What a state or a width can hold decides, and
    attention cannot look back.

    Args:
        vocabulary: how many letters there are.
        train_min: smallest length in training: letters before the question.
        train_max: largest length in training.
        lengths: lengths to evaluate.
    """

    axis = "length (letters)"
    recommended_training: ClassVar[Mapping[str, Any]] = {"steps": 1000, "batch_size": 64}

    def __init__(
        self,
        *,
        vocabulary: Annotated[int, Field(ge=2)] = 16,
        train_min: PositiveInt = 4,
        train_max: PositiveInt = 16,
        lengths: Annotated[list[PositiveInt], Field(min_length=1)] = [4, 8, 16],  # noqa: B006
    ) -> None:
        self.vocabulary = vocabulary
        self.places = max(train_max, *lengths)
        self.one_hot = torch.eye(vocabulary)
        self.names = [*numbered("x", vocabulary), "?"]
        self.interface = Interface(vocabulary + 1, self.places * vocabulary, output="numbers")
        self.metrics = token_metrics(vocabulary)
        super().__init__(train_min, train_max, lengths)

    def bits(self, condition: Condition) -> float:
        return condition.x * math.log2(self.vocabulary)

    def draw(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        letters = torch.randint(self.vocabulary, (examples, int(condition.x)), generator=generator)
        tokens = F.pad(letters, (0, 1), value=self.vocabulary)
        return asking(tokens, tokens)

    def stream(self, use: Use, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        narrow = super().stream(use, batch_size, generator)
        some = batches_of(AT_ONCE, batch_size, (self.train_max + 1) * self.interface.output_size)
        while True:
            yield from [self.wide(batch) for batch in islice(narrow, some)]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        return self.wide(super().evaluate(condition, examples, generator))

    def wide(self, batch: Batch) -> Batch:
        """With targets as wide as the output, which only what is used needs."""
        known = self.one_hot.index_select(0, batch.tokens[:, :-1].flatten()).view(len(batch), 1, -1)
        before, beside = batch.tokens.shape[1] - 1, self.interface.output_size - known.shape[2]
        return replace(batch, targets=F.pad(known, (0, beside, before, 0), value=math.nan))

    def loss(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> Float[Tensor, ""]:
        """The mean cross-entropy of a letter, in nats."""
        return self.losses(outputs, batch).mean()

    def losses(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> Float[Tensor, "batch place"]:
        """The cross-entropy of each letter, in nats."""
        return F.cross_entropy(self.named(outputs, batch).mT, batch.tokens[:, :-1], reduction="none")

    def named(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> Float[Tensor, "batch place letter"]:
        """What the last output says of each place."""
        logits: Tensor = outputs[:, -1].float().unflatten(1, (self.places, self.vocabulary))
        return logits[:, : batch.tokens.shape[1] - 1]

    def score(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> dict[str, Tensor]:
        logits = self.named(outputs, batch)
        right = (logits.argmax(-1) == batch.tokens[:, :-1]).float()
        unknown = logits.isnan().any(-1).any(-1)  # `argmax` would name the first NaN
        found = {"accuracy": right.mean(1), "exact": right.amin(1), "loss": self.losses(outputs, batch).mean(1)}
        return {name: values.masked_fill(unknown, math.nan) for name, values in found.items()}
