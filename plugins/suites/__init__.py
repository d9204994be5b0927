"""The built-in suites."""

from collections.abc import Iterator

from harness import SuiteSpec, hookimpl


@hookimpl
def harness_suites() -> Iterator[SuiteSpec]:
    yield from ()
