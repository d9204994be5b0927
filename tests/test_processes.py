"""Worker processes: one that dies costs its own trial, and all of them end with the run, however it ends."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from conftest import SHORT, SMALL

import harness
from harness.errors import HarnessError
from harness.executors import children
from harness.executors import start as starting
from harness.executors.children import Child
from harness.results import Results
from harness.store import RunDirectory

HARNESS = str(Path(sys.executable).parent / "harness")


def start(out: Path, *words: str, path: Path | None = None) -> subprocess.Popen[str]:
    """A run of 40 trials with two workers, in a process group of its own."""
    command = [HARNESS, "run", "--model", "lstm:hidden=8", "--task", SHORT, "--seeds", "40", "--jobs", "2"]
    command += ["--training", "steps=150,batch_size=8", "--examples", "32", "--out", str(out), *words]
    paths = [str(path or ""), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        command,
        start_new_session=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )


def wait(process: subprocess.Popen[str], out: Path, pattern: str, files: int) -> None:
    """Until there are so many files."""
    deadline = time.monotonic() + 120
    while len(list(out.glob(pattern))) < files and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)


def interrupted(process: subprocess.Popen[str], out: Path) -> None:
    """Ctrl-C once: exit code 130 and one line; no worker is left that would hold the output open."""
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    output, errors = process.communicate(timeout=120)
    finished = f" What is finished is in {out}; the same command goes on from there." if out.exists() else ""
    assert (output, errors) == ("", f"Interrupted.{finished}\n")
    assert process.returncode == 130


def as_workers_start(folder: Path, code: str) -> Path:
    """A folder for PYTHONPATH: what comes before everything else in each worker process."""
    (folder / "sitecustomize.py").write_text(
        f"""
import os, sys, time
from pathlib import Path
def first():
    {code}
if "--multiprocessing-fork" in sys.orig_argv:
    first()
elif "forkserver import main" in " ".join(sys.orig_argv):
    import multiprocessing.forkserver as server
    original = server._serve_one
    server._serve_one = lambda *given: first() or original(*given)
""",
        encoding="utf-8",
    )
    return folder


@pytest.mark.parametrize("count", [1, 3])
def test_one_interrupt_ends_a_run_while_workers_start(tmp_path: Path, count: int) -> None:
    """Also before they have begun: the one that plans, and those of the first trials."""
    code = f"Path({str(tmp_path)!r}, f'{{time.time_ns()}}.started').touch()"
    code += f"; len(list(Path({str(tmp_path)!r}).glob('*.started'))) > {count > 1:d} and time.sleep(100)"
    process = start(tmp_path / "run", path=as_workers_start(tmp_path, code))
    wait(process, tmp_path, "*.started", count)
    interrupted(process, tmp_path / "run")


@pytest.mark.skipif(sys.platform != "linux", reason="there is no server elsewhere")
def test_one_interrupt_ends_a_run_while_workers_are_waited_for(tmp_path: Path) -> None:
    """The server that they fork from takes its time to import torch."""
    server = f"""
import sys, time
from pathlib import Path
import multiprocessing.reduction as reduction
if "forkserver import main" in " ".join(sys.orig_argv):
    time.sleep(30)
elif sys.argv[0].endswith("harness"):
    original = reduction.sendfds
    reduction.sendfds = lambda *given: (original(*given), Path({str(tmp_path)!r}, "asked.for").touch())
"""
    (tmp_path / "sitecustomize.py").write_text(server, encoding="utf-8")
    process = start(tmp_path / "run", path=tmp_path)
    wait(process, tmp_path, "asked.for", 1)
    interrupted(process, tmp_path / "run")


def test_one_interrupt_ends_a_run_and_keeps_what_is_finished(tmp_path: Path) -> None:
    """While models are trained: every record is whole, and the same command goes on from there."""
    process = start(tmp_path, "--probe", "grad_reach")
    wait(process, tmp_path, "records/*.json", 2)
    interrupted(process, tmp_path)
    assert 2 <= len(list(RunDirectory(tmp_path).read_records())) < 80


@pytest.mark.skipif(sys.platform != "linux", reason="there is no server elsewhere")
def test_a_wrong_request_ends_the_server_that_began_to_get_ready_for_it() -> None:
    """And a right one in the same process gets another; a server that others use already stays."""
    code = """
