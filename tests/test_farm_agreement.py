"""The farm language and the task on it."""

import math
import re
from dataclasses import replace
from itertools import islice

import pytest
import torch
import torch.nn.functional as F
from harness_plugins.tasks.farm_agreement import FarmAgreement
from harness_plugins.tasks.farm_grammar import ROLES, WORDS, Grammar, zipf
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from harness.contracts import IGNORE, Batch, Condition

SINGULAR = ["dog", "cat", "cow", "hen", "pig", "duck", "goat", "horse"]
PLURAL = ["dogs", "cats", "cows", "hens", "pigs", "ducks", "goats", "horses"]
VERBS = {  # (subject number, takes an object)
    (0, False): ["sleeps", "runs", "sings", "waits"],
    (1, False): ["sleep", "run", "sing", "wait"],
    (0, True): ["sees", "likes", "chases", "follows"],
    (1, True): ["see", "like", "chase", "follow"],
}
PREPOSITIONS = ["near", "behind", "beside", "with", "by", "under"]
ADJECTIVES = ["big", "small", "old", "young", "brown", "happy"]
ADVERBS = ["today", "again", "slowly", "quietly", "happily", "outside", "together"]
LETTERS = dict.fromkeys(SINGULAR + PLURAL, "n") | dict.fromkeys(PREPOSITIONS, "p")
LETTERS |= dict.fromkeys(ADJECTIVES, "a") | dict.fromkeys(ADVERBS, "v")
LETTERS |= {word: "t" if takes else "i" for (_, takes), words in VERBS.items() for word in words}
LETTERS |= {"<s>": "<", "</s>": ">", "the": "d", ".": "."}
SENTENCE = re.compile(r"<d(?P<adj>a?)n(?P<phrases>(pdn)*)(i|t(?P<object>da?n))(?P<adverb>v?)\.>")

SEEDS = st.integers(0, 2**40)
FARM = FarmAgreement()
CORPUS = next(c for c in FARM.conditions() if c.group == "corpus")


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def spell(tokens: Tensor) -> list[str]:
    return [WORDS[token] for token in tokens]


def read(text: str) -> Tensor:
    return torch.tensor([[WORDS.index(word) for word in text.split()]])


def number_of(noun: str) -> int:
    return int(noun in PLURAL)


def logits(batch: Batch, likely: dict[int, list[str]]) -> Tensor:
    """Logits that prefer the words of the example's subject number."""
    assert batch.extra is not None
    outputs = torch.zeros(*batch.tokens.shape, len(WORDS))
    for row, number in enumerate(batch.extra["number"].tolist()):
        outputs[row, :, [WORDS.index(word) for word in likely[number]]] = 5.0
    return outputs


def zipf_entropy(size: int) -> float:
    weights: list[float] = [rank**-2.5 for rank in range(1, size + 1)]
    return -sum(w / sum(weights) * math.log(w / sum(weights)) for w in weights)


def closed_form(k_max: int) -> tuple[float, float]:
    """Entropy and number of targets of a sentence, as the sum over the independent choices that make it."""

    def coin(p: float) -> float:
        return -p * math.log(p) - (1 - p) * math.log(1 - p)

    noun = math.log(2) + zipf_entropy(8)
    described = coin(0.1) + 0.1 * zipf_entropy(6) + noun
    phrases = math.log(k_max + 1) + k_max / 2 * (zipf_entropy(6) + noun)
    verb = coin(0.5) + zipf_entropy(4) + 0.5 * described
    nats = described + phrases + verb + coin(0.3) + 0.3 * zipf_entropy(7)
    return nats, 1 + 1.1 + 3 * k_max / 2 + 1 + 0.5 * 2.1 + 0.3 + 2


def surprisal(batch: Batch, log_probs: Tensor) -> Tensor:
    """Nats of each sentence."""
    losses = F.cross_entropy(log_probs.transpose(1, 2), batch.targets, ignore_index=IGNORE, reduction="none")
    return losses.sum(1)


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


