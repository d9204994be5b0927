"""Trials sent to another machine take along what it lacks, and their records come home as if they had stayed."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import SHORT, SMALL
from hanging import Hangs
from hanging import hangs as hangs  # the fixture
from harness_plugins.executors import elsewhere, ray
from harness_plugins.executors.elsewhere import run_elsewhere
from travelling import outcome, write_model

import harness
from harness import travel
from harness.errors import PluginError
from harness.executors import Limits
from harness.plan import core_digest, make_plan
from harness.registry import default_registry
from harness.requests import build_suite
from harness.results import Results
from harness.schema import Cell, Record
from harness.store import RunDirectory
from harness.travel import Baggage, came_home, pack, uses
from harness.work import Work


@pytest.fixture(autouse=True)
def _nothing_is_kept_ready() -> Iterator[None]:
    """Other tests count processes."""
    yield
    elsewhere._line().close()
    elsewhere._line.cache_clear()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model that needs its neighbours, and a file that an argument names."""
    folder = write_model(tmp_path / "home")
    monkeypatch.chdir(folder)
    return folder


def works(out: Path, *models: str, seeds: int = 1) -> list[Work]:
    """Trials as a run would hand them out."""
    suite = build_suite(list(models), [SHORT], ["accuracy", "grad_reach"], seeds=seeds, examples=32)
    plan = make_plan(suite, default_registry(), training=[SMALL])
    RunDirectory(out).create()
    return [Work(planned, out) for planned in plan.trials]


def sent(work: Work, baggage: Baggage, trained: dict[str, bytes] | None = None, core: str = "") -> Iterator[object]:
    return run_elsewhere(work, trained or {}, baggage, Limits(), core or core_digest())


def test_files_travel_and_records_come_home(home: Path, tmp_path: Path) -> None:
    """Where the folder does not exist: the same records, as if nothing had been moved; also those of an error."""
    models = ("./model.py:M:words=words.txt", "./model.py:M:words=words.txt,broken=true")
    at_home = {record.id: record for record in _measured(tmp_path / "one", *models)}
    planned = works(tmp_path / "two", *models)
    baggage = pack(uses(planned))
    home.rename(tmp_path / "gone")
    for work in planned:
        cells = {cell.id: cell for cell in work.planned.cells}
        events = [*sent(work, baggage)]
        found = [Record.model_validate_json(event) for event in events if isinstance(event, str)]
        assert {record.id for record in found} == cells.keys()
        for record in found:
            assert outcome(came_home(record, cells[record.id])) == outcome(at_home[record.id])


def _measured(out: Path, *models: str) -> Results:
    return harness.run(
        [*models], [SHORT], ["accuracy", "grad_reach"], seeds=1, examples=32, training=SMALL, out=out, executor="local"
    )


def test_code_that_an_argument_names_travels(home: Path, tmp_path: Path) -> None:
    """A mixer in a file: with the neighbours that it imports, and the files that it names itself."""
    models = (
        'backbone:mixer="./mixer.py:M:words=words.txt",layers=1',
        'hybrid:first="./mixer.py:M:words=words.txt,broken=true",layers=1',
    )
    at_home = {record.id: record for record in _measured(tmp_path / "one", *models)}
    planned = works(tmp_path / "two", *models)
    baggage = pack(uses(planned))
    home.rename(tmp_path / "gone")
    for work, status in zip(planned, ("ok", "failed"), strict=True):
        cells = {cell.id: cell for cell in work.planned.cells}
        records = [Record.model_validate_json(event) for event in sent(work, baggage) if isinstance(event, str)]
        assert {record.id for record in records} == cells.keys()
        for record in records:
            assert record.status == status
            assert outcome(came_home(record, cells[record.id])) == outcome(at_home[record.id])


def test_files_beside_a_plugin_travel_beside_it(home: Path, tmp_path: Path) -> None:
    """Those that it names without an argument."""
    (work,) = works(tmp_path / "run", "./beside.py:M")
    baggage = pack(uses([work]))
    home.rename(tmp_path / "gone")
    records = [Record.model_validate_json(event) for event in sent(work, baggage) if isinstance(event, str)]
    assert {record.status for record in records} == {"ok"}, records[0].error


def test_what_was_trained_travels_both_ways(tmp_path: Path) -> None:
    """A trial sends its checkpoint and learning curve home, and with them it is not trained again."""
    (work,) = works(tmp_path, "lstm:hidden=8")
    first = [*sent(work, Baggage())]
    files = {place: content for event in first if isinstance(event, dict) for place, content in event.items()}
    trial = work.planned.trial.id
    assert files.keys() == {f"trials/{trial}.json", f"checkpoints/{trial}.safetensors"}
    again = [*sent(work, Baggage(), files)]
    assert not [event for event in again if isinstance(event, dict)]
    trained = [
        [Record.model_validate_json(event).trained for event in events if isinstance(event, str)]
        for events in (first, again)
    ]
    assert trained[0] == trained[1]  # the seconds, too


