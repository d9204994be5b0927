"""What every probe should do: checks of its measurements, of what it leaves behind and of how it declines."""

import math
from typing import get_args

import torch
from torch import nn

from harness.contracts import Skip, Task
from harness.errors import did_you_mean
from harness.measurements import ANY, KINDS
from harness.needs import NEEDS
from harness.registry import describe, place_of_error
from harness.testing.checks import (
    Check,
    Checker,
    Failed,
    NotApplicable,
    Report,
    move_random_states,
    random_states,
    same_values,
    states_that_differ,
)
from harness.testing.plugins import ARGUMENTS, Plugin, as_target
from harness.testing.probe_case import ProbeCase, model_state, poor_subjects, same_value
from harness.vocabulary import Stage


def check_probe(probe: Plugin, *, model: nn.Module | None = None, task: Task | None = None) -> Report:
    """Check a probe: a registered name with or without arguments, a file (`./p.py:probe`), a function or a class.

    Args:
        probe: what to check.
        model: what it measures, if a small attention model will not do (for example since it needs gates).
        task: on which task, if a small one with cue, query, roles and several distances will not do.
    """
    return probe_checker(probe, model, task).report()


def probe_checker(probe: Plugin, model: nn.Module | None = None, task: Task | None = None) -> Checker:
    """The checks of a probe, ready to run."""
    target, request = as_target("probe", probe)
    return Checker("probe", str(request), PROBE_CHECKS, ProbeCase(target, request, model, task))


def declares(case: ProbeCase) -> str:
    """Stages and needs that exist."""
    stages, needs = case.stages, tuple(getattr(case.target.code, "needs", ()))
    known = get_args(Stage)
    if not stages or (wrong := [stage for stage in stages if stage not in known]):
        raise Failed(f"stages = {stages!r}; choose from {', '.join(known)}", case.where)
    if wrong := [need for need in needs if need not in NEEDS]:
        guess = did_you_mean(wrong[0], NEEDS)
        raise Failed(f"there is no need {wrong[0]!r}.{guess} Needs: {', '.join(NEEDS)}", case.where)
    return f"looks at {' and '.join(stages)} models; needs {', '.join(needs) or 'nothing'}"


def documented(case: ProbeCase) -> None:
    """Its docstring, which `harness show probe NAME` prints."""
    code = case.target.code
    if not (getattr(code, "__doc__", None) or "").strip():
        raise Failed("it has no docstring", case.where)


def measures(case: ProbeCase) -> str:
    """At every stage, at least one measurement with finite numbers."""
    found = []
    for stage in case.stages:
        subject = case.subject(stage=stage)
        try:
            found = case.measure(subject)
        except Skip as reason:
            raise NotApplicable(
                f"it skips the checks' own model and task ({reason}); call check_probe(probe, model=..., task=...)"
            ) from None
        if not found:
            raise Failed(f"at the stage {stage!r} it gives nothing; raise Skip with the reason instead", case.where)
        for measurement in found:
            if not isinstance(measurement, KINDS):
                raise Failed(f"it gave {measurement!r:.60}; yield {ANY}", case.where)
        if not any(math.isfinite(entry.value) for measurement in found for entry in measurement.entries()):
            raise Failed(f"at the stage {stage!r} none of its numbers is finite", case.where)
    return ", ".join(measurement.name for measurement in found)