def test_exact_predictor_reaches_the_bound() -> None:
    """With the exact log-probabilities as logits KL is 0, and perplexity the bound up to sampling error."""
    batch = FARM.evaluate(CORPUS, 4_000, generator(0))
    exact = FARM.grammar.next_log_probs(batch.tokens)
    summary = FARM.summarise(FARM.score(exact, batch))
    assert summary["kl"] == pytest.approx(0, abs=1e-12)
    assert summary["accuracy"] == summary["accuracy_singular"] == summary["accuracy_plural"] == 1
    assert summary["log_odds"] == math.inf
    assert summary["perplexity"] == pytest.approx(FARM.metrics["perplexity"].best, rel=0.01)
    nats = surprisal(batch, exact)
    assert nats.mean().item() == pytest.approx(closed_form(3)[0], abs=4 * nats.std().item() / len(batch) ** 0.5)


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


def rows(batch: Batch) -> list[tuple[int, ...]]:
    return [tuple(row[mask].tolist()) for row, mask in zip(batch.tokens, batch.mask, strict=True)]


def test_training_set_is_fixed_and_reshuffled() -> None:
    """Each epoch has the same sentences in another order; a batch is as long as its longest sentence."""
    task = FarmAgreement(sentences=300)
    assert task.examples == 300
    batches = list(islice(task.train(64, generator(2)), 10))
    assert [len(batch) for batch in batches] == [64, 64, 64, 64, 44] * 2
    assert all(batch.tokens.shape[1] == int(batch.mask.sum(1).max()) for batch in batches)
    assert len({batch.tokens.shape[1] for batch in task_batches(task, 4)}) > 1
    first, second = ([row for batch in epoch for row in rows(batch)] for epoch in (batches[:5], batches[5:]))
    assert sorted(first) == sorted(second)
    assert first != second


def task_batches(task: FarmAgreement, size: int) -> list[Batch]:
    return list(islice(task.train(size, generator(3)), 20))


@given(seed=SEEDS)
@settings(max_examples=10, deadline=None)
def test_data_depends_on_the_generator_alone(seed: int) -> None:
    """Equal seeds give equal data, others other data; the global random state is neither read nor moved."""

    def everything(data_seed: int, global_seed: int) -> list[Tensor]:
        torch.manual_seed(global_seed)
        before = torch.get_rng_state()
        stream = FarmAgreement(sentences=50).train(20, generator(data_seed))
        batches = [
            *islice(stream, 4),
            *(FARM.evaluate(c, 20, generator(data_seed)) for c in FARM.conditions()),
        ]
        assert torch.equal(before, torch.get_rng_state())
        return [tensor for batch in batches for tensor in (batch.tokens, batch.targets)]

    once, again, other = everything(seed, 0), everything(seed, 1), everything(seed + 1, 0)
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
    assert not any(a.shape == b.shape and torch.equal(a, b) for a, b in zip(once[::2], other[::2], strict=True))


def test_conditions() -> None:
    """The hard test comes first, k = 0 is asked once, and `inside` ends with the training range."""
    conditions = FARM.conditions()
    series = {
        g: [(c.x, c.inside) for c in conditions if c.group == g] for g in dict.fromkeys(c.group for c in conditions)
    }
    assert list(series) == ["opposite", "same", "random", "described", "corpus", "unseen"]
    assert series["opposite"] == [(k, k <= 3) for k in range(9)]
    assert series["same"] == series["random"] == [(k, k <= 3) for k in range(1, 9)]
    assert series["corpus"] == series["unseen"] == [(1.5, True)]
    assert len(FarmAgreement(k_max=2).conditions()) == 3 + 2 + 2 + 1 + 1 + 1


