"""Scores of agreement on the farm language, of predictors whose score is known."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from farm import CORPUS, FARM, VERBS, closed_form, generator, zipf_entropy
from harness_plugins.tasks.farm_grammar import WORDS, Grammar
from torch import Tensor

from harness import IGNORE, Batch, Condition


def logits(batch: Batch, likely: dict[int, list[str]]) -> Tensor:
    """Logits that prefer the words of the example's subject number."""
    assert batch.extra is not None
    outputs = torch.zeros(*batch.tokens.shape, len(WORDS))
    for row, number in enumerate(batch.extra["number"].tolist()):
        outputs[row, :, [WORDS.index(word) for word in likely[number]]] = 5.0
    return outputs


def surprisal(batch: Batch, log_probs: Tensor) -> Tensor:
    """Nats of each sentence."""
    losses = F.cross_entropy(log_probs.transpose(1, 2), batch.targets, ignore_index=IGNORE, reduction="none")
    return losses.sum(1)


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
