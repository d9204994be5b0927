"""Toy models and tasks, with and without what probes may need, to check probes on."""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from harness.batches import IGNORE, Batch, Interface
from harness.contracts import Condition, Metric, Task

ANSWERS, FILLERS = 4, 4
QUESTION = ANSWERS + FILLERS
VOCABULARY = QUESTION + 1


class Attending(nn.Module):
    """Two layers of causal attention with two heads each; the noise of its dropout is for training only."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, 8)
        self.qkv = nn.ModuleList(nn.Linear(8, 24) for _ in range(2))
        self.norm = nn.LayerNorm(8)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(8, vocab_size)

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time vocab"]:
        x = self.embedding(tokens)
        for project in self.qkv:
            query, key, value = project(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.dropout(mixed.transpose(1, 2).flatten(2))
        logits: Tensor = self.head(self.norm(x))
        return logits


class Recurrent(nn.Module):
    """A gated recurrent unit, for tokens or vectors; no attention."""

    accepts = ("tokens", "vectors")

    def __init__(self, interface: Interface) -> None:
        super().__init__()
        vectors = interface.input == "vectors"
        self.embedding = nn.Linear(interface.input_size, 8) if vectors else nn.Embedding(interface.input_size, 8)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, interface.output_size)

    def forward(self, tokens: Shaped[Tensor, "batch time *width"]) -> Float[Tensor, "batch time out"]:
        outputs: Tensor = self.head(self.rnn(self.embedding(tokens))[0])
        return outputs


class Marked(Task):
    """Name the first token after `d` fillers; with cue, query, roles, several distances and two groups.

    tokens   answer  x  x  x  ?           `x` is drawn from the fillers (group "") or from the answers (`hard`)
    targets       -  -  -  -  answer
    """

    interface = Interface(VOCABULARY, VOCABULARY)
    metrics = {"accuracy": Metric("share", chance=1 / ANSWERS, best=1.0)}  # noqa: RUF012
    axis = "distance (tokens)"
    roles: Sequence[str] = ("answer", "distractor", "question")

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        while True:
            yield self._draw(batch_size, int(torch.randint(1, 5, (), generator=generator)), "", generator)

    def conditions(self) -> Sequence[Condition]:
        return [Condition(d, inside=d < 5, group=group) for group in ("", "hard") for d in (1, 2, 4, 8)]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        return self._draw(examples, int(condition.x), condition.group, generator)

    def score(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": (outputs[:, -1].argmax(-1) == batch.targets[:, -1]).float()}

    def _draw(self, size: int, distance: int, group: str, generator: torch.Generator) -> Batch:
        answers = torch.arange(size) % ANSWERS
        low, high = (0, ANSWERS) if group == "hard" else (ANSWERS, QUESTION)
        between = torch.randint(low, high, (size, distance), generator=generator)
        tokens = torch.cat([answers[:, None], between, torch.full((size, 1), QUESTION)], 1)
        targets = torch.full_like(tokens, IGNORE)
        targets[:, -1] = answers
        roles = torch.tensor([0, *[1] * distance, 2]).repeat(size, 1)
        query = torch.full_like(answers, distance + 1)
        mask = torch.ones_like(tokens, dtype=torch.bool)
        return Batch(tokens, targets, mask, cue=torch.zeros_like(answers), query=query, roles=roles)


class Plain(Task):
    """Predict the next token of a random walk, at one length; nothing is marked."""

    interface = Interface(VOCABULARY, VOCABULARY)
    metrics = {"accuracy": Metric("share")}  # noqa: RUF012

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        while True:
            yield self._draw(batch_size, generator)

    def conditions(self) -> Sequence[Condition]:
        return [Condition(8, inside=True)]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        return self._draw(examples, generator)

    def score(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> dict[str, Tensor]:
        return {"accuracy": (outputs.argmax(-1) == batch.targets).float().mean(1)}

    def _draw(self, size: int, generator: torch.Generator) -> Batch:
        steps = torch.randint(2, (size, 9), generator=generator) * 2 - 1
        walk = steps.cumsum(1) % VOCABULARY
        return Batch(walk[:, :-1], walk[:, 1:], torch.ones(size, 8, dtype=torch.bool))


class Numbers(Task):
    """The running sum of real numbers: vectors in, numbers out."""

    interface = Interface(1, 1, input="vectors", output="numbers")
    metrics = {"error": Metric("squared error", best=0.0, higher_is_better=False)}  # noqa: RUF012

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        while True:
            yield self.evaluate(Condition(4, inside=True), batch_size, generator)

    def conditions(self) -> Sequence[Condition]:
        return [Condition(length, inside=length < 5) for length in (2, 4, 8)]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        inputs = torch.randn(examples, int(condition.x), 1, generator=generator)
        return Batch(inputs, inputs.cumsum(1), torch.ones(inputs.shape[:2], dtype=torch.bool))

    def loss(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> Float[Tensor, ""]:
        return F.mse_loss(outputs, batch.targets)

    def score(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> dict[str, Tensor]:
        return {"error": (outputs - batch.targets).square().flatten(1).mean(1)}
