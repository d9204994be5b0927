"""The one training loop. It never looks at which task or model it trains: the task owns data, loss and score."""

import copy
import inspect
import math
import time
from collections.abc import Callable
from functools import cache
from itertools import islice
from statistics import median
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from harness.batches import Batch
from harness.checkpoints import make_room
from harness.contracts import Task
from harness.errors import DivergedError, PluginError
from harness.examples import seeded
from harness.inventory import Course, Inventory
from harness.partial import Keeper
from harness.schema import Trained, Training
from harness.truncation import Truncated

VALIDATION_BATCHES = 4
"""The validation loss is the mean over this many batches drawn once, from a stream of their own."""

Stopped = Literal["budget", "early stop"]
"""Why a training ended."""

REMEDY = "try a smaller learning rate (--training lr=...), gradient clipping or warm-up"


class Outcome(NamedTuple):
    """What `train` gives back."""

    trained: Trained
    learning_curve: list[dict[str, float]]
    """At every look `step`, `loss` (mean since the last look), `validation_loss` and `gradient_norm` (median since the
    last look, before clipping)."""


def total_steps(training: Training, task: Task) -> int:
    """Optimiser steps of the whole training; the last batch of a pass over a finite set is a step, too, however small.

    Raises:
        PluginError: epochs are asked for, and the task's stream has no end.
    """
    if training.steps is not None:
        return training.steps
    if task.examples is None:
        raise PluginError(
            f"training asks for {training.epochs} epochs, but {type(task).__name__} has an endless training stream "
            "(its `examples` is None); give steps instead, for example --training steps=1000"
        )
    assert training.epochs is not None
    batches = math.ceil(task.examples / training.batch_size)
    # rounded first: 1.1 passes of 10 batches are 11 steps, and not 11.000000000000002
    return math.ceil(round(training.epochs * batches, 6))


def fitting_batches(training: Training, task: Task) -> int:
    """Batches that a model is fitted to (`OffersFit`): one for each step, but one pass over a finite set at most.

    Raises:
        PluginError: epochs are asked for, and the task's stream has no end.
    """
    steps = total_steps(training, task)
    return steps if task.examples is None else min(steps, math.ceil(task.examples / training.batch_size))


def untrained() -> Outcome:
    """Of a training of no steps."""
    return Outcome(Trained(steps=0, stopped="budget", loss=math.nan, validation_loss=math.nan, seconds=0.0), [])


def budget_share(trained: Trained, recommended: Training, task: Task) -> float:
    """Steps (or batches) taken, as a share of those that are recommended; 1 where the advice cannot be followed, as
    epochs of an endless stream cannot, and for a model that takes no batch since it has nothing to learn."""
    if trained.fitted and trained.steps == 0:
        return 1.0
    endless = recommended.epochs is not None and task.examples is None
    count = fitting_batches if trained.fitted else total_steps
    wanted = 0 if endless else count(recommended, task)
    return 1.0 if wanted == 0 else trained.steps / wanted


def train(
    model: nn.Module,
    task: Task,
    training: Training,
    seed: int,
    device: torch.device,
    progress: Callable[[float], None] = lambda fraction: None,
    keeper: Keeper | None = None,
) -> Outcome:
    """Train a model in place.

    Data comes from generators of the trial's own. Anything the model draws itself (dropout) comes from torch's global
    generator, which the caller seeds.

    Args:
        model: on `device`; left in training mode.
        task: gives training batches and the loss.
        training: the settings.
        seed: decides data and order.
        device: where to train.
        progress: called now and then with the share of the budget that is done.
        keeper: where training is kept on the way, and from where it goes on; nothing of the outcome depends on it, but
            `seconds`, which count all of training and no keeping.

    Raises:
        PluginError: there is nothing to train, or the settings have no meaning for this model or task.
        DivergedError: the loss became infinite or NaN; says at which step.
        CannotGoOnError: what was kept is not of this training; the model may be changed in part.
    """
    steps = total_steps(training, task)
    if steps == 0:
        return untrained()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise PluginError(f"{type(model).__name__} has no parameters to train; set --training steps=0")
    optimizer = _optimizer(parameters, training)
    generator = seeded("train", seed)
    stream = iter(task.train(training.batch_size, generator))
    validation = list(islice(task.validation(training.batch_size, seeded("validation", seed)), VALIDATION_BATCHES))
    validation = [batch.to(device) for batch in validation]
    compute = model if training.truncate is None else Truncated(model, training.truncate, validation)
    window = min(training.validate_every, steps)
    course = Course(torch.zeros(window, device=device), torch.zeros(window, device=device))
    stopped: Stopped = "budget"
    model.train()
    inventory = Inventory(model, task, optimizer, generator, device) if keeper else None
    if keeper and inventory and (kept := keeper.load()):
        inventory.restore(kept, course, stream)
        progress(course.step / steps)
    started = time.perf_counter() - course.seconds
    for step in range(course.step + 1, steps + 1):
        _set_learning_rate(optimizer, training, step, steps)
        batch = next(stream).to(device)
        loss, norm = _step(compute, task, batch, parameters, optimizer, training.clip)
        course.losses[(step - 1) % window], course.norms[(step - 1) % window] = loss, norm
        course.step = step
        if step % window == 0 or step == steps:
            _look(course, model, task, validation)
            progress(step / steps)
            if training.patience is not None and _worsens(course, model, training.patience):
                stopped = "early stop"
                break
        elif step % 10 == 0:
            progress(step / steps)
        if keeper and inventory and step < steps and keeper.due():
            course.seconds = time.perf_counter() - started
            if state := inventory.state(course, batch):
                keeper.save(state)
            else:
                keeper = None  # nor will it be possible later
            started = time.perf_counter() - course.seconds
    if course.best_state is not None:
        make_room(model, course.best_state, course.best_state.__getitem__)
        model.load_state_dict(course.best_state)
    course.seconds = time.perf_counter() - started
    return Outcome(_summary(course, stopped, training.clip), course.curve)


