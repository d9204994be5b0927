"""One probe looks at one model on one task: whether it can, and what it measures, validated."""

from collections import Counter
from itertools import islice
from typing import Any

from harness.blame import blame
from harness.build import TrialPlugins
from harness.examples import seeded
from harness.measurements import KIND_NAMES, MEASUREMENTS, Measurement
from harness.needs import unmet
from harness.plugin import Plugin, draws_as
from harness.schema import Cell
from harness.subject import Subject

MOST = 100_000
"""Measurements of one cell. A probe that gives more of them probably never ends, and a record has to be read again."""


def unmet_need(plugins: TrialPlugins, cell: Cell, subject: Subject) -> str:
    """Why the cell's probe cannot look at this model and task, or "".

    Raises:
        PluginError: the probe does not load, or asks for something that is no need; or the model raised.
    """
    needs = plugins.probe(cell.probe).says.needs
    if not needs:
        return ""
    with blame(cell.trial.model, f"being asked for what {cell.probe.label!r} needs"):
        return unmet(needs, subject)


def measure(plugins: TrialPlugins, cell: Cell, subject: Subject) -> list[Measurement]:
    """What the cell's probe says of the subject.

    Raises:
        Skip: the probe cannot answer here.
        Exception: whatever the probe raises; or what it gave is no measurement.
    """
    # by what is asked, and not by the model: sham positions and swaps are the same for all models
    subject.generator = seeded("probe", draws_as(cell.probe), draws_as(cell.trial.task), cell.trial.seed, cell.stage)
    measurements = look(plugins.probe(cell.probe), subject)
    for measurement in measurements:
        if not isinstance(measurement, MEASUREMENTS):
            raise TypeError(f"it gave {measurement!r:.60}; a probe yields {KIND_NAMES}")
    measurements = [type(each).model_validate(each.model_dump(warnings=False)) for each in measurements]
    names = Counter(measurement.name for measurement in measurements)
    if twice := [name for name, number in names.items() if number > 1]:
        raise ValueError(f"it gave {', '.join(sorted(twice))} twice; names of measurements are unique")
    return measurements


def look(probe: Plugin, subject: Subject) -> list[Any]:
    """Whatever the probe gives.

    Raises:
        Skip: it cannot answer here.
        Exception: whatever it raises.
    """
    given = probe.construct()(subject) if isinstance(probe.definition.code, type) else probe.construct(subject=subject)
    found = list(islice(given, MOST + 1))
    if len(found) > MOST:
        raise ValueError(f"it gave more than {MOST:,} measurements; sum them up, or put them into a Curve")
    return found
