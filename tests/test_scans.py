"""Linear recurrences in one pass: equal to the loop, whatever the factors; models over them: to their own steps."""

from typing import Any

import pytest
import torch
from harness_plugins.models.chunks import decayed_sums
from harness_plugins.models.hyena import convolved
from harness_plugins.models.m_lstm import MLSTM
from harness_plugins.models.mamba import Mamba
from harness_plugins.models.min_rnn import MinGRU, MinLSTM
from harness_plugins.models.scan import SHORT, WIDE, linear_scan, products
from torch import Tensor, nn

LENGTHS = [1, 2, 3, 31, 32, 33, 64, 65]
"""Around the border of a chunk, and one position."""

MIXERS: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "mamba": (Mamba, {"heads": 2, "state": 3}),
    "mamba-negative": (Mamba, {"negative": True}),
    "min_gru": (MinGRU, {}),
    "min_lstm": (MinLSTM, {"expand": 3}),
    "m_lstm": (MLSTM, {"heads": 4, "key": 3}),
}
mixers = pytest.mark.parametrize(("mixer", "arguments"), MIXERS.values(), ids=MIXERS)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def looped(factors: Tensor, inputs: Tensor) -> Tensor:
    """h_t = a_t h_{t-1} + b_t, position by position."""
    state, states = torch.zeros_like(inputs[:, 0]), []
    for a, b in zip(factors.unbind(1), inputs.unbind(1), strict=True):
        state = a * state + b
        states.append(state)
    return torch.stack(states, 1)


@pytest.mark.parametrize(
    ("time", "width"), [*((time, 3) for time in (1, 2, SHORT, *range(SHORT + 1, SHORT + 6), 40, 75)), (40, WIDE // 2)]
)
def test_the_scan_is_the_loop(time: int, width: int) -> None:
    """With factors of both signs and of 0; its gradients, and theirs, too. Of long sequences and of wide ones."""
    shape = 2, time, width
    factors = (2 * torch.rand(shape, dtype=torch.float64) - 1).where(torch.rand(shape) > 0.2, 0.0)
    inputs = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    factors.requires_grad_()
    found, expected = linear_scan(factors, inputs), looped(factors, inputs)
    torch.testing.assert_close(found, expected)
    first = [torch.autograd.grad(each.pow(3).sum(), (factors, inputs), create_graph=True) for each in (found, expected)]
    second = [torch.autograd.grad(torch.cat(each).square().sum(), (factors, inputs)) for each in first]
    torch.testing.assert_close(*first)
    torch.testing.assert_close(*second)


def test_products_by_hand() -> None:
    assert products(torch.tensor([[7.0, -2.0, 0.0, 3.0]]))[0].tolist() == [
        [1.0, 0.0, 0.0, 0.0],
        [-2.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 3.0, 1.0],
    ]


@pytest.mark.parametrize("shared", [True, False])
def test_chunks_change_nothing(shared: bool) -> None:
    """The state is the one of the loop, across the borders of chunks; with keys of one head or of all."""
    heads = 1 if shared else 2
    for time in LENGTHS:
        q, k = torch.randn(2, 3, time, heads, 4, dtype=torch.float64)
        v = torch.randn(3, time, 2, 5, dtype=torch.float64)
        factors = 2 * torch.rand(3, time, 2, dtype=torch.float64) - 1
        states = looped(factors[..., None, None], k[..., :, None] * v[..., None, :])
        expected = (q[..., None, :] @ states).squeeze(-2)
        for chunk in (1, 8, 32):
            torch.testing.assert_close(decayed_sums(q, k, v, factors, chunk), expected)


@mixers
def test_gradients_of_long_sequences_are_finite(mixer: type[nn.Module], arguments: dict[str, Any]) -> None:
    """In float32, also where gates are almost shut or open."""
    layer: Any = mixer(width=8, **arguments)
    x = (20 * torch.randn(2, 2048, 8)).requires_grad_()
    layer(x)[:, -1].square().sum().backward()
    assert all(each.grad.isfinite().all() and each.grad.any() for each in (x, *layer.parameters()))


@pytest.mark.parametrize("mixer", [Mamba, MLSTM])
def test_a_slow_memory_stays_slow_in_bfloat16(mixer: type[nn.Module]) -> None:
    """A factor of 0.999 is 1 there."""
    layer: Any = mixer(width=8, heads=1)
    kept = torch.tensor(0.999)
    with torch.no_grad():
        if isinstance(layer, Mamba):
            layer.rate.zero_()
            layer.step_bias.copy_((-kept.log()).expm1().log())
        else:
            layer.gates.bias.copy_(torch.tensor([-2.0, kept.logit()]))
    x, layer = torch.zeros(1, 8, dtype=torch.bfloat16), layer.bfloat16()
    _, _, gates = layer.step(x, layer.initial_state(1))
    assert gates["decay" if isinstance(layer, Mamba) else "forget"].item() == pytest.approx(0.999, abs=1e-4)


def test_negative_eigenvalues_reach_below_zero() -> None:
    """Down to -1 where the step is long, and up to 1 where it is short; without, not below 0."""
    for negative, least in ((True, -1.0), (False, 0.0)):
        layer = Mamba(width=8, negative=negative)
        _, _, gates = layer.step(1e3 * torch.randn(64, 8), layer.initial_state(64))
        assert gates["decay"].min().item() == pytest.approx(least, abs=1e-6)
        assert gates["decay"].max().item() == pytest.approx(1.0, abs=1e-6)


def test_gates_of_a_minimal_lstm_share_one_where_both_are_shut() -> None:
    layer = MinLSTM(width=1, expand=1)
    with torch.no_grad():
        layer.inputs.weight.zero_()
        layer.inputs.bias.copy_(torch.tensor([-200.0, -201.0, 0.0]))
    gates = layer.gates(torch.zeros(1, 1))
    assert gates["forget"].item() == pytest.approx(1 / (1 + torch.e**-1))
    assert (gates["forget"] + gates["input"]).item() == pytest.approx(1.0)


def test_the_memory_of_an_m_lstm_is_that_of_its_equations() -> None:
    """h_t = C_t q / max(|n_t q|, 1), without the m that keeps numbers small: it cancels."""
    layer = MLSTM(width=4, heads=2).double()
    x = 3 * torch.randn(2, 20, 4, dtype=torch.float64)
    q, k, v, o, enter, forget = layer.projected(x)
    kept, written = forget.sigmoid()[..., None], enter.exp()[..., None] * k
    memory = looped(kept[..., None], written[..., :, None] * v[..., None, :])
    normaliser = (looped(kept, written) * q).sum(-1, keepdim=True)
    h = (q[..., None, :] @ memory).squeeze(-2) / normaliser.abs().clamp(min=1)
    expected = layer.outputs(o.sigmoid() * layer.norm(h.reshape(-1, 4)).view_as(o))
    assert (normaliser.abs() > 1).any()
    assert (normaliser.abs() < 1).any()
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("time", [1, 2, 7, 16])
def test_convolution_by_transform(time: int) -> None:
    """It is the sum that it stands for, and what comes at the end does not come back at the beginning."""
    x, h = torch.randn(2, 3, time, dtype=torch.float64), torch.randn(3, time, dtype=torch.float64)
    expected = torch.stack([(h[:, : t + 1].flip(1) * x[..., : t + 1]).sum(-1) for t in range(time)], -1)
    torch.testing.assert_close(convolved(x, h), expected)
