"""Imports go down only; what needs no torch never imports it; types are checked in every call. Each check can fail."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import jaxtyping
import pytest
import torch

import harness
from harness import Batch

ROOT = Path(__file__).parent.parent


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", env={"PYTHONPATH": str(folder)})


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources, where they may be broken."""
    pytest.importorskip("importlinter", reason="comes with the dev extra")
    shutil.copytree(ROOT / "harness", tmp_path / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "plugins", tmp_path / "harness_plugins", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_layers_hold(copy: Path) -> None:
    """The contracts in pyproject.toml are kept."""
    done = lint_imports(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("harness/registry.py", "import harness.plan"),
        ("harness/statistics.py", "import torch"),
        ("harness/runner.py", "import harness_plugins.models.lstm"),
        ("harness_plugins/models/lstm.py", "import harness_plugins.tasks.recall"),
    ],
)
def test_a_wrong_import_is_caught(copy: Path, module: str, line: str) -> None:
    """Each contract fails when it is broken."""
    path = copy / module
    path.write_text(path.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    assert lint_imports(copy).returncode == 1


def test_plugins_import_public_names_from_one_place() -> None:
    """Plugins, examples and templates say `from harness import Batch`, wherever that is defined; copies of their first
    lines then work anywhere."""
    sources = [*(ROOT / "plugins").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    sources += (ROOT / "harness" / "templates").rglob("*.py.txt")
    assert {source.relative_to(ROOT).parts[0] for source in sources} == {"plugins", "examples", "harness"}
    imported = re.compile(r"from harness\.[\w.]+ import (\([^)]*\)|.+)")
    elsewhere = [
        f"{source.relative_to(ROOT)}: {name}"
        for source in sources
        for names in imported.findall(source.read_text(encoding="utf-8"))
        for name in set(re.findall(r"\w+", names)) & set(harness.__all__)
    ]
    assert not elsewhere


def test_shapes_are_checked_while_tests_run() -> None:
    """Every annotated function, class and array shape: here one number of targets for another number of tokens."""
    tokens, mask = torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.bool)
    Batch(tokens, tokens, mask)
    with pytest.raises(jaxtyping.TypeCheckError):
        Batch(tokens, tokens[:, :2], mask)
