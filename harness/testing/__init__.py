"""Conformance checks for plugins: what every model, task and probe should do, checked on yours.

In the tests of a plugin:

    from harness.testing import check_model, conformance

    check_model("acme-gru").raise_if_failed()          # or a class, or "./gru.py:GRU"

    @conformance("model", "acme-gru")                  # or one pytest test for each check
    def test_conforms(check):
        check()
"""

from harness.testing.as_tests import conformance
from harness.testing.checks import Check, Failed, NotApplicable
from harness.testing.models import MODEL_CHECKS, check_model
from harness.testing.probes import PROBE_CHECKS, check_probe
from harness.testing.results import CheckReport, CheckResult
from harness.testing.tasks import TASK_CHECKS, check_task

__all__ = [
    "MODEL_CHECKS",
    "PROBE_CHECKS",
    "TASK_CHECKS",
    "Check",
    "CheckReport",
    "CheckResult",
    "Failed",
    "NotApplicable",
    "check_model",
    "check_probe",
    "check_task",
    "conformance",
]
