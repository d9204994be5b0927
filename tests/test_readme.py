"""Documentation is run: every command and every Python block of the README, on small settings."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import harness
from harness.cli import main
from harness.registry import default_registry

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (harness .+)$", README, flags=re.MULTILINE)
SAMPLE = README.partition("before and after training:")[2].partition("Read it like this")[0]
"""What the first command is said to print."""
SMALL = {"steps": 2, "batch_size": 4}


def run(command: str) -> str:
    """The command as written; a run is made small, a suite is only planned, and the laws of one group are verified."""
    words = shlex.split(command)[1:]
    if words == ["verify"]:
        words.append("softmax_laws")
    if words[0] == "bench":
        words = ["run", "bench", "--dry-run"]
    elif words[0] == "run":
        if not words[1].startswith("-"):  # a suite, perhaps with a model beside
            beside = [
                part for place, word in enumerate(words) if word == "--model" for part in words[place : place + 2]
            ]
            words = ["run", words[1], *beside, "--dry-run"]
        else:
            if "--training" not in words:
                words += ["--training", ""]
            for place in [index + 1 for index, word in enumerate(words) if word == "--training"]:
                kept = [setting for setting in words[place].split(",") if not setting.startswith("steps")]
                words[place] = ",".join([*kept, "steps=2", "batch_size=4"])
            words += ["--seeds", "1", "--examples", "16", "--jobs", "1"]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 0, f"{command}\n{result.output}"
    return result.stdout


@pytest.mark.usefixtures("timed_here")
def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order in which a reader meets them, in an empty folder, with the reader's own files from the README."""
    monkeypatch.chdir(tmp_path)
    for name, source in re.findall(r"```python\n# (\w+\.py)\n(.+?)```", README, flags=re.DOTALL):
        Path(name).write_text(source, encoding="utf-8")
    assert len(COMMANDS) > 8
    printed = {command: run(command) for command in COMMANDS}
    assert all(printed.values())
    first = printed["harness run --model lstm --probe grad_reach"]
    titles = re.findall(r"^    (.+)\n    (?:-+|=+)$", SAMPLE, flags=re.MULTILINE)
    assert len(titles) > 3
    assert [title for title in titles if f"\n{title}\n" not in f"\n{first}"] == []


@pytest.mark.parametrize("block", re.findall(r"```python\n(import harness\n.+?)```", README, flags=re.DOTALL))
def test_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: str) -> None:
    """The library's example, with less training."""
    monkeypatch.chdir(tmp_path)
    original = harness.run
    monkeypatch.setattr(harness, "run", lambda **asked: original(**asked, training=SMALL, examples=16), raising=False)
    names: dict[str, Any] = {}
    exec(block, names)
    assert names["rows"]


def test_the_set_up_commands_exist() -> None:
    """`make demo` and `make test` are what the README says they are."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^    |`)make (\w+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    assert "harness run --model lstm --probe grad_reach" in makefile


def test_every_plugin_is_in_the_readme() -> None:
    """Whoever reads it learns what there is."""
    for kind in ("model", "task", "probe", "suite"):
        for entry in default_registry().all(kind):
            assert f"`{entry.spec.name}`" in README, f"{kind} {entry.spec.name}"


def test_documents_speak_of_the_product_alone() -> None:
    """No path of somebody's machine, no open ends."""
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(work|home|Users|root)/|TODO|FIXME|@@", text), path.name
