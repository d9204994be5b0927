"""Grids of learning rates for tests, and what is said of the records of their cells."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from harness.report.learnability import Learnability, learnability
from harness.schema import Record
from harness.suites import Suite

GOOD, BAD = (1.0, 0.1), (0.2, 2.0)
"""Score and validation loss of a seed that learned, and of one that did not."""

DIVERGED: dict[str, Any] = {"failed": "the loss is NaN", "error": "DivergedError"}
"""What a record says of a seed whose loss became NaN."""


def suite(default: float = 1e-3, **more: Any) -> Suite:
    """A grid of three learning rates, of which one is the default."""
    return Suite.model_validate(
        {
            "grid": {"lr": [1e-4, 1e-3, 1e-2]},
            "experiments": [{"models": ["lstm"]}],
            "defaults": [{"model": "lstm", "task": "recall", "training": {"lr": default}}],
            **more,
        }
    )


def said(records: list[Record], **more: Any) -> Learnability:
    """Of the one model that the records are of."""
    (found,) = learnability(records, suite(**more))
    return found


def edited(records: Sequence[Record]) -> list[Record]:
    """What the model's code gave an hour later, when it had been changed."""
    hour = timedelta(hours=1)
    return [
        r.model_copy(
            update={
                "model": r.model.model_copy(update={"digest": "edited"}),
                "provenance": r.provenance.model_copy(update={"finished": r.provenance.finished + hour}),
            }
        )
        for r in records
    ]
