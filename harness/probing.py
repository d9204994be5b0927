"""One probe looks at one model on one task: whether it can, and what it measures, validated."""

from harness.blame import blame
from harness.build import load_planned
from harness.examples import seeded
from harness.measurements import ANY, MEASUREMENTS, Measurement
from harness.needs import unmet
from harness.registry import Registry
from harness.schema import Cell
from harness.subject import Subject
from harness.targets import load_use


def measure(registry: Registry, cell: Cell, subject: Subject) -> list[Measurement]:
    """What the cell's probe says of the subject.

    Raises:
        Skip: the probe cannot answer here.
        Exception: whatever the probe raises; or what it gave is no measurement.
    """
    target = load_planned(registry, "probe", cell.probe)
    # by what is asked, and not by the model: sham positions and swaps are the same for all models
    subject.generator = seeded("probe", cell.probe.label, cell.trial.task.label, cell.trial.seed, cell.stage)
    if isinstance(target.code, type):
        result = target.build(cell.probe.arguments)(subject)
    else:
        result = target.build(cell.probe.arguments, subject=subject)
    measurements = list(result)
    for measurement in measurements:
        if not isinstance(measurement, MEASUREMENTS):
            raise TypeError(f"it gave {measurement!r:.60}; a probe yields {ANY}")
    measurements = [type(each).model_validate(each.model_dump(warnings=False)) for each in measurements]
    names = [measurement.name for measurement in measurements]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"it gave {', '.join(sorted(twice))} twice; names of measurements are unique")
    return measurements


def unmet_need(registry: Registry, cell: Cell, subject: Subject) -> str:
    """Why the cell's probe cannot look at this model and task, or "".

    Raises:
        PluginError: the probe does not load, or asks for something that is no need; or the model raised.
    """
    needs = load_use(registry, "probe", cell.probe).says.needs
    with blame(cell.trial.model, f"being asked for what {cell.probe.label!r} needs"):
        return unmet(needs, subject)
