"""Trials as tasks of Ray: the same records as at home, whatever becomes of the machines."""

import inspect
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import SHORT, SMALL
from entry_points import write_distribution
from harness_plugins.executors import elsewhere
from harness_plugins.executors import ray as place
from harness_plugins.executors.ray import Ray
from travelling import outcome, write_model

import harness
from harness.errors import RequestError
from harness.execution import execute
from harness.executors import Executor, Limits, Tell
from harness.plan import make_plan
from harness.registry import build_registry
from harness.requests import build_suite
from harness.schema import Record
from harness.store import RunDirectory
from harness.travel import Baggage
from harness.work import Work

HARNESS = str(Path(sys.executable).parent / "harness")
CROSSED: dict[str, Any] = {"models": ["lstm:hidden=8"], "tasks": [SHORT], "probes": ["accuracy", "grad_reach"]}
QUICK: dict[str, Any] = {"examples": 32, "training": SMALL}


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the machines keep what they write."""
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def cluster(temporary: Path) -> Iterator[Any]:
    """Two machines with a core each, as far as Ray can tell."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    small: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        patch.setenv("RAY_TMPDIR", "/tmp")  # whose sockets need a short path
        cluster: Any = Cluster(initialize_head=True, head_node_args=small)
        cluster.small = small
        cluster.other = cluster.add_node(**small)
        yield cluster
        cluster.shutdown()


@pytest.fixture(autouse=True)
def _as_ray_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray wants a generator function, and the checks of types while tests run hide that it is one."""
    monkeypatch.setattr(place, "run_elsewhere", inspect.unwrap(elsewhere.run_elsewhere))


def address(cluster: Any) -> str:
    return f"ray:address='{cluster.address}'"


def same(here: Sequence[Record], there: Sequence[Record]) -> None:
    assert {record.id: outcome(record) for record in there} == {record.id: outcome(record) for record in here}


def test_without_ray_one_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RequestError, match=r"needs the package ray: pip install 'sequence-harness\[ray\]'"):
        harness.run(**CROSSED, out=tmp_path / "run", executor="ray")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [("num_cpus=0", "from 0.01 on"), ("num_gpus=-1", "from 0 on"), ("address='ray://here:10001'", "address=auto")],
)
def test_wrong_arguments_are_refused(tmp_path: Path, arguments: str, problem: str) -> None:
    pytest.importorskip("ray")
    with pytest.raises(RequestError, match=problem):
        harness.run(**CROSSED, out=tmp_path / "run", executor=f"ray:{arguments}")


def test_no_cluster_is_said_at_once(tmp_path: Path) -> None:
    """Where nothing listens."""
    pytest.importorskip("ray")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(RequestError, match=f"no Ray cluster at '{where}'.*refused"):
            harness.run(**CROSSED, **QUICK, out=tmp_path, executor=f"ray:address='{where}'")


@pytest.mark.slow
def test_what_is_no_cluster_is_given_up(tmp_path: Path) -> None:
    """Where something listens and says nothing: one sentence, exit code 2."""
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        command = [HARNESS, "run", "-m", "lstm:hidden=8", "-t", SHORT, "--executor", f"ray:address='{where}'"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no answer within" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_ray_of_this_machines_own_comes_and_goes(tmp_path: Path) -> None:
    """The same records, bit for bit, and nothing but results and progress on the terminal."""
    pytest.importorskip("ray")
    here = harness.run(**CROSSED, **QUICK, seeds=2, out=tmp_path / "here", executor="local")
    training = ",".join(f"{name}={value}" for name, value in SMALL.items())
    command = [HARNESS, "run", "-m", "lstm:hidden=8", "-t", SHORT, "-p", "accuracy", "-p", "grad_reach", "--seeds", "2"]
    command += ["--training", training, "--examples", "32", "--executor", "ray", "--jobs", "1", "--out", "there"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=240)
    beside = [line for line in done.stderr.splitlines() if not re.match(r"\d+%: trial ", line)]
    assert (done.returncode, beside) == (0, [])
    same([*here], [*harness.load(tmp_path / "there")])


@pytest.mark.slow
def test_two_machines_give_the_same_records(cluster: Any, tmp_path: Path) -> None:
    """Learning curves and checkpoints come home, too, so that what is trained is not trained again."""
    here = harness.run(**CROSSED, **QUICK, seeds=3, out=tmp_path / "here", executor="local")
    there = harness.run(**CROSSED, **QUICK, seeds=3, out=tmp_path / "there", executor=address(cluster))
    same([*here], [*there])
    for one in sorted((tmp_path / "here" / "checkpoints").iterdir()):
        assert (tmp_path / "there" / "checkpoints" / one.name).read_bytes() == one.read_bytes()
    for path in (tmp_path / "there" / "records").iterdir():
        path.unlink()
    assert {record.provenance.host for record in there} == {platform.node()}
    again = harness.run(**CROSSED, **QUICK, seeds=3, out=tmp_path / "there", executor=address(cluster))
    same([*here], [*again])
    assert {r.id: r.trained for r in again} == {r.id: r.trained for r in there}  # the seconds, too


class Interrupting:
    """Runs trials, and does something after so many records."""

    def __init__(self, executor: Executor, after: int, what: Callable[[], object]) -> None:
        self.executor, self.after, self.what = executor, after, what

    def __call__(self, works: Sequence[Work], tell: Tell) -> Iterator[Record]:
        for number, record in enumerate(self.executor(works, tell), 1):
            yield record
            if number == self.after:
                self.what()


@pytest.mark.slow
def test_nothing_is_lost_with_a_machine(cluster: Any, tmp_path: Path) -> None:
    """The trials that ran there go on elsewhere."""
    here = harness.run(**CROSSED, **QUICK, seeds=6, out=tmp_path / "here", executor="local")
    suite = build_suite(CROSSED["models"], CROSSED["tasks"], CROSSED["probes"], seeds=6, examples=32)
    plan = make_plan(suite, build_registry(), training=[SMALL])

    def lose() -> None:
        cluster.remove_node(cluster.other, allow_graceful=False)
        cluster.other = cluster.add_node(**cluster.small)

    executor = Interrupting(Ray(1, Limits(), address=cluster.address), 3, lose)
    there = execute(plan, tmp_path / "there", executor=executor)
    same([*here], [*there])


@pytest.mark.slow
def test_plugin_files_travel(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their neighbours and the files that arguments name: what they come from may be gone when they run."""
    home = write_model(tmp_path / "home")
    monkeypatch.chdir(home)
    asked = {**CROSSED, "models": ["./model.py:M:words=words.txt"]}
    here = harness.run(**asked, **QUICK, seeds=1, out=tmp_path / "here", executor="local")
    original = place._packed

    def packed(works: Sequence[Work]) -> Baggage:
        baggage = original(works)
        home.rename(tmp_path / "gone")
        return baggage

    monkeypatch.setattr(place, "_packed", packed)
    there = harness.run(**asked, **QUICK, seeds=1, out=tmp_path / "there", executor=address(cluster))
    assert {record.status for record in there} == {"ok"}
    same([*here], [*there])