def test_an_adjective_moves_everything_by_one_place() -> None:
    """`<s> the ADJ SUBJ (PREP the NOUN)^3`, in the language, with distractors of the other number."""
    batch = FARM.evaluate(Condition(3.0, inside=True, group="described"), 40, generator(3))
    assert batch.cue is not None
    assert batch.query is not None
    assert batch.roles is not None
    assert batch.tokens.shape == (40, 13)
    assert (batch.cue == 3).all()
    assert (batch.query == 12).all()
    assert [ROLES[role] for role in batch.roles[0, :5]] == ["bos", "determiner", "adjective", "subject", "preposition"]
    assert torch.isin(
        batch.tokens[:, 2], torch.tensor([WORDS.index(w) for w in ("big", "old", "small", "young")])
    ).any()
    assert not FARM.grammar.next_log_probs(batch.tokens).isnan().any()


def test_the_notes_say_how_much_of_the_test_occurs_in_training() -> None:
    """The share told is that of a real training set and a real test, and `unseen` keeps its word."""
    training = FARM.train(FARM.sentences, generator(0))
    known = {tuple(row[row != 0].tolist()) for row in next(training).tokens}

    def share(condition: Condition) -> float:
        rows = FARM.evaluate(condition, 2000, generator(1)).tokens
        return sum(tuple(row[row != 0].tolist()) in known for row in rows) / len(rows)

    corpus, unseen = FARM.conditions()[-2:]
    assert share(corpus) == pytest.approx(FARM.seen, abs=0.03)
    assert 0.5 < FARM.seen < 0.65
    assert f"{FARM.seen:.0%} of the test sentences" in FARM.notes[0]
    assert share(unseen) < 0.02


def test_where_everything_is_seen_there_is_nothing_unseen() -> None:
    """A training set larger than the language has no condition that could never be filled."""
    everything = FarmAgreement(sentences=10**15)
    assert [c.group for c in everything.conditions()][-1] == "corpus"
    assert everything.seen > 0.999
    assert FarmAgreement(sentences=1).conditions()[-1].group == "unseen"


def test_probabilities_of_sentences_by_hand() -> None:
    """k = 0 is one of four counts; every noun the first of its class has the probability that Zipf gives it."""
    words = ["<s>", "the", "dog", "sleeps", ".", "</s>", "<pad>"]
    sentence = torch.tensor([[WORDS.index(word) for word in words]])
    expected = 0.9 * 0.5 * zipf(8)[0] * 0.25 * 0.5 * zipf(4)[0] * 0.7
    assert FARM.grammar.sentence_log_probs(sentence).exp().item() == pytest.approx(expected.item(), rel=1e-12)


@given(seed=SEEDS, k=st.integers(0, 9), group=st.sampled_from(["opposite", "same", "random"]))
@settings(max_examples=40, deadline=None)
def test_agreement_sentences(seed: int, k: int, group: str) -> None:
    """They read `<s> the SUBJ (PREP the NOUN)^k` and ask for a verb that agrees, at token 3 + 3k (from 1)."""
    batch = FARM.evaluate(Condition(x=float(k), inside=k <= 3, group=group), 20, generator(seed))
    assert batch.cue is not None
    assert batch.query is not None
    assert batch.roles is not None
    assert batch.extra is not None
    assert batch.tokens.shape == (20, 3 + 3 * k)
    assert batch.mask.all()
    assert set(batch.cue.tolist()) == {3 - 1}
    assert set(batch.query.tolist()) == {3 + 3 * k - 1}
    assert batch.extra["number"].sum() == 10
    assert (batch.targets[:, :-1] == IGNORE).all()
    for row in range(20):
        words = spell(batch.tokens[row])
        assert re.fullmatch("<dn(pdn)*", "".join(LETTERS[word] for word in words))
        number = number_of(words[2])
        assert batch.extra["number"][row] == number
        assert WORDS[batch.targets[row, -1]] in VERBS[number, False] + VERBS[number, True]
        others = {number_of(word) for word in words[5::3]}
        assert group == "random" or others <= {1 - number if group == "opposite" else number}
        names = [ROLES[role] for role in batch.roles[row]]
        assert names == ["bos", "determiner", "subject"] + ["preposition", "determiner", "distractor"] * k


