"""The guide's path, from an empty folder: `harness new`, pip, `harness check`, a table beside the built-in model's."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli import main
from harness.specs import CONTRACT_VERSION

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "write-a-plugin.md").read_text()
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", GUIDE, re.DOTALL))


def harness(*words: str) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)


def lines_of(*names: str) -> int:
    """Lines that somebody has to write; blank ones do not count."""
    return sum(bool(line.strip()) for name in names for line in FILES[name].splitlines())


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with the wheel, which borrows its dependencies; pip works in it without a network."""
    pytest.importorskip("hatchling", reason="comes with the dev extra")
    pytest.importorskip("editables", reason="comes with the dev extra")
    folder = tmp_path_factory.mktemp("guide")
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), "."]
    subprocess.run(wheel, cwd=ROOT, check=True)
    venv.create(folder / "env", with_pip=False)
    binaries = folder / "env" / "bin"
    packages = next((folder / "env" / "lib").glob("python*")) / "site-packages"
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (binaries / "pip").write_text(f'#!/bin/sh\nexec "{binaries}/python" -m pip "$@"\n')
    (binaries / "pip").chmod(0o755)
    settings = {
        **{key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")},
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this one upside down: off
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    subprocess.run(["pip", "install", "-q", *folder.glob("*.whl")], check=True, env=settings, cwd=folder)
    return settings


def shell(commands: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(["sh", "-e", "-c", commands], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_commands_of_the_guide_work(environment: dict[str, str], tmp_path: Path) -> None:
    """In the order of the page, with its files. The new model's table stands beside the built-in LSTM's."""
    outputs = []
    for name, text, commands in re.findall(
        r"<!-- file: (\S+) -->\n```\w+\n(.*?)```|<!-- run -->\n```sh\n(?P<run>.*?)```", GUIDE, re.DOTALL
    ):
        if commands:
            outputs.append(shell(commands, tmp_path, environment))
        else:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    by_file, packaged, existing, checked = outputs
    assert "model ./gru.py:GRU: 17 passed, 2 not applicable" in by_file
    assert "grad_reach on recall, after training" in by_file
    table = packaged.partition("model acme-gru: 17 passed")[2]
    rows = [line.split() for line in table.splitlines() if "acme-gru" in line or "lstm" in line]
    assert any("acme-gru" in row for row in rows)
    assert any("lstm" in row for row in rows)
    assert "at initialisation" in table
    assert "model lab-net: 17 passed" in existing
    assert "accuracy on recall" in existing
    assert all(f"{what}: " in checked for what in ("model lstm", "model gpt:position=rope", "task recall"))
    records = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/records/*.json")]
    assert {record["status"] for record in records} == {"ok"}
    versions = {record["model"]["name"]: record["model"]["version"] for record in records}
    assert versions["acme-gru"] == "0.1.0"
    digests = {record["model"]["digest"] for record in records if record["model"]["name"] == "./gru.py:GRU"}
    assert len(digests) == 1
    assert len(digests.pop()) == 16


@pytest.mark.slow
def test_a_new_task_and_a_new_probe_work_as_written(environment: dict[str, str], tmp_path: Path) -> None:
    """Installed, run together, and tested by their own tests, which hold every check."""
    shell("harness new task acme-task && harness new probe acme-probe --into sub", tmp_path, environment)
    shell("pip install -q -e acme-task -e sub/acme-probe", tmp_path, environment)
    words = "--seeds 1 --training steps=5 --examples 32 --jobs 1"
    command = f"harness run --model lstm:hidden=8 --task acme-task --probe acme-probe {words}"
    assert "acme-probe on acme-task" in shell(command, tmp_path, environment)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    tests = "acme-task/tests sub/acme-probe/tests"
    assert re.search(r"\d+ passed", shell(f"python -m pytest -q -p no:cacheprovider {tests}", tmp_path, environment))


def test_a_class_in_a_file_is_shorter_than_anywhere_else() -> None:
    """A GRU that runs takes fewer than 11 lines."""
    assert lines_of("gru.py") < 11


def test_an_existing_module_needs_at_most_15_lines() -> None:
    """pyproject.toml and the hook together; the guide says how many."""
    written = lines_of("lab-net/pyproject.toml", "lab-net/lab_net/__init__.py")
    assert written <= 15
    assert written == 12
    assert "twelve lines in two files" in GUIDE


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize("kind", ["model", "task", "probe"])
def test_what_is_written(kind: str) -> None:
    """Files with the name filled in, the contract's version stated, and the commands to type next."""
    result = harness("new", kind, "acme-thing")
    assert result.exit_code == 0
    folder = Path("acme-thing")
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["project"]["name"] == "acme-thing"
    assert project["project"]["entry-points"]["harness"] == {"acme-thing": "acme_thing"}
    assert f"contract={CONTRACT_VERSION}" in (folder / "acme_thing" / "__init__.py").read_text()
    assert {path.name for path in folder.rglob("*") if path.is_file()} == {
        "README.md",
        "__init__.py",
        f"{kind}.py",
        "pyproject.toml",
        f"test_{kind}.py",
    }
    written = "".join(path.read_text() for path in folder.rglob("*") if path.is_file())
    assert "{{" not in written
    assert "pip install -e acme-thing" in result.stdout
    assert "harness check acme-thing" in result.stdout


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Acme", "lower-case letters and digits"),
        ("acme gru", "lower-case letters and digits"),
        ("-acme", "lower-case letters and digits"),
        ("../acme", "lower-case letters and digits"),
        ("3d", "which Python does not allow"),
        ("class", "which Python does not allow"),
        ("lstm", "there is a model 'lstm' already, from sequence-harness"),
        ("torch", "which another installed package has"),
        ("json", "which another installed package has"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(name: str, said: str) -> None:
    """With the reason, exit code 2, and nothing written."""
    result = harness("new", "model", "--", name)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not list(Path().iterdir())


@pytest.mark.usefixtures("_elsewhere")
def test_an_existing_folder_is_never_touched() -> None:
    """Not even an empty one; another place is a way out."""
    Path("acme-gru").mkdir()
    result = harness("new", "model", "acme-gru")
    assert result.exit_code == 2
    assert "exists already and stays as it is" in result.stderr
    assert not list(Path("acme-gru").iterdir())
    assert harness("new", "model", "acme-gru", "--into", "elsewhere").exit_code == 0
    kept = (Path("elsewhere") / "acme-gru" / "README.md").read_text()
    assert harness("new", "task", "acme-gru", "--into", "elsewhere").exit_code == 2
    assert (Path("elsewhere") / "acme-gru" / "README.md").read_text() == kept


@pytest.mark.usefixtures("_elsewhere")
def test_a_folder_that_cannot_be_written_is_explained() -> None:
    """A file where the folder should be."""
    Path("taken").write_text("")
    result = harness("new", "model", "acme-gru", "--into", "taken")
    assert result.exit_code == 2
    assert "choose another with --into" in result.stderr


@pytest.mark.usefixtures("_elsewhere")
def test_check_reports_files_by_what_they_are() -> None:
    """Model, task and probe are told apart; a failure is exit code 1, with place, meaning and fix."""
    for kind in ("model", "task", "probe"):
        harness("new", kind, f"acme-{kind}")
    model, task = "acme-model/acme_model/model.py", "acme-task/acme_task/task.py"
    probe = "acme-probe/acme_probe/probe.py"
    result = harness("check", f"./{model}:AcmeModel", f"./{task}:AcmeTask", f"./{probe}:acme_probe")
    assert result.exit_code == 0, result.stdout
    assert re.findall(r"^(\w+) \./\S+: \d+ passed", result.stdout, re.MULTILINE) == ["model", "task", "probe"]
    source = Path(model).read_text().replace("batch_first=True", "batch_first=True, bidirectional=True")
    Path("wrong.py").write_text(source.replace("nn.Linear(width,", "nn.Linear(2 * width,"))
    result = harness("check", "./wrong.py:AcmeModel")
    assert result.exit_code == 1
    assert "failed: causal: it sees the whole sequence" in result.stdout
    assert "where: wrong.py:" in result.stdout
    assert "means: " in result.stdout
    assert "fix:   " in result.stdout


def test_check_as_json() -> None:
    """One entry for each plugin, every check with its status."""
    (report,) = json.loads(harness("check", "accuracy", "--format", "json").stdout)
    assert (report["kind"], report["name"], report["ok"]) == ("probe", "accuracy", True)
    assert {check["status"] for check in report["checks"]} == {"passed"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lstn"], "Did you mean 'lstm'"),
        (["lstm", "--kind", "probe"], "there is no probe 'lstm'"),
        (["./missing.py:GRU"], "there is no file"),
        (["no_such_module:GRU"], "there is no model, task or probe"),
    ],
)
def test_check_explains_a_wrong_name(words: list[str], said: str) -> None:
    """Exit code 2, and nothing is checked."""
    result = harness("check", "accuracy", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "passed" not in result.stdout


def test_a_plugin_with_required_arguments_waits_for_them(tmp_path: Path) -> None:
    """It is not failed, and the message says what to give."""
    path = tmp_path / "needs.py"
    path.write_text("from gru import GRU\n\nclass Needs(GRU):\n    def __init__(self, vocab_size: int, width: int):\n")
    path.write_text(path.read_text() + "        super().__init__(vocab_size, width)\n")
    (tmp_path / "gru.py").write_text(FILES["gru.py"])
    result = harness("check", f"{path}:Needs")
    assert result.exit_code == 0
    assert f"it cannot be built without width; check {path}:Needs:width=..." in result.stdout
    assert "17 passed" in harness("check", f"{path}:Needs:width=8").stdout
