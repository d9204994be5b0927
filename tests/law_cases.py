"""One law, put to one model; all probes that are made of laws."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from harness_plugins.models.gpt import GPT
from harness_plugins.probes.laws.attention import AttentionLaws
from harness_plugins.probes.laws.counts import CountLaws
from harness_plugins.probes.laws.languages import LanguageLaws
from harness_plugins.probes.laws.norms import NormLaws
from harness_plugins.probes.laws.positions import PositionLaws
from harness_plugins.probes.laws.recurrence import RecurrenceLaws
from harness_plugins.probes.laws.softmax import SoftmaxLaws
from harness_plugins.tasks.recall import Recall
from torch import Tensor, nn

from harness import Subject, Task
from harness.laws import Case, Judged, Laws, judge

WORDS = 18
"""The tokens of `recall`."""

ALL = (AttentionLaws, SoftmaxLaws, PositionLaws, NormLaws, RecurrenceLaws, LanguageLaws, CountLaws)
"""The probes that are made of laws."""


class Bare(nn.Module):
    """An attention without weights, by a function."""

    def __init__(self, attend: Callable[[Tensor], Tensor], sees: str = "past") -> None:
        super().__init__()
        self.attend = attend
        self.sees = sees

    def forward(self, vectors: Tensor) -> Tensor:
        return self.attend(vectors)


def subject(model: nn.Module, task: Task | None = None) -> Subject:
    """A model before training, on `recall` unless told otherwise."""
    return Subject(model.eval(), task or Recall(), stage="initial", seed=0, device=torch.device("cpu"), examples=4)


def put(probe: type[Laws], law: str, about: Subject, expected: Mapping[str, Any] | None = None) -> Judged:
    """One law, put to one model."""
    (found,) = [each for each in probe.laws if getattr(each, "__name__", "") == law]
    judged = judge(found, Case(about, expected or {}))
    assert judged.answer is not None, judged.reason
    return judged


def a_gpt(**arguments: Any) -> GPT:
    """The same one each time."""
    torch.manual_seed(0)
    return GPT(WORDS, **arguments)