def test_half_a_training_travels_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes home while the trial runs, goes out again with the next attempt, and ends with the training."""
    (work,) = works(tmp_path / "run", "lstm:hidden=8")
    trial = work.planned.trial.id
    half = RunDirectory(work.out).partial(trial)
    ray._keep_files(work, {f"checkpoints/{trial}.partial": b"half"})
    assert ray._trained(work) == {f"checkpoints/{trial}.partial": b"half"}
    for event in sent(work, Baggage(), ray._trained(work)):
        if isinstance(event, dict):
            ray._keep_files(work, event)
    assert not half.exists()
    assert RunDirectory(work.out).read_trained(trial)


def test_a_file_that_is_gone_again_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As half of a training is, when it ends between a look and the next."""
    (work,) = works(tmp_path / "run", "lstm:hidden=8")
    plain, looks = elsewhere._written, itertools.count()

    def with_another(out: Path) -> dict[Path, tuple[int, int]]:
        return {**plain(out), out / "checkpoints" / "gone.partial": (next(looks), 0)}

    monkeypatch.setattr(elsewhere, "_written", with_another)
    events = [*sent(work, Baggage())]
    assert len([event for event in events if isinstance(event, str)]) == len(work.planned.cells)


@pytest.mark.parametrize("deed", ["os._exit(3)", "open('hangs', 'w'); time.sleep(1000)", "1 / 0"])
def test_a_plugin_that_cannot_be_packed_keeps_nobody_at_home(
    home: Path, tmp_path: Path, hangs: Hangs, deed: str
) -> None:
    """Where it ends the process, or hangs, or raises, after it was planned, the others travel."""
    hangs(ray, Path("hangs").absolute())
    Path("bad.py").write_text("import os, time\nfrom model import M\n", encoding="utf-8")
    planned = works(tmp_path / "run", "./bad.py:M:words=words.txt", "./model.py:M:words=words.txt")
    Path("bad.py").write_text(f"import os, time\n{deed}\n", encoding="utf-8")
    baggage = ray._packed(planned)
    assert str(home / "bad.py") not in baggage.code
    assert str(home / "model.py") in baggage.code


def test_a_process_that_was_made_ready_is_not_used_in_other_surroundings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin_file: Callable[..., str]
) -> None:
    """A machine has one ready for the trial that comes next, perhaps on another of its GPUs."""
    source = """
    import os
    from harness import Scalar
    def p(subject):
        yield Scalar(name="gpu", unit="", value=float(os.environ["CUDA_VISIBLE_DEVICES"]))
    """
    suite = build_suite(["elman:hidden=4"], [SHORT], [f"{plugin_file(source)}:p"], seeds=4, examples=4)
    plan = make_plan(suite, default_registry(), training=[{"steps": 1, "batch_size": 4}])
    seen = []
    for planned, gpu in zip(plan.trials, ("0", "1", "1", "2"), strict=True):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpu)
        work = Work(planned, tmp_path)
        (record,) = [Record.model_validate_json(each) for each in sent(work, Baggage()) if isinstance(each, str)]
        seen.append(record.find("gpu").model_dump()["value"])
    assert seen == [0, 1, 1, 2]


def test_a_machine_without_a_package_says_which(tmp_path: Path) -> None:
    (work,) = works(tmp_path, "lstm:hidden=8")
    model = work.planned.trial.model.model_copy(update={"distribution": "acme-gru", "version": "2.1"})
    trial = work.planned.trial.model_copy(update={"model": model})
    cells = [cell.model_copy(update={"trial": trial}) for cell in work.planned.cells]
    work = replace(work, planned=replace(work.planned, trial=trial, cells=cells))
    with pytest.raises(
        PluginError, match=r"no package 'acme-gru', which model 'lstm:hidden=8' is from; .*acme-gru==2.1"
    ):
        next(sent(work, Baggage()))


def test_a_machine_with_another_harness_is_refused(tmp_path: Path) -> None:
    """Its numbers would be taken for those of this one."""
    (work,) = works(tmp_path, "lstm:hidden=8")
    with pytest.raises(PluginError, match="measures with other code"):
        next(sent(work, Baggage(), core="another"))


def test_large_files_stay(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked for under the same path."""
    monkeypatch.setattr(travel, "MOST_BYTES", 0)
    (work,) = works(tmp_path / "run", "./model.py:M:words=words.txt")
    baggage = pack(uses([work]))
    assert {Path(place).name for place in baggage.files} == {"model.py", "__init__.py", "layers.py"}
    (moved,) = {_words(cell) for cell in baggage.moved(work, tmp_path / "there", tmp_path).planned.cells}
    assert moved == os.fspath(home / "words.txt")


def _words(cell: Cell) -> str:
    return str(cell.trial.model.arguments["words"])


def test_whoever_has_run_a_trial_of_another_machine_can_end(tmp_path: Path) -> None:
    """Though a process is ready for the next trial."""
    code = (
        "from harness_plugins.executors import elsewhere\n"
        "line = elsewhere._line()\n"
        "line.prepare()\n"
        "print(len(line._ready))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=120, check=True)
    assert done.stdout.split() == ["1"]
