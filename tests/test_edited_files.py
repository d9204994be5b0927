"""Files that are edited or moved: new code is measured, old results are found again."""

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from code_files import Write, definition, digest, plugin, value
from code_files import files as files  # the fixture
from conftest import SHORT

import harness
from harness.errors import PluginError, RequestError
from harness.measurements import Scalar
from harness.plan import make_plan
from harness.registry import default_registry
from harness.report import rows
from harness.requests import build_suite
from harness.sources import read_anew

MODEL = "class M:\n    def value(self):\n        import neighbour\n        return neighbour.VALUE"

EDITED = [
    ("plugin.py", "import neighbour\nclass M:\n    def value(self): return -neighbour.VALUE"),
    ("neighbour.py", "VALUE = 2"),
    ("late.py", "VALUE = 20"),
    ("new.py", "VALUE = 200"),
]


@pytest.mark.parametrize(("name", "text"), EDITED)
def test_an_edited_file_is_read_anew_by_the_next_run(files: Write, name: str, text: str) -> None:
    """Itself, a neighbour, one that is imported when the model is called, or one that was not there."""
    source = """
    import neighbour
    class M:
        def value(self):
            import late
            try:
                import new
            except ImportError:
                return neighbour.VALUE + late.VALUE
            return neighbour.VALUE + late.VALUE + new.VALUE
    """
    files("VALUE = 1", "neighbour.py")
    files("VALUE = 10", "late.py")
    path = files(source, "plugin.py")
    before = definition(f"{path}:M"), digest(path)
    files(text, name)
    assert (definition(f"{path}:M"), digest(path)) == before  # a run is not over: what it measures stays what it was
    assert before[0].code().value() == 11
    read_anew()
    assert digest(path) != before[1]
    assert value(path) == {"plugin.py": -1, "neighbour.py": 12, "late.py": 21, "new.py": 211}[name]


def test_what_nobody_edited_stays_what_it_is(files: Write) -> None:
    """From run to run, so that its objects are still objects of its classes."""
    files("VALUE = 1", "neighbour.py")
    path = files(MODEL, "plugin.py")
    before = definition(f"{path}:M")
    files("VALUE = 2", "other.py")
    read_anew()
    assert definition(f"{path}:M") is before


def test_files_of_a_folder_are_read_anew_together(files: Write) -> None:
    """A probe that asks whether a model is of a class still knows it, whichever of the two files was edited."""
    model = files("class M: ...", "model.py")
    probe = files("from model import M\nclass P: M = M", "probe.py")
    for path, text in ((model, "class M: x = 1"), (probe, "from model import M\nclass P: M, x = M, 1")):
        assert definition(f"{probe}:P").code.M is definition(f"{model}:M").code  # type: ignore[attr-defined]
        files(text, Path(path).name)
        read_anew()
    assert definition(f"{probe}:P").code.M is definition(f"{model}:M").code  # type: ignore[attr-defined]


def test_an_error_in_a_file_can_be_mended(files: Write) -> None:
    """And the next run in the same process goes well."""
    files("VALUE = (", "neighbour.py")
    path = files(f"import neighbour\n{MODEL}", "plugin.py")
    with pytest.raises(PluginError, match="SyntaxError"):
        definition(f"{path}:M")
    files("VALUE = 1", "neighbour.py")
    read_anew()
    assert value(path) == 1


