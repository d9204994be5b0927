"""The word problem of a group: say after every element which one the product of all so far is."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from harness_plugins.tasks.drawing import Drawn, asking
from jaxtyping import Float, Int
from pydantic import AfterValidator, Field, PositiveInt
from torch import Tensor

from harness import Batch, Condition, Interface, Metric

Table = Int[Tensor, "order order"]


class Products(Drawn):
    """Elements of a group; under each of them the product of all up to it. The products are drawn, uniformly, and each
    element is the one that leads from a product to the next: elements are as uniform, and independent.

    `accuracy` is that of the last position alone: the product of as many elements as `length` says. `every` is the
    share of all positions. The loss is of all.

    Args:
        table: the product of each two elements, of which the first is the neutral one.
        names: of the elements.
        train_min: smallest length in training, in tokens.
        train_max: largest length in training.
        lengths: lengths to evaluate.
    """

    recommended_training: ClassVar[Mapping[str, Any]] = {"steps": 800, "batch_size": 64}

    def __init__(
        self, table: Table, names: Sequence[str], train_min: int, train_max: int, lengths: Sequence[int]
    ) -> None:
        order = len(table)
        self.order = order
        self.between: Table = table.argsort(1)  # for two products the element that leads from the first to the second
        self.names = names
        self.interface = Interface(order, order)
        self.metrics = {
            "accuracy": Metric("share", chance=1 / order, best=1.0),
            "every": Metric("share", chance=1 / order, best=1.0),
            "loss": Metric("nats", chance=math.log(order), best=0.0, higher_is_better=False),
        }
        super().__init__(train_min, train_max, lengths)

    def bits(self, condition: Condition) -> float:
        return condition.x * math.log2(self.order)

    def draw(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        products = torch.randint(self.order, (examples, int(condition.x)), generator=generator)
        before = F.pad(products, (1, -1))  # 0, the neutral element, before the first
        return asking(self.between.take(self.order * before + products), products)

    def score(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> dict[str, Tensor]:
        whole = super().score(outputs, batch)
        end = asking(batch.tokens[:, -1:], batch.targets[:, -1:])
        last = super().score(outputs[:, -1:], end)["accuracy"]
        return {"accuracy": last, "every": whole["accuracy"], "loss": whole["loss"]}


def cyclic(order: int) -> Table:
    """The numbers below `order`, added modulo it."""
    numbers = torch.arange(order)
    return (numbers[:, None] + numbers) % order


def permutations(of: int, *, even: bool) -> tuple[Table, list[str]]:
    """All permutations of so many things, or the even ones alone, and what they are called: `p q` is first p, then q,
    `312` puts the third thing first."""
    every = [p for p in itertools.permutations(range(of)) if not even or _inversions(p) % 2 == 0]
    index = {p: n for n, p in enumerate(every)}
    table = [[index[tuple(p[i] for i in q)] for q in every] for p in every]
    return torch.tensor(table), ["".join(str(i + 1) for i in p) for p in every]


def _inversions(p: Sequence[int]) -> int:
    return sum(a > b for a, b in itertools.combinations(p, 2))


def _known(group: str) -> str:
    if not re.fullmatch(r"S[2-5]|A[3-5]|Z([2-9]|[1-9]\d{1,2})", group):
        raise ValueError("should be S2 to S5, A3 to A5 or Z2 to Z999")
    return group


class WordProblem(Products):
    """Elements of a group; under each of them the product of all up to it.

        tokens   213 132 213 321      S3: 213 swaps the first two things, 132 the last two, 321 turns them round
        targets  213 231 321 123

    W. Merrill et al., "The illusion of state in state-space models" (2024), section 3: for S5 and A5, whose products
    cannot be sorted out, no circuit of fixed depth does it, and with them neither attention nor a state that is only
    decayed; Z60, as large as A5, is easy. Each element is a token, and all are drawn. `accuracy` is that of the last
    position alone, `every` that of all.

    Args:
        group: `S3`, `S4`, `S5` (all permutations of so many things), `A4`, `A5` (the even ones), `Z60` (numbers added
            modulo 60).
        train_min: smallest length in training, in tokens.
        train_max: largest length in training.
        lengths: lengths to evaluate.
    """

    def __init__(
        self,
        *,
        group: Annotated[str, AfterValidator(_known)] = "S3",
        train_min: PositiveInt = 2,
        train_max: PositiveInt = 16,
        lengths: Annotated[list[PositiveInt], Field(min_length=1)] = [2, 4, 8, 16, 32, 64],  # noqa: B006
    ) -> None:
        size = int(group[1:])
        if group[0] == "Z":
            table, names = cyclic(size), [str(n) for n in range(size)]
        else:
            table, names = permutations(size, even=group[0] == "A")
        super().__init__(table, names, train_min, train_max, lengths)
