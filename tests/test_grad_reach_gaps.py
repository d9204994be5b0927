"""Where gradient reach has no number, or the loss no gradient, or the task no marks: what is said instead."""

import math
from dataclasses import replace

import pytest
import torch
from harness_plugins.tasks.recall import VOCABULARY, Recall
from measured import curve, scalar
from reaching import Decaying, Unmarked, measure, reach
from torch import Tensor, nn

from harness import Batch, Condition, Skip
from harness.measurements import Curve


class Confident(nn.Module):
    """The cue's logit is m and all others differ by little: right by a margin of m, from any distance."""

    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin = margin
        self.embedding = nn.Embedding(VOCABULARY, VOCABULARY)
        self.embedding.weight.data = torch.eye(VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.embedding(tokens)
        return self.margin * x[:, :1] + x.cumsum(1) / 100


class OwnLoss(Recall):
    """The usual loss, written by hand."""

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return nn.functional.cross_entropy(outputs.flatten(0, 1), batch.targets.flatten())


@pytest.mark.parametrize("margin", [1.0, 30.0, 1e3, 1e6])
def test_the_direction_of_the_loss_survives_any_confidence(margin: float) -> None:
    """The margin times nearly the whole unit vector: finite, and the same per unit of margin, however large that is."""
    found = measure(Confident(margin), Recall(distances=[1, 5]))
    assert curve(found, "along_loss") == pytest.approx([margin] * 2, rel=0.02)
    assert "without_loss_gradient" not in found


def test_a_loss_of_the_task_s_own_is_followed_until_it_has_no_gradient() -> None:
    """The same numbers; NaN and the number of examples where float64 has nothing left of it."""
    for margin in (1.0, 10.0):
        model = Confident(margin)
        ours, theirs = (measure(model, task) for task in (Recall(distances=[1, 5]), OwnLoss(distances=[1, 5])))
        assert curve(theirs, "along_loss") == pytest.approx(curve(ours, "along_loss"), rel=1e-3)
    for margin in (50.0, 1e3):
        found = measure(Confident(margin), OwnLoss(distances=[1, 5]))
        assert all(map(math.isnan, curve(found, "along_loss")))
        assert scalar(found, "without_loss_gradient").value == 2 * 32
        assert curve(found, "cue_gradient")[0] > 0


def test_a_model_that_ignores_the_query_has_no_reach_and_is_said_to() -> None:
    """NaN, with the reason in words; the size itself is there."""

    class Ignoring(Decaying):
        def forward(self, tokens: Tensor) -> Tensor:
            embedded: Tensor = self.embedding(tokens)
            return super().forward(tokens) - embedded

    found = reach(Ignoring(0.5))
    assert all(map(math.isnan, curve(found, "reach")))
    assert curve(found, "cue_gradient")[0] > 0
    own = scalar(found, "query_gradient")
    assert own.value == 0
    assert own.headline
    assert own.verdict == "no reach: the answer has no gradient at the query's own token"
    assert not scalar(reach(Decaying(0.5)), "query_gradient").headline


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_outputs_that_are_no_numbers_have_no_size(bad: float) -> None:
    """At one distance: no number there, and none for the whole curve."""

    class Failing(Decaying):
        def forward(self, tokens: Tensor) -> Tensor:
            outputs = super().forward(tokens)
            return outputs + torch.full((), bad) if outputs.shape[1] == 12 else outputs

    found = reach(Failing(0.9), [1, 5, 10, 20, 50])
    for name in ("reach", "cue_gradient", "along_loss"):
        assert [math.isnan(y) for y in curve(found, name)] == [False, False, True, False, False]
    for name in ("per_step_factor", "below_1_percent"):
        assert math.isnan(scalar(found, name).value)
        assert scalar(found, name).verdict == "no number at 10"
    assert math.isnan(scalar(found, "query_gradient").value)


def test_a_task_without_marks_is_read_at_its_ends_and_says_so() -> None:
    """First and last token."""
    found = measure(Decaying(0.5), Unmarked())
    assert curve(found, "reach") == pytest.approx([0.5**6])
    labels = [found[name].y_label for name in ("cue_gradient", "reach", "along_loss")]  # type: ignore[union-attr]
    assert labels == [
        "gradient at the first token",
        "gradient at the first token / at the last token",
        "gradient along the loss at the first token",
    ]


class PartlyMarked(Recall):
    """No example is marked at distance 1, and every other one at the rest; some queries are before their cue."""

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        batch = super().evaluate(condition, examples, generator)
        assert batch.cue is not None
        assert batch.query is not None
        unmarked = (torch.arange(len(batch)) % 2 == 1) | (condition.x == 1)
        query = torch.where(torch.arange(len(batch)) == 0, 0, batch.query)
        cue = torch.where(torch.arange(len(batch)) == 0, 1, batch.cue)
        return replace(batch, cue=cue.masked_fill(unmarked, -1), query=query)


def test_examples_without_marks_are_left_out() -> None:
    """Their number is said, a condition without any is missing, and the others' numbers are right."""
    found = measure(Decaying(0.5), PartlyMarked(distances=[1, 5, 10]))
    assert curve(found, "reach") == pytest.approx([0.5**6, 0.5**11])
    used = found["examples_used"]
    assert isinstance(used, Curve)
    assert (used.x, used.y, used.headline) == ([5, 10], [15, 15], True)
    assert "examples_used" not in reach(Decaying(0.5))
    with pytest.raises(Skip, match="no example has a cue and a query"):
        measure(Decaying(0.5), PartlyMarked(distances=[1]))
