"""How long a plan takes, from a few timed steps; and which part of it fits a budget.

One trial of each model on each task is run twice in a temporary directory, where all trials run, for a few steps and
on few examples: from the two the time of a whole trial is extrapolated, its probes included. What is measured already
takes no time.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from harness.errors import RequestError, shown
from harness.execution import Execution
from harness.executors import Executor
from harness.executors.start import temporary
from harness.matching import varied_so
from harness.plan import Plan, Planned
from harness.schema import AMOUNT, Record, Training
from harness.seeds import FEW_SEEDS, identity, name_seeds
from harness.sharding import BACKWARD, EPOCH
from harness.sources import content_hash
from harness.store import RunDirectory
from harness.work import Work
from harness.written import count, format_arguments

FEW, MANY = 2, 60
"""Steps of the first short run, and the most of the second."""
SECOND = 1.0
"""Seconds that the second one should train, so that a clock can tell."""
ABREAST = 4
"""So many are timed at a time, where more will run."""
EXAMPLES = (16, 64)
"""Evaluation examples per condition in the two."""
LOOK = 4 / BACKWARD
"""What one look at the validation loss costs, in training steps: four batches, forward."""


@dataclass(frozen=True)
class Estimate:
    """What a plan takes."""

    seconds: Mapping[str, float]
    """Of each trial that is left to run, by its id."""
    jobs: int
    """How many run at a time."""
    unknown: Sequence[str] = ()
    """What could not be timed, and why; it counts as nothing."""

    @property
    def hours(self) -> float:
        """From beginning to end, on as many cores as there are jobs."""
        return _hours([*self.seconds.values()], self.jobs)


def _hours(seconds: Sequence[float], jobs: int) -> float:
    return max(sum(seconds) / jobs, max(seconds, default=0.0)) / 3600


class _Timed(NamedTuple):
    """A short run."""

    steps: int
    examples: int
    train: float
    probes: Mapping[object, float]
    """By label and stage."""
    rest: float
    """What starting and building took."""


def estimate(
    plan: Plan,
    out: Path,
    executor: Executor,
    *,
    fresh: bool = False,
    announce: Callable[[str], None] = lambda text: None,
) -> Estimate:
    """Time each model on each task.

    Args:
        plan: what is to run.
        out: the run directory, whose records take no time.
        executor: where trials run.
        fresh: whether everything is measured anew.
        announce: hears what is being timed.
    """
    left = plan.trials if fresh else Execution(plan, RunDirectory(out)).unfinished
    jobs = max(1, int(getattr(executor, "jobs", 1)))
    kinds: dict[object, list[Planned]] = {}
    for planned in left:
        kinds.setdefault(_kind(planned), []).append(planned)
    seconds: dict[str, float] = {}
    unknown = []
    for number, alike in enumerate(kinds.values(), 1):
        trial = alike[0].trial
        announce(f"timing {trial.model.called} on {trial.task.called} ({number} of {len(kinds)})")
        try:
            timed = _time(alike[0], executor, min(jobs, len(alike), ABREAST))
        except _NotTimedError as error:
            unknown.append(f"{trial.model.called} on {trial.task.called} could not be timed: {error}")
            timed = None
        for planned in alike:
            seconds[planned.trial.id] = _whole(planned, *timed) if timed else 0.0
    return Estimate(seconds, jobs, unknown)


class _NotTimedError(Exception):
    """Why a trial gave no times."""


def _kind(planned: Planned) -> object:
    """What decides how long a step takes, and which probes look."""
    trial, training = planned.trial, planned.trial.training
    looks = tuple((identity(cell.probe), cell.stage, cell.examples) for cell in planned.cells)
    how = (training.batch_size, training.truncate, training.optimizer, training.clip is None, training.steps == 0)
    return identity(trial.model), identity(trial.task), trial.device, how, looks


def _time(planned: Planned, executor: Executor, abreast: int) -> tuple[_Timed, _Timed]:
    first = _short(planned, executor, abreast, FEW, EXAMPLES[0])
    steps = min(MANY, max(2 * FEW, int(SECOND * FEW / max(first.train, 1e-3))))
    return first, _short(planned, executor, abreast, steps, EXAMPLES[1])


def _short(planned: Planned, executor: Executor, abreast: int, steps: int, examples: int) -> _Timed:
    """Run trials that are like another one, but short; several at a time, since they share caches and memory."""
    if planned.trial.training.steps is not None:
        steps = min(steps, planned.trial.training.steps)
    with TemporaryDirectory(prefix="harness-timing-", dir=temporary()) as folder:
        store = RunDirectory(Path(folder))
        store.create()
        works = [Work(_shortened(planned, steps, examples, number), store.path) for number in range(abreast)]
        started = time.perf_counter()
        records = list(executor(works, lambda index, share: None))
        wall = time.perf_counter() - started
    errors = [record.error.message for record in records if record.error]
    if errors and len(errors) == len(records):
        raise _NotTimedError(errors[0])
    trains = {record.trial: 0.0 for record in records} | {r.trial: r.timing.train for r in records if r.timing.train}
    train = mean(trains.values()) if trains else 0.0
    looks: dict[object, list[float]] = {}
    for record in records:
        looks.setdefault(_look(record), []).append(record.timing.probe)
    probes = {look: mean(seconds) for look, seconds in looks.items()}
    return _Timed(steps, examples, train, probes, max(0.0, wall - train - sum(probes.values())))


def _shortened(planned: Planned, steps: int, examples: int, number: int) -> Planned:
    """The same trial with fewer steps and examples, and ids of its own."""
    training = planned.trial.training.model_dump() | {"steps": steps, "epochs": None, "patience": None}
    key = content_hash(f"timing {planned.trial.id} {steps} {examples} {number}")
    trial = planned.trial.model_copy(update={"id": key, "training": Training.model_validate(training)})
    cells = []
    for cell in planned.cells:
        if cell.id not in planned.unmeasurable:
            own = {"id": content_hash(f"{key} {cell.id}"), "trial": trial, "examples": min(examples, cell.examples)}
            cells.append(cell.model_copy(update=own))
    return replace(planned, trial=trial, cells=cells, unmeasurable={})


def _look(record: Record) -> object:
    return identity(record.probe), record.stage


def _whole(planned: Planned, short: _Timed, longer: _Timed) -> float:
    """Seconds of a whole trial: what two short ones lead to."""
    training = planned.trial.training
    epochs = min(1, training.epochs or 0) if planned.fits else training.epochs or 0
    steps = training.steps if training.steps is not None else epochs * EPOCH / training.batch_size
    step = _slope(short.train, longer.train, longer.steps - short.steps)
    looks = 0.0 if planned.fits else max(0.0, steps / training.validate_every - 1) * LOOK
    train = longer.train + step * (max(0.0, steps - longer.steps) + looks) if longer.train else 0.0
    probes = 0.0
    for cell in planned.cells:
        look = (identity(cell.probe), cell.stage)
        few, more = short.probes.get(look, 0.0), longer.probes.get(look, 0.0)
        example = _slope(few, more, longer.examples - short.examples)
        probes += more + example * max(0, cell.examples - longer.examples)
    return train + probes + longer.rest


def _slope(less: float, more: float, difference: float) -> float:
    """Seconds for one more (step, example); the first run also warms up, which must not look like a gain."""
    return max(0.0, more - less) / difference if difference > 0 else 0.0


def duration(hours: float) -> str:
    """`0.03 hours (1.8 minutes)`, `1 hour`: two digits, and no exponent."""

    def told(number: float, unit: str) -> str:
        return count(f"{float(f'{number:.2g}'):.10g}", unit)

    smaller = told(60 * hours, "minute") if 60 * hours >= 0.995 else told(3600 * hours, "second")
    return told(hours, "hour") + (f" ({smaller})" if hours < 1 else "")


class Cut(NamedTuple):
    """As much of a plan as fits."""

    plan: Plan
    hours: float
    left_out: str
    """What was left out, and what can no longer be concluded, in sentences; "" for nothing."""


def check_budget(hours: Any) -> float:
    """Raises RequestError where it is no number of hours above 0."""
    if not isinstance(hours, int | float) or isinstance(hours, bool) or not hours > 0:
        raise RequestError(f"a budget is a number of hours above 0, for example --budget 2; received {shown(hours)}")
    return float(hours)


def within(plan: Plan, known: Estimate, hours: float) -> Cut:
    """As much of a plan as fits: whole seeds and whole values of the grid are left out, for all models and tasks alike.

    First seeds, from the last, as long as more than three are left; then the last value of the longest list in the
    grid, until each has one; then seeds again.

    Raises:
        RequestError: not even one seed of one cell fits.
    """
    kept = {name: [*values] for name, values in plan.suite.grid.items()}
    seeds = all_seeds = 1 + max(planned.trial.seed for planned in plan.trials)
    while True:
        trials = [planned for planned in plan.trials if planned.trial.seed < seeds and _in(planned, plan, kept)]
        needed = _hours([known.seconds.get(planned.trial.id, 0.0) for planned in trials], known.jobs)
        if needed <= hours:
            return Cut(replace(plan, trials=trials), needed, _left_out(plan, hours, all_seeds, seeds, kept))
        longest = max(kept, key=lambda name: len(kept[name]), default="")
        if seeds > FEW_SEEDS:
            seeds -= 1
        elif longest and len(kept[longest]) > 1:
            kept[longest].pop()
        elif seeds > 1:
            seeds -= 1
        else:
            what = "one seed of one cell of the grid" if kept else "one seed"
            raise RequestError(
                f"not even {what} of each model on each task fits: that takes about {duration(needed)}, and the budget "
                f"is {count(f'{hours:g}', 'hour')}; give more, or ask for fewer models, tasks, probes or steps"
            )


def _in(planned: Planned, plan: Plan, kept: Mapping[str, Sequence[Any]]) -> bool:
    """Whether a trial has none of the values that were left out."""
    trial = planned.trial
    for name, values in kept.items():
        if len(values) == len(plan.suite.grid[name]):
            continue
        varies = _varies(planned, name) if name in Training.model_fields else name in trial.model.arguments
        if varies and not any(varied_so({name: value}, trial.model, trial.training) for value in values):
            return False
    return True


def _varies(planned: Planned, name: str) -> bool:
    """Whether a training setting has a meaning for a trial, so that a grid varies it."""
    return not planned.trial.pretrained and (name in AMOUNT or not planned.fits)


def _left_out(plan: Plan, hours: float, all_seeds: int, seeds: int, kept: Mapping[str, Sequence[Any]]) -> str:
    def told() -> Iterator[str]:
        if seeds < all_seeds:
            yield name_seeds(range(seeds, all_seeds))
        for name, values in plan.suite.grid.items():
            if gone := values[len(kept[name]) :]:
                yield f"{name} {', '.join(format_arguments({'': value})[1:] for value in gone)}"

    if not (parts := list(told())):
        return ""
    text = f"Left out to fit {count(f'{hours:g}', 'hour')}: {'; '.join(parts)}."
    if seeds < min(FEW_SEEDS, all_seeds):
        text += f" With fewer than {FEW_SEEDS} seeds nothing is concluded about an architecture."
    if "lr" in kept and len(kept["lr"]) == 1 < len(plan.suite.grid["lr"]):
        text += " With one learning rate every verdict is one at this learning rate."
    return text
