"""The task on the farm language: what is trained on, and what each condition asks."""

import re
from itertools import islice

import pytest
import torch
from farm import FARM, LETTERS, PLURAL, SEEDS, VERBS, generator, number_of, read, spell
from harness_plugins.tasks.farm_agreement import FarmAgreement
from harness_plugins.tasks.farm_grammar import ROLES, WORDS
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from harness import IGNORE, Batch, Condition


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
