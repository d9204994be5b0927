"""What pip installs works without the repository, and says what it is."""

import email
import subprocess
import sys
import sysconfig
import tarfile
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


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of the source distribution, built as `make dist` builds it."""
    pytest.importorskip("hatchling", reason="comes with the dev extra")
    folder = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        members = [member for member in archive if member.isfile()]
        contents = {member.name.partition("/")[2]: archive.extractfile(member) for member in members}
        return {name: file.read().decode(errors="replace") for name, file in contents.items() if file}


def test_what_is_published_names_its_licence(wheel: Path, sdist: dict[str, str]) -> None:
    """As an SPDX expression, with the text; and the Pythons that it is tested on."""
    archive = zipfile.ZipFile(wheel)
    of_wheel = {name.partition("/")[2]: archive.read(name).decode(errors="replace") for name in archive.namelist()}
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert of_wheel["licenses/LICENSE"] == sdist["LICENSE"] == text
    for metadata in map(email.message_from_string, (of_wheel["METADATA"], sdist["PKG-INFO"])):
        assert metadata["License-Expression"] == "MIT"
        assert metadata["License-File"] == "LICENSE"
        assert metadata["Author"] in text
        assert metadata["Requires-Python"] == ">=3.11.1"
        classifiers = metadata.get_all("Classifier", [])
        assert "Typing :: Typed" in classifiers
        for minor in (11, 12, 13):
            assert f"Programming Language :: Python :: 3.{minor}" in classifiers


def test_the_source_distribution_holds_what_its_tests_read(sdist: dict[str, str]) -> None:
    """Every file of the project's top folder that is under version control, but for what only the repository needs."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, encoding="utf-8").stdout
    links = {"typings/harness_plugins"}  # a folder by another name: its files are those of plugins/
    wanted = {name for name in listed.splitlines() if not name.startswith(".ci/")} - links
    assert wanted - set(sdist) == set()


def test_the_wheel_holds_the_core_and_the_plugins(wheel: Path) -> None:
    """Both packages under their import names, typed, with suites and without tests."""
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"harness/cli/__init__.py", "harness/py.typed", "harness_plugins/py.typed"} <= names
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
