"""Many records in one file: read, resumed, merged and doubted like files of their own."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SHORT
from hypothesis import given, settings
from hypothesis import strategies as st
from record_factory import record as make_record

import harness
from harness.cleaning import contents
from harness.cli import main
from harness.errors import RequestError
from harness.merging import merge
from harness.packed import COLUMNS
from harness.schema import Record, Scalar
from harness.sharding import remember
from harness.store import RunDirectory

ASKED: dict[str, Any] = {
    "models": ["lstm:hidden=4"],
    "tasks": SHORT,
    "training": {"steps": 1, "batch_size": 4},
    "examples": 8,
    "seeds": 2,
}


def record(number: int, value: float = 0.5) -> Record:
    made = make_record(Scalar(name="score", unit="", value=value), seed=number)
    return made.model_copy(update={"id": f"{number:016x}"})


def run_in(path: Path, loose: dict[int, float], packed: dict[int, float]) -> RunDirectory:
    """A run directory with these records, a number for each."""
    store = RunDirectory(path)
    store.create()
    store.pack(record(*pair) for pair in packed.items())
    for pair in loose.items():
        store.write_record(record(*pair))
    return store


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A run with its records in one file."""
    harness.run(**ASKED, out=tmp_path / "run")
    merge([tmp_path / "run"], tmp_path / "packed", pack=True)
    return tmp_path / "packed"


VALUES = st.dictionaries(st.integers(0, 6), st.floats(allow_nan=False), max_size=5)


@settings(max_examples=30)
@given(loose=VALUES, packed=VALUES, cleared=st.sets(st.integers(0, 6)))
def test_a_directory_may_have_both(
    tmp_path_factory: pytest.TempPathFactory,
    loose: dict[int, float],
    packed: dict[int, float],
    cleared: set[int],
) -> None:
    """By id, each once; one with a file of its own wins; what is cleared is gone in both."""
    store = run_in(tmp_path_factory.mktemp("run"), loose, packed)
    expected = {**packed, **loose}
    assert list(store.read_records()) == [record(number, expected[number]) for number in sorted(expected)]
    for number in range(7):
        found = store.read_record(record(number).id)
        assert found == (record(number, expected[number]) if number in expected else None)
    store.clear({record(number).id for number in cleared})
    assert [each.seed for each in store.read_records()] == sorted(expected.keys() - cleared)


def test_packing_leaves_no_files_behind(packed: Path) -> None:
    """One row for a record, with what it is about in columns of their own."""
    assert not list((packed / "records").iterdir())
    with closing(sqlite3.connect(packed / "records.sqlite")) as database:
        rows = database.execute(f"SELECT id, {', '.join(COLUMNS)} FROM records ORDER BY seed").fetchall()
    found = sorted(harness.load(packed), key=lambda each: each.seed)
    assert rows == [
        (each.id, each.model.label, each.task.label, each.probe.label, each.stage, each.seed, each.status)
        for each in found
    ]


def test_a_packed_run_is_reported_as_it_was(packed: Path) -> None:
    """Every format, to the letter."""
    for form in ("text", "csv", "json"):
        shown = [
            CliRunner().invoke(main, ["report", str(run), "--format", form]) for run in (packed.parent / "run", packed)
        ]
        assert shown[0].exit_code == shown[1].exit_code == 0
        assert shown[0].stdout == shown[1].stdout


def test_a_packed_run_goes_on(packed: Path) -> None:
    """What is packed is not measured again; what is new has files of its own, until it is packed too."""
    before = {each.id: each.provenance for each in harness.load(packed)}
    harness.run(**(ASKED | {"seeds": 3}), out=packed)
    after = {each.id: each.provenance for each in harness.load(packed)}
    assert before.items() <= after.items()
    assert len(after) == 3
    assert len(list((packed / "records").iterdir())) == 1
    merge([packed], packed, pack=True)
    assert not list((packed / "records").iterdir())
    assert {each.id: each.provenance for each in harness.load(packed)} == after


def test_fresh_measures_what_is_packed_anew(packed: Path) -> None:
    """And leaves the records of other plans."""
    before = {each.seed: each.provenance for each in harness.load(packed)}
    harness.run(**(ASKED | {"seeds": 1}), out=packed, fresh=True)
    after = {each.seed: each.provenance for each in harness.load(packed)}
    assert after[1] == before[1]
    assert after[0] != before[0]


