"""Run directories become one: nothing is lost, nothing is chosen in silence, and merging again changes nothing."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import SHORT
from hypothesis import given, settings
from hypothesis import strategies as st
from record_factory import claim
from record_factory import record as make_record

import harness
from harness.cli import main
from harness.errors import RequestError
from harness.measurements import Scalar
from harness.merging import merge
from harness.schema import Record
from harness.store import CONFLICTS, RunDirectory
from harness.suites import Claim, Experiment, Request, Suite


def record(seed: int, value: float = 0.5, **more: Any) -> Record:
    """A record whose id a run would give it: that of its cell, whatever was measured."""
    made = make_record(*([] if "failed" in more else [Scalar(name="score", unit="", value=value)]), seed=seed, **more)
    name = hashlib.sha256(str(seed).encode()).hexdigest()[:16]
    return made.model_copy(update={"id": name, "trial": name[::-1]})


def write(path: Path, *records: Record, suite: Suite | None = None) -> Path:
    store = RunDirectory(path)
    store.create()
    for each in records:
        store.write_record(each)
    if suite:
        store.write_suite(suite)
    return path


def read(path: Path) -> list[Record]:
    return list(RunDirectory(path).read_records())


def files(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def command(*words: object) -> Result:
    return CliRunner().invoke(main, ["merge", *map(str, words)], catch_exceptions=False)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run as a whole, and in three shards."""
    folder = tmp_path_factory.mktemp("shards")
    asked: dict[str, Any] = {
        "models": ["lstm:hidden=4", "elman:hidden=4"],
        "tasks": SHORT,
        "probes": ["accuracy", "grad_reach"],
        "training": {"steps": 2, "batch_size": 4},
        "examples": 8,
        "seeds": 2,
    }
    whole = harness.run(**asked, out=folder / "whole")
    runs = [folder / f"shard-{number}" for number in (1, 2, 3)]
    for number, run in enumerate(runs, 1):
        harness.run(**asked, out=run, shard=(number, 3))
    return {"whole": whole, "runs": runs, "asked": asked}


def measured(records: Iterable[Record]) -> dict[str, str]:
    """What was measured, as text, in which NaN equals itself."""
    return {each.id: each.model_dump_json(include={"status", "trial", "measurements", "data"}) for each in records}


@pytest.mark.parametrize("pack", [False, True])
def test_merged_shards_are_the_run(shards: dict[str, Any], pack: bool, tmp_path: Path) -> None:
    """Record by record; with the trained models, so that nothing is trained again; and all of it is reported."""
    before = [files(run) for run in shards["runs"]]
    merged = merge(shards["runs"], tmp_path, pack=pack)
    assert [files(run) for run in shards["runs"]] == before
    assert not merged.conflicts
    results = harness.load(tmp_path)
    assert measured(results) == measured(shards["whole"])
    assert merged.records == len(results)
    assert results.note == ""
    assert all("shard" in harness.load(run).note for run in shards["runs"])
    again = harness.run(**shards["asked"], out=tmp_path)
    assert {each.id: each.provenance for each in again} == {each.id: each.provenance for each in results}
    store = RunDirectory(tmp_path)
    assert all(store.read_trained(each.trial) for each in results)


def test_checkpoints_may_stay_behind(shards: dict[str, Any], tmp_path: Path) -> None:
    """They are most of what there is to copy; learning curves come along. A later merge brings them."""
    runs = shards["runs"]
    assert command(*runs, "--out", tmp_path, "--without-checkpoints").exit_code == 0
    assert not list((tmp_path / "checkpoints").iterdir())
    assert len(list((tmp_path / "trials").iterdir())) == 4
    merge(runs, tmp_path)
    assert len(list((tmp_path / "checkpoints").iterdir())) == 4


RUNS = st.lists(st.dictionaries(st.integers(0, 5), st.sampled_from([0.0, 1.0, float("nan")]), max_size=4), max_size=4)


@pytest.mark.parametrize("pack", [False, True])
@settings(max_examples=30)
@given(values=RUNS)
def test_merging_again_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, pack: bool, values: list[dict[int, float]]
) -> None:
    """Whatever agrees or not; and a cell has a record exactly if all runs agree about it."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [write(folder / str(i), *(record(*pair) for pair in each.items())) for i, each in enumerate(values)]
    out = folder / "out"
    first = merge(runs, out, pack=pack)
    content = files(out)
    packed = dict(RunDirectory(out).packed.read_all())
    second = merge(runs, out, pack=pack)
    assert dict(RunDirectory(out).packed.read_all()) == packed
    assert {**files(out), "records.sqlite": b""} == {**content, "records.sqlite": b""}
    assert {each.record for each in first.conflicts} == {each.record for each in second.conflicts}
    said = {seed: {repr(each[seed]) for each in values if seed in each} for each in values for seed in each}
    assert {each.seed for each in read(out)} == {seed for seed, found in said.items() if len(found) == 1}
    assert len(first.conflicts) == sum(len(found) > 1 for found in said.values())


@settings(max_examples=30)
@given(values=RUNS)
def test_the_order_of_merges_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, values: list[dict[int, float]]
) -> None:
    """All at once, or one into the other: the same records, and the same cells in conflict."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [write(folder / str(i), *(record(*pair) for pair in each.items())) for i, each in enumerate(values)]
    at_once, left, right = (folder / name for name in ("at-once", "left", "right"))
    merge(runs, at_once)
    merge(runs[:2], left)
    merge([left, *runs[2:]], folder / "left-first")
    merge(runs[2:], right)
    merge([*runs[:2], right], folder / "right-first")
    for other in ("left-first", "right-first"):
        assert measured(read(folder / other)) == measured(read(at_once))
        assert conflicts(folder / other) == conflicts(at_once)


