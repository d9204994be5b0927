"""Checks of what a probe says of itself, and of what it yields."""

import math
from typing import get_args

from harness.contracts import Skip
from harness.errors import did_you_mean
from harness.measurements import KIND_NAMES, MEASUREMENTS, Measurement
from harness.needs import NEEDS
from harness.testing.checks import Failed, NotApplicable, check
from harness.testing.probes.case import ProbeCase
from harness.vocabulary import Stage


@check(
    asks="its `stages` and `needs` exist",
    means="the probe never runs",
    fix='stages = ("initial", "trained"), needs = ("cue",) on the class, or as attributes of the function',
)
def declares(case: ProbeCase) -> str:
    """Stages and needs that exist."""
    known = get_args(Stage)
    if not case.stages or any(stage not in known for stage in case.stages):
        raise Failed(f"stages = {case.stages!r}; choose from {', '.join(known)}")
    if wrong := [need for need in case.needs if need not in NEEDS]:
        raise Failed(f"there is no need {wrong[0]!r}.{did_you_mean(wrong[0], NEEDS)} Needs: {', '.join(NEEDS)}")
    return f"looks at {' and '.join(case.stages)} models; needs {', '.join(case.needs) or 'nothing'}"


@check(
    asks="its docstring says what it measures",
    means="nobody can tell what its numbers mean",
    fix="define every measurement in the docstring, with the reference it comes from",
)
def documented(case: ProbeCase) -> None:
    """Its docstring, which `harness show probe NAME` prints."""
    if not (case.definition.code.__doc__ or "").strip():
        raise Failed("it has no docstring")


@check(
    asks="it yields measurements",
    means="its cells fail, or are empty",
    fix=f"yield {KIND_NAMES} (from harness); raise Skip(reason) where nothing can be measured",
    after=("declares",),
)
def measures(case: ProbeCase) -> str:
    """At every stage, at least one measurement with finite numbers."""
    found = []
    for stage in case.stages:
        try:
            found = case.measure(case.subject(stage=stage))
        except Skip as reason:
            raise NotApplicable(
                f"it skips the checks' own model and task ({reason}); call check_probe(probe, model=..., task=...)"
            ) from None
        if not found:
            raise Failed(f"at the stage {stage!r} it gives nothing; raise Skip with the reason instead")
        for measurement in found:
            if not isinstance(measurement, MEASUREMENTS):
                raise Failed(f"it gave {measurement!r:.60}; yield {KIND_NAMES}")
        if not any(math.isfinite(entry.value) for measurement in found for entry in measurement.points()):
            raise Failed(f"at the stage {stage!r} none of its numbers is finite")
    return ", ".join(measurement.name for measurement in found)


@check(
    asks="measurements have unique names, units and labels, and one is a headline",
    means="tables and charts cannot be read, or claims cannot name the number",
    fix='give every measurement a name, a unit ("" for a pure number) and labels; headline=True for the main one',
    after=("measures",),
)
def labels(case: ProbeCase) -> str:
    """Names, units and labels, as reports print them."""
    found = case.measure(case.subject())
    names = [measurement.name for measurement in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Failed(f"the name {', '.join(twice)} is given twice; names of measurements are unique")
    for measurement in found:
        if mistake := _mistake_in_labels(measurement):
            raise Failed(mistake)
    if not any(measurement.headline for measurement in found):
        raise Failed("no measurement is a headline, so that summary tables show nothing of it")
    return ", ".join(f"{measurement.name} [{measurement.unit or 'a number'}]" for measurement in found)


def _mistake_in_labels(measurement: Measurement) -> str:
    name = measurement.name
    if not name or name != " ".join(name.split()) or any(mark in name for mark in "/|,:"):
        return f"the name {name!r} is empty or has blanks at its ends, or one of / | , :"
    if measurement.unit != measurement.unit.strip():
        return f"the unit of {name!r} is {measurement.unit!r}, with blanks"
    return measurement.unlabelled()
