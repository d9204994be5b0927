"""The harness as a library: the same as the command line, with results as Python objects."""

import os
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from harness.devices import check_device, default_jobs
from harness.errors import RequestError, shown
from harness.estimating import Estimate, check_budget, estimate, within
from harness.execution import Progress, execute, warned
from harness.executors import Executor
from harness.executors.choosing import choose, limits_of
from harness.executors.planning import plan_for
from harness.plan import Plan
from harness.registry import default_registry
from harness.requests import Requests, build_suite, check_varied, default_out
from harness.results import Results
from harness.schema import Record
from harness.sharding import Shard
from harness.suites import Suite, Ways
from harness.vocabulary import STAGES, Stage


def run(
    models: Requests | None = None,
    tasks: Requests | None = None,
    probes: Requests | None = None,
    *,
    suite: Suite | str | Path | None = None,
    seeds: int | None = None,
    training: Ways | None = None,
    stages: Stage | Sequence[Stage] | None = None,
    examples: int | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
    jobs: int = 1,
    device: str = "cpu",
    executor: str | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    memory: float | None = None,
    shard: tuple[int, int] | str | None = None,
    baselines: bool = False,
    grid: Mapping[str, Sequence[Any]] | None = None,
    success: float | None = None,
    max_trials: int | None = None,
    budget: float | None = None,
) -> Results:
    """Cross models, tasks and probes over seeds, run what is not yet measured, and return the records.

    Args:
        models: what to measure, for example `["lstm", "gpt:position=none"]`, by alias `{"small": "gpt:layers=1"}`, or
            classes of your own, `[Net, functools.partial(Net, width=32)]`; or give a suite.
        tasks: what the models face; `["recall"]` if not said.
        probes: what to measure; `["accuracy"]` if not said.
        suite: a suite, its file or the name of a built-in one, instead of tasks and probes; models stand beside its
            own.
        seeds: seeds 0 to seeds - 1 (3 if not said).
        training: training settings that win over all others, for example `{"steps": 200}`, or a list of them, which is
            crossed with everything else.
        stages: only these stages, `initial` or `trained`; claims about the other one stay undecided.
        examples: evaluation examples per condition.
        out: the run directory; `runs/<suite>` or `runs/<models>+<tasks>` if not said.
        fresh: train and measure anew what this call asks for; other records of the directory stay.
        jobs: trials at a time.
        device: `cpu` or `cuda`.
        executor: where trials run, for example `"local"`; in a new process for each, if not said, or in this process
            where a class or function was given that only this process has.
        timeout: seconds that a trial may take; what is not measured by then fails. This and the next two win over what
            the suite says; `inf` is no limit.
        retries: new attempts for a trial whose process died (0 if nobody says).
        memory: GiB of main memory for each process of a trial.
        shard: only this part of the trials, for example (3, 16), the third of 16; other machines run the others, and
            `harness merge` puts the run directories together.
        baselines: measure every baseline, too, on the same tasks (see `Suite.baselines`).
        grid: lists of values by the name of a training setting or a model argument, crossed with everything else, for
            example `{"lr": [1e-4, 1e-3, 1e-2]}`; see `Suite.grid`.
        success: the score from which on a seed counts as a success of its cell of the grid; see `Suite.success`.
        max_trials: with a grid, more trials than this are refused (10,000 if not said).
        budget: hours that the run may take; a few steps of each model on each task are timed, and whole seeds and
            values of the grid that would not fit are left out, which the results' `note` says.

    Raises:
        RequestError: something that was asked for is wrong; nothing has been trained.
    """
    if not (training is None or _is_ways(training)):
        wanted = 'a dictionary, for example {"steps": 200}, or a list of them'
        raise RequestError(f"training is {wanted}; received {shown(training)}")
    for name, flag in {"fresh": fresh, "baselines": baselines}.items():
        if not isinstance(flag, bool):
            raise RequestError(f"{name} is True or False; received {shown(flag)}")
    if not isinstance(jobs, int) or isinstance(jobs, bool) or jobs < 1:
        raise RequestError(f"jobs is a number of processes, 1 or more; received {shown(jobs)}")
    numbers: dict[str, Any] = {"seeds": seeds, "examples": examples, "max_trials": max_trials}
    for name, number in numbers.items():
        if isinstance(number, str | float):
            raise RequestError(f"{name} is a whole number, for example {name}=3; received {shown(number)}")
    if not (stages is None or isinstance(stages, str | Sequence | Set)):
        raise RequestError(f"stages is one of {', '.join(STAGES)}, or a list of them; received {shown(stages)}")
    if not (out is None or (isinstance(out, str | os.PathLike) and str(out))):
        raise RequestError(f'out is a directory, for example out="runs/mine"; received {shown(out)}')
    if not models and suite is None:
        raise RequestError('nothing to measure: give models=["lstm"], for example, or suite="recall"')
    more: dict[str, Any] = {"grid": grid, "success": success, "baselines": baselines}
    asked = build_suite(models, tasks, probes, suite=suite, **numbers, **more)
    check_varied(asked, training, success=success, max_trials=max_trials)
    prepared = prepare(
        asked,
        training=training,
        stages=STAGES if stages is None else (stages,) if isinstance(stages, str) else tuple(stages),
        out=out,
        jobs=jobs,
        device=device,
        executor=executor,
        timeout=timeout,
        retries=retries,
        memory=memory,
        shard=shard,
        budget=budget,
        fresh=fresh,
    )
    return prepared.execute()


