"""The adding problem and what padding does to a model that reads it."""

import math
from typing import Any

import pytest
import torch
from harness_plugins.probes.padding import Padding
from harness_plugins.tasks.adding import Adding
from torch import Tensor, nn

from harness import Batch, Curve, Interface, RequestError, Scalar, Skip, Subject, run
from harness.examples import seeded


def batches(**arguments: object) -> Batch:
    task = Adding(**arguments)  # type: ignore[arg-type]
    return next(task.train(20_000, seeded("adding")))


def test_the_best_constant_has_an_error_of_a_sixth() -> None:
    """Computed from the numbers' range, and found in the data."""
    task = Adding()
    assert task.metrics["mse"].chance == pytest.approx(1 / 6, abs=1e-15)
    batch = batches()
    answers = batch.targets[~batch.targets.isnan()]
    assert len(answers) == len(batch)
    assert (answers - 1).square().mean().item() == pytest.approx(1 / 6, rel=0.03)


def test_two_numbers_are_marked_one_in_each_half_and_their_sum_is_asked_for() -> None:
    batch = batches(length=9, min_length=2, padding=3)
    numbers, marks = batch.tokens.unbind(-1)
    lengths = batch.mask.sum(1)
    assert set(lengths.tolist()) == set(range(2, 10))
    assert batch.tokens.shape[1] == 12
    assert (marks.sum(1) == 2).all()
    assert not batch.tokens[~batch.mask].any()
    places = marks.nonzero()[:, 1].reshape(-1, 2)
    assert (places[:, 0] < lengths // 2).all()
    assert ((places[:, 1] >= lengths // 2) & (places[:, 1] < lengths)).all()
    rows = torch.arange(len(batch))
    assert torch.equal(batch.query, lengths - 1)  # type: ignore[arg-type]
    assert torch.equal(batch.targets[rows, lengths - 1, 0], (numbers * marks).sum(1))
    end = batches(length=9, min_length=2, padding=3, answer="end")
    assert not end.targets[:, -1].isnan().any()


class Summing(nn.Module):
    """Adds up what is marked; after the end it forgets a share of it at each step."""

    def __init__(self, keeps: float) -> None:
        super().__init__()
        self.keeps = keeps

    def forward(self, x: Tensor) -> Tensor:
        total, outputs = torch.zeros(len(x)), []
        for step in x.unbind(1):
            padding = (step == 0).all(1)
            total = torch.where(padding, self.keeps * total, total + step[:, 0] * step[:, 1])
            outputs.append(total)
        return torch.stack(outputs, 1)[:, :, None]


def measured(model: nn.Module) -> dict[str, Curve | Scalar]:
    subject = Subject(model, Adding(length=8), stage="trained", seed=0, device=torch.device("cpu"), examples=64)
    return {each.name: each for each in Padding(steps=[1, 20])(subject)}


def test_padding_pollutes_what_is_read_after_it_alone() -> None:
    forgetting, keeping = measured(Summing(0.5)), measured(Summing(1.0))
    for found in (forgetting, keeping):
        gathered = found["score_gathered"]
        assert isinstance(gathered, Curve)
        assert gathered.x == [0.0, 1.0, 20.0]
        assert max(gathered.y) < 1e-12
    curve, worst = forgetting["score_padded"], forgetting["worst_padded"]
    assert isinstance(curve, Curve)
    assert isinstance(worst, Scalar)
    assert curve.y[0] < 1e-12
    assert curve.y[2] > 0.5
    assert worst.value == curve.y[2]
    assert worst.verdict == "polluted"
    unmoved = keeping["worst_padded"]
    assert isinstance(unmoved, Scalar)
    assert unmoved.verdict == "not polluted"


def test_padding_is_judged_by_what_was_read_after_it() -> None:
    """Also where the task has padded already; a length that the model does not take tells nothing."""
    padded = Subject(
        Summing(0.5), Adding(length=8, padding=20), stage="trained", seed=0, device=torch.device("cpu"), examples=64
    )
    found = {each.name: each for each in Padding(steps=[1])(padded)}["worst_padded"]
    assert isinstance(found, Scalar)
    assert found.verdict == "polluted"
    short: Any = Summing(1.0)
    short.max_length = 8
    unread = measured(short)["worst_padded"]
    assert isinstance(unread, Scalar)
    assert math.isnan(unread.value)
    assert unread.verdict is None


def test_without_a_padding_token_nothing_can_be_appended() -> None:
    from harness_plugins.tasks.recall import Recall

    model = nn.Embedding(18, 18)
    subject = Subject(model, Recall(), stage="trained", seed=0, device=torch.device("cpu"), examples=64)
    with pytest.raises(Skip, match="no padding token is known"):
        list(Padding()(subject))


@pytest.mark.parametrize("model", ["elman:activation=identity", "lstm:peephole=true", "gru:reset=before", "gpt"])
def test_models_take_vectors_and_give_numbers(model: str) -> None:
    results = run(
        models=[model],
        tasks=["adding:length=6,min_length=3"],
        probes=["accuracy", "padding:steps=[2]"],
        seeds=1,
        training={"steps": 2, "batch_size": 4},
        examples=8,
    )
    assert {record.status for record in results.records} == {"ok"}, [r.error for r in results.records]


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(RequestError, match="min_length = 40 is larger than length = 30"):
        run(models=["lstm"], tasks=["adding:min_length=40"], probes=["accuracy"])
    assert Interface(2, 1, input="vectors", output="numbers") == Adding.interface
