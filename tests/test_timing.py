"""What a model costs: measured in a process of its own, and sums to what can be known without a clock."""

import ctypes
import itertools
import math
import re
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from harness_plugins.models.attention_forms import AttentionForms
from harness_plugins.probes.speed import exponent
from harness_plugins.probes.speed_table import relative_times
from record_factory import curve, record
from torch import nn

import harness
from harness import Interface
from harness.cli import main
from harness.devices import default_jobs
from harness.measurements import Curve, Scalar
from harness.registry import default_registry
from harness.report import render
from harness.schema import Record
from harness.timing import Order, peak_memory, shortest

FORMS = ["python", "double_loop", "row_loop", "matrix", "fused"]


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_are_one_attention(form: str) -> None:
    """Loops, matrix and kernel agree to 1e-12 in float64 with softmax(q k' / sqrt(d)) v, causally masked."""
    x = torch.randn(2, 9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    model = AttentionForms(Interface(6, 6, "vectors", "numbers"), form=form)  # type: ignore[arg-type]
    expected = nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-12)


def measured(record: Record, name: str) -> Curve:
    found = record.find(name)
    assert isinstance(found, Curve)
    return found


@pytest.mark.usefixtures("timed_here")
def test_a_run_times_any_model(tmp_path: Path) -> None:
    """Positive times at every length, a limit where the position table ends, no training."""
    models = ["lstm:hidden=4", "gpt:max_length=3"]
    probe = "speed:lengths=[2,4],budget=60"
    results = harness.run(models, probes=[probe], seeds=1, out=tmp_path)
    assert [r.status for r in results] == ["ok", "ok"]
    lstm, gpt = results.records
    assert all(value > 0 for value in measured(lstm, "forward").y + measured(lstm, "forward_and_backward").y)
    assert [math.isnan(value) for value in measured(gpt, "forward").y] == [False, True]
    scaling = gpt.find("time_exponent")
    assert isinstance(scaling, Scalar)
    assert scaling.verdict is not None
    assert scaling.verdict.startswith("at 4 tokens: ValueError")
    assert lstm.trained is None


PRETRAINED = """
    import torch
    from harness import Interface, Task
    from harness_plugins.tasks.recall import Recall

    class M(torch.nn.Module):
        pretrained = staticmethod(lambda **arguments: True)
        tokenizer = staticmethod(lambda **arguments: list("abc"))

        def __init__(self, vocab_size: int):
            super().__init__()
            self.write = torch.nn.Embedding(vocab_size, vocab_size)

        def forward(self, tokens):
            return self.write(tokens)

    class Text(Recall):
        check_arguments = None

        def __init__(self, tokenizer):
            super().__init__(train_max=2, distances=[1, 2])
            assert tokenizer == list("abc")
    """


