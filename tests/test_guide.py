"""The guide for authors of plugins holds: its commands run from an empty folder, and its numbers are right."""

import json
import re
from pathlib import Path

import pytest
from installed import ROOT, environment, run, run_in_one_process

GUIDE = (ROOT / "docs" / "write-a-plugin.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", GUIDE, re.DOTALL))


def lines_of(*names: str) -> int:
    """Lines that somebody has to write; blank ones do not count."""
    return sum(bool(line.strip()) for name in names for line in FILES[name].splitlines())


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return environment(tmp_path_factory.getbasetemp())


def test_the_commands_of_the_guide_work(installed: dict[str, str], tmp_path: Path) -> None:
    """In the order of the page, with its files. The new model's table stands beside the built-in LSTM's."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    blocks = [block.splitlines() for block in re.findall(r"<!-- run -->\n```sh\n(.*?)```", GUIDE, re.DOTALL)]
    printed = iter(run_in_one_process([line for block in blocks for line in block], tmp_path, installed))
    outputs = ["".join(next(printed) for _ in block) for block in blocks]
    by_file, packaged, existing, inside, checked = outputs
    assert "model ./gru.py:GRU: 19 passed, 4 not applicable" in by_file
    assert "grad_reach on recall, after training" in by_file
    table = packaged.partition("model acme-gru: 19 passed")[2]
    rows = [line.split() for line in table.splitlines() if "acme-gru" in line or "lstm" in line]
    assert any("acme-gru" in row for row in rows)
    assert any("lstm" in row for row in rows)
    assert "at initialisation" in table
    assert "model lab-net: 18 passed" in existing
    assert "accuracy on recall" in existing
    assert "probe ./inside.py:inside: 10 passed" in inside
    assert "inside on recall, after training" in inside
    assert all(f"{what}: " in checked for what in ("model lstm", "model gpt:position=rope", "task recall"))
    records = [json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.glob("runs/*/records/*.json")]
    assert {record["status"] for record in records} == {"ok"}
    versions = {record["model"]["name"]: record["model"]["version"] for record in records}
    assert versions["acme-gru"] == "0.1.0"
    digests = {record["model"]["digest"] for record in records if record["model"]["name"] == "./gru.py:GRU"}
    assert len(digests) == 1
    assert len(digests.pop()) == 16


def test_a_class_in_a_file_is_shorter_than_anywhere_else() -> None:
    """A GRU that runs takes fewer than 11 lines."""
    assert lines_of("gru.py") < 11


def test_an_existing_module_needs_at_most_15_lines() -> None:
    """pyproject.toml and the hook together; the guide says how many."""
    written = lines_of("lab-net/pyproject.toml", "lab-net/lab_net/__init__.py")
    assert written <= 15
    assert written == 12
    assert "twelve lines in two files" in GUIDE


@pytest.mark.slow
def test_a_new_task_and_a_new_probe_work_as_written(installed: dict[str, str], tmp_path: Path) -> None:
    """Installed, run together, and tested by their own tests, which hold every check."""
    words = "--seeds 1 --training steps=5 --examples 32 --jobs 1"
    commands = [
        "harness new task acme-task",
        "harness new probe acme-probe --into sub",
        "pip install -q -e acme-task -e sub/acme-probe",
        f"harness run --model lstm:hidden=8 --task acme-task --probe acme-probe {words}",
    ]
    assert "acme-probe on acme-task" in run_in_one_process(commands, tmp_path, installed)[-1]
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n", encoding="utf-8")
    tests = "acme-task/tests sub/acme-probe/tests"
    shown = run(f"python -m pytest -q -p no:cacheprovider {tests}", tmp_path, installed)
    assert re.search(r"\d+ passed", shown)
