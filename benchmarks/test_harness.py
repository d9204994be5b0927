"""What the harness itself costs: start-up, planning, resuming, reporting, writing, and what worker processes gain."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bench_tools import title

BARE = "import click, pluggy, importlib.metadata"


INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Environment in which our modules are compiled once, as those of others are."""


def _seconds(*command: str, rounds: int = 5) -> float:
    shortest = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=INSTALLED)
        shortest = min(shortest, time.perf_counter() - started)
    return shortest


@pytest.mark.parametrize("words", ["--help", "list"])
def test_start_up(benchmark: Any, words: str) -> None:
    """Against importing click, pluggy and importlib.metadata."""
    benchmark.group = "start-up"
    command = [str(Path(sys.executable).parent / "harness"), words]
    benchmark.pedantic(_seconds, args=command, kwargs={"rounds": 1}, rounds=5)
    title(
        benchmark, f"harness {words}: {_seconds(*command) / _seconds(sys.executable, '-c', BARE):.2f}x the bare imports"
    )


def _plan(cells: int) -> Any:
    from harness.plan import make_plan
    from harness.registry import default_registry
    from harness.requests import build_suite

    models = [f"lstm:hidden={n}" for n in range(1, 11)]
    probes = [f"grad_reach:examples={n}" for n in range(1, 6)]
    seeds = cells // (len(models) * len(probes) * 2)
    return make_plan(build_suite(models, ["recall"], probes, seeds=seeds), default_registry())


def test_planning(benchmark: Any) -> None:
    """10,000 cells crossed, resolved and identified."""
    benchmark.group = "the harness"
    plan = benchmark.pedantic(_plan, args=[10_000], rounds=3)
    assert len(plan.cells) == 10_000
    title(benchmark, "plan 10,000 cells")


def _records(plan: Any) -> Iterator[Any]:
    """Records as a run of the plan would leave them, with two curves and two scalars each."""
    from harness.measurements import Curve, Measurement, Scalar
    from harness.schema import ModelUse, Provenance, Record, Timing

    x, names = [1.0, 10.0, 20.0, 50.0, 100.0], ("accuracy", "loss")
    measurements: list[Measurement] = [
        *(Curve(name=name, unit="", x=x, y=x, x_label="d", y_label=name, headline=True) for name in names),
        *(Scalar(name=name, unit="", value=0.5, headline=True) for name in ("worst", "best")),
    ]
    provenance = Provenance(
        harness="0", python="3", torch="2", platform="", device="", threads=1, finished=datetime.now(UTC)
    )
    for cell in plan.cells:
        trial = cell.trial
        yield Record(
            id=cell.id,
            trial=trial.id,
            status="ok",
            model=ModelUse(**trial.model.model_dump(), parameters=1),
            task=trial.task,
            probe=cell.probe,
            training=trial.training,
            stage=cell.stage,
            seed=trial.seed,
            examples=cell.examples,
            measurements=measurements,
            timing=Timing(probe=0.0),
            provenance=provenance,
        )


def _written(folder: Path, cells: int) -> Any:
    from harness.store import RunDirectory

    plan = _plan(cells)
    store = RunDirectory(folder)
    store.create()
    store.write_suite(plan.suite)
    for record in _records(plan):
        (store.records / f"{record.id}.json").write_text(record.model_dump_json(indent=1), encoding="utf-8")
    return plan


def test_resuming(benchmark: Any, tmp_path: Path) -> None:
    """A finished run of 1,000 cells, planned and found finished; torch's own import comes on top."""
    from harness.execution import execute

    plan = _written(tmp_path, 1_000)
    benchmark.group = "the harness"
    results = benchmark.pedantic(lambda: execute(_plan(1_000), tmp_path), rounds=3)
    assert len(results) == len(plan.cells)
    title(benchmark, "resume a finished run of 1,000 cells")


def test_reporting(benchmark: Any, tmp_path: Path) -> None:
    """10,000 records read and shown, in a process of its own, whose peak memory is in the name."""
    _written(tmp_path, 10_000)
    benchmark.group = "the harness"
    peak = benchmark.pedantic(_peak, args=["report", str(tmp_path)], rounds=1)
    title(benchmark, f"report 10,000 records, peak {peak:.0f} MiB")


def test_page(benchmark: Any, tmp_path: Path) -> None:
    """A page of 10,000 records with curves, matrices and patterns, of 100 models on 4 tasks; at most 30 s, 20 MB, and 1
    GiB beyond reading them."""
    pytest.importorskip("altair", reason="pages need the extra `page`")
    run, page = tmp_path / "run", tmp_path / "page.html"
    assert _probed(run, models=100, tasks=4, seeds=5) == 10_000
    benchmark.group = "the harness"
    reading = _peak(str(run), do="import harness; harness.load(sys.argv[1])")
    peak = benchmark.pedantic(_peak, args=["report", str(run), "--format", "html", "--out", str(page)], rounds=1)
    size = page.stat().st_size / 1e6
    assert size < 20
    assert "Not on this page" in page.read_text(encoding="utf-8")
    title(benchmark, f"page of 10,000 records, {size:.1f} MB, peak {peak - reading:.0f} MiB beyond reading")


