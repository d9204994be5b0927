"""The kinds of plugins that are checked, with their checks."""

from collections.abc import Callable

from harness.testing.checks import Check
from harness.testing.models import MODEL_CHECKS, model_checker
from harness.testing.probes import PROBE_CHECKS, probe_checker
from harness.testing.running import Checker
from harness.testing.tasks import TASK_CHECKS, task_checker

CHECKS: dict[str, tuple[Check, ...]] = {"model": MODEL_CHECKS, "task": TASK_CHECKS, "probe": PROBE_CHECKS}
CHECKERS: dict[str, Callable[..., Checker]] = {"model": model_checker, "task": task_checker, "probe": probe_checker}
