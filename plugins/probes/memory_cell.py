"""What a small recurrent state does step by step: how it goes on, through noise and without input, and what gradient
comes back along it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from harness_plugins.probes.conditions import first_group
from harness_plugins.probes.recurrent import exact_copy, forward_layers, memory_width
from jaxtyping import Float
from pydantic import Field, NonNegativeFloat, PositiveInt
from torch import Tensor, nn

from harness import IGNORE, Batch, Condition, Curve, Scalar, Skip, Subject
from harness.examples import standard_error
from harness.recurrence import StateLayer, jacobians

SHOWN = 4
"""Numbers of the memory that are shown one by one."""
STARTS = (-1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0)
"""From states of these numbers, all alike, fixed points are looked for, and from the last state seen."""
NEWTON_STEPS = 100
CONVERGED = 1e-12
SAME = 1e-6
"""Fixed points nearer to one another than this, as a share of their size, are one."""
AT_ONCE = 2**22
"""The most numbers of the state, of all draws and steps together, that are held at once (beside as many gates)."""


class MemoryCell:
    """A single recurrent layer on a task of vectors that asks at every step (`both_seen`), made for cells of few
    numbers, set by hand or trained; all in float64 if not said otherwise.

    The memory is what is carried from step to step: the state, or the cells alone where there are some. Looks at the
    longest condition of the first series, at its first example; noise is added to that, independent and normal for
    every number and step. Steps are counted from 1, as in the literature.

    Y. Bengio et al., "Learning long-term dependencies with gradient descent is difficult" (1994): what holds through
    noise shows no gradient, and what shows gradient does not hold; S. Hochreiter and J. Schmidhuber, "Long short-term
    memory" (1997): what is gated does both.

    Measures:
        memory 1, memory 2, ...: the first numbers of the memory after chosen steps, without noise.
        least: the least of all its numbers.
        last_right_step: up to which step all answers are right, without noise; 0 if the first is wrong.
        zero_after: steps after the cue (after the first step, if there is none) until the memory is exactly 0, in the
            model's own precision; infinite if it is never.
        right_with_noise: share of draws whose answer is right after chosen steps.
        noise_sd: standard deviation of the memory over draws, root mean square over its numbers.
        drift: mean over draws and numbers of the memory, less what it is without noise right after the cue.
        fixed_points: the first number of each state that a step without input (zeros) leaves as it is, by Newton's
            method from several starts; `every_state_is_fixed` where any of them is.
        derivative_at_fixed_points: the largest modulus of an eigenvalue of the step's Jacobian there: below 1 it is
            stable.
        gradient: largest singular value of d memory_T / d memory_{T-d}, by the number of steps d.
        gradient_per_step: its d-th root, at the largest d at which it is not 0.

    Args:
        steps: after which the memory is shown, as far as sequences reach.
        noise: standard deviation of the noise.
        draws: of the noise.
        back: numbers of steps d for the gradient.
    """

    needs: ClassVar = ("state",)

    def __init__(
        self,
        *,
        steps: Annotated[list[PositiveInt], Field(min_length=1)] = [3, 4, 5, 12, 13, 100, 1000, 1004],  # noqa: B006
        noise: NonNegativeFloat = 0.05,
        draws: Annotated[int, Field(ge=2)] = 400,
        back: Annotated[list[PositiveInt], Field(min_length=1)] = [1, 10, 100, 1000],  # noqa: B006
    ) -> None:
        self.steps = sorted(set(steps))
        self.noise = noise
        self.draws = draws
        self.back = sorted(set(back))

    def __call__(self, subject: Subject) -> Iterator[Curve | Scalar]:
        if subject.task.interface.input != "vectors":
            raise Skip("noise is added to vectors, and zeros are no input: the task gives tokens")
        batch = subject.batch(longest(subject))[:1]
        time = batch.tokens.shape[1]
        steps = [step for step in self.steps if step <= time]
        if not steps:
            raise Skip(f"sequences have {time} steps, fewer than any that is asked for ({self.steps[0]}, ...)")
        model, tokens = exact_copy(subject.model), batch.tokens.double()
        layer = only_layer(model, tokens)
        memory = memory_of(layer)[0]
        for number in range(min(SHOWN, memory.shape[1])):
            yield after(f"memory {number + 1}", steps, memory[:, number], f"number {number + 1} of the memory")
        yield after("least", steps, memory.amin(1), "least number of the memory")
        asked = answers_are_classes(subject, batch)
        if asked:
            right = answers(model, tokens, batch.targets)[0]
            wrong = (~right).nonzero()
            last = int(wrong[0]) if len(wrong) else time
            yield exact("last_right_step", "steps", last, "up to which step all answers are right", headline=True)
        yield vanishes(subject, batch)
        yield from self.with_noise(subject, model, batch, layer, steps, asked=asked)
        yield from fixed_points(model, batch, layer)
        yield from self.gradient(layer)

    def with_noise(
        self, subject: Subject, model: nn.Module, batch: Batch, layer: StateLayer, steps: list[int], *, asked: bool
    ) -> Iterator[Curve]:
        """What noise makes of the memory and of the answers."""
        tokens = batch.tokens.double()
        right, moved, width = [], [], layer.initial.shape[1]
        places = torch.tensor(steps) - 1
        for draws in torch.arange(self.draws).split(max(1, AT_ONCE // (tokens.shape[1] * width))):
            shape = (len(draws), *tokens.shape[1:])
            noise = torch.randn(shape, generator=subject.generator, dtype=torch.float64).to(tokens.device)
            given = tokens + self.noise * noise
            moved.append(memory_of(only_layer(model, given))[:, places])
            if asked:
                right.append(answers(model, given, batch.targets)[:, places])
        held = memory_of(layer)[0, cue_of(batch)]
        drawn = torch.cat(moved)
        sd = drawn.var(0).mean(-1).sqrt()
        numbers = drawn.shape[0] * drawn.shape[2]
        if asked:
            share = torch.cat(right).double()
            errors = [standard_error(each, share=True) for each in share.T]
            yield after("right_with_noise", steps, share.mean(0), "share of draws with a right answer", errors, "share")
        errors = [each / math.sqrt(2 * (numbers - 1)) for each in sd.tolist()]
        yield after("noise_sd", steps, sd, "standard deviation of the memory", errors, headline=True)
        off = drawn - held
        errors = [(each / math.sqrt(numbers)) for each in sd.tolist()]
        yield after("drift", steps, off.mean((0, 2)), "mean memory, less what it was after the cue", errors)

    def gradient(self, layer: StateLayer) -> Iterator[Curve | Scalar]:
        """What comes back from the last step."""
        end = layer.states.shape[1] - 1
        back = [each for each in self.back if each <= end + 1] or [end + 1]
        width = memory_width(layer)
        found = jacobians(layer, [end - each for each in back], end)[:, 0, -width:, -width:]
        sizes = torch.linalg.matrix_norm(found, 2).tolist()
        yield Curve(
            name="gradient",
            unit="ratio",
            x=[float(each) for each in back],
            y=sizes,
            x_label="steps back",
            y_label="gradient along the memory",
            standard_errors=[0.0] * len(back),
            scale="log",
        )
        reached = [(size, each) for size, each in zip(sizes, back, strict=True) if size > 0]
        size, each = reached[-1] if reached else (0.0, 1)
        yield exact(
            "gradient_per_step", "ratio per step", size ** (1 / each), "what is left of a gradient", headline=True
        )


def longest(subject: Subject) -> Condition:
    """The longest condition of the task's first series."""
    return first_group(subject.task)[-1]