def _peak(*words: str, do: str = "from harness.cli import main; main(sys.argv[1:], standalone_mode=False)") -> float:
    """A command in a process of its own; the most memory that it held, in MiB."""
    code = (
        "import re, sys; from pathlib import Path\n"
        f"{do}\n"
        "status = Path('/proc/self/status')\n"
        "peak = re.search(r'VmHWM:\\s*(\\d+) kB', status.read_text() if status.exists() else '')\n"
        "sys.stderr.write(peak[1] if peak else 'nan')"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True, encoding="utf-8")
    return float(done.stderr) / 1024


def _probed(folder: Path, models: int, tasks: int, seeds: int) -> int:
    """Write what five probes would leave of so many models, tasks and seeds; gives the number of records."""
    from harness.store import RunDirectory

    plan = _plan(100)
    store = RunDirectory(folder)
    store.create()
    store.write_suite(plan.suite)
    first = next(_records(plan))
    cells = itertools.product(range(models), range(tasks), range(seeds), _measurements().items())
    for n, (model, task, seed, (probe, measurements)) in enumerate(cells):
        uses = {"model": f"gpt:layers={model}", "task": f"recall:train_max={task}", "probe": probe}
        changed = {
            kind: getattr(first, kind).model_copy(update={"label": label, "name": label.partition(":")[0]})
            for kind, label in uses.items()
        }
        record = first.model_copy(
            update={
                "id": f"{n:016x}",
                "trial": f"{n // 5:016x}",
                "seed": seed,
                "stage": "trained",
                "measurements": measurements,
                **changed,
            }
        )
        (store.records / f"{record.id}.json").write_text(record.model_dump_json(indent=1), encoding="utf-8")
    return n + 1


def _measurements() -> dict[str, list[Any]]:
    """By probe, as much as one measures of a small model: curves of ten places, matrices of eight heads, a pattern."""
    from harness.measurements import Curve, Matrix, Pattern, Scalar

    heads = [f"layer {layer} head {head}" for layer in (1, 2) for head in (1, 2, 3, 4)]
    x = [float(n) for n in range(1, 11)]

    def curve(name: str) -> Curve:
        return Curve(name=name, unit="share", x=x, y=[0.5] * 10, x_label="distance", y_label="share", headline=True)

    def matrix(name: str, columns: list[str]) -> Matrix:
        values = [[0.5] * len(columns)] * 9
        rows = ["nothing", *heads]
        return Matrix(
            name=name,
            unit="share",
            values=values,
            rows=rows,
            columns=columns,
            row_label="head",
            column_label="place",
            headline=True,
        )

    weights = [[1 / (query + 1)] * (query + 1) for query in range(24)]
    pattern = Pattern(
        name="pattern", tokens=[f"d{n}" for n in range(24)], heads=heads, weights=[weights] * 8, cue=0, query=23
    )
    worst = Scalar(name="worst_inside", unit="share", value=0.9, verdict="learned", headline=True)
    return {
        "accuracy": [curve("accuracy"), worst],
        "grad_reach": [curve("reach")],
        "attention_to_subject": [matrix("share_on_cue", [str(n) for n in x]), curve("sharpest_share"), pattern],
        "edge_cut": [*map(curve, ("untouched", "cue_cut", "sham_cut")), matrix("by_head", ["attention", "accuracy"])],
        "speed": [curve("forward")],
    }


def test_writing(benchmark: Any, tmp_path: Path) -> None:
    """One record, flushed to disk and renamed."""
    from harness.store import RunDirectory

    store = RunDirectory(tmp_path)
    store.create()
    record = next(_records(_plan(100)))
    benchmark.group = "the harness"
    benchmark(store.write_record, record)
    title(benchmark, "write one record")


