"""Run a probe on a model and read what it found."""

from collections.abc import Callable
from typing import Any

import torch
from harness_plugins.tasks.recall import Recall
from torch import nn

from harness import Task
from harness.measurements import Curve, Matrix, Measurement, Scalar
from harness.subject import Subject

Found = dict[str, Measurement]


def measure(
    probe: Callable[[Subject], Any],
    model: nn.Module,
    task: Task | None = None,
    examples: int = 64,
    budget: float = 1.0,
) -> Found:
    """The probe's measurements by name; on recall at four distances, unless another task is given."""
    task, device = task or Recall(distances=[2, 5, 10, 40]), torch.device("cpu")
    subject = Subject(model.eval(), task, stage="trained", seed=0, device=device, examples=examples, budget=budget)
    return {measurement.name: measurement for measurement in probe(subject)}


def scalar(found: Found, name: str) -> Scalar:
    measurement = found[name]
    assert isinstance(measurement, Scalar)
    return measurement


def value(found: Found, name: str) -> float:
    return scalar(found, name).value


def curve(found: Found, name: str) -> list[float]:
    measurement = found[name]
    assert isinstance(measurement, Curve)
    return measurement.y


def cell(found: Found, name: str, row: str, column: str) -> float:
    matrix = found[name]
    assert isinstance(matrix, Matrix)
    return matrix.values[matrix.rows.index(row)][matrix.columns.index(column)]


def column(found: Found, name: str, label: str) -> list[float]:
    """A column of a matrix, without the first row."""
    matrix = found[name]
    assert isinstance(matrix, Matrix)
    return [row[matrix.columns.index(label)] for row in matrix.values[1:]]
