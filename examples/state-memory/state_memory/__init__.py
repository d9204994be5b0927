"""State memory for the harness."""

from harness import ProbeSpec, hookimpl


@hookimpl
def harness_probes():
    yield ProbeSpec(
        "state-memory",
        "state_memory.probe:StateMemory",
        summary="which earlier tokens can be read linearly from the last layer at the query",
        contract=1,
    )
