"""Every law of positions, norms, languages and counts catches another formula than the one that is stated."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness_plugins.models import gpt as gpt_module
from harness_plugins.models.gpt import GPT
from harness_plugins.models.lstm import LSTM
from harness_plugins.probes.laws.counts import CountLaws
from harness_plugins.probes.laws.languages import LanguageLaws
from harness_plugins.probes.laws.norms import NormLaws
from harness_plugins.probes.laws.positions import PositionLaws
from harness_plugins.tasks.farm_agreement import FarmAgreement
from harness_plugins.tasks.farm_grammar import Grammar
from law_cases import WORDS, a_gpt, put, subject
from torch import Tensor, nn


def without_places() -> GPT:
    model = a_gpt(layers=1)
    nn.init.zeros_(model.positions)
    return model


@pytest.mark.parametrize(
    ("law", "model", "said"),
    [
        ("order_is_seen", without_places, "learned"),
        ("equal_tokens_are_alike_without_positions", lambda: a_gpt(position="alibi"), "none"),
        ("scores_depend_on_distance_alone", lambda: a_gpt(position="sinusoidal"), "rope"),
        ("distance_is_seen", lambda: a_gpt(position="none"), "rope"),
        ("slopes_halve", lambda: a_gpt(position="rope"), "alibi"),
    ],
)
def test_positions_that_are_not_what_they_say(law: str, model: Callable[[], nn.Module], said: str) -> None:
    assert put(PositionLaws, law, subject(model()), {"position": said}).broken


def test_slopes_that_begin_one_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpt_module, "alibi_slopes", lambda heads: [2 ** (-8 * i / heads) for i in range(heads)])
    assert put(PositionLaws, "slopes_halve", subject(a_gpt(position="alibi"))).broken


def sines(length: int, width: int, first: int = 0, base: float = 10_000.0, scale: float = 1.0) -> Tensor:
    at = torch.arange(first, first + length, dtype=torch.float64)[:, None]
    angle = at * base ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    return scale * torch.stack((angle.sin(), angle.cos()), -1).flatten(1)


@pytest.mark.parametrize(
    ("law", "wrong"),
    [
        ("first_position_is_all_cosines", {"first": 1}),
        ("second_position_turns_by_one", {"first": 1}),
        ("products_depend_on_distance_alone", {"base": 1_000.0}),
        ("all_positions_are_equally_long", {"scale": 1.1}),
        ("a_step_is_a_rotation", {"base": 1_000.0}),
    ],
)
def test_sinusoids_by_another_formula(law: str, wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpt_module, "sinusoids", lambda length, width, like: sines(length, width))
    assert not put(PositionLaws, law, subject(a_gpt(position="sinusoidal"))).broken
    monkeypatch.setattr(gpt_module, "sinusoids", lambda length, width, like: sines(length, width, **wrong))
    assert put(PositionLaws, law, subject(a_gpt(position="sinusoidal"))).broken


class WrongLayerNorm(nn.Module):
    """A layer norm with a mistake."""

    def __init__(self, width: int, mistake: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), 3.0))
        self.eps = 1e-5
        self.mistake = mistake

    def forward(self, x: Tensor) -> Tensor:
        along = 0 if self.mistake == "over the batch" else -1
        mean = 0.0 if self.mistake == "no mean" else x.mean(along, keepdim=True)
        correction = 1 if self.mistake == "all but one" else 0
        variance = x.var(along, correction=correction, keepdim=True)
        if self.mistake == "no epsilon":
            return self.weight * (x - mean) / variance.sqrt()
        if self.mistake == "epsilon outside":
            return self.weight * (x - mean) / (variance.sqrt() + self.eps)
        return self.weight * (x - mean) / (variance + self.eps).sqrt()


@pytest.mark.parametrize(
    ("law", "mistake"),
    [
        ("ramp", "all but one"),
        ("ramp", "epsilon outside"),
        ("ten_times_the_input", "epsilon outside"),
        ("ten_times_the_input", "no epsilon"),
        ("common_shift_is_unseen", "no mean"),
        ("mean_is_zero", "no mean"),
        ("variance_is_one", "all but one"),
        ("constant_is_finite", "no epsilon"),
        ("positions_do_not_mix", "over the batch"),
    ],
)
def test_wrong_norms_are_caught(law: str, mistake: str) -> None:
    assert not put(NormLaws, law, subject(nn.Sequential(WrongLayerNorm(4, "")))).broken
    assert put(NormLaws, law, subject(nn.Sequential(WrongLayerNorm(4, mistake)))).broken


class WrongGrammar(Grammar):
    """A grammar that is wrong about its own entropy."""

    def bound(self) -> tuple[float, float]:
        nats, targets = super().bound()
        return nats * 1.1, targets


@pytest.mark.parametrize(
    "law", ["entropy_by_words", "entropy_by_sentences", "entropy_is_as_stated", "perplexity_is_as_stated"]
)
def test_a_wrong_entropy_is_caught(law: str) -> None:
    task, stated = FarmAgreement(), {"entropy": 10.15517, "perplexity": 2.52796}
    about = subject(LSTM(task.interface.input_size), task)
    assert not put(LanguageLaws, law, about, stated).broken
    task.grammar = WrongGrammar(3)
    assert put(LanguageLaws, law, about, stated).broken


def test_probabilities_that_do_not_sum_to_one_are_caught() -> None:
    task = FarmAgreement()
    task.grammar.probabilities[3] *= 0.9
    about = subject(LSTM(task.interface.input_size), task)
    assert put(LanguageLaws, "next_words_sum_to_one", about).broken


@pytest.mark.parametrize(
    ("law", "stated"),
    [
        ("parameters_are_as_stated", {"parameters": 29_887}),
        ("blocks_have_their_formula", {"d_model": 33}),
        ("blocks_cost_their_formula", {"d_model": 33}),
    ],
)
def test_wrong_counts_are_caught(law: str, stated: dict[str, int]) -> None:
    assert put(CountLaws, law, subject(a_gpt()), stated).broken
    right = {"parameters": 29_888, "d_model": 32}
    assert not put(CountLaws, law, subject(a_gpt()), right).broken


def test_a_second_bias_is_counted() -> None:
    law = "recurrent_layers_are_as_stated"
    assert put(CountLaws, law, subject(LSTM(WORDS)), {"recurrence": 4 * 64 * (32 + 64 + 1)}).broken
    assert not put(CountLaws, law, subject(LSTM(WORDS)), {"recurrence": 4 * 64 * (32 + 64 + 2)}).broken
