"""What every probe should do."""

from torch import nn

from harness.contracts import Task
from harness.testing import declarations
from harness.testing.case import PluginLike, as_definition
from harness.testing.checks import checks_in
from harness.testing.probes import conduct, measurements
from harness.testing.probes.case import ProbeCase
from harness.testing.results import CheckReport
from harness.testing.running import Checker

PROBE_CHECKS = (declarations.arguments, *checks_in(measurements, conduct))
"""All checks of a probe, in the order of the report."""


def check_probe(probe: PluginLike, *, model: nn.Module | None = None, task: Task | None = None) -> CheckReport:
    """Check a probe: a registered name with or without arguments, a file (`./p.py:probe`), a function or a class.

    Args:
        probe: what to check.
        model: what it measures, if a small attention model will not do (for example since it needs gates).
        task: on which task, if a small one with cue, query, roles and several distances will not do.
    """
    return probe_checker(probe, model, task).report()


def probe_checker(probe: PluginLike, model: nn.Module | None = None, task: Task | None = None) -> Checker:
    """The checks of a probe, ready to run."""
    return Checker("probe", PROBE_CHECKS, ProbeCase(*as_definition("probe", probe), model, task))
