"""Models that learn in their own way: from training batches, without gradient steps of the harness."""

import math
import time
from collections.abc import Callable, Iterator
from itertools import islice

import torch
from torch import nn

from harness.batches import Batch
from harness.contracts import Task
from harness.errors import DivergedError
from harness.examples import seeded
from harness.offers import OffersFit
from harness.schema import Trained, Training
from harness.training import VALIDATION_BATCHES, Outcome, fitting_batches, untrained, validate


def fit(
    model: nn.Module,
    task: Task,
    training: Training,
    seed: int,
    device: torch.device,
    progress: Callable[[float], None] = lambda share: None,
) -> Outcome:
    """Let a model learn in its own way (`OffersFit`), from the batches that `train` would take steps on; of a finite
    set from one pass at most.

    In the outcome, `steps` are the batches that it took, and `loss` is that of the first of them.

    Args:
        model: on `device`; left in training mode.
        task: gives training batches and the loss.
        training: how many batches, and of which size; the other settings have no meaning here.
        seed: decides data and order.
        device: where the model is.
        progress: called with the share of the batches that were taken.

    Raises:
        DivergedError: the loss afterwards is NaN.
    """
    assert isinstance(model, OffersFit)
    if (most := fitting_batches(training, task)) == 0:
        return untrained()
    batches = islice(task.train(training.batch_size, seeded("train", seed)), most)
    first: list[Batch] = []
    taken = 0

    def stream() -> Iterator[Batch]:
        nonlocal taken
        for batch in batches:
            taken += 1
            progress(taken / most)
            batch = batch.to(device)
            if len(first) < VALIDATION_BATCHES:
                first.append(batch.copy())
            yield batch

    model.train()
    started = time.perf_counter()
    model.fit(stream())
    seconds = time.perf_counter() - started
    fresh = islice(task.validation(training.batch_size, seeded("validation", seed)), VALIDATION_BATCHES)
    loss = validate(model, task, first) if first else math.nan
    validation_loss = validate(model, task, [batch.to(device) for batch in fresh])
    if math.isnan(validation_loss) or (first and math.isnan(loss)):
        raise DivergedError(f"after being fitted to {taken} batches the model's loss is NaN")
    trained = Trained(
        steps=taken,
        stopped="budget" if taken == most else "early stop",
        fitted=True,
        loss=loss,
        validation_loss=validation_loss,
        seconds=seconds,
    )
    return Outcome(trained, [{"step": taken, "loss": loss, "validation_loss": validation_loss}])
