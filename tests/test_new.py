"""`harness new`: what it writes, and the names and folders that it refuses."""

import tomllib
from pathlib import Path

import pytest
from commands import elsewhere as elsewhere  # the fixture
from commands import harness

from harness.specs import CONTRACT_VERSION


@pytest.mark.parametrize("kind", ["model", "task", "probe"])
def test_what_is_written(kind: str) -> None:
    """Files with the name filled in, the contract's version stated, and the commands to type next."""
    result = harness("new", kind, "acme-thing")
    assert result.exit_code == 0
    folder = Path("acme-thing")
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["name"] == "acme-thing"
    assert project["project"]["entry-points"]["harness"] == {"acme-thing": "acme_thing"}
    assert f"contract={CONTRACT_VERSION}" in (folder / "acme_thing" / "__init__.py").read_text(encoding="utf-8")
    assert {path.name for path in folder.rglob("*") if path.is_file()} == {
        "README.md",
        "__init__.py",
        f"{kind}.py",
        "pyproject.toml",
        f"test_{kind}.py",
    }
    written = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file())
    assert "{{" not in written
    assert "pip install -e acme-thing" in result.stdout
    assert "harness check acme-thing" in result.stdout


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
        ("sequence-harness", "is installed, and pip would replace it"),
        ("import-linter", "is installed, and pip would replace it"),
        ("tests", "try acme-tests"),
        ("none", "the name 'None', which means something else there"),
        ("tensor", "the name 'Tensor', which means something else there"),
        ("a" * 300, "60 at most"),
        ("", "lower-case letters and digits"),
        ("acme\n", "lower-case letters and digits"),
        ("äcme", "lower-case letters and digits"),
        ("acme/gru", "lower-case letters and digits"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(name: str, said: str) -> None:
    """With the reason in a few words, exit code 2, and nothing written."""
    result = harness("new", "model", "--", name)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr) < 300
    assert not list(Path().iterdir())


@pytest.mark.parametrize(("kind", "name"), [("task", "batch"), ("task", "metric"), ("probe", "max")])
def test_a_name_that_the_code_needs_is_refused(kind: str, name: str) -> None:
    """`class Batch(Task)` would hide the `Batch` that it returns; for another kind the name may be free."""
    assert "means something else there" in harness("new", kind, name).stderr
    assert harness("new", "model", name).exit_code == 0


def test_an_existing_folder_is_never_touched() -> None:
    """Not even an empty one; another place is a way out."""
    Path("acme-gru").mkdir()
    result = harness("new", "model", "acme-gru")
    assert result.exit_code == 2
    assert "exists already and stays as it is" in result.stderr
    assert not list(Path("acme-gru").iterdir())
    assert harness("new", "model", "acme-gru", "--into", "elsewhere").exit_code == 0
    kept = (Path("elsewhere") / "acme-gru" / "README.md").read_text(encoding="utf-8")
    assert harness("new", "task", "acme-gru", "--into", "elsewhere").exit_code == 2
    assert (Path("elsewhere") / "acme-gru" / "README.md").read_text(encoding="utf-8") == kept


@pytest.mark.parametrize("into", ["taken", "taken/below", "x" * 300, "/proc"])
def test_a_folder_that_cannot_be_written_is_explained(into: str) -> None:
    """A file where the folder should be, a name that no file system takes, a place where nobody may write."""
    Path("taken").write_text("", encoding="utf-8")
    result = harness("new", "model", "acme-gru", "--into", into)
    assert result.exit_code == 2
    assert "another" in result.stderr
    assert Path("taken").read_text(encoding="utf-8") == ""


def test_a_link_that_leads_nowhere_is_not_followed() -> None:
    """It exists, although what it points at does not."""
    Path("acme-gru").symlink_to("nowhere")
    assert "exists already and stays as it is" in harness("new", "model", "acme-gru").stderr
    assert not Path("nowhere").exists()


def test_a_disk_that_is_full_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a package would be in the way of the next try."""

    def full(self: Path, text: str, encoding: str) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    result = harness("new", "model", "acme-gru", "--into", "here")
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert not list(Path("here").iterdir())
