"""Checks of models catch what they are for, name it, and pass what is right."""

import re
import types
from typing import Any

import numpy as np
import pytest
import torch
from wrong_models import CAUGHT
from wrong_models.base import Base
from wrong_models.causality import (
    AheadLater,
    Bidirectional,
    Chaos,
    DividesByLength,
    Encoder,
    LimitedAndSaysSo,
    LooksAhead,
    OnlyAt,
    Padded,
    ScalesLater,
)
from wrong_models.hardware import LeftBehind
from wrong_models.observable import Registers, RightPatterns, Sinks, Summing
from wrong_models.outputs import (
    BatchStatistics,
    FitsNan,
    Fitted,
    LogProbabilities,
    Overwrites,
    Probabilities,
    Random,
    Remembers,
    ReturnsNothing,
)
from wrong_models.weights import BufferOfNaN, Complex, Unused

from harness import Condition, Interface, Skip
from harness.testing import MODEL_CHECKS, check_model
from harness.testing.models import model_checker
from harness.testing.toys import Attending, Marked, Recurrent


@pytest.mark.parametrize(("model", "name", "said"), CAUGHT, ids=[f"{name}-{m.__name__}" for m, name, _ in CAUGHT])
def test_a_wrong_model_is_caught_by_the_check_for_it(model: type, name: str, said: str) -> None:
    """The message names what is wrong; consequence, place and fix are there."""
    result = model_checker(model).result(name)
    assert result.status == "failed"
    assert said in result.message
    assert "means: " in str(result)
    assert "fix:   " in str(result)
    assert re.search(r"wrong_models\W\w+\.py:\d", result.where)


ALONE: tuple[type, ...] = (
    Random,
    Remembers,
    BatchStatistics,
    LooksAhead,
    Bidirectional,
    DividesByLength,
    Unused,
    LeftBehind,
    Overwrites,
    AheadLater,
    ScalesLater,
    Probabilities,
)


@pytest.mark.parametrize("model", ALONE)
def test_one_mistake_is_one_failure(model: type) -> None:
    """Checks that could not tell this mistake from their own wait for it to be repaired."""
    expected = next(name for wrong, name, _ in CAUGHT if wrong is model)
    report = check_model(model)
    assert [result.check.name for result in report.failed] == [expected]
    waiting = [result.message for result in report.results if result.message.startswith("waits for")]
    assert expected in ("causal", "prefixes", "gradients", "devices", "input_untouched", "logits") or waiting


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_how_far_a_model_looks_ahead_is_said(ahead: int) -> None:
    """The number of tokens, not just that it does."""
    model: Any = type("Ahead", (LooksAhead,), {"ahead": ahead})
    model.__init__ = lambda self, vocab_size: LooksAhead.__init__(self, vocab_size)
    model.__init__.__annotations__ = {"vocab_size": int}
    tokens = "1 token" if ahead == 1 else f"{ahead} tokens"
    assert f"it sees {tokens} ahead" in model_checker(model).result("causal").message


@pytest.mark.parametrize("beyond", [12, 13, 15, 16, 63, 64, 127, 200])
@pytest.mark.parametrize(("model", "check"), [(AheadLater, "causal"), (ScalesLater, "prefixes")])
def test_what_changes_with_the_length_is_caught_at_any_length(model: Any, check: str, beyond: int) -> None:
    """Not at the length of the short witness alone."""
    kind: Any = type("Later", (model,), {"beyond": beyond})
    kind.__init__ = lambda self, vocab_size: model.__init__(self, vocab_size)
    kind.__init__.__annotations__ = {"vocab_size": int}
    assert model_checker(kind).result(check).status == "failed"


def test_the_lengths_of_a_task_are_looked_at() -> None:
    """And the longest that a model takes."""

    class Asks21(Marked):
        def conditions(self) -> list[Condition]:
            return [Condition(distance, inside=True) for distance in (1, 19)]

    assert model_checker(OnlyAt).result("causal").status == "passed"
    result = model_checker(OnlyAt, task=Asks21()).result("causal")
    assert (result.status, "of 21, changes outputs before them" in result.message) == ("failed", True)
    limited = type("Limited21", (OnlyAt,), {"max_length": 21})
    assert model_checker(limited).result("causal").status == "failed"


