"""Checks of what a task makes of outputs: its loss, its scores and its metrics."""

import math

import torch
from torch import Tensor

from harness.contracts import Batch
from harness.testing.checks import Check, Failed, NotApplicable
from harness.testing.task_case import TaskCase

EXAMPLES = 256


def metrics(case: TaskCase) -> str:
    """Names of what `summarise` returns, and values per example."""
    named = list(case.task.metrics)
    for condition in case.conditions:
        batch = case.evaluate(condition)
        scores = case.task.score(case.right(batch), batch)
        for name, values in scores.items():
            if not isinstance(values, Tensor) or values.ndim == 0 or len(values) != len(batch):
                shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
                raise Failed(
                    f"score() gives {name!r} as {shape}; one value for each of {len(batch)} examples is expected",
                    case.where("score"),
                )
        summary = case.task.summarise(scores)
        if set(summary) != set(named):
            raise Failed(
                f"summarise() gives {', '.join(summary) or 'nothing'}; `metrics` names {', '.join(named)}",
                case.where("summarise"),
            )
        if wrong := [name for name, value in summary.items() if not isinstance(value, float)]:
            raise Failed(f"summarise() gives no float for {', '.join(wrong)}; use .item()", case.where("summarise"))
    return ", ".join(named)


def chunks(case: TaskCase) -> None:
    """Long evaluations are scored piece by piece."""
    for condition in case.conditions:
        batch = case.evaluate(condition)
        outputs = torch.randn(case.right(batch).shape, generator=torch.Generator().manual_seed(1))
        cut = max(1, len(batch) // 3)
        whole = case.task.score(outputs, batch)
        parts = [case.task.score(outputs[:cut], batch[:cut]), case.task.score(outputs[cut:], batch[cut:])]
        for name, values in whole.items():
            joined = torch.cat([part[name] for part in parts])
            if joined.shape != values.shape or not torch.allclose(
                joined.double(), values.double(), rtol=1e-4, atol=1e-5, equal_nan=True
            ):
                raise Failed(f"{name!r} of an example depends on the other examples", case.where("score"))


def perfect(case: TaskCase) -> str | None:
    """The headline score, which should be `best`; outputs where nothing is asked must not count."""
    name = case.task.headline
    metric = case.task.metrics[name]
    note = None
    for condition in case.conditions:
        batch = case.evaluate(condition, EXAMPLES)
        outputs = case.right(batch)
        value = _headline(case, outputs, batch)
        if math.isnan(value):
            continue
        noise = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(1)) * 10
        asked = case.wanted(batch)[..., None]
        if abs(_headline(case, torch.where(asked, outputs, noise), batch) - value) > 1e-4:
            raise Failed(
                f"in the condition {str(condition)!r} outputs at positions without a target change {name!r}",
                case.where("score"),
            )
        if metric.best is None:
            note = f"{name!r} states no best value"
            continue
        if abs(value - metric.best) <= 1e-3 * max(1.0, abs(metric.best)):
            continue
        wrong = min(_headline(case, guess, batch) for guess in case.guesses(batch).values())
        lowest = metric.chance if metric.chance is not None else wrong
        own = getattr(case.task, "perfect", None) is not None
        if (
            own
            or not _better(lowest, value, metric.higher_is_better)
            or _better(metric.best, value, metric.higher_is_better)
        ):
            raise Failed(
                f"in the condition {str(condition)!r} a model that is certain of every target has {name} = "
                f"{value:.4g}; best is said to be {metric.best:.4g}",
                case.where("score"),
            )
        note = (
            f"certainty of the targets gives {name} = {value:.3g}, above chance and below the best value "
            f"{metric.best:g}: right where several answers count; offer perfect(batch) to have it checked exactly"
        )
    return note


def _headline(case: TaskCase, outputs: Tensor, batch: Batch) -> float:
    return case.task.summarise(case.task.score(outputs, batch))[case.task.headline]


def _standard_error(case: TaskCase, outputs: Tensor, batch: Batch) -> float:
    """Of the headline score, over the examples; 0 where it is no mean of one number each. The squared error of a few
    hundred guesses is far less certain than the share of them that is right."""
    values = case.task.score(outputs, batch).get(case.task.headline)
    if case.task.interface.output != "numbers" or values is None or values.ndim != 1:
        return 0.0
    known = values[~values.isnan()].double()
    return (known.std() / math.sqrt(len(known))).item() if len(known) > 1 else 0.0