def test_jobs(benchmark: Any, tmp_path: Path) -> None:
    """Eight trials of an LSTM with one worker process and with one per core: the whole command, whose start-up no core
    shortens, and from the finished plan to the last record; the shorter of two runs each, in turns."""
    import harness
    from harness.devices import default_jobs

    def run(jobs: int) -> tuple[float, float]:
        request = ["--model", "lstm", "--task", "recall:train_max=100", "--seeds", "8", "--training", "steps=200"]
        command = [str(Path(sys.executable).parent / "harness"), "run", *request, "--fresh"]
        seconds = _seconds(*command, "--jobs", str(jobs), "--out", str(tmp_path / "run"), rounds=1)
        made = [record.provenance for record in harness.load(tmp_path / "run")]
        first = min(each.started for each in made if each.started)
        return seconds, (max(each.finished for each in made) - first).total_seconds()

    cores = default_jobs()
    benchmark.group = "jobs, 8 trials"
    alone = [run(1)]
    together = [benchmark.pedantic(run, args=[cores], rounds=1)]
    alone.append(run(1))
    together.append(run(cores))
    whole, trials = (
        min(a) / min(b) for a, b in zip(zip(*alone, strict=True), zip(*together, strict=True), strict=True)
    )
    title(benchmark, f"--jobs {cores}: {whole:.2f}x as fast as --jobs 1; without the start-up {trials:.2f}x")


def _processor_seconds() -> float:
    """Of this process, of the server that trials are forked from, and of all of those that have ended."""
    from harness.executors.start import server

    used = time.process_time()
    if (pid := server()) is not None:
        times = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()[11:15]
        used += sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    return used


def _tiny_trials(trials: int) -> Any:
    """A plan of trials that train and measure next to nothing."""
    from harness.plan import make_plan
    from harness.registry import default_registry
    from harness.requests import build_suite

    suite = build_suite(["elman:hidden=8"], ["recall:distances=[1,5]"], ["accuracy"], seeds=trials, examples=8)
    return make_plan(suite, default_registry(), training={"steps": 1, "batch_size": 4})


def test_fresh_processes(benchmark: Any, tmp_path: Path) -> None:
    """Tiny trials one after the other, each in a new process, against the same trials in this process; the shortest of
    four runs each, in turns."""
    from harness.execution import execute
    from harness.executors import Limits
    from harness.executors.local import Local
    from harness.executors.processes import Processes

    plan = _tiny_trials(40)

    def run(executor: Any) -> tuple[float, float]:
        started, used = time.perf_counter(), _processor_seconds()
        results = execute(plan, tmp_path / "run", fresh=True, executor=executor)
        assert {record.status for record in results} == {"ok"}
        spent = time.perf_counter() - started, _processor_seconds() - used
        return spent[0] * 1e3 / len(plan.trials), spent[1] * 1e3 / len(plan.trials)

    benchmark.group = "the harness"
    alone, fresh = Local(), Processes(1, Limits())
    found = [(run(alone), run(fresh)) for _ in range(3)]
    found.append((run(alone), benchmark.pedantic(run, args=[fresh], rounds=1)))
    (wall, fresh_wall), (used, fresh_used) = (
        [min(each[who][unit] for each in found) for who in (0, 1)] for unit in (0, 1)
    )
    title(
        benchmark,
        f"a new process for each trial: {fresh_wall - wall:.0f} ms on top of {wall:.0f} ms "
        f"({fresh_used - used:.0f} on {used:.0f} ms of processor time)",
    )


def test_ray(benchmark: Any, tmp_path: Path) -> None:
    """Tiny trials one after the other as tasks of Ray, each of which is a new process, against the same trials in this
    process, and against a task that does nothing; the shortest of four runs each, in turns."""
    ray: Any = pytest.importorskip("ray", reason="needs the extra `ray`")
    from harness_plugins.executors.ray import Ray

    from harness.execution import execute
    from harness.executors import Limits
    from harness.executors.local import Local

    plan = _tiny_trials(20)

    def run(executor: Any) -> float:
        """Milliseconds from one record to the next one."""
        times: list[float] = []

        def timed(works: Any, tell: Any) -> Iterator[Any]:
            for record in executor(works, tell):
                times.append(time.perf_counter())
                yield record

        results = execute(plan, tmp_path / "run", fresh=True, executor=timed)
        assert {record.status for record in results} == {"ok"}
        return (times[-1] - times[0]) * 1e3 / (len(times) - 1)

    def nothing() -> float:
        started = time.perf_counter()
        ray.get(task.remote())
        return (time.perf_counter() - started) * 1e3

    benchmark.group = "the harness"
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "CRITICAL"}
    ray.init(address="local", num_cpus=1, **quiet, object_store_memory=10**8)
    try:
        task = ray.remote(lambda: None)
        empty = min(nothing() for _ in range(100))
        alone, sent = Local(), Ray(1, Limits())
        run(sent)  # its machine imports torch
        found = [(run(alone), run(sent)) for _ in range(3)]
        found.append((run(alone), benchmark.pedantic(run, args=[sent], rounds=1)))
    finally:
        ray.shutdown()
    here, there = map(min, zip(*found, strict=True))
    title(
        benchmark,
        f"a trial as a task of Ray: {there - here:.0f} ms on top of {here:.0f} ms; a task that does nothing: "
        f"{empty:.1f} ms",
    )
