"""What every task should do."""

from harness.testing import declarations
from harness.testing.case import PluginLike, as_definition
from harness.testing.checks import checks_in
from harness.testing.results import CheckReport
from harness.testing.running import Checker
from harness.testing.tasks import batches, marks, scores, streams
from harness.testing.tasks.case import TaskCase

TASK_CHECKS = checks_in(declarations, batches, marks, streams, scores)
"""All checks of a task, in the order of the report."""


def check_task(task: PluginLike) -> CheckReport:
    """Check a task: a registered name with or without arguments, a file (`./copy.py:Copy`) or a class."""
    return task_checker(task).report()


def task_checker(task: PluginLike) -> Checker:
    """The checks of a task, ready to run."""
    return Checker("task", TASK_CHECKS, TaskCase(*as_definition("task", task)))
