"""What checks found, and how it reads."""

from dataclasses import dataclass
from typing import Any, Literal

from harness.testing.checks import Check

CheckStatus = Literal["passed", "failed", "not applicable"]
Key = tuple[str, str]
"""Of a plugin: its kind, and the name by which it was asked for."""


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
    status: CheckStatus
    message: str = ""
    where: str = ""

    def __str__(self) -> str:
        line = f"{self.status}: {self.check.name}" + (f": {self.message}" if self.message else "")
        if self.status != "failed":
            return line
        where = f"\n  where: {self.where}" if self.where else ""
        return f"{line}{where}\n  means: {self.check.means}\n  fix:   {self.check.fix}"


@dataclass(frozen=True)
class CheckReport:
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
        reasons = (result.message for result in self.results if result.status == "not applicable" and result.message)
        return "; ".join(dict.fromkeys(reasons)) or "no check of it at work applies"

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
