"""What every model should do."""

from harness.batches import Interface
from harness.contracts import Task
from harness.examples import seeded
from harness.testing import declarations
from harness.testing.case import PluginLike, as_definition
from harness.testing.checks import checks_in
from harness.testing.models import causality, hardware, observable, outputs, weights
from harness.testing.models.case import ModelCase
from harness.testing.results import CheckReport
from harness.testing.running import Checker

MODEL_CHECKS = checks_in(declarations, outputs, causality, weights, observable, hardware)
"""All checks of a model, in the order of the report."""


def check_model(model: PluginLike, *, interface: Interface | None = None, task: Task | None = None) -> CheckReport:
    """Check a model: a registered name with or without arguments, a file (`./gru.py:GRU`) or a class.

    Args:
        model: what to check.
        interface: what to build it for, if a small vocabulary (or that of its own tokenizer) will not do.
        task: what it is for: its interface, and its lengths beside the usual ones.
    """
    return model_checker(model, interface, task).report()


def model_checker(model: PluginLike, interface: Interface | None = None, task: Task | None = None) -> Checker:
    """The checks of a model, ready to run."""
    definition, request = as_definition("model", model)
    lengths: tuple[int, ...] = ()
    if task is not None:
        interface = interface or task.interface
        batches = (task.evaluate(each, 2, seeded("test", 0, str(each))) for each in task.conditions())
        lengths = tuple(batch.tokens.shape[1] for batch in batches)
    return Checker("model", MODEL_CHECKS, ModelCase(definition, request, interface, lengths))