def test_a_pretrained_model_is_timed(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """Beside other probes, and on a task that reads text with its tokenizer."""
    path, probes = plugin_file(PRETRAINED), ["speed:lengths=[8],budget=0.01", "accuracy"]
    results = harness.run(f"{path}:M", f"{path}:Text", probes, seeds=1, examples=8, out=tmp_path)
    assert [(record.status, record.stage, record.pretrained) for record in results] == [("ok", "trained", True)] * 2
    assert measured(results.records[0], "forward").y[0] > 0


@pytest.mark.usefixtures("timed_here")
def test_threads_beyond_the_cores_are_not_measured(tmp_path: Path) -> None:
    """One thread is the unit; what this machine does not have is NaN."""
    probe = "thread_scaling:threads=[100000],length=8,batch=1,budget=0.05"
    (timed,) = harness.run(["lstm:hidden=4"], probes=[probe], seeds=1, out=tmp_path).records
    assert measured(timed, "speed_up").x == [1, 100000]
    assert measured(timed, "speed_up").y[0] == 1.0
    assert math.isnan(measured(timed, "speed_up").y[1])


@pytest.mark.usefixtures("timed_here")
def test_what_takes_too_long_is_left_out(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """A length that one run would exceed the budget for is NaN, and so are all longer ones."""
    slow = """
    import time
    import torch
    class M(torch.nn.Module):
        def __init__(self, vocab_size: int) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(vocab_size))
        def forward(self, tokens):
            time.sleep(0.002 * tokens.shape[1])
            return self.w.expand(*tokens.shape, -1)
    """
    probe = "speed:lengths=[10,20,1000,2000],budget=60"  # at 1000 tokens, the square of 50 times 40 ms
    (timed,) = harness.run([plugin_file(slow) + ":M"], probes=[probe], seeds=1, out=tmp_path / "run").records
    assert [math.isnan(value) for value in measured(timed, "forward").y] == [False, False, True, True]


def test_times_beside_one_another() -> None:
    """The report of a comparison: multiples of the fastest model at each length, over the median of seeds, the slowest
    model first; nothing where a model was not timed, and no section for one model alone."""

    def timed(model: str, seed: int, y: list[float]) -> Record:
        return record(curve(y, [64, 256], name="forward", unit="ms"), model=model, probe="speed", seed=seed)

    fast = [timed("fast", seed, [y, 3.0]) for seed, y in enumerate((1.0, 2.0, 9.0))]
    slow = [timed("slow", 0, [10.0, math.nan])]
    ((title, table),) = relative_times([*fast, *slow])
    assert title == "Time of a forward pass, as a multiple of the fastest (recall)"
    assert [line.split() for line in table.splitlines()[2:]] == [["slow", "5x"], ["fast", "1.00x"]]
    assert title in render(
        [*fast, *slow], sections=default_registry().notify("harness_report_sections", records=fast + slow)
    )
    assert list(relative_times(fast)) == []


@pytest.mark.slow
def test_the_bench_suite_runs(tmp_path: Path) -> None:
    """Every model is timed, every claim that needs no more cores than there are is decided, and the report says so."""
    done = CliRunner().invoke(main, ["bench", "--seeds", "3", "--out", str(tmp_path / "bench")])
    assert done.exit_code == 0, done.output
    assert "39 records: all ok" in done.output
    undecided = re.search(r"(\d+) (?:is|are) undecided", done.output)
    assert undecided is not None
    assert int(undecided[1]) == (0 if default_jobs() >= 4 else 3)


def test_prints_and_missing_gradients_spoil_no_times(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """A model that prints, also at the end, and whose outputs have no gradient: its forward passes are timed."""
    source = """
    import atexit
    import sys
    import torch
    class M(torch.nn.Module):
        def __init__(self, vocab_size: int) -> None:
            super().__init__()
            self.size = vocab_size
            if "harness.timing" in sys.orig_argv:
                atexit.register(print, "bye")
        def forward(self, tokens):
            print(".", end="")
            return torch.zeros(*tokens.shape, self.size)
    """
    probe = "speed:lengths=[8,16],budget=60"
    (timed,) = harness.run([plugin_file(source) + ":M"], probes=[probe], seeds=1, out=tmp_path / "run").records
    assert all(value > 0 for value in measured(timed, "forward").y)
    assert "forward_and_backward" not in [each.name for each in timed.measurements]
    scaling = timed.find("time_exponent")
    assert isinstance(scaling, Scalar)
    assert scaling.verdict is not None
    assert scaling.verdict == "backward at 8 tokens: ValueError: the model's outputs carry no gradient"


def test_exponents() -> None:
    """Quadratic is 2, linear 1; lengths without a time do not count."""
    assert exponent([10, 20, 40], [1.0, 4.0, 16.0]) == pytest.approx(2)
    assert exponent([10, 20, 40], [1.0, 2.0, math.nan]) == pytest.approx(1)
    assert math.isnan(exponent([10, 20], [1.0, math.nan]))


def test_peak_memory_is_what_was_allocated() -> None:
    """64 MiB touched are seen as about 64 MiB."""
    peak = peak_memory(lambda: torch.ones(16 * 2**20).sum()) / 2**20
    assert math.isnan(peak) or 55 < peak < 90


def small_blocks() -> list[torch.Tensor]:
    """32 MiB, in blocks that an allocator may keep when they are freed."""
    return [torch.ones(2**13) for _ in range(1024)]


def freed_memory_returns() -> bool:
    """Whether this process has less memory when blocks are freed and the C library is asked to give them back."""
    trim, pages = getattr(ctypes.CDLL(None), "malloc_trim", None), Path("/proc/self/statm")
    if trim is None or not pages.exists():
        return False
    held = small_blocks()
    before = int(pages.read_text(encoding="utf-8").split()[1])
    del held
    trim(0)
    after = int(pages.read_text(encoding="utf-8").split()[1])
    return (before - after) * resource.getpagesize() > 16 * 2**20


def test_peak_memory_is_seen_again() -> None:
    """What an earlier run has freed is no longer in use, so that a second run needs as much as the first."""
    if not freed_memory_returns():
        pytest.skip("the allocator keeps what is freed")
    for _ in range(3):
        peak = peak_memory(small_blocks) / 2**20
        assert math.isnan(peak) or 25 < peak < 50


def test_shortest_leaves_the_first_run_out() -> None:
    """The first run warms up; it counts only if it is the only one."""
    calls: list[int] = []
    assert shortest(lambda: calls.append(0), budget=math.inf, repeats=4, enough=0) >= 0
    assert len(calls) == 4


def test_a_machine_that_is_busy_elsewhere_has_a_time_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may stop a process for longer than the budget, before anything is timed."""
    looks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(looks)))
    assert shortest(lambda: None, budget=0.01) == 1.0


def test_a_file_of_the_current_folder_is_not_taken_for_pythons_own(
    tmp_path: Path, plugin_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mixer may lie in a `copy.py`, which torch would import; modules beside it are found where a run finds them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "beside")
    plugin_file("open('executed', 'w')", "copy.py")
    (tmp_path / "beside").mkdir()
    source = "from torch import nn\ndef m(vocab_size: int): return nn.Embedding(vocab_size, vocab_size)"
    plugin_file(source, "beside/one_table.py")
    timed = harness.run("one_table:m", probes="speed:lengths=[8],budget=1", seeds=1, out=tmp_path / "run").records[0]
    assert timed.status == "ok", timed.error
    assert not (tmp_path / "executed").exists()


HANGS = """
    import subprocess, sys, time
    from pathlib import Path
    import torch
    class M(torch.nn.Embedding):
        def __init__(self, vocab_size: int, place: str, deed: str) -> None:
            super().__init__(vocab_size, vocab_size)
            if "harness.timing" in sys.orig_argv:
                other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10**6)"])
                Path("written").write_text(str(other.pid))
                Path("written").rename(place)
                time.sleep(10**6 if deed == "hangs" else 0)
"""


def alive(process: int) -> bool:
    """Whether a process runs."""
    try:
        state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b") ")[2][:1]
    except OSError:
        return False
    return state not in (b"Z", b"X")


def ends(process: int) -> bool:
    """Whether a process that was killed comes to its end, which may take a moment."""
    deadline = time.monotonic() + 60
    while alive(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(process)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("deed", ["hangs", "leaves a process"])
def test_timing_ends_with_all_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin_file: Callable[..., str], deed: str
) -> None:
    """A model that hangs fails the probe with a sentence; and what one leaves behind holds up nobody."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "pid"
    if deed == "hangs":

        def until_it_hangs(order: Order) -> float:
            deadline = time.monotonic() + 300
            while not place.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            return 0.25

        monkeypatch.setattr(Order, "patience", property(until_it_hangs))
    model = plugin_file(HANGS) + f":M:place=pid,deed={deed}"
    probe = "speed:lengths=[8],budget=60"
    (timed,) = harness.run(model, probes=probe, seeds=1, out=tmp_path / "run", executor="local").records
    assert ends(int(place.read_text(encoding="utf-8")))
    if deed == "hangs":
        assert timed.error is not None
        assert "the timing process gave no answer in 0.25 s" in timed.error.message
    else:
        assert timed.status == "ok"


def test_timing_has_the_settings_of_every_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin_file: Callable[..., str]
) -> None:
    """Whatever the environment says to torch; they are those in the record's provenance."""
    monkeypatch.setenv("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1")
    monkeypatch.chdir(tmp_path)
    source = """
    import sys
    from pathlib import Path
    import torch
    class M(torch.nn.Embedding):
        def __init__(self, vocab_size: int) -> None:
            super().__init__(vocab_size, vocab_size)
            if "harness.timing" in sys.orig_argv:
                said = f"{torch.get_float32_matmul_precision()} {torch.get_num_threads()}"
                Path("said").write_text(said, encoding="utf-8")
    """
    probe = "speed:lengths=[8],budget=60,threads=2"
    (timed,) = harness.run(plugin_file(source) + ":M", probes=probe, seeds=1, out=tmp_path / "run").records
    precision, threads = (tmp_path / "said").read_text(encoding="utf-8").split()
    assert (precision, threads) == ("highest", "2")
    assert timed.provenance.settings["float32_matmul_precision"] == precision