def _step(
    compute: Callable[[Tensor], Tensor],
    task: Task,
    batch: Batch,
    parameters: list[nn.Parameter],
    optimizer: torch.optim.Optimizer,
    clip: float | None,
) -> tuple[Tensor, Tensor]:
    """One step on one batch: the loss before it, and the norm of its gradient before clipping."""
    loss = task.loss(compute(batch.tokens), batch)
    for parameter in parameters:
        parameter.grad = None
    loss.backward()
    norm = _clip(parameters, clip)
    optimizer.step()
    return loss.detach(), norm


def _summary(course: Course, stopped: Stopped, clip: float | None) -> Trained:
    """What records say of a training that has ended."""
    last, norms = course.curve[-1], course.gradient_norms
    return Trained(
        steps=course.step,
        stopped=stopped,
        loss=last["loss"],
        validation_loss=last["validation_loss"] if course.best_state is None else course.best,
        seconds=course.seconds,
        gradient_norm_median=median(norms),
        gradient_norm_max=max(norms),
        clipped=None if clip is None else sum(norm > clip for norm in norms) / len(norms),
    )


def _look(course: Course, model: nn.Module, task: Task, validation: list[Batch]) -> None:
    """Write down losses and gradient norms at a step."""
    step = course.step
    since = slice((step - 1) % len(course.losses) + 1)
    losses, norms = course.losses[since], course.norms[since].tolist()
    _check_finite(losses, step)
    found = validate(model, task, validation)
    course.gradient_norms += norms
    course.curve.append(
        {"step": step, "loss": losses.mean().item(), "validation_loss": found, "gradient_norm": median(norms)}
    )
    if not math.isfinite(found):
        raise DivergedError(f"the validation loss became {found} at step {step}; {REMEDY}")


def _worsens(course: Course, model: nn.Module, patience: int) -> bool:
    """Keep the model if it is the best one until now; whether to stop since there was none for so many looks."""
    if course.curve[-1]["validation_loss"] < course.best:
        course.best, course.since_best = course.curve[-1]["validation_loss"], 0
        course.best_state = copy.deepcopy(model.state_dict())
    else:
        course.since_best += 1
    return course.since_best >= patience


def _optimizer(parameters: list[nn.Parameter], training: Training) -> torch.optim.Optimizer:
    kind = _lean(torch.optim.AdamW if training.optimizer == "adamw" else torch.optim.Adam)
    fused = all(parameter.is_floating_point() for parameter in parameters)  # PyTorch fuses no complex ones
    return kind(parameters, lr=training.lr, weight_decay=training.weight_decay, fused=fused)


@cache
def _lean(kind: type[torch.optim.Adam]) -> type[torch.optim.Adam]:
    """The same optimiser without the guards for PyTorch's compiler: they import it, which takes as long as importing
    all the rest of PyTorch (2 seconds and 75 MiB here) in every process that trains."""
    lean = {
        "step": torch.no_grad()(inspect.unwrap(kind.step)),
        **{name: inspect.unwrap(getattr(kind, name)) for name in ("add_param_group", "state_dict", "load_state_dict")},
    }
    return type(kind.__name__, (kind,), lean)


def _set_learning_rate(optimizer: torch.optim.Optimizer, training: Training, step: int, steps: int) -> None:
    """For a step; one that stays is left as warm-up made it."""
    if step <= training.warmup:
        lr = training.lr * step / training.warmup
    elif training.schedule == "constant":
        return
    else:
        left = 1 - (step - 1 - training.warmup) / (steps - training.warmup)
        lr = training.lr * (left if training.schedule == "linear" else (1 - math.cos(math.pi * left)) / 2)
    for group in optimizer.param_groups:
        group["lr"] = lr


def _clip(parameters: list[nn.Parameter], clip: float | None) -> Tensor:
    """The norm of the whole gradient as it was; afterwards it is at most `clip`."""
    if clip is not None:
        return nn.utils.clip_grad_norm_(parameters, clip)
    return nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])


def _check_finite(losses: Tensor, step: int) -> None:
    finite = torch.isfinite(losses)
    if not finite.all():
        first = int((~finite).nonzero()[0])
        at = step - len(losses) + 1 + first
        raise DivergedError(f"the training loss became {losses[first].item()} at step {at}; {REMEDY}")


def validate(model: nn.Module, task: Task, batches: list[Batch]) -> float:
    """Mean loss over batches, in evaluation mode; the model's mode is restored."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return torch.stack([task.loss(model(batch.tokens), batch) for batch in batches]).mean().item()
    finally:
        model.train(was_training)
