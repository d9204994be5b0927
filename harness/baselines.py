"""Models that are there to compare others with, beside those that were asked for."""

from harness.registry import Registry
from harness.suites import Experiment, Request, Suite


def with_baselines(suite: Suite, registry: Registry) -> Suite:
    """The suite, if it asks for them with every baseline (`ModelSpec.baseline`) on all of its tasks, measured by what
    measures the others there.

    They are trained as the suite's own settings, their tasks and they themselves say, not as an experiment trains its
    models. Where the suite has one itself, with its default arguments, it stays as it is.
    """
    if not suite.baselines:
        return suite
    entries = [entry for entry in registry.all("model") if entry.baseline]
    names = [entry.spec.name for entry in entries]
    known = {entry.qualified if names.count(entry.spec.name) > 1 else entry.spec.name for entry in entries}
    beside: list[Experiment] = []
    for each in suite.experiments:
        for task in each.tasks:
            models = [Request(name=name) for name in sorted(known - _named(suite, task))]
            added = each.model_copy(update={"models": models, "tasks": [task], "training": {}})
            if models and added not in beside:
                beside.append(added)
    return suite.model_copy(update={"experiments": [*suite.experiments, *beside]})


def _named(suite: Suite, task: Request) -> set[str]:
    """The models that a suite has on a task as they come."""
    return {
        request.name
        for each in suite.experiments
        if task in each.tasks
        for request in each.models
        if not request.arguments
    }
