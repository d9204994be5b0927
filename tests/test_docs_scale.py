"""The page on scale is true: its scripts run, and its commands, in their order."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import harness
from harness.cli import main

PAGE = (Path(__file__).parent.parent / "docs" / "scale.md").read_text(encoding="utf-8")
SCRIPTS = dict(re.findall(r"<!-- file: (\S+) -->\n```bash\n(.*?)```", PAGE, re.DOTALL))
AFTER = re.findall(r"<!-- after the shards -->\n```bash\n(.*?)```", PAGE, re.DOTALL)
QUERIES = re.findall(r"<!-- query -->\n```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^    (harness .+)$", PAGE, re.MULTILINE)
SMALL = "--seeds 1 --training steps=1,batch_size=2 --examples 4"

FAST = f"""#!/bin/sh
exec {shlex.quote(sys.executable)} -m harness "$@"
"""
SSH = """#!/bin/sh
mkdir -p "at-$1" && cd "at-$1" && exec sh -c "$2"
"""
SCP = """#!/bin/sh
mkdir -p "$3/parts" && cp -r "at-${2%%:*}/${2#*:}/." "$3/parts"
"""


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A folder with a small suite `recall`, a `harness` to call, and machines that are folders."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("harness", FAST), ("ssh", SSH), ("scp", SCP)):
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def bash(script: str, environment: dict[str, str], **more: str) -> None:
    subprocess.run(["bash", "-ec", script], env=environment | more, check=True, capture_output=True)


def small(script: str) -> str:
    """A script that runs two models in place of the suite."""
    return script.replace("run recall", f"run --model lstm:hidden=4 --model elman:hidden=4 {SMALL}")


def test_every_block_of_the_page_is_tested() -> None:
    """What readers copy is a script, the commands after it, or a query."""
    assert len(re.findall(r"```bash\n", PAGE)) == len(SCRIPTS) + len(AFTER)
    assert len(re.findall(r"```python\n", PAGE)) == len(QUERIES)


def test_the_job_array_and_what_comes_after_it(environment: dict[str, str]) -> None:
    """A job for each number, as SLURM starts them; then one directory with all of it, and the other commands."""
    array = re.search(r"--array=1-(\d+)", SCRIPTS["shard.sbatch"])
    assert array
    assert f"SHARDS:-{array[1]}" in SCRIPTS["shard.sbatch"]
    for number in ("1", "2"):
        bash(small(SCRIPTS["shard.sbatch"]), environment, SLURM_ARRAY_TASK_ID=number, SHARDS="2")
    bash(AFTER[0], environment)
    assert {record.model.called for record in harness.load("runs/recall")} == {"lstm:hidden=4", "elman:hidden=4"}
    assert harness.load("runs/recall").note == ""
    for command in COMMANDS:
        words = shlex.split(command)[1:]
        words = [each for word in words for each in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]
        result = CliRunner().invoke(main, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
    for query in QUERIES:
        exec(query.replace("'lstm'", "'lstm:hidden=4'"), {})


def test_the_shell_script(environment: dict[str, str]) -> None:
    """Three machines, each in a folder of its own."""
    bash(small(SCRIPTS["shards.sh"]), environment)
    assert len(harness.load("runs/recall")) == 2
    assert len(list(Path("parts").iterdir())) == 3
