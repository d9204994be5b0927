"""Runs of `harness run` in processes of their own, and what became of the cells that have no part in a fault."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from faults.kinds import Fault
from harness.files import digest, temporaries
from harness.schema import Record
from harness.store import RunDirectory

HARNESS = str(Path(sys.executable).parent / "harness")
MODELS = ("lstm:hidden=4", "gpt:layers=1,heads=1,d_model=8,dropout=0.1", "gru:hidden=4", "elman:hidden=4")
TASKS = ("recall:train_max=3,distances=[1,4]", "recall:train_max=2,distances=[1,3]")
SEEDS = 3
"""With four models and two tasks these are 24 trials."""

LOOK = """
import os
import numpy, torch
from harness import Scalar

def look(subject):
    print("looking")
    seen = [torch.rand(1), torch.randn(2).sum(), numpy.random.rand(), torch.ones(2).mean().dtype.itemsize]
    seen += [os.path.samefile(".", os.environ["PWD"]), len(os.environ["PATH"])]
    for condition in subject.task.conditions():
        batch = subject.batch(condition)
        seen += [batch.tokens.sum(), batch.targets.sum(), subject.model(batch.tokens).sum()]
        seen += [each.sum() for each in subject.scores(condition).values()]
    for place, value in enumerate(seen):
        yield Scalar(name=f"seen {place}", unit="", value=float(torch.as_tensor(value).detach()))

look.stages = ("initial", "trained")
"""
"""An innocent probe, which sees and uses much of what others may have changed."""

STAGES = {"{folder}/look.py:look": 2, "accuracy": 1, "grad_reach": 2}
"""Innocent probes, and at how many stages they look."""

MARK = "HARNESS_TEST_OF_FAULTS"
"""The environment variable by which processes of a run are known."""

LONGEST = 240.0
"""Seconds after which a run counts as one that never ends."""


@dataclass(frozen=True)
class Ended:
    """A command that is over."""

    code: int | None
    """None: it had to be ended."""
    errors: str
    left: int
    """Processes that outlived it."""


def command(out: Path, probes: Sequence[str], *more: str, **asked: Sequence[str]) -> list[str]:
    """A run of trials so small that faults are most of it."""
    words = [("--model", each) for each in asked.get("models", MODELS)]
    words += [("--task", each) for each in asked.get("tasks", TASKS)] + [("--probe", each) for each in probes]
    words += [("--training", "steps=2,batch_size=4,validate_every=2"), ("--examples", "8"), ("--out", str(out))]
    return [HARNESS, "run", *(word for pair in words for word in pair), *more]


def environment(mark: str) -> dict[str, str]:
    """Of a run: one thread for each process, and by which mark they are found again."""
    return {**os.environ, MARK: mark, "OMP_NUM_THREADS": "1"}


def finish(words: Sequence[str], folder: Path) -> Ended:
    """Run a command to its end, at the latest after `LONGEST` seconds; end what it has left."""
    mark = uuid.uuid4().hex
    with (folder / "errors.txt").open("w+b") as errors:  # a pipe would wait for whoever holds it open
        process = subprocess.Popen(
            words,
            cwd=folder,
            env={**environment(mark), "PWD": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            code = None
        left = end_all(mark)
        process.wait()
        errors.seek(0)
        return Ended(code, errors.read().decode("utf-8", "replace"), left)


def end_all(mark: str) -> int:
    """Kill the processes with a mark; how many there were. What is just ending gets a moment for that."""
    deadline = time.monotonic() + 5
    while (found := [*marked(mark)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    for each in found:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    return len(found)


def marked(mark: str) -> Iterator[int]:
    """The processes with a mark, by their environment at their start."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                state = (folder / "stat").read_bytes().rpartition(b") ")[2][:1]
                if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes() and state not in b"ZX":
                    yield int(folder.name)


def essence(store: RunDirectory, record: Record) -> str:
    """All of a record that must not depend on when, beside what, and how often it was measured; with the parameters
    that were learned."""
    learned = digest(store.checkpoint(record.trial)) if record.trained else ""
    mode = oct((store.records / f"{record.id}.json").stat().st_mode)
    said = record.model_dump_json(exclude={"timing": True, "provenance": True, "trained": {"seconds"}})
    return f"{said} {record.provenance.settings} {record.provenance.threads} {learned} {mode}"


