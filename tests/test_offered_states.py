"""States that a module offers itself are seen, replaced and differentiated like those of PyTorch's modules."""

# The call of a module gives Any.
# mypy: no-warn-return-any

from collections.abc import Callable

import pytest
import torch
from recurrent import BATCH, EXACT, HIDDEN, TIME, Leaky, is_cut, largest, vectors
from torch import Tensor, nn

from harness.recurrence import direct_path, jacobians, recurrent_modules, states_of


class Inside(nn.Module):
    """A module that offers its state, in a model that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.leaky = Leaky()
        self.lstm = nn.LSTM(HIDDEN, HIDDEN, batch_first=True, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(self.leaky(x))[0]


@pytest.mark.parametrize("model", [Leaky, Inside])
def test_offered_states_are_seen_and_replaced_in_the_same_way(model: Callable[[], nn.Module]) -> None:
    built, x = model().eval(), vectors()
    layers = states_of(built, x)
    if model is Leaky:
        assert [layer.name for layer in layers] == ["layer 1", "layer 2"]
        with torch.no_grad():
            assert largest(layers[1].states, built(x)) < EXACT
    else:
        assert [layer.name for layer in layers] == ["leaky layer 1", "leaky layer 2", "lstm"]
        assert list(recurrent_modules(built)) == ["leaky", "lstm"]
    assert layers[0].cells is None
    assert layers[1].cells is not None
    assert layers[1].carried.shape == (BATCH, TIME, 2 * HIDDEN)
    assert torch.equal(direct_path(layers[1], [0], end=2), torch.full((1, BATCH, HIDDEN), 0.9**2, dtype=torch.float64))
    for after in (-1, 3):
        is_cut(built, x, vectors().flip(0), after)


def test_jacobians_of_an_offered_state() -> None:
    (first, second) = states_of(Leaky().eval(), vectors())
    identity = torch.eye(HIDDEN, dtype=torch.float64).expand(BATCH, HIDDEN, HIDDEN)
    found = jacobians(first, [1, 3], end=4)
    assert largest(found[0], 0.125 * identity) < EXACT
    cells = jacobians(second, [1], end=4)[0][:, HIDDEN:, HIDDEN:]
    assert largest(cells, 0.9**3 * identity) < EXACT
