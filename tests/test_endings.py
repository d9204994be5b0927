"""However a plugin ends, or does not, its own cells fail and say why; others are measured, with the same numbers."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import SHORT
from small_runs import IN_PROCESSES

import harness
from harness.errors import RequestError
from harness.execution import execute
from harness.executors import Limits, processes
from harness.plan import make_plan
from harness.registry import default_registry
from harness.requests import build_suite
from harness.schema import Record
from harness.store import RunDirectory

MODEL = """
import os, signal, subprocess, sys, threading, time
from pathlib import Path
import torch
from torch import nn

def daemon(place):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(place).write_text(str(os.getpid()))
            time.sleep(10**6)
        os._exit(0)
    while not Path(place).exists() or not Path(place).read_text():
        time.sleep(0.01)

def child(place):
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10**6)"], start_new_session=True)
    Path(place).write_text(str(started.pid))

def patches(place):
    plain = torch.nn.functional.cross_entropy
    torch.nn.functional.cross_entropy = lambda *given, **named: plain(*given, **named) * 2
    torch.set_default_dtype(torch.float64)
    os.chdir("/")
    os._exit = lambda code: None

DEEDS = {
    "exit": lambda place: os._exit(0),
    "crash": lambda place: os.kill(os.getpid(), signal.SIGSEGV),
    "close": lambda place: os.closerange(3, 100) or os._exit(0),
    "hang": lambda place: Path(place).touch() or time.sleep(10**6),
    "thread": lambda place: threading.Thread(target=time.sleep, args=(10**6,)).start(),
    "daemon": daemon,
    "child": child,
    "patches": patches,
}

class M(nn.Embedding):
    def __init__(self, vocab_size: int, deed: str, place: str = "") -> None:
        super().__init__(vocab_size, vocab_size)
        DEEDS[deed](place)
"""


@pytest.fixture
def run(plugin_file: Callable[..., str], tmp_path: Path) -> Callable[..., list[Record]]:
    """The records of a model that does something, and of an innocent one after it."""
    path = plugin_file(MODEL)

    def run(deed: str, **more: Any) -> list[Record]:
        models = [f"{path}:M:deed={deed},place={tmp_path / 'place'}", "lstm:hidden=4"]
        return list(harness.run(models, SHORT, out=tmp_path / "run", **{**IN_PROCESSES, **more}))

    return run


def alive(process: int) -> bool:
    """Whether there is such a process, one that is dead and not yet buried aside."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize(("deed", "how"), [("exit", "exit code 0"), ("crash", "SIGSEGV"), ("close", "exit code 0")])
def test_a_process_that_ends_early_fails_its_cells(run: Callable[..., list[Record]], deed: str, how: str) -> None:
    """With the code or the signal; an exit with code 0 is no success."""
    guilty, innocent = run(deed)
    assert (guilty.status, innocent.status) == ("failed", "ok")
    assert guilty.error is not None
    assert "worker process died" in guilty.error.message
    assert how in guilty.error.message


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere what leaves its process group is lost sight of")
@pytest.mark.parametrize("deed", ["daemon", "child"])
def test_what_a_trial_has_started_ends_with_it(run: Callable[..., list[Record]], tmp_path: Path, deed: str) -> None:
    """Also in a session of its own; the trial is measured."""
    assert [record.status for record in run(deed)] == ["ok", "ok"]
    assert not alive(int((tmp_path / "place").read_text(encoding="utf-8")))


def test_threads_that_never_end_do_not_keep_the_run(run: Callable[..., list[Record]]) -> None:
    """The trial is measured, and the run goes on and ends."""
    assert [record.status for record in run("thread")] == ["ok", "ok"]


def test_numbers_beside_a_hostile_plugin_are_those_of_a_run_alone(
    run: Callable[..., list[Record]], tmp_path: Path
) -> None:
    """Patched libraries and changed defaults end with the process."""
    _, beside = run("patches")
    (alone,) = harness.run("lstm:hidden=4", SHORT, out=tmp_path / "alone", **IN_PROCESSES)
    assert beside.id == alone.id
    assert (beside.measurements, beside.data) == (alone.measurements, alone.data)
    assert beside.trained is not None
    assert alone.trained is not None
    assert beside.trained.loss == alone.trained.loss


class LongAfter(processes._Clock):
    """A clock that jumps soon after something is there: what was said before must have been heard."""

    place: Path
    looks = 0

    def __call__(self) -> float:
        self.looks += self.place.exists()
        return super().__call__() + (1e6 if self.looks > 5 else 0.0)


