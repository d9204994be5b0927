"""Checks of what a task makes of outputs: its loss, its scores and its metrics."""

import math

import torch
from torch import Tensor

from harness.batches import Batch
from harness.contracts import Condition
from harness.examples import standard_error
from harness.offers import OffersPerfection
from harness.testing.checks import Failed, NotApplicable, check
from harness.testing.tasks.answers import asked, certain, guesses, knowing
from harness.testing.tasks.case import TaskCase

EXAMPLES = 256
"""Of a condition, for scores in which chance has a part."""


@check(
    asks="score() gives values per example, and summarise() gives exactly the named metrics",
    means="reports miss numbers, or fail after everything was trained",
    fix="name every number of summarise() in `metrics`, with its unit; keep score() per example",
    after=("ids", "masks"),
)
def metrics(case: TaskCase) -> str:
    """Names of what `summarise` returns, and values per example."""
    named = list(case.task.metrics)
    for condition in case.conditions:
        batch = case.evaluate(condition)
        scores = case.task.score(knowing(case, batch), batch)
        for name, values in scores.items():
            if not isinstance(values, Tensor) or values.ndim == 0 or len(values) != len(batch):
                shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
                raise Failed(
                    f"score() gives {name!r} as {shape}; one value for each of {len(batch)} examples is expected",
                    case.at("score"),
                )
        summary = case.task.summarise(scores)
        if set(summary) != set(named):
            raise Failed(
                f"summarise() gives {', '.join(summary) or 'nothing'}; `metrics` names {', '.join(named)}",
                case.at("summarise"),
            )
        if wrong := [name for name, value in summary.items() if not isinstance(value, float)]:
            raise Failed(f"summarise() gives no float for {', '.join(wrong)}; use .item()", case.at("summarise"))
    return ", ".join(named)


