"""Models to compare others with: what they know and cannot know, how they learn without gradients, and how they stand
beside the models that were asked for."""

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import SHORT
from harness_plugins.models import ngram
from harness_plugins.models.bag import Bag
from harness_plugins.models.ngram import NGram
from harness_plugins.models.window_mlp import WindowMLP
from torch import Tensor

import harness
from harness import IGNORE, Batch, RequestError
from harness.claims import judge
from harness.plan import make_plan
from harness.registry import default_registry
from harness.report.cards import cards
from harness.report.grouping import group
from harness.requests import build_suite
from harness.schema import Record
from harness.suites import Claim
from harness.testing import check_model

A, B, C = range(3)
TINY = {"steps": 20, "batch_size": 16}
Write = Callable[..., str]


def batch_of(rows: list[list[int]], targets: list[list[int]]) -> Batch:
    tokens = torch.tensor(rows)
    return Batch(tokens, torch.tensor(targets), torch.ones(tokens.shape, dtype=torch.bool))


def random_batches(vocabulary: int, seed: int = 0) -> list[Batch]:
    """Three batches of different lengths, in which two thirds of the positions have a target."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for time in (7, 4, 9):
        tokens, targets = (torch.randint(vocabulary, (5, time), generator=generator) for _ in range(2))
        asked = torch.rand(5, time, generator=generator) < 2 / 3
        found.append(Batch(tokens, targets.where(asked, IGNORE), torch.ones(5, time, dtype=torch.bool)))
    return found


def fitted(n: int, vocabulary: int, batches: list[Batch]) -> NGram:
    model = NGram(vocabulary, n=n).double()
    model.fit(iter(batches))
    return model


def witten_bell(batches: list[Batch], n: int, vocabulary: int, context: list[int]) -> list[float]:
    """The probabilities after a context, by the equation, with dictionaries."""
    counts: dict[tuple[int, ...], Counter[int]] = {}
    for batch in batches:
        for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
            for place, target in enumerate(targets):
                for length in range(min(n - 1, place + 1) + 1) if target != IGNORE else ():
                    seen = tuple(tokens[place + 1 - length : place + 1])
                    counts.setdefault(seen, Counter())[target] += 1
    found = [1 / vocabulary] * vocabulary
    for length in range(min(n - 1, len(context)) + 1):
        if followers := counts.get(tuple(context[len(context) - length :])):
            total, kinds = followers.total(), len(followers)
            found = [(followers[word] + kinds * p) / (total + kinds) for word, p in enumerate(found)]
    return found


def test_witten_bell_by_hand() -> None:
    """The text `a b a b a c`: after `a` there were b, b and c, after `b` only a, twice, and after `c` nothing."""
    model = fitted(2, 3, [batch_of([[A, B, A, B, A]], [[B, A, B, A, C]])])
    after_a, after_b, after_c = model(torch.tensor([[A, B, C]]))[0].exp()
    alone = torch.tensor([3 / 8, 3 / 8, 1 / 4], dtype=torch.float64)  # (2 + 3/3) / 8, (2 + 3/3) / 8, (1 + 3/3) / 8
    torch.testing.assert_close(after_c, alone)
    torch.testing.assert_close(after_a, torch.tensor([0.15, 0.55, 0.30], dtype=torch.float64))
    torch.testing.assert_close(after_b, torch.tensor([(2 + 3 / 8) / 3, 1 / 8, 1 / 12], dtype=torch.float64))


@pytest.mark.parametrize("n", [1, 2, 4, 13])
def test_all_probabilities_are_those_of_the_equation_and_sum_to_1(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every position of sequences that were seen and of others, also where counts are put together on the way."""
    batches, vocabulary = random_batches(4), 4
    whole = fitted(n, vocabulary, batches)
    monkeypatch.setattr(ngram, "AT_ONCE", 10)
    pieces = fitted(n, vocabulary, batches)
    for tokens in (batches[0].tokens, random_batches(4, seed=1)[2].tokens):
        found = whole(tokens).exp()
        assert (found.sum(-1) - 1).abs().max() < 1e-12
        assert torch.equal(pieces(tokens).exp(), found)
        for row, probabilities in zip(tokens.tolist(), found, strict=True):
            for place, known in enumerate(probabilities):
                expected = witten_bell(batches, n, vocabulary, row[: place + 1])
                torch.testing.assert_close(known, torch.tensor(expected, dtype=torch.float64))


