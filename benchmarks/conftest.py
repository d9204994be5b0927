"""Shared by the benchmarks. Every comparison is a ratio within one run, shown in the name of the row.

This folder is collected by ordinary test runs too, which skip it: import what is heavy inside fixtures and tests.
"""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _one_thread(request: pytest.FixtureRequest) -> None:
    """One thread, unless a benchmark starts processes of its own."""
    option = request.config.getoption
    if option("benchmark_only") or not option("benchmark_skip"):
        import torch

        torch.set_num_threads(1)


@pytest.fixture
def built() -> Callable[..., Any]:
    """Build a built-in plugin by name."""
    from harness.plugin import resolve
    from harness.registry import default_registry
    from harness.suites import Request
    from harness.targets import find_entry, load_definition

    def build(kind: str, text: str, **supplied: Any) -> Any:
        request = Request.model_validate(text)
        return resolve(load_definition(find_entry(default_registry(), kind, request.name)), request).construct(
            **supplied
        )

    return build