def only_layer(model: nn.Module, tokens: Tensor) -> StateLayer:
    """The layer of a model that has one.

    Raises:
        Skip: it has several.
    """
    layers = forward_layers(model, tokens)
    if len(layers) > 1:
        raise Skip(f"this looks at the memory of one layer, and the model has {len(layers)}")
    return layers[0]


def memory_of(layer: StateLayer) -> Float[Tensor, "batch time number"]:
    """The cells, or the states where there are none."""
    return layer.states if layer.cells is None else layer.cells


def answers_are_classes(subject: Subject, batch: Batch) -> bool:
    """Whether there is a right class after every step."""
    return subject.task.interface.output == "classes" and not bool((batch.targets == IGNORE).any())


def answers(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    """Whether each answer is right, `batch time`; not where it is no number."""
    with torch.no_grad():
        outputs: Tensor = model(tokens)
    return (outputs.argmax(-1) == targets) & ~outputs.isnan().any(-1)


def cue_of(batch: Batch) -> int:
    """The position of the first example's cue; the first one if there is none."""
    return max(0, int(batch.cue[0])) if batch.cue is not None else 0


def vanishes(subject: Subject, batch: Batch) -> Scalar:
    """From which step after the cue on the memory is exactly 0."""
    layer = only_layer(subject.model, batch.tokens)
    alive = (memory_of(layer)[0] != 0).any(1).nonzero()
    first = int(alive[-1]) + 1 if len(alive) else 0
    steps = max(0, first - cue_of(batch)) if first < layer.states.shape[1] else math.inf
    about = f"steps after the cue until the memory is exactly 0 in {str(layer.states.dtype).removeprefix('torch.')}"
    return exact("zero_after", "steps", steps, about)


@dataclass(frozen=True)
class Step:
    """A step without input, from the memory and all else that is carried to what is carried then."""

    layer: StateLayer

    @classmethod
    def of(cls, model: nn.Module, batch: Batch, count: int) -> "Step":
        """For so many states at once."""
        nothing = torch.zeros(count, 2, *batch.tokens.shape[2:], dtype=torch.float64, device=batch.tokens.device)
        return cls(only_layer(model, nothing))

    def __call__(self, carried: Float[Tensor, "start width"]) -> Float[Tensor, "start width"]:
        return self.layer.advance(carried, 0, 1)[-1]

    def jacobian(self, carried: Float[Tensor, "start width"]) -> Float[Tensor, "start width width"]:
        """Of each state's own step."""
        with torch.enable_grad():
            leaf = carried.detach().requires_grad_()
            following = self(leaf)
            rows = [
                torch.autograd.grad(each.sum(), leaf, retain_graph=True, materialize_grads=True)[0]
                for each in following.T
            ]
        return torch.stack(rows, 1)


def fixed_points(model: nn.Module, batch: Batch, seen: StateLayer) -> Iterator[Curve | Scalar]:
    """States that a step without input leaves as they are, in the order of their first number."""
    last = seen.carried[:, -1].detach()
    alike = torch.tensor(STARTS, dtype=last.dtype, device=last.device)[:, None].expand(-1, last.shape[1])
    states = torch.cat([alike, last])
    step = Step.of(model, batch, len(states))
    with torch.no_grad():
        stays = ((step(states) - states).abs() <= CONVERGED).all()
    yield exact("every_state_is_fixed", "", float(stays), "1 if a step without input leaves any state as it is")
    if stays:
        return
    found = _newton(step, states)
    jacobian = step.jacobian(found)
    moved = (step(found).detach() - found).abs().amax(1)
    kept: list[int] = []
    for index in found[:, 0].argsort().tolist():
        size = SAME * max(1.0, found[index].abs().max().item())
        new = all((found[index] - found[other]).abs().max() > size for other in kept)
        if moved[index] <= CONVERGED * max(1.0, found[index].abs().max().item()) and new:
            kept.append(index)
    if not kept:
        return
    radius = [torch.linalg.eigvals(jacobian[index]).abs().max().item() for index in kept]
    first = [found[index, -memory_width(seen)].item() for index in kept]
    for name, values, y_label in (
        ("fixed_points", first, "first number of the memory"),
        ("derivative_at_fixed_points", radius, "largest eigenvalue (modulus)"),
    ):
        yield Curve(
            name=name,
            unit="" if name == "fixed_points" else "ratio per step",
            x=[float(number) for number in range(1, len(kept) + 1)],
            y=values,
            x_label="fixed point",
            y_label=y_label,
            standard_errors=[0.0] * len(kept),
        )


def _newton(step: Step, states: Tensor) -> Tensor:
    """Where Newton's method leads from each state; one that meets a singular Jacobian stays there."""
    for _ in range(NEWTON_STEPS):
        residual = step(states).detach() - states
        slope = torch.eye(states.shape[1], dtype=states.dtype, device=states.device) - step.jacobian(states)
        change, trouble = torch.linalg.solve_ex(slope, residual)
        states = torch.where((trouble == 0)[:, None] & change.isfinite(), states + change, states)
    return states


def exact(name: str, unit: str, value: float, about: str, *, headline: bool = False) -> Scalar:
    """A number in which there is no chance."""
    return Scalar(name=name, unit=unit, value=value, about=about, standard_error=0.0, headline=headline)


def after(
    name: str,
    steps: Sequence[int],
    values: Tensor,
    y_label: str,
    errors: list[float] | None = None,
    unit: str = "",
    *,
    headline: bool = False,
) -> Curve:
    """A curve along steps. Without errors, there is no chance in it, and the values are those of all steps."""
    at = values if errors is not None else values[torch.tensor(steps, device=values.device) - 1]
    return Curve(
        name=name,
        unit=unit,
        x=[float(step) for step in steps],
        y=at.tolist(),
        x_label="steps",
        y_label=y_label,
        standard_errors=[0.0] * len(steps) if errors is None else errors,
        headline=headline,
    )
