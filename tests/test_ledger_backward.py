"""Operations of a backward pass stand under the part that caused them, however modules overlap and are written."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from harness import Interface
from harness.ledger import count_costs, ledger
from harness.registry import Entry, default_registry
from harness.suites import Request
from harness.targets import load_definition
from harness.testing.installed import why_not_built

MODELS = [*default_registry().all("model")]


@pytest.mark.parametrize("entry", MODELS, ids=lambda each: each.spec.name)
def test_no_part_of_a_built_in_model_costs_less_or_more_than_its_products(
    entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product has two gradients at most, each as large as itself."""
    monkeypatch.setattr("harness.ledger.counting._chain", lambda *_: 1)  # which takes longest, and is not asked for
    if reason := why_not_built(load_definition(entry), Request(name=entry.spec.name)):
        pytest.skip(reason)
    found = ledger(entry.spec.name, length=8)
    for part, forward in found.forward.items():
        assert 0 <= forward <= found.training[part] <= 3 * forward, part


@pytest.mark.parametrize(("length", "source"), [(8, 4), (20, 10), (300, 150)])
def test_a_transformer_with_encoder_and_decoder_by_hand(length: int, source: int) -> None:
    """All halves are computed over all positions: three attentions for an encoder's and a decoder's layer."""
    d, layers = 32, 2
    found = ledger(f"transformer:d_model={d},heads=2,layers={layers},max_length=512", length=length, vocabulary=100)
    forward = {
        "attention": layers * 3 * 4 * 2 * length * d * d,
        "mixing": layers * 3 * 2 * 2 * length * length * d,
        "feed-forward": layers * 2 * 2 * 2 * length * d * 4 * d,
        "output": 2 * length * d * 100,
    }
    assert {part: operations for part, operations in found.forward.items() if operations} == forward
    assert found.training == {part: 3 * operations for part, operations in found.forward.items()}


def test_a_first_layer_needs_no_gradient_of_its_input() -> None:
    """As in training: a task's vectors are no parameters."""
    model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 7), nn.Linear(7, 3))
    found = count_costs(model, Interface(5, 3, input="vectors", output="numbers"), 6)
    assert found.forward["feed-forward"] == 2 * 6 * (5 * 7 + 7 * 7)
    assert found.training["feed-forward"] == 2 * 6 * (2 * 5 * 7 + 3 * 7 * 7)
    assert found.training["output"] == 3 * found.forward["output"]


WIDTH = 8

Way = Callable[[nn.Linear, Tensor], Tensor]


def in_place(layer: nn.Linear, x: Tensor) -> Tensor:
    """A product added to a view, which PyTorch's counter does not know forward."""
    y = torch.zeros_like(x)
    y[0].addmm_(x[0], layer.weight)
    return y


class Product(torch.autograd.Function):
    """Its gradients are written by hand."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx: Any, *back: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return back[0] @ weight.T, x[0].T @ back[0][0]


class Again(torch.autograd.Function):
    """Keeps nothing, and computes anew what it differentiates."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx: Any, *back: Tensor) -> tuple[Tensor, ...]:
        given = [each.detach().requires_grad_() for each in ctx.saved_tensors]
        with torch.enable_grad():
            y = given[0] @ given[1]
        return torch.autograd.grad(y, given, back)


def twice_in_one(layer: nn.Linear, x: Tensor) -> Tensor:
    y: Tensor = checkpoint(lambda x: layer(layer(x)), x, use_reentrant=False)
    return y


WAYS: dict[str, tuple[Way, int, int]] = {
    "once": (lambda layer, x: layer(x), 1, 3),
    "shared": (lambda layer, x: layer(layer(x).relu()), 2, 6),
    "side by side": (lambda layer, x: layer(x) * layer(x).tanh(), 2, 6),
    "without gradients": (lambda layer, x: layer(x.detach()) + layer(x).detach(), 2, 3),
    "in place": (in_place, 0, 2),
    "by hand": (lambda layer, x: Product.apply(x, layer.weight), 1, 3),
    "again": (lambda layer, x: Again.apply(x, layer.weight), 1, 4),
    "checkpoint, as it was": (lambda layer, x: checkpoint(layer, x, use_reentrant=True), 1, 4),
    "checkpoint, until enough": (twice_in_one, 2, 7),
}
"""How a layer is used, the products of it in a forward pass, and those with a backward pass."""


class Mixer(nn.Module):
    """A part of a model that uses its layer in one of these ways, or another part's."""

    def __init__(self, way: Way, layer: nn.Linear) -> None:
        super().__init__()
        self.way = way
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.way(self.layer, x)


class Overlapping(nn.Module):
    """What two layers give is read by the mixer, beside it and after it, so that nothing is done when something else
    begins; one of them reads constants."""

    def __init__(self, way: Way) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, WIDTH)
        self.before = nn.Linear(WIDTH, WIDTH)
        self.of_constants = nn.Linear(WIDTH, WIDTH)
        self.mixer = Mixer(way, nn.Linear(WIDTH, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, 64)

    def forward(self, tokens: Tensor) -> Tensor:
        x, constants = self.before(self.embedding(tokens)), self.of_constants(torch.ones(WIDTH))
        y: Tensor = self.out(self.norm(self.mixer(x + constants) * constants) + x)
        return y


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # before gradients are counted
@pytest.mark.parametrize("way", WAYS)
def test_operations_stay_with_their_part(way: str) -> None:
    length = 6
    use, forward, both = WAYS[way]
    model = Overlapping(use)
    found = count_costs(model, Interface(64, 64), length)
    layer, constants, out = 2 * length * WIDTH**2, 2 * WIDTH**2, 2 * length * WIDTH * 64
    expected = {"feed-forward": 3 * layer + 2 * constants, "mixer": both * layer, "output": 3 * out}
    assert {part: operations for part, operations in found.training.items() if operations} == expected
    assert found.forward["mixer"] == forward * layer
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, length, dtype=torch.long)).sum().backward()
    assert sum(found.training.values()) == counter.get_total_flops()


class Abandoned(Overlapping):
    """Its mixer is computed anew until there is enough, and left in the middle."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.before(self.embedding(tokens))
        y: Tensor = self.out(checkpoint(self.mixer, x, use_reentrant=False))
        return y


def test_a_part_that_is_left_in_the_middle_does_not_go_on() -> None:
    found = count_costs(Abandoned(WAYS["shared"][0]), Interface(64, 64), 6)
    layer = 2 * 6 * WIDTH**2
    assert (found.training["mixer"], found.training["feed-forward"]) == (7 * layer, 3 * layer)


class Nested(nn.Module):
    """A part that calls another part, which is not inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, WIDTH)
        self.before = nn.Linear(WIDTH, WIDTH)
        self.mixer = Mixer(lambda layer, x: layer(self.before(x)), nn.Linear(WIDTH, WIDTH))
        self.out = nn.Linear(WIDTH, 64)

    def forward(self, tokens: Tensor) -> Tensor:
        y: Tensor = self.out(self.mixer(self.embedding(tokens)))
        return y


def test_a_part_inside_another_has_its_own() -> None:
    found = count_costs(Nested(), Interface(64, 64), 6)
    once = 2 * 6 * WIDTH**2
    assert found.forward["mixer"] == found.forward["feed-forward"] == once
    assert found.training["mixer"] == found.training["feed-forward"] == 3 * once
    assert found.training["other"] == 0
