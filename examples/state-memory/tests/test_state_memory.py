"""The probe reads what is there, and nothing else, and keeps the harness's rules."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from state_memory.probe import StateMemory
from torch import Tensor, nn

from harness import Subject
from harness.testing import conformance
from harness.testing.toys import VOCABULARY, Marked


@conformance("probe", "state-memory")
def test_conforms(check: Callable[[], None]) -> None:
    check()


class Window(nn.Module):
    """Its last layer reads the last `reach` tokens, and nothing before them."""

    def __init__(self, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.head = nn.Linear(reach * VOCABULARY, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        kinds = nn.functional.one_hot(tokens, VOCABULARY).float()
        ago = range(min(self.reach, kinds.shape[1]))
        shifted = [nn.functional.pad(kinds, (0, 0, back, 0))[:, : kinds.shape[1]] for back in ago]
        missing = kinds.new_zeros(*kinds.shape[:2], (self.reach - len(shifted)) * VOCABULARY)
        logits: Tensor = self.head(torch.cat([*shifted, missing], -1))
        return logits


@pytest.mark.parametrize("reach", [1, 3, 5])
def test_a_window_is_read_as_far_as_it_reaches(reach: int) -> None:
    """Everything inside the window is read without a mistake, what is before it not at all; the control is flat."""
    subject = Subject(Window(reach), Marked(), stage="trained", seed=0, device=torch.device("cpu"))
    found: dict[str, Any] = {measurement.name: measurement for measurement in StateMemory()(subject)}
    readable = found["readable"].y
    assert len(readable) == 5
    assert readable[: reach - 1] == pytest.approx([1.0] * (reach - 1))
    assert readable[reach - 1 :] == pytest.approx([0.0] * (6 - reach), abs=0.15)
    assert found["shuffled"].y == pytest.approx([0.0] * 5, abs=0.15)
    assert found["memory"].value == pytest.approx(reach - 1, abs=0.4)
    assert found["cue"].value == readable[-1]