def test_new_answers_are_found() -> None:
    """An answer is new if training never had it after these n - 1 tokens, or all there are."""
    model = fitted(3, 3, [batch_of([[A, B, A]], [[B, A, C]])])
    test = batch_of([[A, B, A], [B, A, B], [A, B, C]], [[B, A, B], [C, IGNORE, A], [C, C, IGNORE]])
    assert model.unseen(test).tolist() == [[False, False, True], [True, False, False], [False, True, False]]


def test_a_bag_knows_no_order() -> None:
    """Tokens in another order give the same answer at the end, other tokens another one."""
    torch.manual_seed(0)
    model, tokens = Bag(9).double().eval(), torch.randint(9, (2, 8))
    ends = [model(each)[:, -1] for each in (tokens, tokens[:, torch.randperm(8)], (tokens + 1) % 9)]
    torch.testing.assert_close(ends[1], ends[0], rtol=0, atol=1e-12)
    assert (ends[2] - ends[0]).abs().max() > 1e-3


def test_a_window_sees_n_minus_1_tokens() -> None:
    """The oldest token of the window moves the answer, the one before it does not."""
    torch.manual_seed(0)
    model, tokens = WindowMLP(9, n=5).double().eval(), torch.randint(9, (2, 8))

    def end(changed: int) -> Tensor:
        others = tokens.clone()
        others[:, changed] = (others[:, changed] + 1) % 9
        outputs: Tensor = model(others)
        return outputs[:, -1]

    assert torch.equal(end(changed=3), model(tokens)[:, -1])
    assert (end(changed=4) - model(tokens)[:, -1]).abs().max() > 1e-3


def run(out: Path, **asked: Any) -> list[Record]:
    given: dict[str, Any] = {"tasks": SHORT, "seeds": 1, "examples": 16, "training": TINY, "out": out}
    return [*harness.run(**given | asked)]


def test_what_was_counted_is_kept_with_the_checkpoint(tmp_path: Path) -> None:
    """Another probe later, and the whole run anew: the same numbers, and counting is not repeated."""
    first, new = run(tmp_path / "a", models="ngram:n=4", probes=["accuracy", "unseen"])
    assert first.trained
    assert (first.trained.steps, first.trained.fitted, first.trained.stopped) == (20, True, "budget")
    assert first.trained.gradient_norm_median is None
    assert first.trained.validation_loss < math.log(18)
    for path in (tmp_path / "a/records").iterdir():
        path.unlink()
    again, _ = run(tmp_path / "a", models="ngram:n=4", probes=["accuracy", "unseen"])
    elsewhere, _ = run(tmp_path / "b", models="ngram:n=4", probes=["accuracy", "unseen"])
    assert again.measurements == first.measurements == elsewhere.measurements
    assert again.trained == first.trained  # seconds, too: it was loaded
    assert new.find("unseen").y[0] < new.find("unseen").y[-1]  # type: ignore[union-attr]


def test_a_finite_set_is_counted_once(tmp_path: Path) -> None:
    """Three epochs of 100 sentences are two batches of 64 at most; counts are then those of the set."""
    task = "farm_agreement:sentences=100,k_max=1"
    for epochs, steps in ((3, 2), (0.5, 1)):
        (found,) = run(tmp_path, models="ngram", tasks=task, training={"epochs": epochs})
        assert found.trained
        assert found.trained.steps == steps


def test_ways_of_gradient_steps_are_one_way_of_counting() -> None:
    """What has no meaning for a model decides nothing of its trials."""
    suite = build_suite(["ngram", "bag"], seeds=1)
    plan = make_plan(suite, default_registry(), training=[{"lr": 1e-3}, {"lr": 1e-2}])
    assert [planned.trial.model.name for planned in plan.trials] == ["ngram", "bag", "bag"]


FITTED = """
from torch import nn
import torch

class Model(nn.Module):
    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.register_buffer("logits", torch.zeros(vocab_size))

    def fit(self, stream):
        {fit}

    def forward(self, tokens):
        return self.logits.expand(*tokens.shape, -1).clone()
"""


@pytest.mark.parametrize(
    ("fit", "status", "told"),
    [
        ("next(stream)", "ok", ""),
        ("self.logits += float('nan')", "failed", "after being fitted to 0 batches the model's loss is NaN"),
        ("raise ValueError('too many words')", "failed", "too many words"),
    ],
)
def test_what_a_model_does_while_it_is_fitted(
    fit: str, status: str, told: str, plugin_file: Write, tmp_path: Path
) -> None:
    """It may leave the stream; where it fails the record says what happened."""
    (found,) = run(tmp_path, models=plugin_file(FITTED.format(fit=fit)) + ":Model")
    assert found.status == status
    assert told in (found.error.message if found.error else "")
    if found.trained:
        assert (found.trained.steps, found.trained.stopped) == (1, "early stop")


