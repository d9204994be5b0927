"""The task `recall`."""

import math

import pytest
import torch
from harness_plugins.tasks.recall import DISTRACTORS, KEYS, QUESTION, VOCABULARY, Recall, mutual_information

from harness import Condition
from harness.errors import RequestError
from harness.examples import seeded
from harness.plugin import resolve
from harness.registry import default_registry
from harness.suites import Request
from harness.targets import find_entry, load_definition


@pytest.mark.parametrize("distance", [0, 1, 7, 100])
def test_a_sequence_is_key_distractors_question(distance: int) -> None:
    """Tokens, target, cue and query are where the task says."""
    batch = Recall().evaluate(Condition(distance, inside=True), 64, seeded(1))
    assert batch.tokens.shape == (64, distance + 2)
    assert (batch.tokens[:, 0] < KEYS).all()
    assert ((batch.tokens[:, 1:-1] >= KEYS) & (batch.tokens[:, 1:-1] < KEYS + DISTRACTORS)).all()
    assert (batch.tokens[:, -1] == QUESTION).all()
    assert (batch.targets[:, :-1] == -100).all()
    assert torch.equal(batch.targets[:, -1], batch.tokens[:, 0])
    assert batch.cue is not None
    assert batch.query is not None
    assert (batch.cue == 0).all()
    assert (batch.query == distance + 1).all()


@pytest.mark.parametrize(("examples", "each"), [(512, [64] * 8), (500, [63] * 4 + [62] * 4), (3, [1] * 3 + [0] * 5)])
def test_evaluation_has_every_key_equally_often(examples: int, each: list[int]) -> None:
    """Exactly as many examples as asked for; the keys differ by one at most."""
    batch = Recall().evaluate(Condition(5, inside=True), examples, seeded(1))
    assert torch.bincount(batch.tokens[:, 0], minlength=KEYS).tolist() == each


def test_training_covers_its_range_and_nothing_else() -> None:
    """Distances are drawn from [train_min, train_max], all of them."""
    stream = Recall(train_min=3, train_max=6).train(4, seeded(0))
    lengths = {next(stream).tokens.shape[1] - 2 for _ in range(100)}
    assert lengths == {3, 4, 5, 6}


def test_conditions_know_what_training_covered() -> None:
    """Inside is the trained range, ends included."""
    conditions = Recall(train_min=10, train_max=20, distances=[50, 1, 10, 20, 10]).conditions()
    assert [(c.x, c.inside) for c in conditions] == [(1, False), (10, True), (20, True), (50, False)]


def test_the_same_generator_gives_the_same_data() -> None:
    """And the global random state is neither used nor changed."""
    task, condition = Recall(), Condition(9, inside=True)
    torch.manual_seed(1)
    first = task.evaluate(condition, 32, seeded("a")).tokens
    state = torch.get_rng_state()
    torch.manual_seed(2)
    assert torch.equal(first, task.evaluate(condition, 32, seeded("a")).tokens)
    assert not torch.equal(first, task.evaluate(condition, 32, seeded("b")).tokens)
    torch.manual_seed(1)
    assert torch.equal(state, torch.get_rng_state())


def test_a_perfect_a_constant_and_a_guessing_predictor() -> None:
    """1 and 3 bits; 1/8 and 0 bits; chance loss log 8 for a uniform guess among the keys."""
    task = Recall()
    batch = task.evaluate(Condition(4, inside=True), 512, seeded(0))
    perfect = torch.full((512, 6, VOCABULARY), -50.0)
    perfect[torch.arange(512), -1, batch.tokens[:, 0]] = 50.0
    result = task.summarise(task.score(perfect, batch))
    assert result == pytest.approx({"accuracy": 1.0, "loss": 0.0, "bits": 3.0}, abs=1e-6)
    constant = torch.zeros(512, 6, VOCABULARY)
    constant[..., 2] = 1.0
    result = task.summarise(task.score(constant, batch))
    assert (result["accuracy"], result["bits"]) == (1 / 8, 0.0)
    guess = torch.full((512, 6, VOCABULARY), -1e4)
    guess[..., :KEYS] = 0.0
    assert task.summarise(task.score(guess, batch))["loss"] == pytest.approx(math.log(8), abs=1e-6)
    assert task.metrics["loss"].chance == pytest.approx(math.log(8))


def test_bits_by_hand() -> None:
    """A predictor that only knows whether the key is in the lower half knows one bit."""
    keys = torch.arange(8).repeat(16)
    assert mutual_information((keys // 4).float(), keys) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("examples", [256, 512])
def test_guesses_carry_no_bits(examples: int) -> None:
    """The plug-in estimate is 0.07 bits too high for 512 guesses among 8 keys; the mean over many
    draws of the corrected one is near 0, apart from what cutting it off at 0 leaves."""
    keys = torch.arange(examples) % KEYS
    plain, corrected = [], []
    for seed in range(200):
        answers = torch.randint(KEYS, (examples,), generator=seeded(seed)).float()
        table = torch.zeros(8, 8, dtype=torch.float64).index_put_(
            (answers.long(), keys), torch.ones(examples, dtype=torch.float64), accumulate=True
        )
        joint = table / examples
        independent = joint.sum(1, keepdim=True) * joint.sum(0, keepdim=True)
        plain.append(torch.special.xlogy(joint, joint / independent).nansum().item() / math.log(2))
        corrected.append(mutual_information(answers, keys))
    bias = 49 / (2 * examples * math.log(2))
    assert sum(plain) / 200 == pytest.approx(bias, rel=0.25)
    assert sum(corrected) / 200 < 0.25 * bias


def test_outputs_that_are_no_numbers_have_no_score() -> None:
    """NaN is neither a right answer nor a wrong one."""
    task = Recall()
    batch = task.evaluate(Condition(4, inside=True), 16, seeded(0))
    outputs = torch.zeros(16, 6, VOCABULARY)
    outputs[3, -1, 5] = math.nan
    result = task.summarise(task.score(outputs, batch))
    assert all(math.isnan(result[name]) for name in ("accuracy", "loss", "bits"))


def test_an_empty_range_is_refused() -> None:
    """Before anything is built."""
    request = Request.model_validate("recall:train_min=9,train_max=3")
    with pytest.raises(RequestError, match="train_min = 9 is larger than train_max = 3; give both"):
        resolve(load_definition(find_entry(default_registry(), "task", "recall")), request)
