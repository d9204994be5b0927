"""How checks run: one after another on one plugin, each once, and those it stands on before it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from harness.contracts import Skip
from harness.errors import describe, place_of_error
from harness.isolation import random_state_restored
from harness.testing.case import PluginCase
from harness.testing.checks import Check, Failed, NotApplicable
from harness.testing.results import CheckReport, CheckResult


@dataclass
class Checker:
    """The checks of one plugin, ready to run."""

    kind: str
    checks: Sequence[Check]
    case: PluginCase
    known: dict[str, CheckResult] = field(default_factory=dict)
    announce: Callable[[str], None] = lambda name: None
    """Hears the name of each check that begins."""

    def result(self, name: str) -> CheckResult:
        """The result of one check."""
        if name not in self.known:
            self.known[name] = self._run(self._check(name))
        return self.known[name]

    def report(self) -> CheckReport:
        """The results of all checks."""
        return CheckReport(self.kind, str(self.case.request), tuple(self.result(check.name) for check in self.checks))

    def _run(self, check: Check) -> CheckResult:
        if name := self._waits_for(check):
            return CheckResult(check, "not applicable", f"waits for {name!r} to pass")
        self.announce(check.name)
        try:
            with random_state_restored(), one_thread():
                note = check.run(self.case)
        except Failed as failed:
            return CheckResult(check, "failed", str(failed), failed.where or self.case.where)
        except (NotApplicable, Skip) as reason:
            return CheckResult(check, "not applicable", str(reason))
        except (Exception, SystemExit) as error:
            return CheckResult(check, "failed", f"it raised {describe(error)}", place_of_error(error))
        return CheckResult(check, "passed", note or "")

    def _waits_for(self, check: Check) -> str:
        """The first of the checks before it that failed, or waits itself; "" if all is well."""
        for name in check.after:
            if self.result(name).status == "failed" or self._waits_for(self._check(name)):
                return name
        return ""

    def _check(self, name: str) -> Check:
        return next(check for check in self.checks if check.name == name)


@contextmanager
def one_thread() -> Iterator[None]:
    """Small models are fastest, and exactly repeatable, with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
