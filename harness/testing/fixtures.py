"""One pytest test for each check. Imports pytest only when it is used."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from harness.testing.checks import Check, Checker
from harness.testing.models import MODEL_CHECKS, model_checker
from harness.testing.plugins import Plugin
from harness.testing.probes import PROBE_CHECKS, probe_checker
from harness.testing.tasks import TASK_CHECKS, task_checker

CHECKS: dict[str, tuple[Check, ...]] = {"model": MODEL_CHECKS, "task": TASK_CHECKS, "probe": PROBE_CHECKS}
CHECKERS: dict[str, Callable[..., Checker]] = {"model": model_checker, "task": task_checker, "probe": probe_checker}


@dataclass(frozen=True)
class BoundCheck:
    """A check of one plugin; call it in a test."""

    check: Check
    checker: Callable[[], Checker]

    def __str__(self) -> str:
        return self.check.name

    def __call__(self) -> None:
        """Fail, or skip where there is nothing to look at, with the reason."""
        import pytest

        result = self.checker().result(self.check.name)
        if result.status == "failed":
            pytest.fail(str(result), pytrace=False)
        if result.status == "not applicable":
            pytest.skip(result.message)


def conformance(kind: str, plugin: Plugin, **more: Any) -> Any:
    """Parametrise a test over all checks of a plugin, as its argument `check`.

        @conformance("model", "acme-gru")
        def test_conforms(check):
            check()

    Args:
        kind: `model`, `task` or `probe`.
        plugin: its registered name (with or without arguments), a file (`./gru.py:GRU`), or the class or function.
        more: what `check_model`, `check_task` or `check_probe` also takes.
    """
    import pytest

    checker = cache(lambda: CHECKERS[kind](plugin, **more))
    bound = [BoundCheck(check, checker) for check in CHECKS[kind]]
    return pytest.mark.parametrize("check", bound, ids=str)
