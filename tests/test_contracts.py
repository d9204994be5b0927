"""What the contract itself computes: marked examples, standard errors, losses of real-valued targets."""

import math

import pytest
import torch
from torch import nn

from harness import Batch, Condition, Interface, Metric, Task
from harness.examples import standard_error
from harness.subject import Subject


class Marked(Task):
    """Six examples of which some are marked, as cues and queries say."""

    interface = Interface(5, 5)
    metrics = {"accuracy": Metric("share", chance=0.2, best=1.0)}  # noqa: RUF012 - as an author writes it
    cues = (0, -1, 2, 3, 1, 0)
    queries = (3, 3, 3, 1, -1, 0)

    def conditions(self) -> list[Condition]:
        return [Condition(4, inside=True)]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        tokens = torch.arange(6)[:, None].expand(6, 4) % 5
        mask = torch.ones_like(tokens, dtype=torch.bool)
        return Batch(tokens, tokens, mask, torch.tensor(self.cues), torch.tensor(self.queries))


def subject(task: Task) -> Subject:
    return Subject(nn.Identity(), task, stage="trained", seed=0, device=torch.device("cpu"))


def test_marked_examples_have_a_cue_and_a_query_not_before_it() -> None:
    """Of six, one has no cue, one no query, one its query before its cue."""
    (condition,) = Marked().conditions()
    found = subject(Marked()).marked(condition)
    assert found is not None
    assert found.tokens[:, 0].tolist() == [0, 2, 0]
    assert found.cue is not None
    assert found.cue.tolist() == [0, 2, 0]
    few = subject(Marked()).marked(condition, 2)
    assert few is not None
    assert len(few) == 2


def test_without_marked_examples_there_is_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a probe cannot measure an empty one."""
    monkeypatch.setattr(Marked, "cues", (-1,) * 6)
    (condition,) = Marked().conditions()
    assert subject(Marked()).marked(condition) is None


def test_the_standard_error_is_that_of_the_mean() -> None:
    """Of 0, 1, 2, 3: the sample's standard deviation, 1.290994, over the root of 4."""
    values = torch.tensor([0.0, 1.0, 2.0, 3.0])
    assert standard_error(values) == pytest.approx(1.2909944487358056 / 2)
    assert standard_error(values, torch.full((4,), 7.0)) == pytest.approx(1.2909944487358056 / 2)
    assert standard_error(values[:1]) == math.inf  # one example tells nothing of the others
    assert math.isnan(standard_error(values[:0]))
    assert math.isnan(standard_error(torch.tensor([1.0, math.nan])))


def test_an_example_without_weight_changes_no_mean_and_little_error() -> None:
    """By hand: weights 1/2, 1/2, 0 of 0, 2, 100: sqrt((1/4 + 1/4) * 3/2)."""
    error = standard_error(torch.tensor([0.0, 2.0, 100.0]), torch.tensor([1.0, 1.0, 0.0]))
    assert error == pytest.approx(math.sqrt(0.75))


def test_ten_right_answers_of_ten_are_not_certainty() -> None:
    """Twelve of fourteen after Agresti and Coull, by hand; and hardly a change where there are many."""
    error = standard_error(torch.ones(10), share=True)
    assert error == pytest.approx(math.sqrt(12 / 14 * 2 / 14 / 13))
    assert standard_error(torch.ones(512), share=True) < 0.005


def test_no_difference_in_ten_is_not_certainty() -> None:
    """Two of twelve differ after Bonett and Price, one each way, by hand; and hardly a change where there are many."""
    assert standard_error(torch.zeros(10), gap=True) == pytest.approx(math.sqrt(2 / 12 / 11))
    many = torch.tensor([1.0, -1.0, 0.0, 0.0]).repeat(128)
    assert standard_error(many, gap=True) == pytest.approx(standard_error(many), rel=0.01)


def test_metrics_that_are_no_means_have_no_standard_error() -> None:
    """A metric that `summarise` makes in another way has no number per example."""
    task = Marked()
    task.metrics = {**task.metrics, "bits": Metric("bits")}
    found = task.standard_errors({"accuracy": torch.tensor([0.0, 1.0, 1.0, 1.0])})
    assert found["accuracy"] > 0
    assert math.isnan(found["bits"])


def test_real_targets_that_are_nan_are_no_targets() -> None:
    """The mean square over the two that are there: (1 + 9) / 2."""
    task = Marked()
    task.interface = Interface(1, 1, input="vectors", output="numbers")
    targets = torch.tensor([[[math.nan], [1.0], [3.0]]])
    batch = Batch(torch.zeros(1, 3, 1), targets, torch.ones(1, 3, dtype=torch.bool))
    outputs = torch.tensor([[[5.0], [0.0], [0.0]]], requires_grad=True)
    loss = task.loss(outputs, batch)
    assert loss.item() == 5.0
    loss.backward()
    assert outputs.grad is not None
    assert outputs.grad.isfinite().all()


def test_the_first_marked_examples_are_the_marked_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there are more of them than are asked for, behind some that are not marked."""
    monkeypatch.setattr(Marked, "cues", (-1, -1, 2, 1, 1, 0))
    monkeypatch.setattr(Marked, "queries", (3, 3, 3, 3, 3, 3))
    (condition,) = Marked().conditions()
    few = subject(Marked()).marked(condition, 2)
    assert few is not None
    assert few.cue is not None
    assert few.cue.tolist() == [2, 1]


def test_what_a_model_cannot_take_is_not_marked() -> None:
    """As far as it says so."""
    (condition,) = Marked().conditions()
    whole = subject(Marked())
    whole.model.max_length = 3  # type: ignore[assignment]
    assert whole.marked(condition) is None
    whole.model.max_length = 4  # type: ignore[assignment]
    assert whole.marked(condition) is not None
