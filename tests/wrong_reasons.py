"""Models that are right for the wrong reason, and one that is right for the right one, for each task.

Each is a single attention over the tokens that it answers by, so that every probe can look at it: gradient flows to the
tokens it uses, attention shows them, and cuts take them away.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from harness_plugins.tasks.farm_agreement import NOUN_IDS, VERB_IDS, FarmAgreement
from harness_plugins.tasks.farm_grammar import WORDS
from harness_plugins.tasks.recall import DISTRACTORS, KEYS, VOCABULARY, Recall
from torch import Tensor, nn

from harness import Task

Chooses = Callable[[Tensor], Tensor]
"""From tokens (batch time) to the ones that each query answers by (batch query key)."""


class Answers(nn.Module):
    """Answers by the mean value of the tokens that it chooses among those up to each query.

    Args:
        values: of each token, a vote for each answer.
        answers: token ids of each answer (all of them get the vote).
        chooses: what it answers by.
        bias: added to the votes, whatever the input; by position, if it has a row for each.
    """

    def __init__(self, values: Tensor, answers: Tensor, chooses: Chooses, bias: Tensor | None = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(values, freeze=False)
        self.answers = answers
        self.chooses = chooses
        self.bias = torch.zeros(values.shape[1]) if bias is None else bias

    def forward(self, tokens: Tensor) -> Tensor:
        value = self.embedding(tokens)[:, None]
        chosen = self.chooses(tokens) & torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
        nothing = ~chosen.any(-1, keepdim=True)
        quiet = torch.zeros_like(value)
        votes = F.scaled_dot_product_attention(quiet, quiet, value, attn_mask=(chosen | nothing)[:, None]).squeeze(1)
        votes = votes.masked_fill(nothing, 0.0)
        bias = self.bias if self.bias.ndim == 1 else self.bias[torch.arange(tokens.shape[1]) % len(self.bias)]
        votes = 9 * (votes + bias)
        logits = votes.new_zeros(*tokens.shape, len(self.embedding.weight))
        spread = votes[..., None].expand(*votes.shape, self.answers.shape[1]).flatten(2)
        return logits.index_add(2, self.answers.flatten(), spread)


def first(wanted: Tensor) -> Chooses:
    """The first token of those kinds."""
    return lambda tokens: _rank(tokens, wanted, lambda rank, total: rank == 1)


def last(wanted: Tensor) -> Chooses:
    """The last token of those kinds so far."""
    return lambda tokens: _rank(tokens, wanted, lambda rank, total: rank == total)


def every(wanted: Tensor) -> Chooses:
    """All tokens of those kinds so far: the most frequent answer wins."""
    return lambda tokens: _rank(tokens, wanted, lambda rank, total: rank == rank)


def at(position: int) -> Chooses:
    """Whatever stands at that position."""
    return lambda tokens: (torch.arange(tokens.shape[1]) == position).expand(*tokens.shape, -1)


def _rank(tokens: Tensor, wanted: Tensor, keep: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    kind = torch.isin(tokens, wanted)
    rank = kind.cumsum(1)
    return kind[:, None] & keep(rank[:, None], rank[:, :, None])


def farm_models() -> dict[str, nn.Module]:
    """For `farm_agreement`. In its grammar the subject is the first noun, so that `first noun` is the rule itself."""
    values = torch.zeros(len(WORDS), 2)
    for number in (0, 1):
        values[NOUN_IDS[number], number] = 1.0
    nouns = NOUN_IDS.flatten()
    never = torch.tensor([len(WORDS)])

    def model(chooses: Chooses, bias: Tensor | None = None) -> nn.Module:
        return Answers(values, VERB_IDS, chooses, bias).eval()

    return {
        "the right rule": model(first(nouns)),
        "last noun": model(last(nouns)),
        "most frequent number": model(every(nouns)),
        "fixed place": model(at(2)),
        "constant": model(first(never), torch.tensor([1.0, 0.0])),
        "position only": model(first(never), torch.eye(2).repeat(3, 1)[:5]),
    }


def recall_models() -> dict[str, nn.Module]:
    """For `recall`. One key stands among distractors, so that looking for any key anywhere is a right rule."""
    values = torch.zeros(VOCABULARY, KEYS)
    values[:KEYS] = torch.eye(KEYS)
    misled = values.clone()
    misled[KEYS : KEYS + DISTRACTORS] = torch.eye(KEYS)
    distractors = torch.arange(KEYS, KEYS + DISTRACTORS)
    answers, never = torch.arange(KEYS)[:, None], torch.tensor([VOCABULARY])
    return {
        "the right rule": Answers(values, answers, first(torch.arange(KEYS))).eval(),
        "last distractor": Answers(misled, answers, last(distractors)).eval(),
        "most frequent distractor": Answers(misled, answers, every(distractors)).eval(),
        "constant": Answers(values, answers, first(never), torch.eye(KEYS)[3]).eval(),
        "position only": Answers(values, answers, first(never), torch.eye(KEYS)).eval(),
    }


def cases() -> list[tuple[str, Task, str, nn.Module]]:
    """Every model on its task: name of the task, task, name of the model, model."""
    farm, recall = FarmAgreement(), Recall(train_max=20, distances=[1, 5, 20, 40])
    return [
        *(("farm_agreement", farm, name, model) for name, model in farm_models().items()),
        *(("recall", recall, name, model) for name, model in recall_models().items()),
    ]
