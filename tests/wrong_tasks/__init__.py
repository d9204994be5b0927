"""Tasks with one mistake each, by the module of `harness/testing/tasks/` whose checks catch them, and beside them the
right ones that a careless check would take for wrong."""

from wrong_tasks import adding, batches, marks, scores, streams

CAUGHT = [*batches.CAUGHT, *marks.CAUGHT, *streams.CAUGHT, *scores.CAUGHT, *adding.CAUGHT]
"""Each of them, the check that catches it, and what that says."""