def measured(out: Path) -> dict[str, str]:
    """What the cells of a run directory say, by id."""
    store = RunDirectory(out)
    return {record.id: essence(store, record) for record in store.read_records()}


@dataclass(frozen=True)
class Counts:
    """What became of the cells that have no part in a fault, of the others, and of the run."""

    identical: int = 0
    different: int = 0
    """Other numbers, without a word."""
    failed: int = 0
    """With a record that says why."""
    missing: int = 0
    """Without a record."""
    endless: int = 0
    """1 if the run did not end by itself."""
    left: int = 0
    """Processes that outlived the run, and temporary files."""
    own_failed: int = 0
    """Cells that the hostile plugin has part in, and that say why they failed."""
    own_ok: int = 0
    own_missing: int = 0


def innocent(folder: Path, seeds: int) -> Path:
    """The run directory of a run in which nothing happens, and the probe that others use as well."""
    (folder / "look.py").write_text(LOOK, encoding="utf-8")
    ended = finish(command(folder / "run", _probes(folder), "--seeds", str(seeds)), folder)
    assert ended.code == 0, ended.errors
    records = list(RunDirectory(folder / "run").read_records())
    assert len(records) == seeds * len(MODELS) * len(TASKS) * sum(STAGES.values())
    assert {record.model.label for record in records} == {*MODELS}
    assert {record.task.label for record in records} == {*TASKS}
    return folder / "run"


def _probes(folder: Path) -> list[str]:
    return [each.format(folder=folder) for each in STAGES]


def beside(faults: Sequence[Fault], folder: Path, clean: Path, *, jobs: int, seeds: int) -> tuple[Counts, Ended]:
    """Run innocent plugins beside hostile ones.

    Args:
        faults: what the hostile ones do.
        folder: an empty one.
        clean: what `innocent` has left.
        jobs: trials at a time.
        seeds: of each trial.
    """
    hostile: dict[str, list[str]] = {"M": [], "T": [], "p": []}
    for number, fault in enumerate(faults):
        path = folder / f"hostile{number}.py"
        path.write_text(fault.source, encoding="utf-8")
        hostile[fault.plugin].append(f"{path}:{fault.plugin}")
    asked_probes = [*hostile["p"], *_probes(clean.parent)]
    models = [MODELS[0], *hostile["M"], *MODELS[1:]][: max(len(MODELS), len(hostile["M"]) + 2)]
    tasks = [*hostile["T"], *TASKS][: max(len(TASKS), len(hostile["T"]) + 1)]
    options = [*(word for fault in faults for word in fault.options), "--jobs", str(jobs), "--seeds", str(seeds)]
    asked = command(folder / "run", asked_probes, *options, models=models, tasks=tasks)
    ended = finish(asked, folder)

    store, before = RunDirectory(folder / "run"), RunDirectory(clean)
    wanted = {
        record.id: essence(before, record)
        for record in before.read_records()
        if record.model.label in models and record.task.label in tasks and record.seed < seeds
    }
    looks = sum(1 if fault.place == "top" else 2 for fault in faults if fault.plugin == "p")  # a broken one has none
    own = len(models) * len(tasks) * seeds * (sum(STAGES.values()) + looks) - len(wanted)
    found: Counter[str] = Counter(left=ended.left + sum(len(temporaries(each)) for each in store.folders))
    for record in store.read_records(lambda told: None) if store.exists else ():
        if record.id not in wanted:
            found[f"own_{record.status}"] += 1
        elif record.status == "failed":
            found["failed"] += 1
        else:
            found["identical" if essence(store, record) == wanted[record.id] else "different"] += 1
    found["missing"] = len(wanted) - found["identical"] - found["different"] - found["failed"]
    found["own_missing"] = own - found["own_ok"] - found["own_failed"]
    found["endless"] = ended.code is None
    return Counts(**found), ended