@pytest.mark.parametrize(("limits", "said"), [({"timeout": 99.0}, "no answer in 99 s"), ({}, "no sign of progress")])
def test_a_trial_that_hangs_is_ended(
    run: Callable[..., list[Record]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, float],
    said: str,
) -> None:
    """With a timeout, and after a long silence without one; the others go on."""
    monkeypatch.setattr(LongAfter, "place", tmp_path / "place", raising=False)
    monkeypatch.setattr(processes, "_Clock", LongAfter)
    guilty, innocent = run("hang", **limits)
    assert (guilty.status, innocent.status) == ("failed", "ok")
    assert guilty.error is not None
    assert said in guilty.error.message


SERVERS = """
import os, signal, time
from pathlib import Path
from torch import nn

class Kills(nn.Embedding):
    def __init__(self, vocab_size: int, place: str) -> None:
        super().__init__(vocab_size, vocab_size)
        while not Path(place, "begun").exists():
            time.sleep(0.01)
        if not Path(place, "killed").exists():  # it is built more than once, and others are its parent then
            os.kill(os.getppid(), signal.SIGKILL)
            Path(place, "killed").touch()

class Waits(nn.Embedding):
    def __init__(self, vocab_size: int, place: str) -> None:
        super().__init__(vocab_size, vocab_size)
        with Path(place, "begun").open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\\n")
        while not Path(place, "killed").exists():
            time.sleep(0.01)
        time.sleep(0.5)  # in which somebody may take this process for dead
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no server")
def test_a_plugin_that_ends_the_server_costs_nobody_else(plugin_file: Callable[..., str], tmp_path: Path) -> None:
    """Processes that were forked from it go on, and are still heard; new ones are forked from a new one."""
    path = plugin_file(SERVERS)
    models = [f"{path}:{name}:place={tmp_path}" for name in ("Waits", "Kills")]
    options = {**IN_PROCESSES, "jobs": 2, "timeout": 300}
    records = list(harness.run([*models, "lstm:hidden=4"], SHORT, out=tmp_path / "run", **options))
    assert [record.status for record in records] == ["ok", "ok", "ok"]
    (process,) = set((tmp_path / "begun").read_text(encoding="utf-8").split())
    assert not alive(int(process))


PROBES = """
import os
from pathlib import Path
from harness import Scalar

def less(subject):
    import resource
    resource.setrlimit(resource.RLIMIT_DATA, (10**6, 10**6))
    yield Scalar(name="a", unit="", value=1)

def more(subject):
    import torch
    yield Scalar(name="a", unit="", value=float(torch.ones(10**6).mean()))

def before(subject):
    yield Scalar(name="a", unit="", value=1)

def silent(subject):
    os.closerange(3, 100)
    yield Scalar(name="a", unit="", value=1)

def deadly(subject, times: int = 99, place: str = ""):
    done = len(list(Path(place).glob("*.tried"))) if place else 0
    if done < times:
        if place:
            Path(place, f"{done}.tried").touch()
        os._exit(7)
    yield Scalar(name="a", unit="", value=2)

def after(subject):
    yield Scalar(name="a", unit="", value=3)

for probe in (less, more, before, silent, deadly, after):
    probe.stages = ("initial", "trained")
