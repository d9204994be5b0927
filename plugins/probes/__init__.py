"""The built-in probes."""

from collections.abc import Iterator

from harness import ProbeSpec, hookimpl


@hookimpl
def harness_probes() -> Iterator[ProbeSpec]:
    yield ProbeSpec(
        "accuracy",
        "harness_plugins.probes.accuracy:accuracy",
        "score, loss and bits per condition, and the kind of failure",
    )
    yield ProbeSpec(
        "grad_reach",
        "harness_plugins.probes.grad_reach:GradReach",
        "gradient at the query with respect to the cue, per distance",
    )
