"""The scan is the recurrence, and the model keeps the harness's rules."""

from collections.abc import Callable

import pytest
import torch
from min_gru.model import MinGRU, loop, scan

from harness.testing import conformance


@conformance("model", "min-gru")
def test_conforms(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("time", [1, 2, 7, 200])
def test_the_scan_is_the_loop(time: int) -> None:
    """States and gradients agree in float64, whether gates are open, shut or in between."""
    torch.manual_seed(0)
    gate = (3 * torch.randn(2, time, 5, dtype=torch.float64)).requires_grad_()
    candidate = torch.randn(2, time, 5, dtype=torch.float64).requires_grad_()
    outputs = [function(gate, candidate) for function in (scan, loop)]
    torch.testing.assert_close(*outputs, rtol=1e-10, atol=1e-12)
    weights = torch.randn_like(gate)
    gradients = [torch.autograd.grad((output * weights).sum(), (gate, candidate)) for output in outputs]
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-10)


def test_two_steps_by_hand() -> None:
    """z = 1/2 and c = 1/2 + 1/2: the state is 1/2, then 3/4."""
    states = scan(torch.zeros(1, 2, 1, dtype=torch.float64), torch.full((1, 2, 1), 0.5, dtype=torch.float64))
    assert states.flatten().tolist() == pytest.approx([0.5, 0.75])


def test_the_state_size_is_what_it_says() -> None:
    assert MinGRU(11, hidden=8, layers=3).state_size == 24
