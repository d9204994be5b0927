"""Selective copying for the harness."""

from collections.abc import Iterator

from harness import TaskSpec, hookimpl


@hookimpl
def harness_tasks() -> Iterator[TaskSpec]:
    yield TaskSpec(
        "selective-copying",
        "selective_copying.task:SelectiveCopying",
        summary="copy the symbols out of noise, in their order (Gu and Dao, 2023)",
        contract=1,
    )
