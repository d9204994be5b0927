"""No probe lets a model pass that is right for the wrong reason, and every probe lets the right rule pass."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
from harness_plugins.probes.accuracy import accuracy
from harness_plugins.probes.attention_to_subject import AttentionToSubject
from harness_plugins.probes.edge_cut import EdgeCut
from harness_plugins.probes.grad_reach import GradReach
from harness_plugins.probes.input_swap import input_swap
from harness_plugins.probes.position_extrapolation import PositionExtrapolation
from torch import nn
from wrong_reasons import cases

from harness import Task
from harness.examples import seeded
from harness.measurements import Measurement, Scalar
from harness.subject import Subject

Measurements = Iterator[Measurement]

PROBES: dict[str, tuple[Callable[[Subject], Measurements], str, Callable[[Scalar], bool]]] = {
    "accuracy": (accuracy, "worst_inside", lambda s: s.verdict in ("learned", "does not extrapolate")),
    "position_extrapolation": (PositionExtrapolation(), "worst_beyond", lambda s: s.verdict == "above chance"),
    "input_swap": (input_swap, "cue_effect", lambda s: "the cue" in (s.verdict or "")),
    "edge_cut": (EdgeCut(), "score_after_cut", lambda s: (s.verdict or "").startswith("relies on it")),
    "attention_to_subject": (AttentionToSubject(), "sharpest_head", lambda s: s.value > 0.5),
    "grad_reach": (GradReach(), "per_step_factor", lambda s: s.value > 0),
}
"""For each probe the measurement that carries its verdict, and when a model has passed."""

RIGHT = "the right rule"

TRUE_ALL_THE_SAME = {
    *(("fixed place", probe) for probe in PROBES if probe != "accuracy"),
    ("most frequent number", "grad_reach"),
}
"""A model that reads the third token does look at, follow and rely on that token, which is the subject, at any number
of distractors. What tells it from the rule is the accuracy where the subject stands elsewhere. The subject is one of
the nouns that the most frequent number comes from, and gets gradient as they do."""

UNPROVEN = {("farm_agreement", "edge_cut")}
"""The rule finds the subject by looking at all tokens, and attends to it then: the cut leaks, and the probe says so."""

CASES = [(task, model, probe) for task, _, model, _ in cases() for probe in PROBES]


@cache
def built() -> dict[tuple[str, str], tuple[Task, nn.Module]]:
    return {(task, name): (instance, model) for task, instance, name, model in cases()}


def passes(task: str, name: str, probe: str) -> bool:
    instance, model = built()[task, name]
    subject = Subject(model, instance, stage="trained", seed=0, device=torch.device("cpu"), examples=256)
    subject.generator = seeded("wrong reasons")
    measure, metric, passed = PROBES[probe]
    (found,) = [m for m in measure(subject) if m.name == metric]
    assert isinstance(found, Scalar)
    return passed(found)


@pytest.mark.parametrize(("task", "name", "probe"), [case for case in CASES if case[1] != RIGHT])
def test_a_model_that_is_right_for_the_wrong_reason_is_found_out(task: str, name: str, probe: str) -> None:
    """The last noun, the most frequent number, a fixed place, a constant, the position: none of them is the rule."""
    assert passes(task, name, probe) == ((name, probe) in TRUE_ALL_THE_SAME)


@pytest.mark.parametrize(("task", "name", "probe"), [case for case in CASES if case[1] == RIGHT])
def test_the_right_rule_passes(task: str, name: str, probe: str) -> None:
    """So that the test above can tell the two apart."""
    assert passes(task, name, probe) == ((task, probe) not in UNPROVEN)
