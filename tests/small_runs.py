"""Runs of a few steps, and what tests compare of their records."""

from pathlib import Path
from typing import Any

from conftest import SHORT, SMALL

import harness
from harness.results import Results
from harness.schema import Record

MODEL = """
    import torch
    from torch import nn

    class M(nn.Module):
        def __init__(self, vocab_size: int) -> None:
            super().__init__()
            {construct}
            self.embedding = nn.Embedding(vocab_size, 8)
            self.out = nn.Linear(8, vocab_size)

        def forward(self, tokens):
            logits = self.out(self.embedding(tokens).cumsum(1))
            {forward}
            return logits
"""
"""A model that breaks where it is told to: being constructed, or in its forward pass."""

IN_PROCESSES: dict[str, Any] = {
    "seeds": 1,
    "training": {"steps": 2, "batch_size": 4},
    "examples": 8,
    "executor": "processes",
}
"""Settings of a run of a few steps whose trials have a process each."""


def run(models: list[str], out: Path, **more: Any) -> Results:
    """One seed, unless told otherwise."""
    settings: dict[str, Any] = {"tasks": [SHORT], "seeds": 1, "training": SMALL, "examples": 64} | more
    return harness.run(models, out=out, **settings)


def numbers(record: Record) -> str:
    """The measurements as they are written; unlike floats, equal where both are NaN."""
    return record.model_dump_json(include={"measurements"})


def statuses(results: Any) -> list[str]:
    """`ok`, `skipped` or `failed`, for each record."""
    return [record.status for record in results]
