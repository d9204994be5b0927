"""Plans are made in a process of their own: what a plugin does there breaks itself alone."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SHORT
from hanging import Hangs
from hanging import hangs as hangs  # the fixture
from small_runs import IN_PROCESSES

import harness
from harness.errors import HarnessError, PluginError, RequestError
from harness.executors import planning


def test_a_plugin_that_ends_the_process_that_plans_is_broken(plugin_file: Callable[..., str], tmp_path: Path) -> None:
    """As one whose import raises: its cells fail and name it; the others are measured. Alone, nothing is started."""
    deadly = plugin_file("import os\nos._exit(0)\n", "deadly.py") + ":M"
    guilty, innocent = harness.run([deadly, "lstm:hidden=4"], SHORT, out=tmp_path / "run", **IN_PROCESSES)
    assert (guilty.status, innocent.status) == ("failed", "ok")
    assert guilty.error is not None
    assert (
        "deadly.py:M' failed while being imported: the process died: it ended with exit code 0" in guilty.error.message
    )
    with pytest.raises(PluginError, match=r"nothing can run: .*deadly.py:M"):
        harness.run(deadly, SHORT, out=tmp_path / "other", **IN_PROCESSES)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("top", "says"),
    [
        ("", "pretrained = staticmethod(lambda **given: sys.exit(3))"),
        ("", "check_arguments = staticmethod(lambda **given: sys.exit(3))"),
        ("", "files = staticmethod(lambda **given: sys.exit(3))"),
        ("", "recommended_training = property(lambda self: {})"),
        ("plain = json.dumps; json.dumps = lambda value, **how: plain(value)", ""),
        ("json.dumps = None", ""),
        ("hashlib.sha256 = hashlib.md5", ""),
    ],
)
@pytest.mark.parametrize("executor", ["local", pytest.param("processes", marks=pytest.mark.slow)])
def test_what_a_plugin_does_while_a_run_is_planned_breaks_itself_alone(
    plugin_file: Callable[..., str], tmp_path: Path, top: str, says: str, executor: str
) -> None:
    """Whatever it raises when it is asked, and what it replaces of what names cells: others keep their ids."""
    init = "def __init__(self, vocab_size: int) -> None: super().__init__(vocab_size, vocab_size)"
    source = f"import hashlib, json, sys\nfrom torch import nn\n{top}\nclass M(nn.Embedding):\n    {init}\n    {says}\n"
    options = {**IN_PROCESSES, "executor": executor}
    asked = [f"{plugin_file(source)}:M", "lstm:hidden=4"]
    guilty, innocent = harness.run(asked, SHORT, out=tmp_path / "run", **options)
    (alone,) = harness.run("lstm:hidden=4", SHORT, out=tmp_path / "alone", **options)
    assert (guilty.status, innocent.status, innocent.id) == ("failed", "ok", alone.id)
    assert guilty.error is not None
    assert "plugin.py:M" in guilty.error.message


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_a_process_that_is_killed_while_it_plans_breaks_no_plugin(
    plugin_file: Callable[..., str], tmp_path: Path
) -> None:
    """Somebody else may have done it; whatever is imported when it happens again has."""
    source = """
    import os, signal
    from pathlib import Path
    from torch import nn
    seen = Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        os.kill(os.getpid(), signal.SIGTERM)
    class M(nn.Embedding):
        def __init__(self, vocab_size: int) -> None: super().__init__(vocab_size, vocab_size)
    """
    model = plugin_file(source, "killed.py") + ":M"
    (record,) = harness.run(model, SHORT, out=tmp_path / "run", **IN_PROCESSES)
    assert record.status == "ok"
    deadly = plugin_file("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n", "deadly.py") + ":M"
    with pytest.raises(PluginError, match=r"nothing can run: .*deadly.py:M.* ended by SIGTERM"):
        harness.run(deadly, SHORT, out=tmp_path / "other", **IN_PROCESSES)


def test_a_process_that_cannot_plan_says_why_in_a_line(plugin_file: Callable[..., str], tmp_path: Path) -> None:
    """And shows no traceback."""
    source = """
    from torch import nn
    def interrupts(**given):
        raise KeyboardInterrupt
    class M(nn.Embedding):
        check_arguments = interrupts
        def __init__(self, vocab_size: int) -> None: ...
    """
    with pytest.raises(HarnessError, match=r"^the plan cannot be made: KeyboardInterrupt \(.*\)$"):
        harness.run(f"{plugin_file(source)}:M", SHORT, out=tmp_path / "run", **IN_PROCESSES)


def test_a_plugin_that_hangs_while_it_is_imported_is_broken(
    plugin_file: Callable[..., str], tmp_path: Path, hangs: Hangs
) -> None:
    """After what a trial may take, or a little more, since a first import is slow; the others are measured."""
    source = """
    import time
    from pathlib import Path
    Path(__file__).with_suffix(".hangs").touch()
    time.sleep(10**6)
    """
    file = plugin_file(source, "hanging.py")
    hanging = f"{file}:M"
    hangs(planning, Path(file).with_suffix(".hangs"))
    options = {**IN_PROCESSES, "timeout": 40}
    guilty, innocent = harness.run([hanging, "lstm:hidden=4"], SHORT, out=tmp_path / "run", **options)
    assert (guilty.status, innocent.status) == ("failed", "ok")
    assert guilty.error is not None
    assert "hanging.py:M' failed while being imported: no answer in 40 s" in guilty.error.message


def test_wrong_requests_come_back_from_the_process_that_plans(tmp_path: Path) -> None:
    """With their class and words."""
    with pytest.raises(RequestError, match=r"model 'lstm': it has no argument 'hiden'. Did you mean 'hidden'\?"):
        harness.run("lstm:hiden=4", SHORT, out=tmp_path / "run", **IN_PROCESSES)


def test_a_script_needs_no_main_guard(plugin_file: Callable[..., str], tmp_path: Path) -> None:
    """It runs once, and imports neither torch nor any plugin."""
    script = plugin_file(
        f"""
        import os, sys, harness
        print("begun")
        found = harness.run("lstm:hidden=4", {SHORT!r}, seeds=2, jobs=2, training={{"steps": 1}}, examples=8)
        print(*(record.status for record in found))
        print({{"torch", "harness_plugins.models.lstm"}} & set(sys.modules))
        """,
        "script.py",
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.splitlines() == ["begun", "ok ok", "set()"]
