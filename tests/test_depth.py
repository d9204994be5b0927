"""Depth: a teacher whose difficulty is known, deep nets, and the gradient at each layer of any stack of layers."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness_plugins.models.depth import Depth, Layer
from harness_plugins.models.gpt import GPT
from harness_plugins.models.lstm import LSTM
from harness_plugins.probes.grad_by_layer import GradByLayer
from harness_plugins.tasks.recall import VOCABULARY, Recall
from harness_plugins.tasks.teacher import Teacher
from torch import Tensor, nn

from harness import Curve, Interface, Scalar, Skip, Subject, Task
from harness.examples import seeded
from harness.stacks import stack_of

TOKENS = torch.arange(12).reshape(3, 4)


def test_the_teachers_answers_have_the_variance_that_it_states() -> None:
    """The error of the best constant, which is 0, is 0.2054; and each draw is another teacher, the same for all."""
    task = Teacher(length=3)
    batch = next(task.train(20_000, seeded("teacher test")))
    assert task.metrics["mse"].chance == 0.2054
    assert batch.targets.square().mean().item() == pytest.approx(0.2054, rel=0.02)
    assert task.score(torch.zeros_like(batch.targets), batch)["mse"].mean().item() == pytest.approx(0.2054, rel=0.02)
    assert torch.equal(Teacher().readout, task.readout)
    assert not torch.equal(Teacher(draw=1).readout, task.readout)


@pytest.mark.parametrize(("residual", "norm"), [(False, False), (True, True)])
def test_layers_compute_their_formula(residual: bool, norm: bool) -> None:
    """h <- tanh(W h + b) or h <- h + tanh(W LN(h) + b), between two projections."""
    torch.manual_seed(0)
    model = Depth(5, layers=3, width=8, residual=residual, norm=norm)
    h = model.embedding(TOKENS % 5)
    for layer in model.layers:
        assert isinstance(layer, Layer)
        inside = (h - h.mean(-1, keepdim=True)) / (h.var(-1, correction=0, keepdim=True) + 1e-5).sqrt() if norm else h
        branch = (inside @ layer.linear.weight.T + layer.linear.bias).tanh()
        h = h + branch if residual else branch
    assert torch.allclose(model(TOKENS % 5), model.head(h), atol=1e-6)


@pytest.mark.parametrize(("init", "variance"), [("default", 1 / 3), ("xavier", 1.0), ("orthogonal", 1.0)])
def test_initialisations_have_their_variance(init: Any, variance: float) -> None:
    """Of the weights, times the width; rotations are rotations."""
    torch.manual_seed(0)
    weight = Depth(5, layers=1, width=128, init=init).get_parameter("layers.0.linear.weight").detach()
    assert weight.square().mean().item() * 128 == pytest.approx(variance, rel=0.05)
    assert torch.allclose(weight @ weight.T, torch.eye(128), atol=1e-4) is (init == "orthogonal")


class Shrinking(nn.Module):
    """Each of `layers` halves what it gets and multiplies it by a parameter of 1; the loss is the sum of the end."""

    def __init__(self, layers: int, factor: float = 0.5, pack: type = tuple) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, VOCABULARY)
        self.layers = nn.ModuleList(Times(factor, pack) for _ in range(layers))

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)[0]
            x *= 1.0  # what leaves a layer may be changed in place
        return x


class Times(nn.Module):
    """Gives the states first, with something else, as the blocks of many models do."""

    def __init__(self, factor: float, pack: type) -> None:
        super().__init__()
        self.factor = factor
        self.pack = pack
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Any:
        x = self.factor * self.weight * x
        return {0: x, "cache": None} if self.pack is dict else self.pack([x, None])


class Summing(Recall):
    """The loss is the mean over examples of the sum of all outputs."""

    def loss(self, outputs: Tensor, batch: Any) -> Tensor:
        return outputs.sum() / len(outputs)


def measured(model: nn.Module, task: Task | None = None, **arguments: Any) -> dict[str, Curve | Scalar]:
    task = task or Recall()
    subject = Subject(model.eval(), task, stage="initial", seed=0, device=torch.device("cpu"), examples=16)
    return {each.name: each for each in GradByLayer(**arguments)(subject)}


@pytest.mark.parametrize("pack", [tuple, list, dict])
def test_gradients_by_hand(pack: type) -> None:
    """Of the sum over T positions of V numbers that are halved at each of 4 layers: sqrt(T V) at the last layer, half
    of it at the one before. By the parameter of a layer it is the loss itself."""
    torch.manual_seed(0)
    model, task = Shrinking(4, pack=pack), Summing(distances=[8])
    found = measured(model, task)
    curve, ratio, by_parameters = found["gradient"], found["first_to_last"], found["parameter_gradient"]
    assert isinstance(curve, Curve)
    assert isinstance(ratio, Scalar)
    assert isinstance(by_parameters, Curve)
    assert curve.x_label == "layer"  # of whatever model, so that one table has all of them
    assert isinstance(held := found["layers"], Scalar)
    assert (held.value, held.verdict) == (4, "layers")
    size = math.sqrt(10 * VOCABULARY)
    assert curve.y == pytest.approx([size / 8, size / 4, size / 2, size])
    assert ratio.value == pytest.approx(1 / 8)
    assert ratio.verdict == "even"
    tokens = task.evaluate(task.conditions()[0], 16, seeded("test", 0, "8")).tokens
    assert by_parameters.y == pytest.approx([abs(model(tokens).sum().item()) / 16] * 4, rel=1e-4)


@pytest.mark.parametrize(("factor", "verdict"), [(0.5, "vanishes"), (1.0, "even"), (2.0, "explodes"), (0.0, "cut off")])
def test_what_becomes_of_the_gradient_is_told_in_words(factor: float, verdict: str) -> None:
    """Also of what float32 cannot hold: 2^200 and its inverse."""
    found = measured(Shrinking(200, factor), Summing(distances=[2]), examples=8)["first_to_last"]
    assert isinstance(found, Scalar)
    assert found.verdict == verdict
    assert found.value == pytest.approx(factor**199, rel=1e-6)


class Cells(nn.Module):
    """Recurrent cells one above the other, called step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 8)
        self.cells = nn.ModuleList(nn.LSTMCell(8, 8) for _ in range(3))

    def forward(self, tokens: Tensor) -> Tensor:
        states: list[Any] = [None] * 3
        outputs = []
        for x in self.embedding(tokens).unbind(1):
            for at, cell in enumerate(self.cells):
                states[at] = cell(x, states[at])
                x = states[at][0]
            outputs.append(x)
        return torch.stack(outputs, 1)


