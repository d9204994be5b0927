"""Long-range recall: name the key that stood at the start, however many distractors came after it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from harness_plugins.tasks.drawing import ahead, between, check_range
from jaxtyping import Float, Int
from pydantic import Field, NonNegativeInt
from torch import Tensor

from harness import IGNORE, Batch, Condition, Interface, Metric, Task

KEYS = 8
DISTRACTORS = 8
QUESTION = KEYS + DISTRACTORS
PAD = QUESTION + 1
VOCABULARY = PAD + 1


class Recall(Task):
    """One key, `d` distractors, then `?`, where the model names the key. Loss only at `?`.

        tokens   key  x  x  x  ?        d = 3; 8 keys, 8 kinds of distractors, each drawn uniformly
        targets    -  -  -  -  key

    The plain form of the long-lag problems of Hochreiter & Schmidhuber (1997, section 5). Chance accuracy is 1/8,
    chance loss log 8 = 2.079 nats. A training batch has one distance, drawn uniformly; evaluation has every key
    equally often (to within one, where the number of examples is no multiple of 8).

    `bits` is the mutual information between answer and key, corrected for what chance adds to it.

    Args:
        train_min: smallest distance in training.
        train_max: largest distance in training.
        distances: distances to evaluate.
    """

    interface = Interface(input_size=VOCABULARY, output_size=VOCABULARY)
    metrics: Mapping[str, Metric] = {
        "accuracy": Metric("share", chance=1 / KEYS, best=1.0),
        "loss": Metric("nats", chance=2.0794415416798357, best=0.0, higher_is_better=False),
        "bits": Metric("bits", chance=0.0, best=3.0),
    }
    axis = "distance d (distractors)"
    recommended_training: ClassVar[Mapping[str, Any]] = {"optimizer": "adam", "steps": 1000, "batch_size": 64}

    def __init__(
        self,
        *,
        train_min: NonNegativeInt = 1,
        train_max: NonNegativeInt = 20,
        distances: Annotated[list[NonNegativeInt], Field(min_length=1)] = [1, 10, 20, 50, 100],  # noqa: B006
    ) -> None:
        self.train_min = train_min
        self.train_max = train_max
        self.distances = sorted(set(distances))

    @staticmethod
    def check_arguments(train_min: int, train_max: int, distances: Sequence[int]) -> None:
        """Refuse an empty range."""
        check_range(train_min, train_max)

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        def draw() -> tuple[Tensor, ...]:
            keys = torch.randint(KEYS, (batch_size,), generator=generator)
            return keys, drawn_distractors(batch_size, between(self.train_min, self.train_max, generator), generator)

        return ahead(draw, sequences, batch_size, self.train_max + 2)

    def conditions(self) -> list[Condition]:
        return [Condition(d, inside=self.train_min <= d <= self.train_max) for d in self.distances]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        return sequences(torch.arange(examples) % KEYS, drawn_distractors(examples, int(condition.x), generator))

    def token_names(self, tokens: Int[Tensor, " time"]) -> list[str]:
        """`K3 d1 d8 ?`."""
        names = [f"K{key + 1}" for key in range(KEYS)] + [f"d{n + 1}" for n in range(DISTRACTORS)]
        return [
            "?" if token == QUESTION else (names[token] if token < len(names) else str(token))
            for token in tokens.tolist()
        ]

    def score(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> dict[str, Tensor]:
        logits, keys = outputs[:, -1].float(), batch.targets[:, -1]
        answers = logits.argmax(dim=-1).float()
        answers[logits.isnan().any(-1)] = math.nan  # `argmax` would name the first NaN
        right = (answers == keys).float().where(~answers.isnan(), answers)
        loss = F.cross_entropy(logits, keys, reduction="none")
        return {"accuracy": right, "loss": loss, "answer": answers, "key": keys}

    def summarise(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        return {
            "accuracy": scores["accuracy"].mean().item(),
            "loss": scores["loss"].mean().item(),
            "bits": mutual_information(scores["answer"], scores["key"]),
        }


def drawn_distractors(examples: int, distance: int, generator: torch.Generator) -> Int[Tensor, "batch distance"]:
    """Drawn uniformly."""
    return torch.randint(KEYS, KEYS + DISTRACTORS, (examples, distance), generator=generator)


def sequences(keys: Int[Tensor, " batch"], distractors: Int[Tensor, "batch distance"]) -> Batch:
    """Recall sequences with these keys, and these distractors between key and question."""
    distance = distractors.shape[1]
    tokens = F.pad(torch.cat([keys[:, None], distractors], 1), (0, 1), value=QUESTION)
    return Batch(
        tokens=tokens,
        targets=F.pad(keys[:, None], (distance + 1, 0), value=IGNORE),
        mask=torch.ones_like(tokens, dtype=torch.bool),
        cue=torch.zeros_like(keys),
        query=torch.full_like(keys, distance + 1),
    )


def mutual_information(answers: Float[Tensor, " batch"], keys: Int[Tensor, " batch"]) -> float:
    """Mutual information between answer and key in bits (Shannon 1948), corrected for its bias; NaN if an answer is.

    The estimate from joint frequencies is too high: an entropy over m occupied cells comes out (m - 1) / 2n nats too
    low (Miller 1955), and a conditional one has more cells. That is taken off: 0.07 bits where 512 answers are pure
    chance, and nothing for perfect and for constant answers, which are exact. With few examples cells are empty by
    chance, and the estimate is useless: below 16 for each key there is none (NaN).
    """
    if answers.isnan().any() or len(keys) < 16 * KEYS:
        return math.nan
    table = torch.zeros(VOCABULARY, VOCABULARY, dtype=torch.float64, device=answers.device)
    table.index_put_((answers.long(), keys), torch.ones_like(answers, dtype=torch.float64), accumulate=True)
    joint = table / table.sum()
    independent = joint.sum(dim=1, keepdim=True) * joint.sum(dim=0, keepdim=True)
    seen = joint > 0
    found = (joint[seen] * (joint[seen] / independent[seen]).log2()).sum()
    more_cells = seen.sum() - seen.any(0).sum() - (seen.any(1).sum() - 1)  # (R - 1)(C - 1) if all are occupied
    bias = more_cells / (2 * len(keys) * math.log(2))
    return (found - bias.clamp(min=0)).clamp(min=0).item()