def test_random_distractors_are_of_both_numbers() -> None:
    """In `random` a distractor agrees with the subject half the time."""
    batch = FARM.evaluate(Condition(x=8.0, inside=False, group="random"), 500, generator(4))
    assert batch.extra is not None
    plural = torch.isin(batch.tokens[:, 5::3], read(" ".join(PLURAL)))
    for number in (0, 1):
        assert plural[batch.extra["number"] == number].double().mean().item() == pytest.approx(0.5, abs=0.05)


def test_unknown_group_is_an_error_that_helps() -> None:
    """A group that the task does not have is named, with the ones it has."""
    with pytest.raises(
        ValueError, match=r"opposite, same, random, described, corpus, unseen; got 'oposite'.*mean 'opposite'"
    ):
        FARM.evaluate(Condition(x=1.0, inside=True, group="oposite"), 4, generator(0))


@pytest.mark.parametrize("condition", FARM.conditions(), ids=str)
def test_scores_of_predictors_that_are_known(condition: Condition) -> None:
    """In every condition a knowing predictor scores 1, a uniform one exactly 1/2, one that always says
    singular 1/2 with a bias, one that says the wrong number 0."""
    batch = FARM.evaluate(condition, 30, generator(5))
    assert batch.extra is not None
    forms = {number: VERBS[number, False] + VERBS[number, True] for number in (0, 1)}
    singular = 1 - batch.extra["number"].double().mean().item()

    def summary(outputs: Tensor) -> dict[str, float]:
        scores = FARM.score(outputs, batch)
        assert all(len(values) == 30 for values in scores.values())
        result = FARM.summarise(scores)
        assert set(result) == set(FARM.metrics)
        return result

    knowing = summary(Grammar(8).next_log_probs(batch.tokens))
    assert knowing["accuracy"] == knowing["accuracy_singular"] == knowing["accuracy_plural"] == 1
    assert knowing["log_odds"] == math.inf

    uniform = summary(torch.zeros(*batch.tokens.shape, 56))
    assert uniform["accuracy"] == uniform["accuracy_singular"] == uniform["accuracy_plural"] == 0.5
    assert uniform["log_odds"] == uniform["singular_log_odds"] == 0
    assert uniform["verb_mass"] == pytest.approx(16 / 56)
    assert uniform["loss"] == pytest.approx(math.log(56)) == FARM.metrics["loss"].chance

    biased = summary(logits(batch, {0: forms[0], 1: forms[0]}))
    assert (biased["accuracy_singular"], biased["accuracy_plural"]) == (1, 0)
    assert biased["accuracy"] == pytest.approx(singular)
    assert biased["singular_log_odds"] == pytest.approx(5)
    assert biased["log_odds"] == pytest.approx(5 * (2 * singular - 1), abs=1e-5)

    assert summary(logits(batch, {0: forms[1], 1: forms[0]}))["accuracy"] == 0
    right = summary(logits(batch, forms))
    assert right["log_odds"] == pytest.approx(5)
    assert right["verb_mass"] == pytest.approx((8 * math.exp(5) + 8) / (8 * math.exp(5) + 48))


def test_accuracy_is_a_mean_over_lemmas() -> None:
    """Right about two lemmas and undecided about six is 5/8, however little mass the verbs have."""
    batch = FARM.evaluate(Condition(x=2.0, inside=True, group="opposite"), 4, generator(6))
    outputs = logits(batch, {0: ["sleeps", "sees"], 1: ["sleep", "see"]})
    outputs[..., WORDS.index("near")] = 50.0
    scores = FARM.score(outputs, batch)
    assert scores["accuracy"].tolist() == [5 / 8] * 4
    assert scores["verb_mass"].max() < 1e-15


def test_broken_outputs_do_not_score_as_chance() -> None:
    """NaN logits give NaN, not a number that could be read as a result."""
    batch = FARM.evaluate(Condition(x=1.0, inside=True, group="same"), 4, generator(6))
    summary = FARM.summarise(FARM.score(torch.full((*batch.tokens.shape, 56), torch.nan), batch))
    assert all(math.isnan(value) for value in summary.values())