class Prepared(NamedTuple):
    """A run before anything is trained or written."""

    plan: Plan
    executor: Executor
    out: Path
    estimate: Estimate | None = None
    """How long all of it takes, where that was asked for."""
    hours: float | None = None
    """How long what fits the budget takes."""
    left_out: str = ""
    """What does not fit the budget."""
    fresh: bool = False
    """Whether all of it is measured anew."""

    def execute(
        self,
        report: Callable[[Progress], None] = lambda progress: None,
        warn: Callable[[str], None] = warned,
        failed: Callable[[Record], None] = lambda record: None,
    ) -> Results:
        """Run it; see `harness.execution.execute`."""
        place: dict[str, Any] = {"fresh": self.fresh, "executor": self.executor}
        results = execute(self.plan, self.out, **place, report=report, warn=warn, failed=failed)
        return replace(results, note=" ".join(filter(None, (results.note, self.left_out))))


def prepare(
    suite: Suite,
    *,
    training: Ways | None = None,
    stages: Sequence[str] = STAGES,
    out: str | Path | None = None,
    jobs: int | None = None,
    device: str = "cpu",
    executor: str | None = None,
    timeout: float | None = None,
    retries: int | None = None,
    memory: float | None = None,
    shard: tuple[int, int] | str | None = None,
    budget: float | None = None,
    fresh: bool = False,
    timed: bool = False,
    announce: Callable[[str], None] = lambda text: None,
) -> Prepared:
    """What `run` and the command line do before they run something.

    The arguments are those of `run`, except that jobs are one for each core (one on cuda) if not said; with `timed` it
    is said how long all of it takes, and `announce` hears what is being timed.

    Raises:
        RequestError: something that was asked for is wrong.
    """
    hours = None if budget is None else check_budget(budget)
    if hours is not None and shard is not None:
        raise RequestError("each machine would leave out something else; give --budget or --shard, and not both")
    limits = limits_of(suite, timeout, retries, memory)
    part = None if shard is None else Shard.read(shard)
    place = choose(default_registry(), executor, suite, jobs, limits, default_jobs(device))
    check_device(device, place)
    plan = plan_for(place, suite, device=device, training=training, stages=stages, timeout=limits.timeout)
    plan = part.of(plan) if part else plan
    prepared = Prepared(plan, place, default_out(suite) if out is None else Path(out), fresh=fresh)
    if (hours is None and not timed) or plan.hopeless:
        return prepared
    known = estimate(plan, prepared.out, place, fresh=fresh, announce=announce)
    if hours is None:
        return prepared._replace(estimate=known, hours=known.hours)
    cut = within(plan, known, hours)
    return prepared._replace(plan=cut.plan, estimate=known, hours=cut.hours, left_out=cut.left_out)


def _is_ways(training: Any) -> bool:
    several = isinstance(training, list) and training and all(isinstance(each, dict) for each in training)
    return isinstance(training, dict) or bool(several)