@check(
    asks="an example's scores do not depend on the other examples scored with it",
    means="results depend on the length of the sequences, since longer ones are scored in smaller pieces",
    fix="average in summarise(), never in score()",
    after=("metrics",),
)
def chunks(case: TaskCase) -> None:
    """Long evaluations are scored piece by piece."""
    for condition in case.conditions:
        batch = case.evaluate(condition)
        outputs = _noise(knowing(case, batch).shape)
        cut = max(1, len(batch) // 3)
        whole = case.task.score(outputs, batch)
        parts = [case.task.score(outputs[:cut], batch[:cut]), case.task.score(outputs[cut:], batch[cut:])]
        for name, values in whole.items():
            joined = torch.cat([part[name] for part in parts])
            if joined.shape != values.shape or not torch.allclose(
                joined.double(), values.double(), rtol=1e-4, atol=1e-5, equal_nan=True
            ):
                raise Failed(f"{name!r} of an example depends on the other examples", case.at("score"))


@check(
    asks="the loss is lower for knowing than for guessing, and counts positions with a target only",
    means="models are trained towards something else than the task",
    fix="F.cross_entropy(..., ignore_index=-100) over flattened outputs, as in Task.loss",
    after=("ids", "masks"),
)
def loss(case: TaskCase) -> str:
    """Knowing must cost less than guessing, and only positions with a target may have a gradient."""
    batch = case.train(torch.Generator().manual_seed(0))
    guess = next(iter(guesses(case, batch).values())) * 0.1
    known, guessed = _loss(case, batch, certain(case, batch.targets)), _loss(case, batch, guess)
    if not known < guessed:
        raise Failed(f"the loss of knowing the targets is {known:.4g}, of guessing {guessed:.4g}", case.at("loss"))
    return f"{known:.3g} for knowing, {guessed:.3g} for guessing"


def _loss(case: TaskCase, batch: Batch, given: Tensor) -> float:
    """The loss of outputs, whose gradient is looked at."""
    # noise, so that no output sits where a wrong loss happens to be flat
    outputs = (given + 0.01 * _noise(given.shape)).requires_grad_()
    with torch.enable_grad():
        value = case.task.loss(outputs, batch)
        if value.ndim or not torch.isfinite(value):
            hint = "" if case.task.interface.output == "classes" else " (targets that are NaN do not count)"
            raise Failed(f"loss() gives {value!r:.60}; one finite number is expected{hint}", case.at("loss"))
        (gradient,) = torch.autograd.grad(value, outputs)
    missing, none = case.missing(batch)
    if bool(gradient[missing].any()):
        raise Failed(f"the loss has a gradient at positions whose target is {none}", case.at("loss"))
    return value.item()


@check(
    asks="a model that knows every answer has the best score",
    means="scores are lower (or higher) than what the model can do; verdicts and extrapolation limits are wrong",
    fix="score the output at the query, not the one after it; correct `best` in the Metric",
    after=("metrics",),
)
def perfect(case: TaskCase) -> str | None:
    """The headline score, which should be `best`; outputs where nothing is asked must not count."""
    note = None
    for condition in case.conditions:
        batch = case.evaluate(condition, EXAMPLES)
        outputs = knowing(case, batch)
        value = _headline(case, outputs, batch)
        if math.isnan(value):
            continue
        elsewhere = torch.where(asked(case, batch)[..., None], outputs, 10 * _noise(outputs.shape))
        if abs(_headline(case, elsewhere, batch) - value) > 1e-4:
            raise Failed(
                f"in the condition {str(condition)!r} outputs at positions without a target change "
                f"{case.task.headline!r}",
                case.at("score"),
            )
        note = _against_best(case, condition, batch, value) or note
    return note


def _against_best(case: TaskCase, condition: Condition, batch: Batch, value: float) -> str:
    """What is to be said of a score that should be the best one; "" if it is."""
    name = case.task.headline
    metric = case.task.metrics[name]
    if metric.best is None:
        return f"{name!r} states no best value"
    if abs(value - metric.best) <= 1e-3 * max(1.0, abs(metric.best)):
        return ""
    wrong = min(_headline(case, guess, batch) for guess in guesses(case, batch).values())
    lowest = metric.chance if metric.chance is not None else wrong
    between = _better(lowest, value, metric.higher_is_better) and not _better(
        metric.best, value, metric.higher_is_better
    )
    if isinstance(case.task, OffersPerfection) or not between:
        raise Failed(
            f"in the condition {str(condition)!r} a model that is certain of every target has {name} = {value:.4g}; "
            f"best is said to be {metric.best:.4g}",
            case.at("score"),
        )
    return (
        f"certainty of the targets gives {name} = {value:.3g}, above chance and below the best value {metric.best:g}: "
        "right where several answers count; offer perfect(batch) to have it checked exactly"
    )


def _better(low: float, high: float, higher_is_better: bool) -> bool:
    return high > low + 1e-6 if higher_is_better else high < low - 1e-6


@check(
    asks="a model that guesses has the chance score",
    means="never learned, at chance and below chance cannot be told apart",
    fix="correct `chance` in the Metric, or balance the answers in evaluate()",
    after=("perfect",),
)
def chance(case: TaskCase) -> str:
    """Several ways to guess, since what guessing is depends on the score; one of them should give `chance`."""
    name = case.task.headline
    metric = case.task.metrics[name]
    if metric.chance is None:
        raise NotApplicable(f"{name!r} states no chance value")
    fitting: set[str] | None = None
    for condition in case.conditions:
        batch = case.evaluate(condition, EXAMPLES)
        ways = guesses(case, batch)
        values = {how: _headline(case, outputs, batch) for how, outputs in ways.items()}
        values = {how: value for how, value in values.items() if not math.isnan(value)}
        if not values:
            continue
        spread = 4 * math.sqrt(max(metric.chance * (1 - metric.chance), 0.01) / len(batch))
        least = spread if metric.unit == "share" else 0.15 * max(abs(metric.chance), 0.1)
        allowed = {how: max(least, 4 * _standard_error(case, ways[how], batch)) for how in values}
        here = {how for how, value in values.items() if abs(value - metric.chance) <= allowed[how]}
        if not here:
            raise Failed(
                f"in the condition {str(condition)!r} chance is said to be {name} = {metric.chance:.4g}, but guessing "
                "gives " + ", ".join(f"{value:.4g} ({how})" for how, value in values.items()),
                case.at("score"),
            )
        fitting = here if fitting is None else fitting & here
    return ", ".join(sorted(fitting or ())) or f"{name} is not defined here"


def _standard_error(case: TaskCase, outputs: Tensor, batch: Batch) -> float:
    """Of the headline score, over the examples; 0 where it is no mean of one number each. The squared error of a few
    hundred guesses is far less certain than the share of them that is right."""
    values = case.task.score(outputs, batch).get(case.task.headline)
    if case.task.interface.output != "numbers" or values is None or values.ndim != 1:
        return 0.0
    error = standard_error(values[~values.isnan()])
    return 0.0 if math.isnan(error) else error


def _headline(case: TaskCase, outputs: Tensor, batch: Batch) -> float:
    return case.task.summarise(case.task.score(outputs, batch))[case.task.headline]


def _noise(shape: torch.Size) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))