def conflicts(run: Path) -> set[str]:
    return {path.name.split(".")[0] for path in (run / CONFLICTS).glob("*.json")}


def test_different_outcomes_are_named_and_none_is_chosen(tmp_path: Path) -> None:
    """Exit code 1; which cell, which runs, which numbers; a report says so; all outcomes are kept."""
    runs = [write(tmp_path / name, record(0), record(1, value)) for name, value in (("one", 0.25), ("two", 0.75))]
    result = command(*runs, "--out", tmp_path / "out")
    assert result.exit_code == 1
    for word in (record(1).id, "lstm on recall", "accuracy", "seed 1", "score: 0.25, and 0.75", *map(str, runs)):
        assert word in result.stderr
    assert [each.seed for each in read(tmp_path / "out")] == [0]
    assert len(list((tmp_path / "out" / CONFLICTS).iterdir())) == 2
    assert "1 cell has different outcomes" in harness.load(tmp_path / "out").note


@pytest.mark.parametrize("pack", [[], ["--pack"]])
def test_the_user_chooses(tmp_path: Path, pack: list[str]) -> None:
    """`--prefer` takes the outcome of a run, also after a merge without it, and nothing is left of the conflict."""
    runs = [write(tmp_path / name, record(1, value)) for name, value in (("one", 0.25), ("two", 0.75))]
    out = tmp_path / "out"
    command(*runs, "--out", out, *pack)
    result = command(*runs, "--out", out, "--prefer", runs[1], *pack)
    assert result.exit_code == 0
    assert read(out) == read(runs[1])
    assert not conflicts(out)
    assert harness.load(out).note == ""


def test_what_is_measured_again_settles_a_conflict(tmp_path: Path) -> None:
    """The outcomes of before stay in their folder, and no merge brings them back."""
    runs = [write(tmp_path / name, record(1, value)) for name, value in (("one", 0.25), ("two", 0.75))]
    merge(runs, tmp_path / "out")
    write(tmp_path / "out", record(1, 0.5))
    assert harness.load(tmp_path / "out").note == ""
    assert not merge([tmp_path / "out"], tmp_path / "next").conflicts
    assert read(tmp_path / "next") == [record(1, 0.5)]


def test_only_a_run_that_is_merged_can_be_preferred(tmp_path: Path) -> None:
    """A slip in its name would choose nothing."""
    run = write(tmp_path / "one", record(1))
    with pytest.raises(RequestError, match="none of the runs"):
        merge([run], tmp_path / "out", prefer=tmp_path / "tow")


def test_the_same_numbers_are_no_conflict(tmp_path: Path) -> None:
    """Measured elsewhere, later and faster; NaN too. The first is kept."""
    first = record(1, float("nan"), loss=0.5)
    assert first.trained is not None
    provenance = first.provenance.model_copy(
        update={"device": "another", "finished": first.provenance.finished + timedelta(days=1)}
    )
    other = first.model_copy(
        update={
            "provenance": provenance,
            "timing": first.timing.model_copy(update={"probe": 9.0}),
            "trained": first.trained.model_copy(update={"seconds": 9.0}),
        }
    )
    assert not merge([write(tmp_path / "a", first), write(tmp_path / "b", other)], tmp_path / "out").conflicts
    assert read(tmp_path / "out")[0].provenance.device == first.provenance.device


def test_another_training_is_a_conflict(tmp_path: Path) -> None:
    """Even if the measurements agree."""
    runs = [write(tmp_path / str(loss), record(1, loss=loss)) for loss in (0.5, 0.6)]
    assert len(merge(runs, tmp_path / "out").conflicts) == 1