def test_a_model_that_says_that_it_sees_all_is_not_asked_to_be_causal() -> None:
    """All other checks are as for any model."""
    report = check_model(Encoder)
    assert report.ok, str(report)
    assert {name for name in ("causal", "prefixes") if report[name].status == "not applicable"} == {
        "causal",
        "prefixes",
    }


def test_a_pretrained_model_is_checked_with_its_own_vocabulary() -> None:
    """Which its tokenizer knows; it is not trained. Without one it says what is missing, and that is no success."""

    class Unknown(Base):
        def __init__(self, vocab_size: int) -> None:
            if vocab_size != 17:
                raise Skip("it has 17 token ids")
            super().__init__(vocab_size)

        @staticmethod
        def pretrained() -> bool:
            return True

    class Known(Unknown):
        @staticmethod
        def tokenizer() -> types.SimpleNamespace:
            return types.SimpleNamespace(size=17)

    class Refuses(Known):
        @staticmethod
        def check_tokenizer() -> None:
            raise ValueError("the file words.txt is missing")

    report = check_model(Known)
    assert report.ok, str(report)
    assert "17" in report["shape"].message
    assert report["gradients"].status == "not applicable"
    for model, said in ((Unknown, "no tokenizer"), (Refuses, "words.txt is missing")):
        with pytest.raises(AssertionError, match=f"nothing was checked: .*{said}"):
            check_model(model).raise_if_failed()
        assert check_model(model, interface=Interface(17, 17)).ok


def test_chaos_is_no_dependence_on_the_length() -> None:
    """Where rounding grows until nothing can be compared, nothing is said."""
    assert "rounding grows" in model_checker(Chaos).result("prefixes").message


RIGHT = (
    Base,
    Attending,
    Recurrent,
    Summing,
    LimitedAndSaysSo,
    RightPatterns,
    LogProbabilities,
    Complex,
    ReturnsNothing,
)


@pytest.mark.parametrize("model", [*RIGHT, BufferOfNaN])
def test_a_right_model_passes(model: type) -> None:
    """No check cries wolf at small models that are in order."""
    report = check_model(model)
    assert report.ok, str(report)
    assert sum(result.status == "passed" for result in report.results) >= 16


def test_what_a_model_claims_is_checked_and_said() -> None:
    """Padding, limits, sizes and attention appear in the notes."""

    def note(model: type, check: str) -> str:
        return model_checker(model).result(check).message

    assert note(Padded, "padding") == "token 0"
    assert "limit 40" in note(LimitedAndSaysSo, "lengths")
    assert "a state of 8 numbers" in note(Recurrent, "size")
    assert "a state of 8 numbers" in note(Summing, "size")
    assert "heads per layer: 2, 2; cuts are exact" in note(Attending, "attention")
    assert "they can be read, not cut" in note(RightPatterns, "attention")
    assert "up to 0.25 of the attention of layer 1 goes to no token" in note(Sinks, "attention")
    assert "cuts are exact; left out: call 3 has attention of shape (3, 1, 13, 3)" in note(Registers, "attention")
    assert model_checker(Recurrent).result("attention").status == "not applicable"
    assert note(Recurrent, "state") == "layer 1: 8 states, gates reset, update, new"
    assert note(Summing, "state") == "layer 1: 8 states, no gates"
    assert model_checker(Attending).result("state").status == "not applicable"


def test_checks_leave_the_random_state_alone() -> None:
    """Whoever checks a model in a notebook draws the same numbers afterwards."""
    states = (torch.get_rng_state(), np.random.get_state(legacy=False)["state"]["key"].copy())
    check_model(Base)
    assert torch.equal(states[0], torch.get_rng_state())
    assert (states[1] == np.random.get_state(legacy=False)["state"]["key"]).all()


def test_every_check_of_a_model_has_a_model_that_fails_it() -> None:
    """A new check needs its own counterexample."""
    assert {check.name for check in MODEL_CHECKS} == {name for _, name, _ in CAUGHT}


def test_what_needs_a_fitted_model_waits_for_it() -> None:
    """One check says what is wrong with its `fit`, and no other one takes that for a mistake of its own."""
    report = check_model(FitsNan)
    assert [result.check.name for result in report.failed] == ["fits"]
    assert "waits for" in report["deterministic"].message
    assert check_model(Fitted)["fits"].status == "passed"
    assert check_model(Base)["fits"].status == "not applicable"