class Encoder(nn.Module):
    """PyTorch's own, behind a heavy embedding and before a heavy head of two alike layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 8)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 64, batch_first=True), 2)
        self.heads = nn.ModuleList(nn.Linear(8, VOCABULARY) for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.encoder(self.embedding(tokens))
        first, second = self.heads
        return torch.add(first(x), second(x))


def backwards() -> nn.Module:
    """Layers that run in another order than they are kept in."""
    layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.layers = nn.Embedding(VOCABULARY, 8), layers

        def forward(self, tokens: Tensor) -> Tensor:
            x: Tensor = self.embedding(tokens)
            for layer in reversed(self.layers):
                x = layer(x).tanh()
            return x

    return Backwards()


def sequential() -> nn.Module:
    layers = [each for _ in range(3) for each in (nn.Linear(8, 8), nn.Tanh())]
    return nn.Sequential(nn.Embedding(VOCABULARY, 8), nn.LayerNorm(8), *layers, nn.LayerNorm(8))


@pytest.mark.parametrize(
    ("build", "where", "names"),
    [
        (lambda: GPT(VOCABULARY), "blocks", ["blocks.0", "blocks.1"]),
        (Encoder, "encoder.layers", ["encoder.layers.0", "encoder.layers.1"]),
        (sequential, "", ["2", "4", "6"]),
        (backwards, "layers", ["layers.2", "layers.1", "layers.0"]),
        (Cells, "cells", ["cells.0", "cells.1", "cells.2"]),
        (lambda: LSTM(VOCABULARY, layers=2, bidirectional=True), "rnn", ["rnn layer 1", "rnn layer 2"]),
        (lambda: LSTM(VOCABULARY, layers=2, peephole=True), "rnn", ["rnn layer 1", "rnn layer 2"]),
    ],
)
def test_layers_are_found_from_outside(build: Callable[[], nn.Module], where: str, names: list[str]) -> None:
    """And the gradient at each of them is what small changes there do to the loss, and leaves the outputs alone."""
    torch.manual_seed(0)
    model = build().eval()
    stack = stack_of(model, TOKENS)
    assert (stack.where, list(stack.names)) == (where, names)
    before = model(TOKENS)
    found = stack.gradients(TOKENS, lambda outputs: outputs.square().mean())
    assert all(sum(each.abs().sum() for each in layer.states) > 0 for layer in found)
    assert torch.equal(model(TOKENS), before)
    assert not any(module._forward_hooks for module in model.modules())
    if where == "rnn" and any(stack.parameters):
        assert sum(map(len, stack.parameters)) == len([*model.get_submodule(where).parameters()])
    model.zero_grad()
    before.square().mean().backward()
    for layer, parameters in zip(found, stack.parameters, strict=True):
        for gradient, parameter in zip(layer.parameters, parameters, strict=True):
            assert parameter.grad is not None
            assert torch.allclose(gradient.float(), parameter.grad, rtol=1e-3, atol=1e-7)


def shared() -> nn.Module:
    """The same block twice."""
    model = GPT(VOCABULARY)
    model.blocks[1] = model.blocks[0]
    return model


class Experts(nn.Module):
    """Side by side, and with another container of layers that hold less."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 8)
        self.few = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        self.experts = nn.ModuleList(nn.Linear(8, VOCABULARY) for _ in range(4))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.few(self.embedding(tokens))
        return torch.stack([expert(x) for expert in self.experts]).sum(0)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: GPT(VOCABULARY, layers=1), "one layer, blocks.0"),
        (shared, "one layer, blocks.0"),
        (lambda: LSTM(VOCABULARY), "one recurrent layer, rnn"),
        (lambda: nn.Embedding(VOCABULARY, VOCABULARY), "no two layers"),
        (Experts, "do not run one after the other"),
    ],
)
def test_what_has_no_depth_is_skipped_with_the_reason(model: Callable[[], nn.Module], reason: str) -> None:
    with pytest.raises(Skip, match=reason):
        measured(model())


def test_a_stack_is_chosen_by_name() -> None:
    found = measured(Experts(), stack="few")["gradient"]
    assert isinstance(found, Curve)
    assert len(found.x) == 2
    with pytest.raises(Skip, match="no module 'fwe'"):
        measured(Experts(), stack="fwe")


def test_depth_shows_in_the_gradient() -> None:
    """That of a plain net vanishes from PyTorch's start, and hardly from rotations; residual nets keep it."""
    task = Teacher()

    def verdict(**arguments: Any) -> str | None:
        torch.manual_seed(0)
        model = Depth(16, layers=24, interface=Interface(16, 1, "vectors", "numbers"), **arguments)
        found = measured(model, task)["first_to_last"]
        assert isinstance(found, Scalar)
        return found.verdict

    assert verdict(residual=False, norm=False) == "vanishes"
    assert verdict(residual=False, norm=False, init="orthogonal") == "even"
    assert verdict() == "even"
