"""Models that are there to compare others with, beside those that were asked for."""

from harness.registry import Registry
from harness.suites import Experiment, Request, Suite


def with_baselines(suite: Suite, registry: Registry) -> Suite:
    """The suite with every baseline (`ModelSpec.baseline`) on all of its tasks, measured by what measures the others,
    if it asks for them.

    They are trained as the suite's own settings, their tasks and they themselves say, not as an experiment trains its
    models. One that the suite names itself, with its default arguments, stays where it is.
    """
    named = {request.name for request in suite.requests("model") if not request.arguments}
    entries = [entry for entry in registry.all("model") if getattr(entry.spec, "baseline", False)]
    names = [entry.spec.name for entry in entries]
    models = [
        Request(name=name if names.count(name) == 1 else entry.qualified)
        for entry, name in zip(entries, names, strict=True)
        if named.isdisjoint({name, entry.qualified})
    ]
    if not (suite.baselines and models):
        return suite
    beside = (each.model_copy(update={"models": models, "training": {}}) for each in suite.experiments)
    distinct: list[Experiment] = []
    for each in beside:
        if each not in distinct:
            distinct.append(each)
    return suite.model_copy(update={"experiments": [*suite.experiments, *distinct]})
