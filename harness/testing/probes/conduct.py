"""Checks of how a probe behaves: it leaves no trace, repeats itself, and declines what it cannot measure."""

import math
from typing import Any

import torch
from torch import nn

from harness.contracts import Skip, Task
from harness.errors import describe, place_of_error
from harness.isolation import random_state_restored
from harness.testing.checks import Failed, check
from harness.testing.probes.case import ProbeCase
from harness.testing.toys import Attending, Marked, Numbers, Plain, Recurrent
from harness.testing.untouched import move_random_states, moved_since, random_states, same_batches, same_values


@check(
    asks="it leaves the model as it was",
    means="all probes after it measure another model",
    fix="remove hooks in `finally`, restore the mode, use torch.autograd.grad rather than backward()",
    after=("measures",),
)
def model_untouched(case: ProbeCase) -> None:
    """Parameters, buffers, gradients, modes, hooks and attributes."""
    for stage in case.stages:
        subject = case.subject(stage=stage)
        before = _state(subject.model)
        case.measure(subject)
        after = _state(subject.model)
        changed = [name for name, value in before.items() if not _same(value, after.get(name))]
        changed += [name for name in after if name not in before]
        if changed:
            raise Failed(f"it leaves the model with other {', '.join(changed[:5])}")


def _state(model: nn.Module) -> dict[str, Any]:
    """Everything that a probe may change, by what it is called in a message."""
    state: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        state[f"values of {name}"] = parameter.detach().clone()
        state[f"gradient of {name}"] = None if parameter.grad is None else parameter.grad.clone()
        state[f"requires_grad of {name}"] = parameter.requires_grad
    for name, buffer in model.named_buffers():
        state[f"values of {name}"] = buffer.clone()
    for name, module in model.named_modules():
        at = f" of {name}" if name else " of the model"
        state[f"mode{at}"] = module.training
        state[f"hooks{at}"] = sum(len(v) for k, v in vars(module).items() if k.endswith("_hooks") and v is not None)
        state[f"forward{at}"] = vars(module).get("forward", type(module).forward)
    return state


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return same_values(one, other)
    return bool(one == other)


@check(
    asks="it leaves the evaluation data as it was",
    means="all probes after it see other data",
    fix="clone before you change: batch.with_tokens(changed)",
    after=("measures",),
)
def data_untouched(case: ProbeCase) -> None:
    """The evaluation data, which the other probes share."""
    subject = case.subject()
    kept = {condition: subject.batch(condition) for condition in subject.task.conditions()}
    copies = {condition: batch.copy() for condition, batch in kept.items()}
    case.measure(subject)
    for condition, batch in kept.items():
        if not all(same_batches(now, copies[condition]) for now in (batch, subject.batch(condition))):
            raise Failed(f"it changes the data of the condition {str(condition)!r}")


@check(
    asks="it does not draw from the global random state",
    means="its results depend on which probes ran before it, and its draws change what training does",
    fix="pass generator=subject.generator to every torch.rand...",
    after=("measures",),
)
def random_state(case: ProbeCase) -> None:
    """The global random states before and after."""
    subject = case.subject()
    for condition in subject.task.conditions():
        subject.scores(condition)  # whatever the model draws itself is not the probe's
    before = random_states()
    case.measure(subject)
    if moved := moved_since(before):
        raise Failed(f"it draws from the global random state of {' and '.join(moved)}")


@check(
    asks="it gives the same numbers twice",
    means="a repeated run gives other results",
    fix="draw from subject.generator only; keep no results in the class or module",
    after=("measures",),
)
def repeatable(case: ProbeCase) -> None:
    """Two measurements of the same model, with generators in the same state."""
    first = case.measure(case.subject())
    move_random_states()
    second = case.measure(case.subject())
    if [m.name for m in first] != [m.name for m in second]:
        raise Failed("it gives other measurements the second time")
    for one, other in zip(first, second, strict=True):
        pairs = ((a.value, b.value) for a, b in zip(one.points(), other.points(), strict=False))
        if not all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs):
            raise Failed(f"{one.name!r} has other numbers the second time")


@check(
    asks="it measures or skips what lacks something, and never crashes on it",
    means="cells are reported as failed, though there is only nothing to measure",
    fix='declare needs = ("attention", "cue", "roles", "distances"), or raise Skip(reason)',
    after=("declares",),
)
def declines(case: ProbeCase) -> str:
    """On models without attention, tasks without marks, and real-valued input."""
    outcomes = []
    for what, model, task in _poor_subjects():
        subject = case.subject(model, task)
        try:
            case.measure(subject)
            outcomes.append(f"measures {what}")
        except Skip as reason:
            outcomes.append(f"skips {what} ({reason})")
        except Exception as error:
            raise Failed(f"on {what} it raises {describe(error)} instead of skipping", place_of_error(error)) from None
    return "; ".join(outcomes)


def _poor_subjects() -> list[tuple[str, nn.Module, Task]]:
    with random_state_restored():
        return [
            ("a model without attention", Recurrent(Marked.interface), Marked()),
            ("a task with one length and no marks", Attending(Plain.interface.input_size), Plain()),
            ("a task with real-valued input", Recurrent(Numbers.interface), Numbers()),
        ]
