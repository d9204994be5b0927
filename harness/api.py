"""The harness as a library: the same as the command line, with results as Python objects."""

import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError

from harness.errors import RequestError, did_you_mean
from harness.plan import Plan, Planned, make_plan
from harness.registry import default_registry
from harness.schema import PluginUse, Record
from harness.store import RunDirectory
from harness.suites import Request, Suite, explain, load_suite
from harness.targets import content_hash
from harness.vocabulary import STAGES, Format, Stage


class Progress(NamedTuple):
    """How far a run is."""

    trials: float
    """Trials done; one on its way counts as its share."""
    all_trials: int
    steps: float
    """Training steps done."""
    all_steps: int | None
    """None where a training is measured in epochs."""


@dataclass(frozen=True)
class Results:
    """The records of a run; behaves like a sequence of them."""

    records: tuple[Record, ...]
    out: Path
    suite: Suite | None = None
    unfiltered: tuple[Record, ...] = field(default=(), repr=False)
    """All records of the run, if these were filtered from them."""

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Record:
        return self.records[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def filter(
        self,
        *,
        model: str | None = None,
        task: str | None = None,
        probe: str | None = None,
        stage: str | None = None,
        status: str | None = None,
        seed: int | None = None,
    ) -> "Results":
        """The records that fit. Plugins are named (`gpt`: all its configurations) or labelled (`gpt:position=none`).

        Raises:
            RequestError: the run has no such model, task, probe or seed at all, or there is no such stage or status.
        """
        asked = {"model": model, "task": task, "probe": probe, "stage": stage, "status": status, "seed": seed}
        wanted = {name: value for name, value in asked.items() if value is not None}
        whole = self.unfiltered or self.records
        fixed = {"stage": STAGES, "status": get_args(Record.model_fields["status"].annotation)}
        for name, value in wanted.items():
            known = fixed.get(name) or sorted({each for record in whole for each in _said(record, name)})
            if value not in known:
                words = [str(each) for each in known]
                guess = did_you_mean(str(value), words)
                raise RequestError(f"these results have no {name} {value!r}.{guess} There are: {', '.join(words)}.")
        kept = [r for r in self.records if all(value in _said(r, name) for name, value in wanted.items())]
        return replace(self, records=tuple(kept), unfiltered=whole)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per number and seed, ready for a data frame."""
        from harness.report import rows

        return rows(self.records)

    def render(self, format: Format = "text") -> str:
        """The report: `text`, `markdown`, `latex`, `csv` or `json`."""
        from harness.report import can_draw, render

        return render(list(self.records), self.suite, format=format, ascii=not can_draw(sys.stdout.encoding))

    def __str__(self) -> str:
        return self.render()


def _said(record: Record, name: str) -> tuple[Any, ...]:
    """What a record has by that name: for a plugin its name and its label."""
    value = getattr(record, name)
    return (value.name, value.label) if isinstance(value, PluginUse) else (value,)


Requests = str | Request | Sequence[str | Request]


def run(
    models: Requests | None = None,
    tasks: Requests | None = None,
    probes: Requests | None = None,
    *,
    suite: Suite | str | Path | None = None,
    seeds: int | None = None,
    training: dict[str, Any] | None = None,
    stages: Stage | Sequence[Stage] | None = None,
    examples: int | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
    jobs: int = 1,
    device: str = "cpu",
) -> Results:
    """Cross models, tasks and probes over seeds, run what is not yet measured, and return the records.

    Args:
        models: what to measure, for example `["lstm", "gpt:position=none"]`; or give a suite.
        tasks: what the models face; `["recall"]` if not said.
        probes: what to measure; `["accuracy"]` if not said.
        suite: a suite, its file or the name of a built-in one, instead of models, tasks and probes.
        seeds: seeds 0 to seeds - 1 (3 if not said).
        training: training settings that win over all others, for example `{"steps": 200}`.
        stages: only these stages, `initial` or `trained`; claims about the other one stay undecided.
        examples: evaluation examples per condition.
        out: the run directory; `runs/<suite>` or `runs/<models>+<tasks>` if not said.
        fresh: measure everything anew.
        jobs: worker processes. With more than 1, call this under `if __name__ == "__main__":`.
        device: `cpu` or `cuda`.

    Raises:
        RequestError: something that was asked for is wrong; nothing has been trained.
    """
    if training is not None and not isinstance(training, dict):
        raise RequestError(f'training is a dictionary, for example {{"steps": 200}}; received {training!r}')
    if not isinstance(jobs, int) or jobs < 1:
        raise RequestError(f"jobs is a number of processes, 1 or more; received {jobs!r}")
    asked = build_suite(models, tasks, probes, suite=suite, seeds=seeds, examples=examples)
    check_device(device)
    only = STAGES if stages is None else (stages,) if isinstance(stages, str) else stages
    plan = make_plan(asked, default_registry(), device=device, training=training, stages=only)
    return execute(plan, Path(out) if out else default_out(asked), fresh=fresh, jobs=jobs)


def build_suite(
    models: Requests | None = None,
    tasks: Requests | None = None,
    probes: Requests | None = None,
    *,
    suite: Suite | str | Path | None = None,
    seeds: int | None = None,
    examples: int | None = None,
) -> Suite:
    """One suite from whatever the user gave.

    Raises:
        RequestError: it is not clear what to measure, or a part of it is wrong.
    """
    crossed = {"models": models, "tasks": tasks, "probes": probes}
    named: dict[str, Any] = {name: _listed(value) for name, value in crossed.items() if value is not None}
    given: dict[str, Any]
    if suite is not None:
        if named:
            raise RequestError(
                f"a suite says itself what it crosses: leave out the {' and '.join(named)}, or the suite"
            )
        given = (suite if isinstance(suite, Suite) else find_suite(str(suite))).model_dump()
    elif not models:
        raise RequestError("nothing to measure: name a model (--model lstm) or a suite (harness list suites)")
    else:
        given = {"experiments": [named]}
    given |= {key: value for key, value in (("seeds", seeds), ("examples", examples)) if value is not None}
    try:
        built = Suite.model_validate(given)
    except ValidationError as error:
        lines = explain(error, Suite).replace("experiments.0.", "")
        raise RequestError(f"the request is wrong:\n{lines}") from None
    return built if suite is not None else built.model_copy(update={"name": _name(built)})


def _listed(requests: Any) -> list[Any]:
    """One request may be given without a list around it."""
    return (
        list(requests)
        if isinstance(requests, Iterable) and not isinstance(requests, str | dict | Request)
        else [requests]
    )


def find_suite(name: str) -> Suite:
    """A suite from a file, or a built-in one by name.

    Raises:
        RequestError: there is no such file or name, or the file is wrong.
    """
    from importlib.resources import files

    if name.endswith(".toml") or os.path.isfile(name):  # noqa: PTH113 - a Path raises if a name is too long
        return load_suite(Path(name))
    registry = default_registry()
    try:
        entry = registry.find("suite", name)
    except RequestError as error:
        plugin = name.partition(":")[0]
        kinds = [kind for kind in ("model", "task", "probe") if plugin in (e.spec.name for e in registry.all(kind))]
        hints = (f" There is a {kind} of that name: give it with --{kind} {name}." for kind in kinds)
        raise RequestError(f"{error}{''.join(hints)}") from None
    package, _, file = entry.spec.target.partition(":")
    return load_suite(Path(str(files(package) / file)))


def _name(suite: Suite) -> str:
    """A folder name that says which models face which tasks; other probes find the models trained there."""
    (experiment,) = suite.experiments
    words = (Path(request.name).name for request in (*experiment.models, *experiment.tasks))
    text = "+".join(dict.fromkeys("".join(c if c.isalnum() or c in "._-" else "-" for c in word) for word in words))
    return text if len(text) <= 60 else f"{text[:50].rstrip('+')}+{content_hash(text)[:6]}"


def default_out(suite: Suite) -> Path:
    """Where a run goes if the user does not say; the same request finds its records again."""
    return Path("runs") / suite.name


def check_device(device: str) -> None:
    """Refuse a device that is not there.

    Raises:
        RequestError: no such device.
    """
    if not re.fullmatch(r"cpu|cuda(:\d+)?", str(device)):
        raise RequestError(f"there is no device {device!r}; choose cpu or cuda")
    if device != "cpu":
        import torch

        available = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(device.partition(":")[2] or 0) >= available:
            raise RequestError(f"the device {device!r} is not available to torch {torch.__version__}; use --device cpu")


def default_jobs() -> int:
    """One worker per core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
        fresh: delete the records that are there first.
        jobs: worker processes; 1 runs in this process.
        report: called now and then with how far the run is.
    """
    store = RunDirectory(out)
    kept = None if fresh else _kept_suite(store, plan.suite)
    store.create()
    if fresh:
        store.clear()
    store.write_suite(kept or plan.suite)
    records: dict[str, Record] = {}
    unfinished = []
    for planned in plan.trials:
        known = {cell.id: record for cell in planned.cells if (record := store.read_record(cell.id))}
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
    return Results(ordered, out, plan.suite)


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
            f"{str(store.path)!r} holds the suite {found.name!r} with its claims; choose another directory with --out, "
            "or delete what is there with --fresh"
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