def test_divergence_of_the_uniform_predictor() -> None:
    """KL of the uniform predictor is log 56 minus the exact entropy, over sentences and at the verb alone."""
    uniform = math.log(56)
    batch = FARM.evaluate(CORPUS, 4_000, generator(7))
    kl = FARM.summarise(FARM.score(torch.zeros(*batch.tokens.shape, 56), batch))["kl"]
    nats, targets = closed_form(3)
    assert kl == pytest.approx(uniform - nats / targets, abs=0.01)
    for k in range(4):
        batch = FARM.evaluate(Condition(x=float(k), inside=True, group="opposite"), 6, generator(7))
        verb = 1 / (4 - k)
        choice = -verb * math.log(verb) - ((1 - verb) * math.log(1 - verb) if k < 3 else 0)
        entropy = choice + (1 - verb) * zipf_entropy(6) + verb * (math.log(2) + zipf_entropy(4))
        kls = FARM.score(torch.zeros(*batch.tokens.shape, 56), batch)["kl"]
        assert kls.tolist() == pytest.approx([uniform - entropy] * 6, abs=1e-5)


def test_where_divergence_and_perplexity_are_undefined() -> None:
    """KL is NaN beyond the trained range, where the language ends; perplexity everywhere but in whole sentences."""
    for condition in FARM.conditions():
        batch = FARM.evaluate(condition, 8, generator(8))
        summary = FARM.summarise(FARM.score(torch.zeros(*batch.tokens.shape, 56), batch))
        assert math.isnan(summary["kl"]) == (not condition.inside)
        assert math.isnan(summary["perplexity"]) == (condition.group not in ("corpus", "unseen"))
    assert summary["perplexity"] == pytest.approx(56)


def test_padding_does_not_count() -> None:
    """Outputs at padding change no score, and `loss` is the mean over targets that training minimises."""
    batch = FARM.evaluate(CORPUS, 64, generator(9))
    assert not batch.mask.all()
    outputs = torch.randn(*batch.tokens.shape, 56, generator=generator(10))
    scores = FARM.score(outputs, batch)
    summary = FARM.summarise(scores)
    assert summary["loss"] == pytest.approx(FARM.loss(outputs, batch).item(), rel=1e-5)
    assert summary["perplexity"] == pytest.approx(math.exp(summary["loss"]))
    outputs[~batch.mask] = 1e6 * torch.randn(int((~batch.mask).sum()), 56, generator=generator(11))
    for name, values in FARM.score(outputs, batch).items():
        assert torch.equal(values, scores[name]), name


def test_scores_in_chunks_are_the_scores_of_the_whole() -> None:
    """Scores belong to their example: splitting a batch changes none."""
    batch = FARM.evaluate(CORPUS, 50, generator(12))
    outputs = torch.randn(*batch.tokens.shape, 56, generator=generator(13))
    whole = FARM.score(outputs, batch)
    parts = [FARM.score(o, b) for o, b in zip(outputs.split(16), batch.split(16), strict=True)]
    for name, values in whole.items():
        torch.testing.assert_close(torch.cat([part[name] for part in parts]), values)


def test_loss_of_an_agreement_condition_is_about_the_verb() -> None:
    """Only the outputs at the query get a gradient, so that gradients answer for the verb."""
    batch = FARM.evaluate(Condition(x=3.0, inside=True, group="opposite"), 4, generator(14))
    outputs = torch.zeros(*batch.tokens.shape, 56, requires_grad=True)
    FARM.loss(outputs, batch).backward()
    assert outputs.grad is not None
    assert (outputs.grad[:, :-1] == 0).all()
    assert (outputs.grad[:, -1] != 0).all()


def test_a_batch_without_positions_is_refused() -> None:
    """A batch that lacks what the score needs is an error that says so, not a wrong score."""
    whole = FARM.evaluate(CORPUS, 2, generator(15))
    for batch in (replace(whole, query=None), replace(whole, extra=None)):
        with pytest.raises(ValueError, match="without `query` or `extra`"):
            FARM.score(torch.zeros(*batch.tokens.shape, 56), batch)
