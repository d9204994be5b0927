"""The farm language: its sentences, their exact probabilities, and its entropy as published."""

import math
import re

import pytest
import torch
from farm import CORPUS, FARM, LETTERS, SEEDS, VERBS, closed_form, generator, number_of, read, spell
from harness_plugins.tasks.farm_agreement import FarmAgreement
from harness_plugins.tasks.farm_grammar import ROLES, WORDS, Grammar, zipf
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from harness import IGNORE, Condition

SENTENCE = re.compile(r"<d(?P<adj>a?)n(?P<phrases>(pdn)*)(i|t(?P<object>da?n))(?P<adverb>v?)\.>")


def test_vocabulary_has_56_words() -> None:
    """The vocabulary is 56 different words, padding among them, and each grammatical word has a token."""
    assert len(WORDS) == len(set(WORDS)) == 56
    assert set(WORDS) == {*LETTERS, "<pad>"}
    assert FARM.interface.input_size == FARM.interface.output_size == 56


@pytest.mark.parametrize("k_max", [0, 1, 3, 8])
def test_entropy_bound_agrees_with_the_closed_form(k_max: int) -> None:
    """Expected visits times surprisal of the automaton's states equal the sum over the grammar's choices."""
    nats, targets = closed_form(k_max)
    assert Grammar(k_max).bound() == pytest.approx((nats, targets), abs=1e-9, rel=0)


def test_published_figures() -> None:
    """Entropy, length and perplexity of the language are the published ones, to the digits shown."""
    nats, targets = FARM.grammar.bound()
    assert round(nats, 5) == 10.15517
    assert round(targets, 9) == 10.95
    assert round(nats / targets, 6) == 0.927413
    assert round(math.exp(nats / targets), 5) == 2.52796
    assert round(math.exp((nats + math.log(2)) / targets), 3) == 2.693
    assert FARM.metrics["perplexity"].best == math.exp(nats / targets)


def test_next_token_by_hand() -> None:
    """Next-token probabilities of one sentence are those worked out from the grammar on paper."""
    first = {size: 1 / sum(rank**-2.5 for rank in range(1, size + 1)) for size in (4, 6, 7, 8)}
    steps = [
        ("the", 1.0),
        ("old", 0.1 * first[6] * 3**-2.5),
        ("dog", 0.5 * first[8]),
        ("near", 3 / 4 * first[6]),
        ("the", 1.0),
        ("cats", 0.5 * first[8] * 2**-2.5),
        ("with", 2 / 3 * first[6] * 4**-2.5),
        ("the", 1.0),
        ("dogs", 0.5 * first[8]),
        ("sees", 1 / 2 * 0.5 * first[4]),
        ("the", 1.0),
        ("hen", 0.9 * 0.5 * first[8] * 4**-2.5),
        ("again", 0.3 * first[7] * 2**-2.5),
        (".", 1.0),
        ("</s>", 1.0),
    ]
    tokens = read(" ".join(["<s>", *(word for word, _ in steps)]))
    probabilities = FARM.grammar.next_log_probs(tokens)[0].exp()
    for place, (word, probability) in enumerate(steps):
        assert probabilities[place, WORDS.index(word)].item() == pytest.approx(probability), word
    last = FARM.grammar.next_log_probs(read("<s> the dogs" + 3 * " by the cat"))[0, -1].exp()
    assert last[[WORDS.index(word) for word in VERBS[1, False]]].sum().item() == pytest.approx(0.5)
    assert last[[WORDS.index(word) for word in VERBS[1, True]]].sum().item() == pytest.approx(0.5)


@pytest.mark.parametrize(
    "prefix",
    [
        "the",
        "<s> dog",
        "<s> the dog sleep",
        "<s> the dog near dogs",
        "<s> the dog" + " by the cat" * 3 + " by",
    ],
)
def test_outside_the_language_there_is_no_next_token(prefix: str) -> None:
    """After a prefix that no sentence has, the exact distribution is NaN, from the first wrong word on."""
    exact = FARM.grammar.next_log_probs(read(prefix + " the"))[0]
    place = len(prefix.split()) - 1
    assert exact[place:].isnan().all()
    assert not exact[:place].isnan().any()


