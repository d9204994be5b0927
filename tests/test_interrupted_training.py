"""A training that was interrupted ends as if it had not been, bit for bit."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness_plugins.tasks.farm_agreement import FarmAgreement
from harness_plugins.tasks.recall import Recall
from interrupted import CPU, MODELS, Kept, Killed, fit, fit_with_breaks
from torch import Tensor

from harness import Batch, Task
from harness.partial import State
from harness.schema import Training
from harness.training import train

TASKS: dict[str, tuple[Callable[[], Task], dict[str, Any]]] = {
    "endless": (Recall, {"optimizer": "adamw", "weight_decay": 0.1, "warmup": 20, "schedule": "cosine"}),
    "epochs": (
        lambda: FarmAgreement(sentences=30),
        {"optimizer": "adam", "steps": None, "epochs": 5, "weight_decay": 0.01, "clip": None, "schedule": "linear"},
    ),
    "early stop": (Recall, {"optimizer": "adam", "lr": 0.1, "patience": 2, "validate_every": 3, "warmup": 5}),
}

TRAININGS = [(model, task) for model in MODELS for task in TASKS]

TYPICAL = [("elman", "endless"), ("gru", "epochs"), ("lstm", "early stop"), *(("gpt", task) for task in TASKS)]


@pytest.mark.parametrize(
    ("model", "task"),
    [pytest.param(*each, marks=() if each in TYPICAL else pytest.mark.slow) for each in TRAININGS],
)
def test_an_interrupted_training_ends_as_if_it_had_not_been(model: str, task: str) -> None:
    """Bit for bit: parameters, learning curve and random states; with dropout, in the midst of a warm-up, of an epoch,
    between two looks and with a best model before; wherever it ends and whenever it was kept before."""
    built, settings = TASKS[task]
    whole = fit(MODELS[model], built, **settings)
    assert fit(MODELS[model], built, Kept(every=5), **settings) == whole  # to be kept disturbs nothing
    for every, ends in ((4, 13), (7, 32)):
        assert fit_with_breaks(Kept(every), MODELS[model], built, ends=ends, **settings) == whole


@pytest.mark.parametrize("model", ["elman", "lstm"])
def test_so_does_one_with_truncated_back_propagation(model: str) -> None:
    """With dropout, which draws for each chunk."""
    whole = fit(MODELS[model], Recall, truncate=3, schedule="linear")
    assert whole != fit(MODELS[model], Recall, schedule="linear")
    assert fit_with_breaks(Kept(every=4), MODELS[model], Recall, ends=13, truncate=3, schedule="linear") == whole


def test_an_error_in_between_is_an_end_like_any_other() -> None:
    """The last step that was kept counts, and progress goes on from its share."""
    whole, keeper = fit(MODELS["gpt"], Recall), Kept(every=3)
    shares: list[float] = []

    def progress(share: float) -> None:
        shares.append(share)
        if share == 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(MODELS["gpt"], Recall, keeper, progress)
    shares.clear()
    assert fit(MODELS["gpt"], Recall, keeper, shares.append) == whole
    assert shares[0] == 18 / 40
    assert shares == sorted(shares)


def test_seconds_are_those_of_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of training alone: not of keeping it, nor of the steps that were lost."""
    now = 0.0

    class Slow(Kept):
        def save(self, state: State) -> None:
            nonlocal now
            now += 1000.0
            super().save(state)

    class Timed(Recall):
        def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
            nonlocal now
            now += 1.0 if torch.is_grad_enabled() else 0.0
            return super().loss(outputs, batch)

    monkeypatch.setattr("time.perf_counter", lambda: now)
    settings, keeper = Training(steps=40, batch_size=4), Slow(every=10, ends=25)
    with pytest.raises(Killed):
        train(MODELS["gru"](), Timed(), settings, 0, CPU, keeper=keeper)
    now += 500.0
    assert train(MODELS["gru"](), Timed(), settings, 0, CPU, keeper=keeper).trained.seconds == 40
