"""What a check is, how checks run one after another, and how their results read."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from harness.contracts import Skip
from harness.isolation import random_state_restored
from harness.registry import describe, place_of_error

Status = Literal["passed", "failed", "not applicable"]


class Failed(Exception):  # noqa: N818 - an outcome, not an error
    """Raised by a check whose plugin does not do what it should; `where` is the file and line, if known."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.where = where


class NotApplicable(Exception):  # noqa: N818 - an outcome, not an error
    """Raised by a check that has nothing to look at in this plugin."""


@dataclass(frozen=True)
class Check:
    """One property that every plugin of a kind should have.

    Args:
        name: how reports call it.
        asks: the property, in one line.
        means: what a failure means for results.
        fix: what usually repairs it.
        run: looks at a case; returns a note, or raises `Failed` or `NotApplicable`.
        after: checks that must not have failed, since this one could not tell their failures from its own.
        builds: whether it looks at the plugin at work, and not only at how its code is declared.
    """

    name: str
    asks: str
    means: str
    fix: str
    run: Callable[[Any], str | None]
    after: tuple[str, ...] = ()
    builds: bool = True


@dataclass(frozen=True)
class CheckResult:
    """What a check found.

    Args:
        check: the check.
        status: `passed`, `failed` or `not applicable`.
        message: what was seen (of a failure), why there was nothing to see, or a note.
        where: file and line in the plugin, if known.
    """

    check: Check
    status: Status
    message: str = ""
    where: str = ""

    def __str__(self) -> str:
        line = f"{self.status}: {self.check.name}" + (f": {self.message}" if self.message else "")
        if self.status != "failed":
            return line
        where = f"\n  where: {self.where}" if self.where else ""
        return f"{line}{where}\n  means: {self.check.means}\n  fix:   {self.check.fix}"


@dataclass(frozen=True)
class Report:
    """The results of all checks of one plugin."""

    kind: str
    name: str
    results: tuple[CheckResult, ...]

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """The checks that failed."""
        return tuple(result for result in self.results if result.status == "failed")

    @property
    def unchecked(self) -> str:
        """Why nothing was checked of the plugin at work; "" if something was."""
        if self.failed or any(result.status == "passed" and result.check.builds for result in self.results):
            return ""
        return "; ".join(dict.fromkeys(result.message for result in self.results if result.status == "not applicable"))

    @property
    def ok(self) -> bool:
        """Whether something was checked, and nothing failed."""
        return not self.failed and not self.unchecked

    def __getitem__(self, name: str) -> CheckResult:
        """The result of the check of that name."""
        return next(result for result in self.results if result.check.name == name)

    def text(self, *, verbose: bool = False) -> str:
        """One line with the counts, then every failure; all results if `verbose`."""
        counts = [
            f"{number} {status}"
            for status in ("failed", "passed", "not applicable")
            if (number := sum(result.status == status for result in self.results))
        ]
        shown = self.results if verbose and not self.unchecked else self.failed
        lines = [f"{self.kind} {self.name}: {', '.join(counts)}"]
        if self.unchecked:
            lines.append(f"  nothing was checked: {self.unchecked}")
        lines += ["  " + str(result).replace("\n", "\n  ") for result in shown]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def raise_if_failed(self) -> None:
        """Raise `AssertionError` with every failure, or why nothing was checked, for use in a test."""
        if not self.ok:
            raise AssertionError(str(self))

    def as_dict(self) -> dict[str, Any]:
        """The results as plain data."""
        return {
            "kind": self.kind,
            "name": self.name,
            "ok": self.ok,
            "checks": [
                {"check": r.check.name, "status": r.status, "message": r.message, "where": r.where}
                | ({"means": r.check.means, "fix": r.check.fix} if r.status == "failed" else {})
                for r in self.results
            ],
        }


@dataclass
class Checker:
    """Runs checks on one case, each once, and those it stands on before it."""

    kind: str
    name: str
    checks: Sequence[Check]
    case: Any
    known: dict[str, CheckResult] = field(default_factory=dict)

    def result(self, name: str) -> CheckResult:
        """The result of one check."""
        if name not in self.known:
            check = next(check for check in self.checks if check.name == name)
            self.known[name] = self._run(check)
        return self.known[name]

    def report(self) -> Report:
        """The results of all checks."""
        return Report(self.kind, self.name, tuple(self.result(check.name) for check in self.checks))

    def _run(self, check: Check) -> CheckResult:
        for name in check.after:
            before = self.result(name)
            if before.status == "failed" or before.message.startswith(_WAITS):
                return CheckResult(check, "not applicable", f"{_WAITS} {name!r} to pass")
        try:
            with random_state_restored(), one_thread():
                note = check.run(self.case)
        except Failed as failed:
            return CheckResult(check, "failed", str(failed), failed.where)
        except (NotApplicable, Skip) as reason:
            return CheckResult(check, "not applicable", str(reason))
        except (Exception, SystemExit) as error:
            return CheckResult(check, "failed", f"it raised {describe(error)}", place_of_error(error))
        return CheckResult(check, "passed", note or "")


_WAITS = "waits for"


@contextmanager
def one_thread() -> Iterator[None]:
    """Small models are fastest, and exactly repeatable, with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def random_states() -> dict[str, Any]:
    """The global random states, by the module they belong to."""
    return {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "random": random.getstate()}


def states_that_differ(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The modules whose random state moved. Python's own does not count: runtime type checkers draw from it."""
    same = {
        "torch": torch.equal(before["torch"], after["torch"]),
        "numpy": all(np.array_equal(a, b) for a, b in zip(before["numpy"], after["numpy"], strict=True)),
    }
    return [name for name, equal in same.items() if not equal]


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal, NaN (no target) included."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


def move_random_states() -> None:
    """Draw once from each global random state."""
    torch.rand(1)
    np.random.rand()
    random.random()
