"""Every law of recurrent models catches what breaks it, and holds of what does not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness_plugins.models.gru import GRU
from harness_plugins.models.hand_set import Contraction
from harness_plugins.models.lstm import LSTM
from harness_plugins.probes.laws.recurrence import RecurrenceLaws
from harness_plugins.tasks.both_seen import BothSeen
from law_cases import WORDS, put, subject
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence


class Cell(nn.Module):
    """A cell by hand that offers its state, with a mistake."""

    def __init__(self, mistake: str, kind: str) -> None:
        super().__init__()
        self.mistake = mistake
        self.kind = kind
        self.w = nn.Parameter(torch.tensor([0.3, -0.7, 0.5, 0.9]))

    def initial_state(self, batch_size: int) -> Any:
        zero = self.w.new_zeros(batch_size, 3)
        return {"hidden": zero, "cell": zero} if self.kind == "lstm" else zero

    def step(self, x: Tensor, state: Any) -> Any:
        drive = x.to(self.w.dtype)[:, None].expand(-1, 3) / WORDS
        if self.kind == "lstm":
            h = state["hidden"]
            i, f, g, o = ((w * drive + h).sigmoid() for w in self.w)
            c = f * state["cell"] + (1 - f if self.mistake == "coupled" else i) * g
            h = o * c if self.mistake == "no tanh" else o * c.tanh()
            return h, {"hidden": h, "cell": c}, {"input": i, "forget": f, "candidate": g, "output": o}
        seen = state.detach() if self.mistake == "detached" else state
        z, n = (self.w[0] * drive + seen).sigmoid(), (self.w[1] * drive + seen).tanh()
        h = (1 - z) * state + z * n if self.mistake == "the other way round" else z * state + (1 - z) * n
        return h, h, {"update": z, "new": n}

    def forward(self, tokens: Tensor) -> Tensor:
        state, outputs = self.initial_state(len(tokens)), []
        for x in tokens.unbind(1):
            h, state, _ = self.step(x, state)
            outputs.append(h)
        return torch.stack(outputs, 1)


class Aside(LSTM):
    """A second way for the past to go on."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) + tokens.cumsum(1)[..., None]


class PaddedLSTM(nn.LSTM):
    """Reads the padding."""

    def forward(self, given: Any, hx: Any = None) -> Any:
        return super().forward(
            pad_packed_sequence(given, batch_first=True)[0] if isinstance(given, PackedSequence) else given
        )


class MovedLSTM(nn.LSTM):
    """Final states with the batch first."""

    def forward(self, given: Any, hx: Any = None) -> Any:
        outputs, (h, c) = super().forward(given)
        return outputs, (h.transpose(0, 1), c.transpose(0, 1))


class LeakyLSTM(nn.LSTM):
    """Cells that lose a little more than the forget gate says."""

    def forward(self, given: Any, hx: Any = None) -> Any:
        outputs, (h, c) = super().forward(given, hx)
        return outputs, (h, 0.99 * c)


def both_filled() -> LSTM:
    model = LSTM(WORDS)
    for name, parameter in model.rnn.named_parameters():
        if "bias" in name:
            nn.init.ones_(parameter)
    return model


@pytest.mark.parametrize(
    ("law", "good", "wrong"),
    [
        ("state_is_all_that_goes_on", lambda: LSTM(WORDS), lambda: Aside(WORDS)),
        ("cell_equation", lambda: Cell("", "lstm"), lambda: Cell("coupled", "lstm")),
        ("cell_equation", lambda: LSTM(WORDS), lambda: Cell("no tanh", "lstm")),
        ("update_gate_keeps", lambda: Cell("", "gru"), lambda: Cell("the other way round", "gru")),
        ("jacobian_is_the_slope", lambda: Cell("", "gru"), lambda: Cell("detached", "gru")),
        ("forget_bias_is_the_sum", lambda: LSTM(WORDS), both_filled),
        (
            "forget_bias_sets_the_half_life",
            lambda: nn.LSTM(4, 4, 2, batch_first=True),
            lambda: LeakyLSTM(4, 4, 2, batch_first=True),
        ),
        ("padding_is_not_read", lambda: GRU(WORDS), lambda: PaddedLSTM(4, 4, batch_first=True)),
        (
            "batch_first_leaves_final_states",
            lambda: nn.LSTM(4, 4, batch_first=True),
            lambda: MovedLSTM(4, 4, batch_first=True),
        ),
    ],
)
def test_wrong_recurrence_is_caught(law: str, good: Callable[[], nn.Module], wrong: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    expected = {"forget_bias": 1.0}
    assert not put(RecurrenceLaws, law, subject(good()), expected).broken
    assert put(RecurrenceLaws, law, subject(wrong()), expected).broken


@pytest.mark.parametrize(("kept", "broken"), [(0.5, False), (0.4, True)])
def test_what_a_state_keeps(kept: float, broken: bool) -> None:
    task = BothSeen()
    about = subject(Contraction(task.interface), task)
    assert put(RecurrenceLaws, "state_keeps_its_share", about, {"kept": kept}).broken is broken
