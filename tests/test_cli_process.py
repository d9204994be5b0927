"""The command as a process: what it imports, and how it ends whatever its folder, output and signals are."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from commands import QUICK, harness
from commands import elsewhere as elsewhere  # the fixture

from harness.store import RunDirectory


def test_a_file_of_the_current_folder_is_not_taken_for_the_harness() -> None:
    """Nor for torch: not even by the server that worker processes come from."""
    Path("harness.py").write_text("open('executed', 'w')", encoding="utf-8")
    command = Path(sys.executable).parent / "harness"
    words = ["run", "--model", "lstm:hidden=4", *QUICK[:-1], "2", "--probe", "accuracy", "--probe", "grad_reach"]
    done = subprocess.run([command, *words], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert not Path("executed").exists()


def test_python_runs_the_package() -> None:
    """As `python -m harness`."""
    command = [sys.executable, "-m", "harness", "--version"]
    assert subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.startswith("harness, ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("word", ["list", "--help"])
def test_output_that_cannot_be_written_is_one_sentence(word: str) -> None:
    """As on a full disk."""
    command = Path(sys.executable).parent / "harness"
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run([command, word], stdout=full, stderr=subprocess.PIPE, encoding="utf-8", check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["Error: the output cannot be written: No space left on device"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a folder that somebody is in")
def test_a_folder_that_was_deleted_is_named() -> None:
    """No process can be started in it."""
    command = Path(sys.executable).parent / "harness"
    gone, out = Path("gone").absolute(), Path("run").absolute()
    gone.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    words = [
        "sh",
        "-c",
        script,
        "sh",
        str(gone),
        str(command),
        "run",
        "--model",
        "lstm:hidden=4",
        *QUICK,
        "--out",
        str(out),
    ]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "the current folder was deleted" in done.stderr


def test_ctrl_c_twice_ends_as_once() -> None:
    """Whoever is impatient is told the same, with the same exit code."""
    code = """
        import os, signal
        from harness.cli import main
        from harness.cli.showing import schema
        from harness.executors import start
        schema.callback = start.stop = lambda **given: os.kill(os.getpid(), signal.SIGINT)
        main(["schema"])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="no shell that closes files")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_files_may_be_closed(closed: str) -> None:
    """As a service or a cron job may start a program: it runs, in processes of its own, and reports."""
    command = Path(sys.executable).parent / "harness"
    words = ["run", "--model", "lstm:hidden=4", *QUICK[:-1], "1", "--out", "there"]
    for each in (words, ["report", "there"]):
        done = subprocess.run(
            ["sh", "-c", f'"$@" {closed}', "sh", command, *each], capture_output=True, encoding="utf-8", check=False
        )
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert len(list(RunDirectory(Path("there")).read_records())) == 1


def test_the_command_is_installed() -> None:
    """`harness` is on the path beside the interpreter and knows its version."""
    command = Path(sys.executable).parent / "harness"
    done = subprocess.run([command, "--version"], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.startswith("harness, version ")


@pytest.mark.parametrize(
    "words", [["list"], ["list", "--format", "json"], ["--help"], ["run", "--help"], ["schema"], ["report", "there"]]
)
def test_light_commands_do_not_import_torch(words: list[str]) -> None:
    """What only lists, explains itself or reads records stays fast."""
    if words[0] == "report":
        harness("run", "--model", "lstm:hidden=8", "--out", "there", *QUICK)
    assert "torch" not in _imported(f"from harness.cli import main; main({words!r}, standalone_mode=False)")


def test_listing_imports_no_more_than_it_needs() -> None:
    """Neither the schema of records, nor what prints tables, nor the other commands."""
    assert not {"pydantic", "tabulate", "harness.cli.running"} & _imported(
        "from harness.cli import main; main(['list'], standalone_mode=False)"
    )


def test_the_check_for_torch_can_fail() -> None:
    """`harness show` has to import the plugin, so that torch must be seen."""
    words = ["show", "model", "lstm"]
    assert "torch" in _imported(f"from harness.cli import main; main({words!r}, standalone_mode=False)")


def _imported(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint('\\nMODULES', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        encoding="utf-8",
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    return set(done.stdout.rpartition("MODULES")[2].split())