@pytest.mark.parametrize("asked", ["of_mine_{}.nets:M", "{folder}/plugin.py:M"])
def test_an_edited_package_is_refused_until_it_is_imported_again(
    files: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """Others in the process may hold what it was: its old code must not be taken for the new one, nor the reverse."""
    package = f"of_mine_{'file' if 'plugin' in asked else 'name'}"
    name = asked.format("name", folder=tmp_path)
    files("", f"{package}/__init__.py")
    files("class M: x = 1", f"{package}/nets.py")
    files(f"from {package} import nets\nclass M(nets.M): ...", "plugin.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = plugin(name).use.digest
    files("class M: x = 22", f"{package}/nets.py")
    assert plugin(name).use.digest == before
    read_anew()
    with pytest.raises(RequestError, match=r"nets.py' has changed since it was imported; start Python"):
        plugin(name)
    importlib.reload(sys.modules[f"{package}.nets"])
    read_anew()
    assert plugin(name).use.digest != before


QUICK: dict[str, Any] = {"tasks": SHORT, "seeds": 2, "training": {"steps": 1, "batch_size": 4}, "examples": 8}

PROBE = """
from harness import Scalar
import neighbour

def p(subject):
    yield Scalar(name="value", unit="", value=neighbour.VALUE)
"""


def measured(path: str, out: Path, **more: Any) -> list[float]:
    """What the probe in a file measures, seed by seed."""
    found = [
        record.find("value") for record in harness.run("lstm:hidden=4", probes=f"{path}:p", out=out, **QUICK | more)
    ]
    return [scalar.value for scalar in found if isinstance(scalar, Scalar)]


@pytest.mark.parametrize("executor", ["local", "processes"])
def test_edited_code_is_measured_by_the_next_run_of_a_notebook(files: Write, tmp_path: Path, executor: str) -> None:
    """In one process; reports show the new numbers alone, and going back finds the old ones, and shows these."""
    path = files(PROBE, "probe.py")
    for number in (1.0, 2.0, 1.0):
        files(f"VALUE = {number}", "neighbour.py")
        assert measured(path, tmp_path / "run", executor=executor) == [number] * 2
        shown = {row["value"] for row in rows(harness.load(tmp_path / "run").records)}
        assert shown == {number}
    assert len(harness.load(tmp_path / "run")) == 4


MODEL_OF_A_GRID = """
from torch import nn

class M(nn.Sequential):
    def __init__(self, vocab_size: int, hidden: int = 4):
        super().__init__(nn.Embedding(vocab_size, hidden), nn.Linear(hidden, vocab_size))
"""


@pytest.mark.parametrize(
    ("name", "ways", "others"), [("lr", [1e-3, 1e-2], [1e-1, 1e-4]), ("hidden", [5, 6], [7, 8])], ids=["lr", "hidden"]
)
def test_a_grid_counts_again_once_an_edit_is_put_back(
    files: Write, tmp_path: Path, name: str, ways: list[float], others: list[float]
) -> None:
    """Although no cell of it was tried with the edited code; and run once more, nothing is written."""
    path, out = files(MODEL_OF_A_GRID, "model.py"), tmp_path / "run"

    def tried(values: list[float]) -> dict[float, int]:
        harness.run(f"{path}:M", probes="accuracy", out=out, executor="local", grid={name: values}, **QUICK)
        return {row[name]: row["seeds"] for row in harness.load(out).learnability()}

    def written() -> dict[str, int]:
        return {file.name: file.stat().st_mtime_ns for file in (out / "records").rglob("*")}

    assert tried(ways) == dict.fromkeys(ways, 2)
    files(f"{MODEL_OF_A_GRID}# edited", "model.py")
    assert tried(others) == dict.fromkeys(others, 2)
    files(MODEL_OF_A_GRID, "model.py")
    assert tried(ways) == dict.fromkeys(ways, 2)
    before = written()
    assert len(before) >= 8
    assert tried(ways) == dict.fromkeys(ways, 2)
    assert written() == before


def test_code_that_is_edited_during_a_run_is_not_measured_by_it(files: Write, tmp_path: Path) -> None:
    """All its numbers are of the code that it was planned with."""
    path = files(PROBE.replace("    yield", "    import late\n    yield"), "probe.py")
    edit = "from pathlib import Path\nPath(__file__).with_name('neighbour.py').write_text('VALUE = 2.0')\n"
    files(f"{edit}Path(__file__).with_name('probe.py').write_text('nothing')", "late.py")
    files("VALUE = 1.0", "neighbour.py")
    assert measured(path, tmp_path / "run") == [1.0] * 2


def test_a_folder_that_is_moved_or_asked_for_differently_keeps_its_results(
    files: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is trained again; seeds from before and after are seeds of one plugin, at its new place."""
    files("VALUE = 1.0", "old/neighbour.py")
    assert measured(files(PROBE, "old/probe.py"), tmp_path / "run") == [1.0] * 2
    before = {record.id: record.provenance.finished for record in harness.load(tmp_path / "run")}
    (tmp_path / "old").rename(tmp_path / "new")
    monkeypatch.chdir(tmp_path / "new")
    assert measured("./probe.py", tmp_path / "run", seeds=3) == [1.0] * 3
    found = harness.load(tmp_path / "run")
    assert {record.id: record.provenance.finished for record in found if record.id in before} == before
    assert {record.probe.target for record in found} == {f"{tmp_path}/new/probe.py:p"}
    assert {row["probe"] for row in rows(found.records)} == {"./probe.py:p"}


DRAWS = """
import torch
from harness import Scalar

def p(subject):
    yield Scalar(name="value", unit="", value=torch.rand((), generator=subject.generator).item())
"""


def test_what_a_probe_draws_depends_on_no_path(files: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was typed, another path to the file is the same probe with the same ids; edited, it draws the same."""
    path = files(DRAWS, "one/probe.py")
    monkeypatch.chdir(tmp_path / "one")
    drawn = measured("./probe.py", tmp_path / "a")
    assert measured(path, tmp_path / "b") == drawn
    assert len({record.id for run in "ab" for record in harness.load(tmp_path / run)}) == len(drawn) == 2
    assert drawn[0] != drawn[1]
    files(f"{DRAWS}# edited", "one/probe.py")
    assert measured(path, tmp_path / "c") == drawn


def ids(*models: str) -> list[str]:
    return [planned.trial.id for planned in make_plan(build_suite(models, SHORT, seeds=1), default_registry()).trials]


def test_two_files_of_one_name_are_one_plugin_only_if_they_are_equal(files: Write, tmp_path: Path) -> None:
    """With all that they import from their folders; broken ones, whose content nobody knows, never are."""
    for folder in ("one", "two"):
        files("VALUE = 1", f"{folder}/neighbour.py")
        files(MODEL, f"{folder}/plugin.py")
        files("1 / 0", f"{folder}/broken.py")
    one, two = (str(tmp_path / folder) for folder in ("one", "two"))
    assert ids(f"{one}/plugin.py:M") == ids(f"{two}/plugin.py:M")
    assert len(ids(f"{one}/broken.py:M", f"{two}/broken.py:M")) == 2
    shutil.copy(f"{two}/plugin.py", f"{two}/other.py")
    assert ids(f"{two}/plugin.py:M") != ids(f"{two}/other.py:M")
    files("VALUE = 2", "two/neighbour.py")
    assert ids(f"{one}/plugin.py:M") != ids(f"{two}/plugin.py:M")