"""


def test_a_probe_that_ends_the_process_costs_its_own_cells(plugin_file: Callable[..., str], tmp_path: Path) -> None:
    """Those before it are kept, those after it are measured in another process, on the model that was trained."""
    path = plugin_file(PROBES)
    probes = [f"{path}:{name}" for name in ("before", "deadly", "after")]
    for _ in range(2):
        records = list(harness.run("lstm:hidden=4", SHORT, probes, out=tmp_path / "run", **IN_PROCESSES))
        assert [record.status for record in records] == ["ok", "ok", "failed", "failed", "ok", "ok"]
        assert all("exit code 7" in record.error.message for record in records if record.error)
        seconds = {record.trained.seconds for record in records if record.trained and record.status == "ok"}
        assert len(seconds) == 1
    assert len(list((tmp_path / "run" / "checkpoints").glob("*.safetensors"))) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits")
def test_a_probe_that_lets_its_process_take_less_keeps_nothing_from_others(
    plugin_file: Callable[..., str], tmp_path: Path
) -> None:
    """What comes after it is measured in another process."""
    probes = [f"{plugin_file(PROBES)}:{name}" for name in ("less", "more")]
    records = harness.run("lstm:hidden=4", SHORT, probes, out=tmp_path / "run", **IN_PROCESSES)
    assert [record.status for record in records] == ["ok"] * 4


def test_what_a_silent_process_wrote_is_kept(plugin_file: Callable[..., str], tmp_path: Path) -> None:
    """One that can no longer tell what it does: what is on disk counts."""
    path = plugin_file(PROBES)
    probes = [f"{path}:{name}" for name in ("silent", "deadly")]
    records = harness.run("lstm:hidden=4", SHORT, probes, out=tmp_path / "run", **{**IN_PROCESSES, "stages": "initial"})
    assert [record.status for record in records] == ["ok", "failed"]


def test_a_process_that_wrote_all_it_had_to_may_be_silent(plugin_file: Callable[..., str], tmp_path: Path) -> None:
    """Its cells are measured, the next trial begins, and the run ends as any other does."""
    probe = f"{plugin_file(PROBES)}:silent"
    options = {**IN_PROCESSES, "stages": "initial", "seeds": 2}
    records = harness.run("lstm:hidden=4", SHORT, probe, out=tmp_path / "run", **options)
    assert [record.status for record in records] == ["ok", "ok"]


def test_what_died_is_tried_again_as_often_as_wished(plugin_file: Callable[..., str], tmp_path: Path) -> None:
    """And no more often."""
    path = plugin_file(PROBES)
    found = {}
    for retries in (1, 2):
        place = tmp_path / str(retries)
        place.mkdir()
        probe = f"{path}:deadly:times=2,place={place}"
        options = {**IN_PROCESSES, "stages": "trained", "retries": retries}
        (found[retries],) = harness.run("lstm:hidden=4", SHORT, probe, out=tmp_path / "run", **options)
    assert {retries: record.status for retries, record in found.items()} == {1: "failed", 2: "ok"}


def test_a_failed_record_with_a_later_time_hides_nothing(plugin_file: Callable[..., str], tmp_path: Path) -> None:
    """Whose clock was wrong does not matter: what this run wrote before its process died is its own."""
    path = plugin_file(PROBES)
    probes = [f"{path}:{name}" for name in ("before", "deadly")]
    options = {**IN_PROCESSES, "stages": "initial"}
    first = list(harness.run("lstm:hidden=4", SHORT, probes, out=tmp_path / "run", **options))
    file = tmp_path / "run" / "records" / f"{first[0].id}.json"
    later = first[0].provenance.model_copy(update={"finished": first[0].provenance.finished.replace(year=2999)})
    broken = first[0].model_copy(
        update={"status": "failed", "error": first[1].error, "measurements": [], "provenance": later}
    )
    file.write_text(broken.model_dump_json(), encoding="utf-8")
    again = harness.run("lstm:hidden=4", SHORT, probes, out=tmp_path / "run", **options)
    assert [record.status for record in again] == ["ok", "failed"]
    assert again[0].provenance.finished.year < 2999


def test_memory_can_be_limited(plugin_file: Callable[..., str], tmp_path: Path) -> None:
    """An allocation beyond fails the cell that asks for it, with the words of torch."""
    source = """
    import torch
    from harness import Scalar
    def p(subject):
        yield Scalar(name="a", unit="", value=torch.ones(2**30).sum().item())
    """
    probe = plugin_file(source) + ":p"
    records = harness.run("lstm:hidden=4", SHORT, [probe, "accuracy"], out=tmp_path / "run", memory=2, **IN_PROCESSES)
    assert [record.status for record in records] == ["failed", "ok"]
    assert records[0].error is not None
    assert "memory" in records[0].error.message


@pytest.mark.parametrize("writes", [True, False])
def test_cells_fail_once_where_no_process_can_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    """As under a limit that the system refuses: the next process writes that; and this one, where no other can."""
    if not writes:
        monkeypatch.setattr(processes, "_run", print)  # it ends, and has written nothing
    suite = build_suite("lstm:hidden=4", SHORT, ["accuracy", "grad_reach"], seeds=1, examples=8)
    refused = processes.Processes(1, Limits(memory=1e10))
    found = execute(make_plan(suite, default_registry()), tmp_path, executor=refused)
    assert [record.status for record in found] == ["failed"] * 3
    assert {record.id for record in RunDirectory(tmp_path).read_records()} == {record.id for record in found}
    assert all(record.error and ("OverflowError" if writes else "died") in record.error.message for record in found)


def test_waiting_does_not_count_while_the_run_itself_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that slept for a day has not waited for a day."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock = processes._Clock()
    now = 0.5
    assert clock() == 0.5
    now = 86400.0
    assert clock() < 2


def test_what_an_executor_cannot_do_is_refused(tmp_path: Path) -> None:
    """Before anything is written."""
    asked: list[tuple[dict[str, Any], str]] = [
        ({"timeout": 3}, "cannot limit timeout"),
        ({"jobs": 2}, "one trial at a time"),
    ]
    for more, said in asked:
        with pytest.raises(RequestError, match=said):
            harness.run("lstm", SHORT, executor="local", out=tmp_path / "run", **more)
    with pytest.raises(RequestError, match="there is no executor 'cloud'"):
        harness.run("lstm", SHORT, executor="cloud", out=tmp_path / "run")
    with pytest.raises(RequestError, match="it has no argument 'speed'"):
        harness.run("lstm", SHORT, executor="processes:speed=3", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
