"""What must be so of a language whose grammar is known."""

import math
from typing import Any

import torch

from harness import Skip
from harness.examples import seeded
from harness.laws import Answer, Case, Known, Laws

SENTENCES = 4096


def _grammar(case: Case) -> Any:
    grammar = getattr(case.subject.task, "grammar", None)
    if not all(hasattr(grammar, name) for name in ("probabilities", "successor", "start", "done", "bound", "sample")):
        raise Skip("the task offers no grammar: probabilities, successor, start, done, bound() and sample()")
    return grammar


def next_words_sum_to_one(case: Case) -> Answer:
    """After every prefix of the language the probabilities of the next word sum to 1."""
    return case.compare(_grammar(case).probabilities[1:].sum(1), 1.0, tolerance=1e-12)


def entropy_by_words(case: Case) -> Answer:
    """The entropy of a sentence is the same solved from the mean number of visits to each state, and summed word by
    word over where sentences are by then: sum over t of sum over states p_t(s) H(s)."""
    grammar = _grammar(case)
    surprisal = -torch.xlogy(grammar.probabilities, grammar.probabilities).sum(1)
    at = torch.zeros(len(surprisal), dtype=torch.float64)
    at[grammar.start] = 1.0
    entropy = 0.0
    for _ in range(10_000):
        if 1 - at[grammar.done].item() < 1e-15:
            break
        entropy += (at @ surprisal).item()
        arriving = at[:, None] * grammar.probabilities
        at = torch.zeros_like(at).scatter_add(0, grammar.successor.flatten(), arriving.flatten())
    return Answer(grammar.bound()[0], entropy, 1e-10)


def entropy_by_sentences(case: Case) -> Answer:
    """The entropy of a sentence is the mean of -log p over sentences that are drawn (to five standard errors)."""
    grammar = _grammar(case)
    sentences, _ = grammar.sample(SENTENCES, seeded("laws", "entropy"))
    surprisal = -grammar.sentence_log_probs(sentences)
    return Answer(surprisal.mean().item(), grammar.bound()[0], 5 * (surprisal.std() / SENTENCES**0.5).item())


def entropy_is_as_stated(case: Case) -> Answer:
    """The entropy of a sentence, in nats, is what the argument `entropy` states."""
    if case.expected.get("entropy") is None:
        raise Skip("nobody says what the entropy is (argument `entropy`)")
    return Answer(_grammar(case).bound()[0], case.expected["entropy"], 5e-6)


def perplexity_is_as_stated(case: Case) -> Answer:
    """The lowest perplexity, exp(nats / tokens), is what the argument `perplexity` states."""
    if case.expected.get("perplexity") is None:
        raise Skip("nobody says what the perplexity is (argument `perplexity`)")
    nats, tokens = _grammar(case).bound()
    return Answer(math.exp(nats / tokens), case.expected["perplexity"], 5e-6)


class LanguageLaws(Laws):
    """The language of a task that offers its grammar, as `farm_agreement` does: the entropy that bounds every model's
    loss, two ways. It says nothing of the model.

    Measures:
        broken: how many laws are broken; the verdict names them.
        laws: what came out for each, what must, how far they are apart, and how far they may be.

    Args:
        entropy: of a sentence, in nats, if it is known.
        perplexity: the lowest there can be, if it is known.
    """

    laws = (
        next_words_sum_to_one,
        entropy_by_words,
        entropy_by_sentences,
        entropy_is_as_stated,
        perplexity_is_as_stated,
    )
    known = (Known("elman", "farm_agreement", {"entropy": 10.15517, "perplexity": 2.52796}),)

    def __init__(self, *, entropy: float | None = None, perplexity: float | None = None) -> None:
        self.expected = {"entropy": entropy, "perplexity": perplexity}
