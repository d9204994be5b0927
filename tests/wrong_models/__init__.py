"""Models with one mistake each, by the module of `harness/testing/models/` whose checks catch them, and beside them the
right ones that a careless check would take for wrong."""

from wrong_models import causality, hardware, observable, outputs, weights

CAUGHT = [*outputs.CAUGHT, *causality.CAUGHT, *weights.CAUGHT, *observable.CAUGHT, *hardware.CAUGHT]
"""Each of them, the check that catches it, and what that says."""
