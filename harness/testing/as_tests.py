"""One pytest test for each check. Imports pytest only when it is used."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from harness.testing.case import PluginLike
from harness.testing.kinds import CHECKERS, CHECKS


def conformance(kind: str, plugin: PluginLike, **more: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
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

    def look(name: str) -> None:
        result = checker().result(name)
        if result.status == "failed":
            pytest.fail(str(result), pytrace=False)
        if result.status == "not applicable":
            pytest.skip(result.message)

    tests = [pytest.param(partial(look, check.name), id=check.name) for check in CHECKS[kind]]
    return pytest.mark.parametrize("check", tests)
