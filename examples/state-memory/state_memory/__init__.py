"""State memory for the harness."""

from collections.abc import Iterator

from harness import ProbeSpec, hookimpl


@hookimpl
def harness_probes() -> Iterator[ProbeSpec]:
    yield ProbeSpec(
        "state-memory",
        "state_memory.probe:StateMemory",
        summary="which earlier tokens can be read linearly from the last layer at the query",
        contract=1,
    )
