"""What all laws have in common: a mutant that each catches, what is told of them, and what they leave alone."""

import math
from pathlib import Path

import pytest
import torch
from harness_plugins.models.attention_forms import AttentionForms
from harness_plugins.models.elman import Elman
from harness_plugins.models.lstm import LSTM
from harness_plugins.probes.laws.attention import AttentionLaws
from harness_plugins.probes.laws.softmax import SoftmaxLaws
from harness_plugins.tasks.copying import Copy
from harness_plugins.tasks.noise import Noise
from law_cases import ALL, WORDS, Bare, a_gpt, put, subject
from torch import Tensor

import harness
from harness.laws import Case, name_of, sentence_of


def test_every_law_has_a_mutant_here() -> None:
    """In one of the files beside this one."""
    source = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_laws_*.py"))
    for probe in ALL:
        for law in probe.laws:
            assert getattr(law, "__name__", "") in source, f"{probe.__name__}: {name_of(law)}"
            assert sentence_of(law).endswith((".", ")")), name_of(law)


def test_a_law_that_raises_is_broken() -> None:
    def explode(x: Tensor) -> Tensor:
        raise ValueError("no")

    judged = put(AttentionLaws, "future_is_unseen", subject(Bare(explode), Noise()))
    assert judged.broken
    assert "ValueError: no" in judged.reason


def test_the_model_is_left_alone() -> None:
    model = a_gpt()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    AttentionLaws().judged(subject(model))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_where_no_law_applies_the_reason_is_told() -> None:
    with pytest.raises(harness.Skip, match="ask for it on task noise"):
        list(SoftmaxLaws()(subject(LSTM(WORDS))))


def test_a_source_and_its_target_are_cut_around_the_separator() -> None:
    """So that a model which reads a source has one in the few positions that laws look at."""
    task = Copy(train_max=20, lengths=[20])
    few = Case(subject(Elman(task.interface.input_size), task), {}).tokens
    assert few.shape == (2, 12)
    assert [row.index(task.interface.separator) for row in few.tolist()] == [6, 6]


def test_infinity_agrees_with_itself_alone() -> None:
    """A number beside it is held to the same rounding as ever."""
    case = Case(subject(AttentionForms(Noise().interface), Noise()), {})
    found, wanted = torch.tensor([math.inf, 1.0]), torch.tensor([math.inf, 5.0])
    assert not case.compare(found, wanted).holds
    assert case.compare(found, found).holds
