"""The built-in places where trials run; the code of those on this machine is the core's own, `harness.executors`."""

from collections.abc import Iterator

from harness import ExecutorSpec, hookimpl


@hookimpl
def harness_executors() -> Iterator[ExecutorSpec]:
    yield ExecutorSpec(
        "processes",
        "harness.executors.processes:Processes",
        "a new process for each trial, several at a time; what one trial does, no other one sees",
    )
    yield ExecutorSpec(
        "local",
        "harness.executors.local:Local",
        "this process, one trial after the other; a plugin that ends or blocks it ends or blocks the run",
    )
    yield ExecutorSpec(
        "ray",
        "harness_plugins.executors.ray:Ray",
        "tasks of Ray, on the machines of a cluster (ray:address=auto) or on this one; needs the extra [ray]",
    )
