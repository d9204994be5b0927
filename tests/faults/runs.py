"""Runs of `harness run` in processes of their own, and what became of the cells that have no part in a fault."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import harness
from faults.kinds import Fault
from harness.files import sha256, temporaries
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

TIMEOUT = 240.0
"""Seconds after which a run counts as one that never ends."""


@dataclass(frozen=True)
class Asked:
    """A run of trials so small that faults are most of it."""

    probes: Sequence[str]
    models: Sequence[str] = MODELS
    tasks: Sequence[str] = TASKS
    seeds: int = SEEDS
    jobs: int = 2
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def trials(self) -> int:
        """How many there are."""
        return len(self.models) * len(self.tasks) * self.seeds

    def command(self, out: Path) -> list[str]:
        """As somebody types it."""
        words = [("--model", each) for each in self.models] + [("--task", each) for each in self.tasks]
        words += [("--probe", each) for each in self.probes]
        words += [("--jobs", str(self.jobs)), ("--seeds", str(self.seeds))]
        words += [("--training", "steps=2,batch_size=4,validate_every=2"), ("--examples", "8"), ("--out", str(out))]
        words += [(f"--{name}", f"{value:g}") for name, value in self.limits.items()]
        return [HARNESS, "run", *(word for pair in words for word in pair)]

    def here(self, out: Path) -> "Ended":
        """The same from this process, which has the server that workers are forked from: at once."""
        results = harness.run(
            list(self.models),
            list(self.tasks),
            list(self.probes),
            seeds=self.seeds,
            jobs=self.jobs,
            training={"steps": 2, "batch_size": 4, "validate_every": 2},
            examples=8,
            out=out,
            executor="processes",
            timeout=self.limits.get("timeout"),
            memory=self.limits.get("memory"),
        )
        return Ended(int(any(record.status == "failed" for record in results)))


@dataclass(frozen=True)
class Ended:
    """A run that is over."""

    code: int | None
    """Its exit code; None: it had to be ended."""
    errors: str = ""
    left: int = 0
    """Processes that outlived it."""


@dataclass(frozen=True)
class Running:
    """A command on its way, with its processes."""

    process: subprocess.Popen[bytes]
    mark: str
    errors: Path

    @classmethod
    def start(cls, words: Sequence[str], folder: Path) -> "Running":
        """In a process group of its own."""
        mark, errors = uuid.uuid4().hex, folder / "errors.txt"
        with errors.open("wb") as file:  # a pipe would wait for whoever holds it open
            process = subprocess.Popen(
                words,
                cwd=folder,
                env={**os.environ, MARK: mark, "OMP_NUM_THREADS": "1", "PWD": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                start_new_session=True,
            )
        return cls(process, mark, errors)

    def ended(self) -> Ended:
        """At the latest after `TIMEOUT` seconds; what it has left is ended."""
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = self.process.wait(TIMEOUT)
        left = self._end_all()
        self.process.wait()
        return Ended(code, self.errors.read_bytes().decode("utf-8", "replace"), left)

    def _end_all(self) -> int:
        """Kill what lives; how many there were. What is just ending gets the time for that: a server that has lost its
        run while it was importing torch sees that when it has done so."""
        deadline = time.monotonic() + TIMEOUT
        while (found := [*self.processes()]) and time.monotonic() < deadline:
            time.sleep(0.02)
        for each in found:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        return len(found)

    def processes(self) -> Iterator[int]:
        """All that live, known by their environment at their start."""
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with suppress(OSError):
                    state = (folder / "stat").read_bytes().rpartition(b") ")[2][:1]
                    if f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes() and state not in b"ZX":
                        yield int(folder.name)

    def servers(self) -> list[int]:
        """The one that workers are forked from, as soon as it is there."""
        return [
            each for each in self.processes() if _parent(each) == self.process.pid and b"forkserver" in _words(each)
        ]

    def workers(self) -> list[int]:
        """Processes of trials."""
        servers = self.servers()
        return [each for each in self.processes() if _parent(each) in servers]


def _parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b") ")[2].split()[1])
    except OSError:
        return 0


def _words(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def finish(words: Sequence[str], folder: Path) -> Ended:
    """Run a command to its end."""
    return Running.start(words, folder).ended()


def said(record: Record) -> str:
    """What a record says, but for times."""
    return record.model_dump_json(exclude={"timing": True, "provenance": True, "trained": {"seconds"}})


def essence(store: RunDirectory, record: Record) -> str:
    """All of a record that must not depend on when, beside what, and how often it was measured; with the parameters
    that were learned, unless the run directory itself says that the file is damaged, and who may read it."""
    kept = record.trained and store.read_trained(record.trial)
    learned = sha256(store.checkpoint(record.trial)) if kept else ""
    mode = oct((store.records / f"{record.id}.json").stat().st_mode)
    return f"{said(record)} {record.provenance.settings} {record.provenance.threads} {mode} {learned}"


def measured(run: Path) -> dict[str, str]:
    """What all cells of a run directory say, by id."""
    store = RunDirectory(run)
    return {record.id: essence(store, record) for record in store.read_records()}


def unfinished(run: Path) -> int:
    """Temporary files that are left in a run directory."""
    return sum(len(temporaries(each)) for each in RunDirectory(run).folders)


@dataclass(frozen=True)
class Clean:
    """A run in which nothing happened."""

    run: Path
    asked: Asked

    def of(self, asked: Asked) -> dict[str, str]:
        """What the cells say of what was asked for, by id."""
        store = RunDirectory(self.run)
        return {
            record.id: essence(store, record)
            for record in store.read_records()
            if record.model.label in asked.models and record.task.label in asked.tasks and record.seed < asked.seeds
        }


def innocent(folder: Path, seeds: int) -> Clean:
    """Run innocent plugins alone."""
    (folder / "look.py").write_text(LOOK, encoding="utf-8")
    asked = Asked([each.format(folder=folder) for each in STAGES], seeds=seeds)
    ended = finish(asked.command(folder / "run"), folder)
    assert ended.code == 0, ended.errors
    records = list(RunDirectory(folder / "run").read_records())
    assert len(records) == asked.trials * sum(STAGES.values())
    assert {record.model.label for record in records} == {*MODELS}
    assert {record.task.label for record in records} == {*TASKS}
    return Clean(folder / "run", asked)


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


def beside(fault: Fault, folder: Path, clean: Clean, *, jobs: int, small: bool = False) -> tuple[Counts, Ended]:
    """Run innocent plugins beside a hostile one.

    Args:
        fault: what the hostile one does.
        folder: an empty one.
        clean: what the innocent ones say alone.
        jobs: trials at a time.
        small: two or four trials, from this process, instead of as many as there are in `clean`.
    """
    path = folder / "hostile.py"
    path.write_text(fault.source, encoding="utf-8")
    hostile = {kind: [f"{path}:{kind}"] if fault.plugin == kind else [] for kind in "MTp"}
    models, tasks, seeds = (MODELS[:2], TASKS[:1], 1) if small else (MODELS, TASKS, clean.asked.seeds)
    asked = Asked(
        [*hostile["p"], *clean.asked.probes],
        [models[0], *hostile["M"], *models[1:]][: len(models) + small],
        [*hostile["T"], *tasks][: len(tasks) + small],
        seeds,
        jobs,
        fault.limits,
    )
    ended = asked.here(folder / "run") if small else finish(asked.command(folder / "run"), folder)
    return count(fault, asked, folder / "run", clean, ended), ended


def count(fault: Fault, asked: Asked, run: Path, clean: Clean, ended: Ended) -> Counts:
    """What became of a run beside a fault."""
    store, wanted = RunDirectory(run), clean.of(asked)
    looks = (1 if fault.place == "top" else 2) if fault.plugin == "p" else 0  # one that is broken says of no other
    own = asked.trials * (sum(STAGES.values()) + looks) - len(wanted)
    found: Counter[str] = Counter()
    for record in store.read_records(lambda told: None) if store.exists else ():
        if record.id not in wanted:
            found[f"own_{record.status}"] += 1
        elif record.status == "failed":
            found["failed"] += 1
        else:
            text, before = essence(store, record), wanted[record.id]
            damaged = fault.damages and before.startswith(text)
            found["identical" if text == before or damaged else "different"] += 1
    counts = Counts(
        **found,
        missing=len(wanted) - found["identical"] - found["different"] - found["failed"],
        own_missing=own - found["own_ok"] - found["own_failed"],
        endless=int(ended.code is None),
        left=ended.left + unfinished(run),
    )
    assert set(found) <= set(asdict(counts))
    return counts
