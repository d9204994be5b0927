"""The harness as a library: the same as the command line, with results as Python objects."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from harness.devices import check_device
from harness.errors import RequestError
from harness.plan import Plan, Planned, make_plan
from harness.registry import default_registry
from harness.requests import Requests, build_suite, default_out
from harness.results import Results, called
from harness.schema import Cell, PluginUse, Record
from harness.store import RunDirectory
from harness.suites import Suite, Ways
from harness.targets import is_given
from harness.vocabulary import STAGES, Stage


class Progress(NamedTuple):
    """How far a run is."""

    trials: float
    """Trials done; one on its way counts as its share."""
    all_trials: int
    steps: float
    """Training steps done."""
    all_steps: int | None
    """None where a training is measured in epochs."""


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
) -> Results:
    """Cross models, tasks and probes over seeds, run what is not yet measured, and return the records.

    Args:
        models: what to measure, for example `["lstm", "gpt:position=none"]`, by alias `{"small": "gpt:layers=1"}`, or
            classes of your own, `[Net, functools.partial(Net, width=32)]`; or give a suite.
        tasks: what the models face; `["recall"]` if not said.
        probes: what to measure; `["accuracy"]` if not said.
        suite: a suite, its file or the name of a built-in one, instead of models, tasks and probes.
        seeds: seeds 0 to seeds - 1 (3 if not said).
        training: training settings that win over all others, for example `{"steps": 200}`, or a list of them, which is
            crossed with everything else.
        stages: only these stages, `initial` or `trained`; claims about the other one stay undecided.
        examples: evaluation examples per condition.
        out: the run directory; `runs/<suite>` or `runs/<models>+<tasks>` if not said.
        fresh: train and measure anew what this call asks for; other records of the directory stay.
        jobs: worker processes. With more than 1, call this under `if __name__ == "__main__":`.
        device: `cpu` or `cuda`.

    Raises:
        RequestError: something that was asked for is wrong; nothing has been trained.
    """
    if not (training is None or _is_ways(training)):
        wanted = 'a dictionary, for example {"steps": 200}, or a list of them'
        raise RequestError(f"training is {wanted}; received {training!r}")
    if not isinstance(jobs, int) or jobs < 1:
        raise RequestError(f"jobs is a number of processes, 1 or more; received {jobs!r}")
    asked = build_suite(models, tasks, probes, suite=suite, seeds=seeds, examples=examples)
    check_device(device)
    only = STAGES if stages is None else (stages,) if isinstance(stages, str) else stages
    plan = make_plan(asked, default_registry(), device=device, training=training, stages=only)
    return execute(plan, Path(out) if out else default_out(asked), fresh=fresh, jobs=jobs)


def _is_ways(training: Any) -> bool:
    several = isinstance(training, list) and training and all(isinstance(each, dict) for each in training)
    return isinstance(training, dict) or bool(several)


def execute(
    plan: Plan,
    out: Path,
    *,
    fresh: bool = False,
    jobs: int = 1,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Results:
    """Run the cells of a plan that have no record yet (or a failed one); returns the records of all of them.

    Args:
        plan: what to run.
        out: the run directory.
        fresh: delete the records and trained models of this plan first; those of other plans stay.
        jobs: worker processes; 1 runs in this process.
        report: called now and then with how far the run is.
    """
    if jobs > 1:
        _check_workers(plan)
    store = RunDirectory(out)
    kept = _kept_suite(store, plan.suite)
    store.create()
    if fresh:
        store.clear({cell.id for cell in plan.cells} | {planned.trial.id for planned in plan.trials})
    store.write_suite(kept or plan.suite)
    records: dict[str, Record] = {}
    unfinished = []
    for planned in plan.trials:
        known = {cell.id: record for cell in planned.cells if (record := _read(store, cell))}
        done = {cell: record for cell, record in known.items() if record.status != "failed"}
        records |= done
        if left := [cell for cell in planned.cells if cell.id not in done]:
            unfinished.append(replace(planned, cells=left))
    if unfinished:
        with closing(_run(unfinished, out, jobs, report)) as found:
            for record in found:
                records[record.id] = record
                default_registry().notify("harness_record_written", record=record)
    ordered = tuple(records[cell.id] for cell in plan.cells if cell.id in records)
    return Results(called(ordered, plan.suite), out, plan.suite)


def _read(store: RunDirectory, cell: Cell) -> Record | None:
    """The record of a cell, with the files of its plugins where they are now: they may have been moved since it was
    written, and reports tell plugins of one name apart by their places."""
    record = store.read_record(cell.id)
    if record is None:
        return None
    moved: dict[str, PluginUse] = {}
    for kind, use in (("model", cell.trial.model), ("task", cell.trial.task), ("probe", cell.probe)):
        then: PluginUse = getattr(record, kind)
        now = then.model_copy(update={"name": use.name, "label": use.label, "target": use.target})
        if use.file and now != then:
            moved[kind] = now
    if moved:
        record = record.model_copy(update=moved)
        store.write_record(record)
    return record


def _check_workers(plan: Plan) -> None:
    """Refuse code that worker processes do not have."""
    uses = [use for cell in plan.cells for use in (cell.trial.model, cell.trial.task, cell.probe)]
    if here := next((use.label for use in uses if is_given(use)), None):
        raise RequestError(
            f"{here} is known to this process alone, and worker processes would not find it: run with jobs=1, or ask "
            f"for it by its file, for example './file.py:{here}'"
        )


def _kept_suite(store: RunDirectory, asked: Suite) -> Suite | None:
    """The suite that a run directory keeps, if it is another one with claims, which reports would lose.

    Raises:
        RequestError: both have claims, and a directory keeps one suite.
    """
    try:
        found = store.read_suite()
    except RequestError:
        return None
    if found is None or not found.claims or found.name == asked.name:
        return None
    if asked.claims:
        raise RequestError(
            f"{str(store.path)!r} holds the suite {found.name!r} with its claims; choose another directory with --out"
        )
    return found


def _run(
    unfinished: Sequence[Planned], out: Path, jobs: int, report: Callable[[Progress], None]
) -> Generator[Record, None, None]:
    from harness.executors.local import run_local
    from harness.provenance import git_state
    from harness.runner import Work

    revision, dirty = git_state(Path.cwd())
    works = [Work(planned, out, revision=revision, dirty=dirty) for planned in unfinished]
    shares = [0.0] * len(works)
    steps = [planned.trial.training.steps for planned in unfinished]
    total = None if None in steps else sum(filter(None, steps))

    def tell(index: int, share: float) -> None:
        shares[index] = max(shares[index], share)  # a late message of a finished trial changes nothing
        done = sum(share * (n or 0) for share, n in zip(shares, steps, strict=True))
        report(Progress(sum(shares), len(works), done, total))

    tell(0, 0.0)
    if jobs > 1 and len(works) > 1:
        from harness.executors.processes import run_in_processes

        yield from run_in_processes(works, tell, min(jobs, len(works)))
    else:
        yield from run_local(works, tell)
