"""How much gradient arrives at each layer of a deep net?"""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from harness_plugins.probes.conditions import first_group, reference
from pydantic import PositiveInt
from torch import Tensor

from harness import Batch, Curve, Scalar, Skip, Subject
from harness.examples import standard_error
from harness.stacks import Stack, norm, stack_of

TENTH = 0.1
"""Between this and its inverse, gradients count as even."""
AT_ONCE = 8
"""Examples of one backward pass."""

MEANINGS = {
    "vanishes": f"at the first layer the gradient is less than {TENTH:g} times that at the last one: training hardly "
    "moves what stands before",
    "explodes": f"at the first layer the gradient is more than {1 / TENTH:g} times that at the last one: a step that "
    "suits the last layers is too long for the first",
    "even": f"at the first layer the gradient is {TENTH:g} to {1 / TENTH:g} times that at the last one",
    "cut off": "at the first layer the gradient is exactly 0 in the precision of the model: training does not move it",
    "no gradient": "the loss has no gradient at the last layer either, so that there is nothing to compare",
    "no number": "a gradient is not finite",
}


class GradByLayer:
    """The size of the loss's gradient at each layer of any stack of layers: blocks of a transformer, layers of an
    `nn.LSTM`, of an `nn.Sequential`, of a model of your own.

    Layers are found from outside (`harness.stacks.stack_of`): two or more modules of one class that hold most of the
    parameters and run one after the other, or the layers inside of a recurrent module. A model with a single layer is
    skipped.

    At every layer the loss is differentiated by what leaves it (the states that the next one reads; of recurrent
    layers, what is carried on after each position), over all positions, and by its parameters. It is the loss of the
    task on the farthest condition that training covered. Y. Bengio et al., "Learning long-term dependencies with
    gradient descent is difficult" (1994); X. Glorot and Y. Bengio, "Understanding the difficulty of training deep
    feedforward neural networks" (2010).

    What vanishes at initialisation need not stay so, nor does a net train because its gradients are even: look at the
    score, and at both stages.

    Measures:
        gradient: size of an example's gradient by what leaves each layer, root mean square over 8 examples, mean over
            such groups; the standard error is over these.
        parameter_gradient: size of the gradient of all examples' loss by the parameters of each layer; left out where
            they cannot be told apart, or are not trained.
        first_to_last: `gradient` at the first layer relative to the last one; in words: vanishes, explodes, even.
        layers: how many there are; the verdict names the module that holds them, a path in the model.
        per_layer_factor: by how much it changes from one layer to the one before, the geometric mean.

    Args:
        examples: sequences.
        stack: the module that holds the layers, a path in the model, for example `encoder.layers`; found, if not said.
    """

    stages: ClassVar = ("initial", "trained")

    def __init__(self, *, examples: PositiveInt = 64, stack: str | None = None) -> None:
        self.examples = examples
        self.stack = stack

    def __call__(self, subject: Subject) -> Iterator[Curve | Scalar]:
        batch = subject.batch(reference(first_group(subject.task)))[: self.examples]
        if not subject.takes(batch):
            raise Skip(f"all examples are longer than the {subject.model.max_length} tokens that the model takes")
        stack = stack_of(subject.model, batch.tokens, self.stack)
        states, parameters = _sizes(subject, stack, batch)
        means = [each.mean().item() for each in states]
        yield _curve("gradient", "loss per unit of the states", means, [standard_error(each) for each in states])
        if not all(math.isnan(each) for each in parameters):
            yield _curve("parameter_gradient", "loss per unit of the parameters", parameters)
        yield from _verdict(states)
        yield Scalar(name="layers", unit="", value=float(len(states)), verdict=stack.where or None)


def _sizes(subject: Subject, stack: Stack, batch: Batch) -> tuple[list[Tensor], list[float]]:
    """By layer: the size of an example's gradient by the states in each group of examples, and that by the parameters,
    NaN where there are none."""
    states: list[list[float]] = [[] for _ in stack.names]
    sums: list[list[Tensor]] = [[] for _ in stack.names]
    for piece in batch.split(AT_ONCE):

        def loss(outputs: Tensor, piece: Batch = piece) -> Tensor:
            return subject.task.loss(outputs, piece)

        found = stack.gradients(piece.tokens, loss)
        share = len(piece) / len(batch)
        for layer, gradient in enumerate(found):
            states[layer].append(norm(gradient.states) * len(piece) ** 0.5)  # the loss is a mean over them
            new = [share * each for each in gradient.parameters]
            sums[layer] = [old + each for old, each in zip(sums[layer], new, strict=True)] if sums[layer] else new
    parameters = [norm(each) if each else math.nan for each in sums]
    return [torch.tensor(each, dtype=torch.float64) for each in states], parameters


def _curve(name: str, unit: str, y: Sequence[float], errors: Sequence[float] | None = None) -> Curve:
    return Curve(
        name=name,
        unit=unit,
        x=[float(number) for number in range(1, len(y) + 1)],
        y=list(y),
        x_label="layer",
        y_label="gradient at what leaves the layer" if errors else "gradient by the layer's parameters",
        standard_errors=None if errors is None else list(errors),
        scale="log",
        headline=errors is not None,
    )


def _verdict(states: Sequence[Tensor]) -> Iterator[Scalar]:
    """The ratio of the first layer to the last, with its standard error to first order."""
    first, last = states[0], states[-1]
    own = last.mean().item()
    ratio = first.mean().item() / own if own else math.nan
    if not all(math.isfinite(each.sum().item()) for each in states):
        words, ratio = "no number", math.nan
    elif not own:
        words = "no gradient"
    elif not ratio:
        words = "cut off"
    else:
        words = "vanishes" if ratio < TENTH else "explodes" if ratio > 1 / TENTH else "even"
    yield Scalar(
        name="first_to_last",
        unit="ratio",
        value=ratio,
        verdict=words,
        meaning=MEANINGS[words],
        about="the gradient at what leaves the first layer, over that of the last one",
        standard_error=standard_error(first - ratio * last) / own if math.isfinite(ratio) else None,
        headline=True,
    )
    yield Scalar(name="per_layer_factor", unit="ratio per layer", value=ratio ** (1 / (len(states) - 1)))