@given(seed=SEEDS, k_max=st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_sentences_obey_the_grammar(seed: int, k_max: int) -> None:
    """An independent recogniser accepts every sentence and reads the same cue, query, roles and number."""
    task = FarmAgreement(train_max=k_max)
    batch = task.evaluate(Condition(x=k_max / 2, inside=True, group="corpus"), 40, generator(seed))
    assert batch.cue is not None
    assert batch.query is not None
    assert batch.roles is not None
    assert batch.extra is not None
    for row in range(40):
        length = int(batch.mask[row].sum())
        assert batch.mask[row, :length].all()
        assert set(spell(batch.tokens[row, length:])) <= {"<pad>"}
        assert set(batch.targets[row, length:].tolist()) <= {IGNORE}
        assert set(batch.roles[row, length:].tolist()) <= {-1}
        inputs, targets = spell(batch.tokens[row, :length]), spell(batch.targets[row, :length])
        assert inputs[1:] == targets[:-1]
        sentence = [*inputs, targets[-1]]
        match = SENTENCE.fullmatch("".join(LETTERS[word] for word in sentence))
        assert match is not None, sentence
        phrases = len(match["phrases"]) // 3
        assert phrases <= k_max
        subject = 2 + len(match["adj"])
        verb = subject + 1 + 3 * phrases
        assert (batch.cue[row].item(), batch.query[row].item()) == (subject, verb - 1)
        number = number_of(sentence[subject])
        assert batch.extra["number"][row] == number
        assert sentence[verb] in VERBS[number, match["object"] is not None]
        expected = ["bos", "determiner", *["adjective"] * len(match["adj"]), "subject"]
        expected += ["preposition", "determiner", "distractor"] * phrases + ["verb"]
        if match["object"]:
            expected += ["determiner", *["adjective"] * (len(match["object"]) - 2), "object"]
        expected += ["adverb"] * len(match["adverb"]) + ["stop"]
        assert [ROLES[role] for role in batch.roles[row, :length]] == expected
    totals = task.grammar.next_log_probs(batch.tokens).exp().sum(-1)
    torch.testing.assert_close(totals[batch.mask], torch.ones_like(totals[batch.mask]))


def test_sampled_frequencies() -> None:
    """Counts, adjectives, objects, adverbs, numbers and nouns are as frequent as the grammar says."""
    batch = FARM.evaluate(CORPUS, 20_000, generator(1))
    assert batch.roles is not None
    assert batch.extra is not None

    def share(of: Tensor) -> float:
        return of.double().mean().item()

    def has(role: str) -> Tensor:
        assert batch.roles is not None
        return (batch.roles == ROLES.index(role)).sum(1)

    for k in range(4):
        assert share(has("distractor") == k) == pytest.approx(0.25, abs=0.02)
    assert share(has("adjective") > 0) == pytest.approx(1 - 0.9 * 0.95, abs=0.02)
    assert share(has("object")) == pytest.approx(0.5, abs=0.02)
    assert share(has("adverb")) == pytest.approx(0.3, abs=0.02)
    assert share(batch.extra["number"]) == pytest.approx(0.5, abs=0.02)
    nouns = batch.tokens[batch.roles == ROLES.index("distractor")]
    dogs = torch.isin(nouns, read("dog dogs"))
    assert share(dogs) == pytest.approx(1 / sum(rank**-2.5 for rank in range(1, 9)), abs=0.02)
    assert batch.tokens.shape[1] == 19


def test_probabilities_of_sentences_by_hand() -> None:
    """k = 0 is one of four counts; every noun the first of its class has the probability that Zipf gives it."""
    words = ["<s>", "the", "dog", "sleeps", ".", "</s>", "<pad>"]
    sentence = torch.tensor([[WORDS.index(word) for word in words]])
    expected = 0.9 * 0.5 * zipf(8)[0] * 0.25 * 0.5 * zipf(4)[0] * 0.7
    assert FARM.grammar.sentence_log_probs(sentence).exp().item() == pytest.approx(expected.item(), rel=1e-12)