@pytest.mark.slow
def test_a_missing_package_fails_its_own_trials(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named; the other trials go on."""
    source = """
    from harness import ModelSpec, hookimpl
    from torch import nn
    @hookimpl
    def harness_models():
        yield ModelSpec("acme", "acme_only_here:M")
    class M(nn.Embedding):
        def __init__(self, vocab_size: int) -> None:
            super().__init__(vocab_size, vocab_size)
    """
    write_distribution(tmp_path, monkeypatch, "acme_only_here", source)
    suite = build_suite(["acme", "lstm:hidden=8"], [SHORT], seeds=1, examples=32)
    plan = make_plan(suite, build_registry(), training=[SMALL])
    broken, fine = execute(plan, tmp_path / "run", executor=Ray(1, Limits(), address=cluster.address))
    assert broken.error is not None
    assert "no package 'acme-only-here', which model 'acme' is from" in broken.error.message
    assert fine.status == "ok"


@pytest.mark.slow
def test_limits_hold_elsewhere(cluster: Any, tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """A cell that does not end costs itself alone, and its machine is free for others."""
    source = """
    import os
    import time
    def hangs(subject):
        time.sleep(1000)
    def dies(subject):
        os._exit(9)
    """
    file = plugin_file(source)
    asked = {**CROSSED, "probes": [f"{file}:dies", f"{file}:hangs", "accuracy"], "examples": 32, "seeds": 1}
    records = harness.run(
        **asked, training={"steps": 2}, out=tmp_path / "run", executor=address(cluster), timeout=15, memory=2
    )
    said = {record.probe.label.rpartition(":")[2]: record.error.message for record in records if record.error}
    assert "exit code 9" in said["dies"]
    assert "15 s" in said["hangs"]


@pytest.mark.slow
def test_an_interrupt_cancels_what_runs(
    cluster: Any, temporary: Path, tmp_path: Path, plugin_file: Callable[..., str]
) -> None:
    """Ctrl-C once: exit code 130 and one line; the machines are free and clean again; what came back is kept."""
    source = f"""
    import time
    from pathlib import Path
    def p(subject):
        Path({str(tmp_path)!r}, f"{{subject.seed}}.begun").touch()
        time.sleep(1000)
    """
    before = {*temporary.glob("harness-*")}  # of a machine that was lost with all it had
    command = [HARNESS, "run", "-m", "lstm:hidden=8", "-t", SHORT, "-p", "grad_reach", "-p", plugin_file(source) + ":p"]
    command += ["--training", "steps=2,batch_size=4", "--examples", "16", "--executor", address(cluster)]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "run")],
        start_new_session=True,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    deadline = time.monotonic() + 120
    while len([*tmp_path.glob("*.begun")]) < 2 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert (output, process.returncode) == ("", 130)
    assert errors.startswith("Interrupted.")
    assert errors.count("\n") == 1
    assert not {*temporary.glob("harness-*")} - before
    after = harness.run(**CROSSED, **QUICK, seeds=1, out=tmp_path / "after", executor=address(cluster))
    assert {record.status for record in after} == {"ok"}
    kept = [*RunDirectory(tmp_path / "run").read_records()]
    assert all(record.status == "ok" for record in kept)