def test_what_failed_somewhere_is_taken_from_where_it_did_not(tmp_path: Path) -> None:
    """And that is said. What failed everywhere stays failed."""
    bad = write(tmp_path / "bad", record(0, failed="no memory"), record(1, failed="no memory"))
    good = write(tmp_path / "good", record(0, failed="no memory"), record(1))
    result = command(bad, good, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "1 cell failed in" in result.stdout
    assert [each.status for each in sorted(read(tmp_path / "out"), key=lambda each: each.seed)] == ["failed", "ok"]


def suite(name: str, *claims: Claim, seeds: int = 3) -> Suite:
    experiment = Experiment(models=[Request(name="lstm")])
    return Suite(name=name, seeds=seeds, experiments=[experiment], claims=list(claims))


def test_two_suites_with_claims_are_refused(tmp_path: Path) -> None:
    """A directory keeps one suite; nothing is written."""
    runs = [write(tmp_path / name, record(i), suite=suite(name, claim())) for i, name in enumerate(("one", "two"))]
    result = command(*runs, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "'one'" in result.stderr
    assert "'two'" in result.stderr
    assert not (tmp_path / "out").exists()


def test_the_suite_with_claims_is_kept(tmp_path: Path) -> None:
    """And of one suite the run with most seeds, whose missing ones count as missing."""
    kept = suite("one", claim(), seeds=5)
    suites = [suite("other"), suite("one", claim()), kept]
    runs = [write(tmp_path / str(i), record(i), suite=each) for i, each in enumerate(suites)]
    merge(runs, tmp_path / "out")
    assert RunDirectory(tmp_path / "out").read_suite() == kept


def test_where_there_is_no_run_nothing_is_merged(tmp_path: Path) -> None:
    """Said before anything is written."""
    write(tmp_path / "one", record(0))
    result = command(tmp_path / "one", tmp_path / "tow", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "tow" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_record_of_a_later_version_is_not_merged_over(tmp_path: Path) -> None:
    """It is named, and stays as it is; the others are merged."""
    one, other = record(seed=0), record(seed=1)
    out, run = write(tmp_path / "out", one), write(tmp_path / "run", one, other)
    path = out / "records" / f"{one.id}.json"
    path.write_text(one.model_copy(update={"schema_version": 99}).model_dump_json(), encoding="utf-8")
    before = path.read_bytes()
    for pack in ([], ["--pack"]):
        result = command(run, "--out", out, *pack)
        assert (result.exit_code, path.read_bytes()) == (1, before)
        assert "schema version 99" in result.stderr
    assert [each.id for each in RunDirectory(out).read_records(lambda told: None)] == [other.id]


def test_a_record_that_is_written_while_others_are_packed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is newer than the one that was packed."""
    store = RunDirectory(write(tmp_path / "run", record(seed=0, failed="no"), record(seed=1)))
    plain = store.packed.add

    def slowly(records: Iterable[Record], temporary: Path) -> None:
        plain(records, temporary)
        store.write_record(record(seed=0, value=0.7))

    monkeypatch.setattr(store.packed, "add", slowly)
    store.pack(read(tmp_path / "run"))
    assert [each.status for each in sorted(store.read_records(), key=lambda each: each.seed)] == ["ok", "ok"]


def test_damaged_records_are_named(tmp_path: Path) -> None:
    """Exit code 1; all that can be read is merged, and the damaged file is left alone."""
    run = write(tmp_path / "one", record(0), record(1))
    damaged = RunDirectory(run).records / f"{record(1).id}.json"
    damaged.write_text("{", encoding="utf-8")
    result = command(run, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert str(damaged) in result.stderr
    assert read(tmp_path / "out") == [record(0)]
    assert damaged.read_text(encoding="utf-8") == "{"


@pytest.mark.parametrize("kind", ["folder", "pipe"])
@pytest.mark.parametrize("what", ["curve", "checkpoint"])
def test_damaged_trainings_are_named(tmp_path: Path, kind: str, what: str) -> None:
    """As damaged records are; the others are merged, and the suite is there."""
    run = RunDirectory(write(tmp_path / "one", record(0), suite=suite("one", claim())))
    for name in ("a", "b"):
        run.checkpoint(name).write_bytes(b"weights")
        (run.trials / f"{name}.json").write_bytes(b"{}")
    damaged = run.trials / "a.json" if what == "curve" else run.checkpoint("a")
    damaged.unlink()
    damaged.mkdir() if kind == "folder" else os.mkfifo(damaged)
    result = command(run.path, "--out", tmp_path / "out")
    assert (result.exit_code, str(damaged) in result.stderr) == (1, True)
    merged = RunDirectory(tmp_path / "out")
    copied = [path.name for folder in (merged.trials, merged.checkpoints) for path in folder.iterdir()]
    assert copied == ["b.json", "b.safetensors"]
    assert merged.read_suite() == run.read_suite()


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("after", [0, 2, 7])
def test_an_interrupted_merge_goes_on(
    shards: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, pack: bool
) -> None:
    """Wherever it stopped, the same command finishes it."""
    left = [after]

    def tiring(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return function(*arguments)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "write_record", tiring(RunDirectory.write_record))
        patch.setattr(shutil, "copyfile", tiring(shutil.copyfile))
        with pytest.raises(KeyboardInterrupt):
            merge(shards["runs"], tmp_path, pack=pack)
    merge(shards["runs"], tmp_path, pack=pack)
    assert measured(harness.load(tmp_path)) == measured(shards["whole"])
    assert len(list((tmp_path / "checkpoints").iterdir())) == 4