def test_packed_runs_are_merged(packed: Path, tmp_path: Path) -> None:
    """Into files of their own, unless they are to be packed again."""
    merge([packed], tmp_path / "loose")
    assert not (tmp_path / "loose" / "records.sqlite").exists()
    assert len(list((tmp_path / "loose" / "records").iterdir())) == 2


@pytest.mark.parametrize("where", ["all", "middle"])
def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, where: str) -> None:
    """What can be read is shown, and the file is as it was; a cell that cannot be read counts as not measured."""
    store = run_in(tmp_path / "run", {0: 0.5}, dict.fromkeys(range(1, 200), 0.5))
    path = store.packed.path
    content = path.read_bytes()
    half = len(content) // 2
    damaged = b"x" * len(content) if where == "all" else content[:half] + bytes(len(content) - half)
    path.write_bytes(damaged)
    said: list[str] = []
    found = list(RunDirectory(tmp_path / "run").read_records(said.append))
    assert record(0) in found
    assert len(found) < 200
    assert len(said) == 1
    assert str(path) in said[0]
    if where == "all":
        assert store.read_record(record(1).id) is None
    result = CliRunner().invoke(main, ["report", str(tmp_path / "run")])
    assert result.exit_code == 1
    assert "records.sqlite" in result.stderr
    with pytest.raises(RequestError):
        list(RunDirectory(tmp_path / "run").read_records())
    assert path.read_bytes() == damaged


def test_nothing_is_changed_in_a_damaged_file(tmp_path: Path) -> None:
    """Neither packed into it nor deleted from it: a copy may still be put in its place."""
    store = run_in(tmp_path / "run", {0: 0.5}, {1: 0.5})
    store.packed.path.write_bytes(b"no database")
    with pytest.raises(RequestError, match="nothing can be deleted"):
        store.clear({record(1).id})
    with pytest.raises(RequestError, match="nothing can be packed"):
        merge([run_in(tmp_path / "other", {2: 0.5}, {}).path], store.path, pack=True)
    assert store.packed.path.read_bytes() == b"no database"


def test_a_damaged_row_is_a_damaged_record(tmp_path: Path) -> None:
    """Named by its id; the others are there."""
    store = run_in(tmp_path / "run", {}, {0: 0.5, 1: 0.5, 2: 0.5})
    with closing(sqlite3.connect(store.packed.path)) as database, database:
        database.execute("UPDATE records SET content = '{' WHERE id = ?", [record(1).id])
    said: list[str] = []
    assert list(store.read_records(said.append)) == [record(0), record(2)]
    assert record(1).id in said[0]
    assert store.read_record(record(1).id) is None


def test_a_packed_record_stands_in_for_a_damaged_file(tmp_path: Path) -> None:
    """Which was of the same cell."""
    store = run_in(tmp_path / "run", {1: 0.25}, {1: 0.5})
    (store.records / f"{record(1).id}.json").write_text("{", encoding="utf-8")
    assert list(store.read_records()) == [record(1, 0.5)]
    assert store.read_record(record(1).id) == record(1, 0.5)


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    """Also one that means something in an address."""
    letter = "ä" if sys.getfilesystemencoding() == "utf-8" else "a"
    store = run_in(tmp_path / f"50% ?mode=x#1 {letter}", {}, {1: 0.5})
    assert list(store.read_records()) == [record(1)]


def test_a_run_beside_a_damaged_file_ends_well(packed: Path) -> None:
    """What it had is measured anew, into files of their own."""
    (packed / "records.sqlite").write_bytes(b"no database at all")
    assert [each.status for each in harness.run(**ASKED, out=packed)] == ["ok", "ok"]


def test_what_packs_and_merges_write_is_known(packed: Path) -> None:
    """`harness clean` calls nothing of it foreign."""
    remember(packed, "1/2")
    (packed / "conflicts").mkdir()
    found = contents(packed)
    assert not found["other"].paths
    assert {"records.sqlite", "shards", "conflicts"} <= {path.name for path in found["records"].paths}