from contextlib import suppress
from harness.executors.start import server, start, starting, stop

def wrong():
    with suppress(ValueError), starting():
        raise ValueError
    return server()

first = wrong()
start()
print(server() != first, wrong() == server(), wrong() == server())
stop()
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, encoding="utf-8", timeout=60)
    assert done.stdout.split() == ["True", "True", "True"]


@pytest.mark.skipif(sys.platform != "linux", reason="there is no server elsewhere")
@pytest.mark.parametrize(
    "deed",
    [
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",  # as some supervisors leave it
        "resource_tracker.ensure_running = raising",
    ],
)
def test_a_wrong_request_is_told_whatever_becomes_of_the_server(deed: str) -> None:
    code = f"""
import signal
from multiprocessing import resource_tracker
from harness.cli import main

def raising():
    raise BlockingIOError(11, "Resource temporarily unavailable")

{deed}
main(["run", "--model", "lstm", "--grid", "lr="])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == 2, done.stderr
    assert "lr" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="there is no server elsewhere")
def test_workers_start_where_the_temporary_folder_has_a_long_name(tmp_path: Path) -> None:
    """The address of a socket has room for 107 bytes; other temporary files stay in the folder."""
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    code = "import tempfile; from harness.executors.start import *; start(); stop(); print(tempfile.gettempdir())"
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(folder)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_a_run_that_is_killed(
    tmp_path: Path, plugin_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch, how: int
) -> None:
    """They do not go on behind the user's back, whatever a plugin is doing; nor does what it has started. The socket by
    which they were asked for is gone, too."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    source = f"""
    import os, time
    from pathlib import Path
    def p(subject):
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
        Path({str(tmp_path)!r}, f"{{subject.seed}}.begun").touch()
        time.sleep(1000)
    """
    process = start(tmp_path / "run", "--probe", "grad_reach", "--probe", plugin_file(source) + ":p")
    wait(process, tmp_path, "*.begun", 2)
    process.send_signal(how)
    process.communicate(timeout=60)  # returns when no process holds the output open
    assert process.returncode == -how
    assert len(list(RunDirectory(tmp_path / "run").read_records())) == 4
    assert sys.platform != "linux" or [*temporary.iterdir()] == []


@pytest.mark.skipif(sys.platform != "linux", reason="there is no server elsewhere")
def test_what_is_temporary_goes_with_a_run_that_is_killed(tmp_path: Path) -> None:
    """The server that it has started removes it."""
    code = """
import os, signal
from tempfile import mkdtemp
from harness.executors.start import start, temporary
start()
assert os.listdir(mkdtemp(dir=temporary())) == []
os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(sys.platform != "linux", reason="there is no server elsewhere")
def test_a_server_that_a_trial_starts_leaves_the_run_its_folder(tmp_path: Path) -> None:
    """As it does for a plugin that calls `harness.run`: all share the folder of the run, which needs it to its end."""
    script = tmp_path / "script.py"
    script.write_text(
        """
import os, time
from multiprocessing import util
from harness.executors.start import server, start

def trial(queue):
    process = start().Process(target=int)
    process.start()
    process.join()
    queue.put(server())

if __name__ == "__main__":
    run = start()
    queue = run.SimpleQueue()
    process = run.Process(target=trial, args=(queue,))
    process.start()
    others, _ = queue.get(), process.join()
    while os.path.exists(f"/proc/{others}/root") and time.sleep(0.01) is None:
        pass
    print(os.listdir(util.get_temp_dir()))
""",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, script], capture_output=True, encoding="utf-8", timeout=120)
    assert "listener-" in done.stdout, done.stderr