def labels(case: ProbeCase) -> str:
    """Names, units and labels, as reports print them."""
    found = case.measure(case.subject())
    names = [measurement.name for measurement in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Failed(f"the name {', '.join(twice)} is given twice; names of measurements are unique", case.where)
    for measurement in found:
        name = measurement.name
        if not name or name != " ".join(name.split()) or any(mark in name for mark in "/|,:"):
            raise Failed(f"the name {name!r} is empty or has blanks at its ends, or one of / | , :", case.where)
        if measurement.unit != measurement.unit.strip():
            raise Failed(f"the unit of {name!r} is {measurement.unit!r}, with blanks", case.where)
        if missing := measurement.unlabelled():
            raise Failed(missing, case.where)
    if not any(measurement.headline for measurement in found):
        raise Failed("no measurement is a headline, so that summary tables show nothing of it", case.where)
    return ", ".join(f"{measurement.name} [{measurement.unit or 'a number'}]" for measurement in found)


def model_untouched(case: ProbeCase) -> None:
    """Parameters, buffers, gradients, modes, hooks and attributes."""
    for stage in case.stages:
        subject = case.subject(stage=stage)
        before = model_state(subject.model)
        case.measure(subject)
        after = model_state(subject.model)
        changed = [name for name, value in before.items() if not same_value(value, after.get(name))]
        changed += [name for name in after if name not in before]
        if changed:
            raise Failed(f"it leaves the model with other {', '.join(changed[:5])}", case.where)


def data_untouched(case: ProbeCase) -> None:
    """The evaluation data, which the other probes share."""
    subject = case.subject()
    kept = {condition: subject.batch(condition) for condition in subject.task.conditions()}
    copies = {condition: batch._map(torch.clone) for condition, batch in kept.items()}
    case.measure(subject)
    for condition, batch in kept.items():
        now = subject.batch(condition)
        pairs = [(getattr(each, name), getattr(copies[condition], name)) for each in (batch, now) for name in _TENSORS]
        if any(one is not None and not same_values(one, other) for one, other in pairs):
            raise Failed(f"it changes the data of the condition {str(condition)!r}", case.where)


_TENSORS = ("tokens", "targets", "mask", "cue", "query", "roles")


def random_state(case: ProbeCase) -> None:
    """The global random states before and after."""
    subject = case.subject()
    for condition in subject.task.conditions():
        subject.scores(condition)  # whatever the model draws itself is not the probe's
    before = random_states()
    case.measure(subject)
    if moved := states_that_differ(before, random_states()):
        raise Failed(f"it draws from the global random state of {' and '.join(moved)}", case.where)


def repeatable(case: ProbeCase) -> None:
    """Two measurements of the same model, with generators in the same state."""
    first = case.measure(case.subject())
    move_random_states()
    second = case.measure(case.subject())
    if [m.name for m in first] != [m.name for m in second]:
        raise Failed("it gives other measurements the second time", case.where)
    for one, other in zip(first, second, strict=True):
        pairs = ((a.value, b.value) for a, b in zip(one.entries(), other.entries(), strict=False))
        if not all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs):
            raise Failed(f"{one.name!r} has other numbers the second time", case.where)


def declines(case: ProbeCase) -> str:
    """On models without attention, tasks without marks, and real-valued input."""
    outcomes = []
    for what, model, task in poor_subjects():
        subject = case.subject(model, task)
        try:
            case.measure(subject)
            outcomes.append(f"measures {what}")
        except Skip as reason:
            outcomes.append(f"skips {what} ({reason})")
        except Exception as error:
            raise Failed(
                f"on {what} it raises {describe(error)} instead of skipping", place_of_error(error) or case.where
            ) from None
    return "; ".join(outcomes)


PROBE_CHECKS: tuple[Check, ...] = (
    ARGUMENTS,
    Check(
        "declares",
        asks="its `stages` and `needs` exist",
        means="the probe never runs",
        fix='stages = ("initial", "trained"), needs = ("cue",) on the class, or as attributes of the function',
        run=declares,
    ),
    Check(
        "documented",
        asks="its docstring says what it measures",
        means="nobody can tell what its numbers mean",
        fix="define every measurement in the docstring, with the reference it comes from",
        run=documented,
    ),
    Check(
        "measures",
        asks="it yields measurements",
        means="its cells fail, or are empty",
        fix=f"yield {ANY} (from harness); raise Skip(reason) where nothing can be measured",
        run=measures,
        after=("declares",),
    ),
    Check(
        "labels",
        asks="measurements have unique names, units and labels, and one is a headline",
        means="tables and charts cannot be read, or claims cannot name the number",
        fix='give every measurement a name, a unit ("" for a pure number) and labels; headline=True for the main one',
        run=labels,
        after=("measures",),
    ),
    Check(
        "model_untouched",
        asks="it leaves the model as it was",
        means="all probes after it measure another model",
        fix="remove hooks in `finally`, restore the mode, use torch.autograd.grad rather than backward()",
        run=model_untouched,
        after=("measures",),
    ),
    Check(
        "data_untouched",
        asks="it leaves the evaluation data as it was",
        means="all probes after it see other data",
        fix="clone before you change: batch.with_tokens(changed)",
        run=data_untouched,
        after=("measures",),
    ),
    Check(
        "random_state",
        asks="it does not draw from the global random state",
        means="its results depend on which probes ran before it, and its draws change what training does",
        fix="pass generator=subject.generator to every torch.rand...",
        run=random_state,
        after=("measures",),
    ),
    Check(
        "repeatable",
        asks="it gives the same numbers twice",
        means="a repeated run gives other results",
        fix="draw from subject.generator only; keep no results in the class or module",
        run=repeatable,
        after=("measures",),
    ),
    Check(
        "declines",
        asks="it measures or skips what lacks something, and never crashes on it",
        means="cells are reported as failed, though there is only nothing to measure",
        fix='declare needs = ("attention", "cue", "roles", "distances"), or raise Skip(reason)',
        run=declines,
        after=("declares",),
    ),
)
"""All checks of a probe, in the order of the report."""
