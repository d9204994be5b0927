"""What pip installs works without the repository."""

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as pip would."""
    pytest.importorskip("hatchling", reason="comes with the dev extra")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), "."]
    subprocess.run(command, cwd=ROOT, check=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_core_and_the_plugins(wheel: Path) -> None:
    """Both packages under their import names, typed, with suites and without tests."""
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"harness/cli.py", "harness/py.typed", "harness_plugins/py.typed"} <= names
    assert "harness_plugins/suites/recall.toml" in names
    assert not [name for name in names if name.startswith(("plugins/", "tests/", "benchmarks/", "typings/"))]


def test_the_wheel_works_from_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    """In an environment of its own, which borrows the dependencies from this one: listing, planning and running."""
    venv.create(tmp_path / "env", with_pip=False)
    packages = next((tmp_path / "env" / "lib").glob("python*")) / "site-packages"
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", wheel], check=True, cwd=tmp_path)
    harness = tmp_path / "env" / "bin" / "harness"
    listed = subprocess.run([harness, "list"], capture_output=True, encoding="utf-8", check=True, cwd=tmp_path)
    assert "lstm" in listed.stdout
    where = "import harness, harness_plugins; print(harness.__file__, harness_plugins.__file__)"
    files = subprocess.run(
        [python, "-c", where], capture_output=True, encoding="utf-8", check=True, cwd=tmp_path
    ).stdout
    assert str(ROOT) not in files
    words = "run --model lstm:hidden=4 --seeds 1 --jobs 1 --training steps=2 --task recall:train_max=2,distances=[1,2]"
    done = subprocess.run([harness, *words.split()], capture_output=True, encoding="utf-8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "lstm:hidden=4" in done.stdout