def test_a_worker_that_dies_costs_its_own_trial(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """As when memory runs out: its cells are failed and say so, the others are ok."""
    source = """
    import os
    from torch import nn
    class M(nn.Module):
        def __init__(self, vocab_size: int) -> None:
            os._exit(9)
    """
    models = [plugin_file(source) + ":M", "lstm:hidden=8", "lstm:hidden=4"]
    results = harness.run(
        models, tasks=[SHORT], out=tmp_path / "run", seeds=1, training=SMALL, examples=64, executor="processes"
    )
    assert [record.status for record in results] == ["failed", "ok", "ok"]
    assert results.records[0].error is not None
    assert "worker process died" in results.records[0].error.message


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no server whose children could be listed")
def test_the_process_of_the_next_trial_may_die_while_it_waits(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """It is started while a trial runs, and is no part of any trial yet: another one takes its place."""
    source = """
    import os, signal, time
    from pathlib import Path
    from harness import Scalar
    def others():
        files = Path(f"/proc/{os.getppid()}/task").glob("*/children")
        return {int(each) for file in files for each in file.read_text().split()} - {os.getpid()}
    def p(subject):
        for _ in range(6000 if subject.seed == 0 else 0):
            if found := others():
                break
            time.sleep(0.01)
        else:
            found = ()
        for each in found:
            os.kill(each, signal.SIGKILL)
        yield Scalar(name="killed", unit="", value=len(found))
    """
    probe = plugin_file(source) + ":p"
    found = harness.run(
        "lstm:hidden=4", SHORT, probe, out=tmp_path, seeds=2, training=SMALL, examples=16, executor="processes"
    )
    assert [record.measurements[0].value for record in found] == [1.0, 0.0]  # type: ignore[union-attr]


def test_workers_that_cannot_start_end_the_run(tmp_path: Path) -> None:
    """With an error that says so, however many trials there are, instead of waiting for them for ever."""
    process = start(tmp_path / "run", "--seeds", "400", path=as_workers_start(tmp_path, "os._exit(3)"))
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "worker processes die as soon as they start" in errors
    assert "Traceback" not in errors


def test_a_process_that_ends_before_it_is_told_what_it_is_for_could_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as if it had ended a moment later."""

    def start(process: BaseProcess) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    monkeypatch.setattr(BaseProcess, "start", start)
    with pytest.raises(HarnessError, match="worker processes die as soon as they start"):
        Child(print)


@pytest.mark.skipif(sys.platform != "linux", reason="there is no server elsewhere")
def test_a_server_that_is_ending_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been killed while nobody looked: whoever asks it for a process then gets one from another server."""
    servers: list[int | None] = []

    def kill() -> object:
        context = starting.start()
        servers.append(starting.server())
        if len(servers) == 1:
            os.kill(servers[0] or 0, signal.SIGKILL)
        return context

    monkeypatch.setattr(children, "start", kill)
    with children.working(print) as child:
        while child.exitcode is None:
            children.listen([child], 60.0)
        assert ("begun",) in child.heard()
        assert starting.server() not in (None, servers[0])  # whoever noticed first that it had ended


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_plugins_print_does_not_mix_with_results(
    tmp_path: Path, plugin_file: Callable[..., str], jobs: str
) -> None:
    """`harness run --format json` gives JSON; the rest is on standard error."""
    source = """
    from torch import nn
    class M(nn.Embedding):
        def __init__(self, vocab_size: int) -> None:
            super().__init__(vocab_size, vocab_size)
            print("constructed")
        def forward(self, tokens):
            print("training" if self.training else "measuring")
            return super().forward(tokens)
    """
    command = [HARNESS, "run", "--model", plugin_file(source) + ":M", "--task", SHORT, "--seeds", "2", "--jobs", jobs]
    command += ["--training", "steps=2,batch_size=4", "--examples", "16", "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True)
    assert len(json.loads(done.stdout)) == 2
    assert all(word in done.stderr for word in ("constructed", "training", "measuring"))  # lines of two may mix


@pytest.mark.parametrize(
    ("folder", "executor", "jobs"),
    [("records", "local", 1), ("checkpoints", "local", 1), ("checkpoints", "processes", 2)],
)
def test_a_run_that_cannot_write_ends_and_goes_on_later(
    tmp_path: Path, plugin_file: Callable[..., str], folder: str, executor: str, jobs: int
) -> None:
    """As on a full disk: nothing more is trained for nothing, one sentence says why, and what was written stays."""
    place, elsewhere = tmp_path / "run" / folder, tmp_path / "elsewhere"
    source = f"""
    from pathlib import Path
    from harness import Scalar
    def p(subject):
        if subject.seed == 0 and not Path({str(tmp_path)!r}, "full").exists():
            Path({str(tmp_path)!r}, "full").touch()
            Path({str(place)!r}).rename({str(elsewhere)!r})
        return [Scalar(name="a", unit="", value=1)]
    p.stages = ("initial", "trained")
    """

    def run() -> Results:
        probes = ["grad_reach", plugin_file(source) + ":p"]
        settings: dict[str, Any] = {"seeds": 3, "training": SMALL, "examples": 32, "jobs": jobs, "executor": executor}
        return harness.run(["lstm:hidden=8"], [SHORT], probes, out=tmp_path / "run", **settings)

    with pytest.raises(HarnessError, match=r"cannot write '.*': No such file or directory; what was written"):
        run()
    elsewhere.rename(place)
    before = {record.id: record for record in RunDirectory(tmp_path / "run").read_records()}
    assert 1 <= len(before) < 12
    assert {record.status for record in before.values()} == {"ok"}
    after = {record.id: record for record in run()}
    assert len(after) == 12
    assert all(after[name].model_dump_json() == record.model_dump_json() for name, record in before.items())


def test_a_run_directory_that_goes_while_a_checkpoint_is_read_is_not_the_models_fault(
    tmp_path: Path, plugin_file: Callable[..., str]
) -> None:
    place = tmp_path / "run" / "checkpoints"
    source = f"""
    from pathlib import Path
    import torch
    class Model(torch.nn.Module):
        def __init__(self, interface):
            super().__init__()
            place = Path({str(place)!r})
            if any(place.glob(".*.tmp")):  # built once more, to look at what is about to be kept
                place.rename({str(tmp_path / "elsewhere")!r})
            self.embed = torch.nn.Embedding(interface.input_size, interface.output_size)
        def forward(self, tokens):
            return self.embed(tokens)
    """
    model = plugin_file(source) + ":Model"
    with pytest.raises(HarnessError, match=r"cannot write '.*': No such file or directory; what was written"):
        harness.run(model, SHORT, "accuracy", training=SMALL, examples=16, jobs=1, out=tmp_path / "run")
    assert not {record.status for record in RunDirectory(tmp_path / "run").read_records()} - {"ok"}


def test_workers_have_the_environment_of_the_run(
    tmp_path: Path, plugin_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each run, not of the first one in this process."""
    source = """
    import os
    from harness import Scalar
    def p(subject):
        yield Scalar(name="seen", unit="", value=float(os.environ["SEEN"]))
    """
    probe = plugin_file(source) + ":p"
    for value in ("1", "2"):
        monkeypatch.setenv("SEEN", value)
        out = tmp_path / value
        found = harness.run(
            "lstm:hidden=4", SHORT, probe, seeds=2, training=SMALL, examples=16, executor="processes", out=out
        )
        assert [record.measurements[0].value for record in found] == [float(value)] * 2  # type: ignore[union-attr]