def test_ctrl_c_while_a_model_is_fitted(plugin_file: Write, tmp_path: Path) -> None:
    """It ends the run, and is no failure of the model."""
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, models=plugin_file(FITTED.format(fit="raise KeyboardInterrupt")) + ":Model")
    assert not [*(tmp_path / "records").glob("*.json")]


def test_a_table_that_no_checkpoint_keeps_is_caught(plugin_file: Write, tmp_path: Path) -> None:
    """By the checks, which look at a model that was fitted; and by a run, where another probe would find it lost."""
    lost = "self.table = torch.rand(len(self.logits)); self.logits = self.table"
    source = FITTED.format(fit=lost).replace("self.register_buffer(", "setattr(self, ")
    failed = [result.check.name for result in check_model(plugin_file(source) + ":Model").failed]
    assert "state_dict" in failed
    (found,) = run(tmp_path, models=plugin_file(source) + ":Model")
    assert found.error
    assert "what it learned is not in its parameters and buffers" in found.error.message


def test_probes_that_differentiate_say_why_they_do_not(tmp_path: Path) -> None:
    """What has no gradients is counted without a backward pass, and skipped where gradients are asked for."""
    probes = ["ledger:length=8,time=false", "grad_reach"]
    for cost, *reach in (run(tmp_path, models=name, probes=probes) for name in ("uniform", "ngram")):
        assert cost.find("training_operations").value == 0  # type: ignore[union-attr]
        assert {record.status for record in reach} == {"skipped"}
        assert all("input vectors were not found" in (record.reason or "") for record in reach)


@pytest.mark.parametrize("jobs", [1, 2])
def test_baselines_beside_what_was_asked_for(jobs: int, tmp_path: Path) -> None:
    """They face the same task, are marked in tables, have no card, and are not what a claim without a model means."""
    asked: dict[str, Any] = {"training": {"steps": 2, "batch_size": 4}, "executor": "processes", "jobs": jobs}
    found = harness.run("lstm", SHORT, seeds=1, examples=64, baselines=True, out=tmp_path, **asked)
    assert [record.model.name for record in found] == ["lstm", "bag", "ngram", "uniform", "window_mlp"]
    assert [record.model.baseline for record in found] == [False, True, True, True, True]
    assert {record.status for record in found} == {"ok"}
    verdicts = [record.find("worst_inside").verdict for record in found]  # type: ignore[union-attr]
    assert verdicts[3] == "never learned"  # which more training would not change, other than with all others
    assert verdicts.count("trained too briefly") == 4
    groups = group([*found], found.suite)
    assert [card.model for card in cards(groups)] == ["lstm"]
    assert [row.marked for row in groups[0].rows][:2] == ["lstm", "bag (baseline)"]
    claim = Claim(text="", probe="accuracy", metric="worst_inside", comparison=">=", value=0.0)  # type: ignore[arg-type]
    assert [*judge(claim, [*found]).numbers] == [0]
    assert len(cards(group([record for record in found if record.model.baseline]))) == 4


SUITE = """
baselines = true
[[experiments]]
models = ["elman", "ngram"]
tasks = ["adding"]
training = {{ lr = 1e-2 }}
[[claims]]
text = "it"
{model}
probe = "accuracy"
metric = "mse"
comparison = "<="
value = 1
"""


def test_a_suite_with_baselines(tmp_path: Path) -> None:
    """Each is there once, trained as it is best and not as an experiment says; a claim may name one."""
    path = tmp_path / "mine.toml"
    path.write_text(SUITE.format(model='model = "bag"'), encoding="utf-8")
    plan = make_plan(build_suite(suite=path, seeds=1), default_registry())
    assert make_plan(plan.suite, default_registry()) == plan
    trials = {p.trial.model.name: p.trial for p in plan.trials}
    assert [*trials] == ["elman", "ngram", "bag", "uniform", "window_mlp"]
    assert (trials["elman"].training.lr, trials["bag"].training.lr) == (1e-2, 3e-3)
    path.write_text(SUITE.format(model=""), encoding="utf-8")
    make_plan(build_suite(suite=path), default_registry())
    path.write_text(SUITE.format(model='model = "gpt"'), encoding="utf-8")
    with pytest.raises(RequestError, match="which the suite does not cross"):
        make_plan(build_suite(suite=path), default_registry())
