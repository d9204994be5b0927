"""Many records in one file: read, resumed, merged and doubted like files of their own."""

import json
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
from record_factory import curve
from record_factory import record as make_record

import harness
from harness import store
from harness.cleaning import contents
from harness.cli import main
from harness.errors import RequestError
from harness.measurements import Scalar
from harness.merging import merge
from harness.narrowing import Narrowing
from harness.packed import COLUMNS
from harness.results import read
from harness.schema import Record
from harness.sharding import remember
from harness.store import RunDirectory
from harness.suites import Suite

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


@pytest.mark.parametrize("wrong", [None, 3, 0.5, b"\xff"])
def test_a_row_without_text_is_a_damaged_record(tmp_path: Path, wrong: object) -> None:
    """In any of its columns, of a file that another program has written."""
    store = run_in(tmp_path / "run", {5: 0.5}, {0: 0.5, 1: 0.5, 2: 0.5, 3: 0.5})
    with closing(sqlite3.connect(store.packed.path)) as database, database:
        database.execute(f"CREATE TABLE others (id, {', '.join(COLUMNS)}, content)")
        database.execute("INSERT INTO others SELECT * FROM records")
        database.execute("DROP TABLE records")
        database.execute("ALTER TABLE others RENAME TO records")
        for number, column in enumerate(("id", "content", "model")):
            database.execute(f"UPDATE records SET {column} = ? WHERE id = ?", [wrong, record(number).id])
    said: list[str] = []
    found = list(store.read_records(said.append))
    assert [each.id for each in found] == sorted(record(number).id for number in (2, 3, 5))
    assert "2 of 5" in said[0]
    assert record(0).id not in store.ids()
    narrowed = list(store.read_records(said.append, Narrowing({"model": [record(3).model.label]}, None)))
    assert record(3) in narrowed


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


CLAIM: dict[str, Any] = {
    "probe": "accuracy",
    "metric": "accuracy",
    "at": "inside",
    "reduce": "min",
    "comparison": ">",
    "value": 0.5,
}


@pytest.fixture(params=["loose", "packed"])
def mixed(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A run of two models, one of them in two configurations, with an alias and claims."""
    claims = [
        {"text": "of the small one", "model": "lstm:hidden=2"} | CLAIM,
        {"text": "of both", "model": "lstm:hidden=2", "than": {"model": "tiny"}} | {**CLAIM, "value": None},
    ]
    models = [*({"name": "lstm", "hidden": n} for n in (2, 3)), {"name": "gru", "hidden": 2, "alias": "tiny"}]
    suite = Suite.model_validate({"name": "run", "experiments": [{"models": models}], "claims": claims})
    place = RunDirectory(tmp_path)
    place.create()
    place.write_suite(suite)
    made = [
        make_record(curve([0.5], [1.0], name="accuracy"), model=model, seed=seed)
        for model in ("lstm:hidden=2", "lstm:hidden=3", "gru:hidden=2")
        for seed in range(3)
    ]
    made = [record.model_copy(update={"id": f"{number:016x}"}) for number, record in enumerate(made)]
    if request.param == "packed":
        place.pack(made)
    else:
        for each in made:
            place.write_record(each)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "models"),
    [
        (["--model", "lstm"], {"lstm:hidden=2", "lstm:hidden=3"}),
        (["-m", "lstm:hidden=2"], {"lstm:hidden=2"}),
        (["-m", "lstm:hidden=2", "-m", "tiny", "-p", "accuracy"], {"lstm:hidden=2", "gru:hidden=2"}),
        (["-t", "recall"], {"lstm:hidden=2", "lstm:hidden=3", "gru:hidden=2"}),
    ],
)
def test_a_report_of_some_models_shows_them_alone(mixed: Path, words: list[str], models: set[str]) -> None:
    """By name, label or alias, one or several; of a run of files and of a packed one."""
    shown = CliRunner().invoke(main, ["report", str(mixed), *words, "--format", "json"], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    assert {each["model"]["label"] for each in json.loads(shown.stdout)} == models


def test_a_report_of_some_models_judges_the_claims_about_them(mixed: Path) -> None:
    """A claim that compares one of them with another model has nothing to compare."""
    narrowed = read(mixed, print, {"model": ["lstm"]})
    assert narrowed.suite is not None
    assert [claim.text for claim in narrowed.suite.claims] == ["of the small one"]
    assert "Only model lstm" in narrowed.note
    assert "lstm:hidden=2, lstm:hidden=3" in narrowed.note


def test_a_name_means_the_model_without_arguments_if_there_is_one(mixed: Path) -> None:
    """As in requests and claims; the note says which are left out. In a grid it means all that the grid makes of it."""
    place = RunDirectory(mixed)
    plain = make_record(curve([0.5], [1.0], name="accuracy"), model="lstm", seed=0)
    place.write_record(plain.model_copy(update={"id": f"{99:016x}"}))
    narrowed = read(mixed, print, {"model": ["lstm"]})
    assert [each.model.label for each in narrowed] == ["lstm"]
    assert "not lstm:hidden=2, lstm:hidden=3" in narrowed.note
    suite = place.read_suite()
    assert suite is not None
    place.write_suite(suite.model_copy(update={"grid": {"hidden": [2, 3]}, "claims": []}))
    whole = read(mixed, print, {"model": ["lstm"]})
    assert {each.model.label for each in whole} == {"lstm", "lstm:hidden=2", "lstm:hidden=3"}
    assert len(read(mixed, print).filter(model="lstm")) == len(whole)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"model": ["gpt"]}, ["no model 'gpt'", "gru:hidden=2, lstm:hidden=2, lstm:hidden=3, tiny"]),
        ({"model": ["lsmt"]}, ["no model 'lsmt'", "Did you mean"]),
        ({"model": ["lstm"], "task": ["copy"]}, ["no task 'copy'", "There are: recall"]),
    ],
)
def test_a_report_of_an_unknown_model_names_those_that_there_are(
    mixed: Path, words: dict[str, list[str]], said: list[str]
) -> None:
    """It is a wrong request."""
    with pytest.raises(RequestError) as caught:
        read(mixed, print, words)
    for part in said:
        assert part in str(caught.value)


def test_a_report_of_one_packed_model_reads_its_records_alone(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the index, whatever else the file holds."""
    seen: list[str] = []
    read_one = store._checked

    def checked(content: bytes, cell: str) -> Record:
        seen.append(cell)
        return read_one(content, cell)

    monkeypatch.setattr(store, "_checked", checked)
    assert len(read(mixed, print, {"model": ["tiny"]})) == len(seen) == 3
    path = mixed / "records.sqlite"
    if path.exists():
        with closing(sqlite3.connect(path)) as database:
            plan = database.execute("EXPLAIN QUERY PLAN SELECT content FROM records WHERE model IN ('a', 'b')")
            assert "USING INDEX by_column" in " ".join(str(row) for row in plan)
