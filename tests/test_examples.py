"""The example packages, installed by pip as an outsider's would be."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = {"min-gru": "model", "selective-copying": "task", "state-memory": "probe"}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with the wheels of the harness and of the examples, which borrows its dependencies."""
    pytest.importorskip("hatchling", reason="comes with the dev extra")
    folder = tmp_path_factory.mktemp("examples")
    sources = [str(ROOT), *(str(ROOT / "examples" / name) for name in EXAMPLES)]
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*build, *sources], check=True, cwd=folder)
    venv.create(folder / "env", with_pip=False)
    packages = next((folder / "env" / "lib").glob("python*")) / "site-packages"
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", *folder.glob("*.whl")]
    subprocess.run(install, check=True, cwd=folder)
    settings = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return settings | {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}


def run(words: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(words.split(), cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_they_work_with_one_another_and_with_the_built_in_ones(environment: dict[str, str], tmp_path: Path) -> None:
    """A model, a task and a probe of three packages that do not know one another."""
    words = "--seeds 1 --training steps=5 --examples 32 --jobs 1"
    shown = run(
        f"harness run --model min-gru:hidden=8 --model lstm:hidden=8 --task selective-copying:lengths=[8,16] "
        f"--probe accuracy --probe state-memory:examples=64 {words}",
        tmp_path,
        environment,
    )
    assert "min-gru:hidden=8" in shown
    assert "lstm:hidden=8" in shown
    assert "readable" in shown


def test_their_own_tests_pass(environment: dict[str, str], tmp_path: Path) -> None:
    """With plain pytest, outside the repository's configuration; each package tests every check."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    tests = " ".join(str(ROOT / "examples" / name / "tests") for name in EXAMPLES)
    shown = run(f"python -m pytest -v -p no:cacheprovider -c {tmp_path / 'pytest.ini'} {tests}", tmp_path, environment)
    for check in ("causal", "same_seed", "model_untouched"):
        assert f"test_conforms[{check}] PASSED" in shown
    assert "test_the_scan_is_the_loop[200] PASSED" in shown


def test_each_package_is_described() -> None:
    """The overview names every example, and there is nothing else beside them."""
    text = (ROOT / "examples" / "README.md").read_text()
    assert {path.parent.name for path in (ROOT / "examples").glob("*/pyproject.toml")} == set(EXAMPLES)
    for name, kind in EXAMPLES.items():
        assert f"| `{name}` | a {kind}: " in text
