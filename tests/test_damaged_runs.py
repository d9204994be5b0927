"""Whatever has happened to the files of a run: what is damaged counts as not there, what is good stays."""

import json
import multiprocessing
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SHORT, SMALL
from record_factory import record as make_record
from record_factory import trained

import harness
from harness.cli import main
from harness.errors import RequestError
from harness.files import replacing
from harness.results import Results
from harness.schema import SCHEMA_VERSION, Record
from harness.seeds import current
from harness.store import RunDirectory
from harness.suites import Suite

posix = pytest.mark.skipif(sys.platform == "win32", reason="no pipes")
MODEL = "lstm:hidden=8"


def run(out: Path, **more: Any) -> Results:
    settings: dict[str, Any] = {
        "models": [MODEL],
        "tasks": [SHORT],
        "seeds": 1,
        "training": SMALL,
        "examples": 64,
    } | more
    return harness.run(out=out, **settings)


def store_in(folder: Path) -> RunDirectory:
    store = RunDirectory(folder)
    store.create()
    return store


def trained_trial(store: RunDirectory, trial: str = "t", content: bytes = b"weights") -> Path:
    store.checkpoint(trial).write_bytes(content)
    store.write_trained(trial, trained(3, 0.5), [])
    return store.trials / f"{trial}.json"


def suite(name: str = "mine") -> Suite:
    claim = {"text": "it works", "probe": "accuracy", "metric": "score", "comparison": ">", "value": 0.5}
    return Suite.model_validate({"name": name, "experiments": [{"models": ["lstm"]}], "claims": [claim]})


@posix
@pytest.mark.parametrize("kind", ["nothing", "empty", "half", "bytes", "list", "deep", "folder", "pipe", "loop"])
@pytest.mark.parametrize("folder", ["records", "trials", "checkpoints"])
def test_any_damage_counts_as_absence(tmp_path: Path, folder: str, kind: str) -> None:
    """Nothing waits, nothing raises, and what is written anew is read."""
    store = store_in(tmp_path)
    record = make_record()
    store.write_record(record)
    trained_trial(store, record.id)
    (path,) = (tmp_path / folder).iterdir()
    damage = {
        "empty": b"",
        "half": path.read_bytes()[: path.stat().st_size // 2],
        "bytes": b"\xff\x00\xfe",
        "list": b"[1]",
        "deep": b"[" * 100_000,
    }
    path.unlink()
    if kind in damage:
        path.write_bytes(damage[kind])
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    found = store.read_record(record.id) if folder == "records" else store.read_trained(record.id)
    assert found is None
    if folder == "records":
        said: list[str] = []
        assert list(store.read_records(said.append)) == []
        assert len(said) == (kind != "nothing")
        store.write_record(record)
        assert store.read_record(record.id) == record
        return
    if folder == "checkpoints":
        with replacing(path) as temporary:
            temporary.write_bytes(b"weights")
    store.write_trained(record.id, trained(3, 0.5), [])
    assert store.read_trained(record.id) == trained(3, 0.5)


def test_another_checkpoint_is_not_the_trained_one(tmp_path: Path) -> None:
    """One byte of it is enough; so is the checkpoint of another trial, with all its papers."""
    store = store_in(tmp_path)
    one, two = (trained_trial(store, name, name.encode()) for name in ("one", "two"))
    assert store.read_trained("one") == trained(3, 0.5)
    store.checkpoint("one").write_bytes(b"onf")
    assert store.read_trained("one") is None
    one.write_bytes(two.read_bytes())
    store.checkpoint("one").write_bytes(b"two")
    assert store.read_trained("one") is None
    assert store.read_trained("two") == trained(3, 0.5)


def test_a_checkpoint_of_an_earlier_version_is_trusted(tmp_path: Path) -> None:
    """Which had no digest."""
    store = store_in(tmp_path)
    path = trained_trial(store)
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps({key: content[key] for key in ("trained", "learning_curve")}), encoding="utf-8")
    assert store.read_trained("t") == trained(3, 0.5)