def _better(low: float, high: float, higher_is_better: bool) -> bool:
    return high > low + 1e-6 if higher_is_better else high < low - 1e-6


def chance(case: TaskCase) -> str:
    """Several ways to guess, since what guessing is depends on the score; one of them should give `chance`."""
    name = case.task.headline
    metric = case.task.metrics[name]
    if metric.chance is None:
        raise NotApplicable(f"{name!r} states no chance value")
    fitting: set[str] | None = None
    for condition in case.conditions:
        batch = case.evaluate(condition, EXAMPLES)
        guesses = case.guesses(batch)
        values = {how: _headline(case, outputs, batch) for how, outputs in guesses.items()}
        values = {how: value for how, value in values.items() if not math.isnan(value)}
        if not values:
            continue
        spread = 4 * math.sqrt(max(metric.chance * (1 - metric.chance), 0.01) / len(batch))
        least = spread if metric.unit == "share" else 0.15 * max(abs(metric.chance), 0.1)
        allowed = {how: max(least, 4 * _standard_error(case, guesses[how], batch)) for how in values}
        here = {how for how, value in values.items() if abs(value - metric.chance) <= allowed[how]}
        if not here:
            raise Failed(
                f"in the condition {str(condition)!r} chance is said to be {name} = {metric.chance:.4g}, but guessing "
                "gives " + ", ".join(f"{value:.4g} ({how})" for how, value in values.items()),
                case.where("score"),
            )
        fitting = here if fitting is None else fitting & here
    return ", ".join(sorted(fitting or ())) or f"{name} is not defined here"


def loss(case: TaskCase) -> str:
    """Knowing must cost less than guessing, and only positions with a target may have a gradient."""
    batch = case.train(torch.Generator().manual_seed(0))
    where = case.where("loss")
    guess = next(iter(case.guesses(batch).values())) * 0.1
    values = {}
    for how, given in (("knowing", case.answering(batch, batch.targets)), ("guessing", guess)):
        # noise, so that no output sits where a wrong loss happens to be flat
        noise = torch.randn(given.shape, generator=torch.Generator().manual_seed(1))
        outputs = (given + 0.01 * noise).requires_grad_()
        with torch.enable_grad():
            value = case.task.loss(outputs, batch)
            if value.ndim or not torch.isfinite(value):
                hint = "" if case.task.interface.output == "classes" else " (targets that are NaN do not count)"
                raise Failed(f"loss() gives {value!r:.60}; one finite number is expected{hint}", where)
            (gradient,) = torch.autograd.grad(value, outputs)
        values[how] = value.item()
        missing, none = case.missing(batch)
        if bool(gradient[missing].any()):
            raise Failed(f"the loss has a gradient at positions whose target is {none}", where)
    knowing, guessing = values["knowing"], values["guessing"]
    if not knowing < guessing:
        raise Failed(f"the loss of knowing the targets is {knowing:.4g}, of guessing {guessing:.4g}", where)
    return f"{knowing:.3g} for knowing, {guessing:.3g} for guessing"


AFTER = ("ids", "masks")

SCORES: tuple[Check, ...] = (
    Check(
        "metrics",
        asks="score() gives values per example, and summarise() gives exactly the named metrics",
        means="reports miss numbers, or fail after everything was trained",
        fix="name every number of summarise() in `metrics`, with its unit; keep score() per example",
        run=metrics,
        after=AFTER,
    ),
    Check(
        "chunks",
        asks="an example's scores do not depend on the other examples scored with it",
        means="results depend on the length of the sequences, since longer ones are scored in smaller pieces",
        fix="average in summarise(), never in score()",
        run=chunks,
        after=("metrics",),
    ),
    Check(
        "loss",
        asks="the loss is lower for knowing than for guessing, and counts positions with a target only",
        means="models are trained towards something else than the task",
        fix="F.cross_entropy(..., ignore_index=-100) over flattened outputs, as in Task.loss",
        run=loss,
        after=AFTER,
    ),
    Check(
        "perfect",
        asks="a model that knows every answer has the best score",
        means="scores are lower (or higher) than what the model can do; verdicts and extrapolation limits are wrong",
        fix="score the output at the query, not the one after it; correct `best` in the Metric",
        run=perfect,
        after=("metrics",),
    ),
    Check(
        "chance",
        asks="a model that guesses has the chance score",
        means="never learned, at chance and below chance cannot be told apart",
        fix="correct `chance` in the Metric, or balance the answers in evaluate()",
        run=chance,
        after=("perfect",),
    ),
)
"""What a task makes of outputs."""