def test_a_damaged_checkpoint_is_trained_again(tmp_path: Path) -> None:
    """A second probe measures the model that the first one measured, not what has become of the file."""
    before = run(tmp_path / "run")
    (checkpoint,) = (tmp_path / "run" / "checkpoints").iterdir()
    good = checkpoint.read_bytes()
    checkpoint.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))  # a bit of a weight: it loads
    after = run(tmp_path / "run", probes=["accuracy", "grad_reach"])
    assert after.records[0] == before.records[0]
    assert {record.status for record in after} == {"ok"}
    assert checkpoint.read_bytes() == good


def test_a_record_under_another_name_is_no_record(tmp_path: Path) -> None:
    """Of another cell: it is measured; reports name the file."""
    store = store_in(tmp_path)
    record = make_record()
    store.write_record(record)
    (store.records / f"{record.id}.json").rename(store.records / "0123456789abcdef.json")
    assert store.read_record("0123456789abcdef") is None
    with pytest.raises(RequestError, match=r"0123456789abcdef.*it is the record of 'lstm"):
        list(store.read_records())


def test_what_a_computer_puts_beside_records_is_no_record(tmp_path: Path) -> None:
    """Hidden files, as some systems write them next to copies."""
    store = store_in(tmp_path)
    store.write_record(make_record())
    (store.records / "._copy.json").write_bytes(b"\x00\x05")
    assert len(list(store.read_records())) == 1


def newer(record: Record, **more: Any) -> str:
    content = json.loads(record.model_dump_json()) | {"schema_version": SCHEMA_VERSION + 7} | more
    return json.dumps(content)


@pytest.mark.parametrize("more", [{}, {"a field of the future": 1}, {"stage": "in between"}])
def test_records_of_a_later_version_are_left_out_of_reports(tmp_path: Path, more: dict[str, Any]) -> None:
    """With the versions, and what to do; the others are shown."""
    run(tmp_path, seeds=2)
    paths = sorted((tmp_path / "records").iterdir())
    paths[0].write_text(newer(Record.model_validate_json(paths[0].read_bytes()), **more), encoding="utf-8")
    with pytest.warns(UserWarning, match="1 of 2 records are left out") as told:
        assert [record.id for record in harness.load(tmp_path)] == [paths[1].stem]
    said = str(told[0].message)
    assert f"schema version {SCHEMA_VERSION + 7}" in said
    assert f"reads {SCHEMA_VERSION} at most" in said
    assert "pip install --upgrade" in said
    assert str(paths[0]) in said
    shown = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert shown.exit_code == 1
    assert "accuracy" in shown.stdout
    assert "pip install --upgrade" in shown.stderr


def test_records_of_a_later_version_are_not_measured_over(tmp_path: Path) -> None:
    """Before anything is written; asked for, they are."""
    (record,) = run(tmp_path).records
    path = tmp_path / "records" / f"{record.id}.json"
    path.write_text(newer(record), encoding="utf-8")
    before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    with pytest.raises(RequestError, match=rf"{record.id}\.json.*--fresh"):
        run(tmp_path, probes=["accuracy", "grad_reach"])
    assert {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()} == before
    assert run(tmp_path, fresh=True).records[0].schema_version == SCHEMA_VERSION


@posix
@pytest.mark.parametrize("damage", ["half", "of the future", "pipe", "dangling link"])
def test_a_damaged_suite_is_set_aside(tmp_path: Path, damage: str) -> None:
    """Not overwritten: its claims may be saved. Reports show the data, and say what they do not judge."""
    run(tmp_path)
    path = tmp_path / "suite.json"
    content = suite().model_dump_json()
    path.unlink()
    if damage == "pipe":
        os.mkfifo(path)
    elif damage == "dangling link":
        path.symlink_to("nowhere")
    else:
        content = content[:-9] if damage == "half" else json.dumps({**json.loads(content), "later": 1})
        path.write_text(content, encoding="utf-8")
    with pytest.warns(UserWarning, match=r"suite\.json.*cannot be read"):
        results = harness.load(tmp_path)
    assert results.suite is None
    assert len(results) == 1
    shown = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert shown.exit_code == 1
    assert "accuracy" in shown.stdout
    assert "cannot be read" in shown.stderr

    assert len(run(tmp_path)) == 1
    aside = tmp_path / "suite.json.damaged"
    assert RunDirectory(tmp_path).read_suite() is not None
    if damage in ("half", "of the future"):
        assert aside.read_text(encoding="utf-8") == content
    with pytest.warns(UserWarning, match=r"suite\.json\.damaged"):
        assert harness.load(tmp_path).suite is not None
    aside.unlink()
    assert harness.load(tmp_path).suite is not None


def test_a_record_from_the_future_does_not_hide_later_ones(tmp_path: Path) -> None:
    """A clock was wrong once: what the next run measures with an edited plugin counts all the same."""
    store = store_in(tmp_path)
    ahead = make_record(digest="old", minutes=60 * 24 * 365 * 300)
    store.write_record(ahead)
    began = store.begin()
    assert began > ahead.provenance.finished
    now = make_record(digest="new")
    now = now.model_copy(update={"provenance": now.provenance.model_copy(update={"started": began})})
    store.write_record(now)
    assert current(store.read_records()) == ([now], 1)
    assert store.begin() > began


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00", "9999-12-31T23:59:59", "0001-01-01T00:00:00+14:00"])
def test_records_of_any_time_are_ordered(tmp_path: Path, time: str) -> None:
    """Also of one that no clock of this machine has shown: somebody has written it by hand."""
    store = store_in(tmp_path)
    for digest in ("old", "new"):
        content = json.loads(make_record(digest=digest).model_dump_json())
        content["provenance"] |= {"started": time, "finished": time}
        store.write_record(Record.model_validate(content))
    found, superseded = current(store.read_records())
    assert (len(found), superseded) == (1, 1)


def test_a_run_begins_now_where_clocks_are_right(tmp_path: Path) -> None:
    """And every record says when; one without a readable time changes nothing."""
    store = store_in(tmp_path)
    (store.records / "0123456789abcdef.json").write_text('{"provenance": {"finished": "soon"}}', encoding="utf-8")
    before = datetime.now(UTC)
    first, second = run(tmp_path / "run").records[0], run(tmp_path / "run", seeds=2).records[1]
    assert before <= store.begin() < before + timedelta(hours=1)
    assert first.provenance.started is not None
    assert second.provenance.started is not None
    assert before <= first.provenance.started < first.provenance.finished < second.provenance.started


def _run_into(out: str, seeds: int, ready: Any, go: Any) -> None:
    ready.set()
    go.wait()
    run(Path(out), seeds=seeds, probes=["accuracy", "grad_reach"])


@posix
def test_two_runs_at_once_in_one_directory(tmp_path: Path) -> None:
    """Both complete; every record can be read, and is what one run alone measures."""
    context = multiprocessing.get_context("spawn")
    ready, go = context.Event(), context.Event()
    other = context.Process(target=_run_into, args=[str(tmp_path / "both"), 2, ready, go])
    other.start()
    run(tmp_path / "alone", probes=["accuracy", "grad_reach"])
    ready.wait()
    go.set()
    run(tmp_path / "both", probes=["accuracy", "grad_reach"])
    other.join()
    assert other.exitcode == 0

    def found(name: str) -> dict[str, Any]:
        records = RunDirectory(tmp_path / name).read_records()
        return {record.id: record.model_dump_json(include={"status", "measurements"}) for record in records}

    assert len(found("both")) == 6
    assert found("alone").items() <= found("both").items()
    assert [path.name for path in (tmp_path / "both").rglob("*") if path.suffix == ".tmp"] == []
