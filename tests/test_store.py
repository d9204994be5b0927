"""Records on disk: whole or absent, readable for ever, honest about damage."""

import json
import math
import multiprocessing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_factory import record as make_record

from harness.errors import RequestError
from harness.files import write_atomic
from harness.measurements import Curve, Matrix, Scalar
from harness.schema import SCHEMA_VERSION, ModelUse, Record, Trained, Training
from harness.store import RunDirectory

FIXTURES = Path(__file__).parent / "fixtures"
NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@given(NUMBERS, st.lists(NUMBERS, min_size=1, max_size=4))
def test_every_float_survives_the_round_trip(value: float, values: list[float]) -> None:
    """NaN and infinity too, in scalars, curves and matrices, in valid JSON."""
    record = make_record(
        Scalar(name="s", unit="", value=value),
        Curve(name="c", unit="", x=list(range(len(values))), y=values, x_label="x", y_label="y"),
        Matrix(
            name="m",
            unit="",
            values=[values],
            rows=["r"],
            columns=[str(i) for i in range(len(values))],
            row_label="r",
            column_label="c",
        ),
    )
    text = record.model_dump_json()
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    scalar, curve, matrix = Record.model_validate_json(text).measurements
    assert isinstance(scalar, Scalar)
    assert isinstance(curve, Curve)
    assert isinstance(matrix, Matrix)
    assert same(scalar.value, value)
    assert all(map(same, curve.y, values))
    assert all(map(same, matrix.values[0], values))


@pytest.mark.parametrize("version", [1, 2])
def test_records_of_every_schema_stay_readable(version: int) -> None:
    """A record as each version wrote it can be read for ever."""
    record = Record.model_validate_json((FIXTURES / f"record-schema-{version}.json").read_bytes())
    assert record.schema_version == version <= SCHEMA_VERSION
    assert record.status == "ok"
    assert record.find("accuracy").kind == "curve"


def test_there_is_a_record_of_the_current_schema() -> None:
    """With every field that it can have, so that a later change of one is noticed."""
    content = json.loads((FIXTURES / f"record-schema-{SCHEMA_VERSION}.json").read_bytes())
    assert content.keys() == Record.model_fields.keys()
    assert content["model"].keys() == ModelUse.model_fields.keys()
    assert content["training"].keys() == Training.model_fields.keys()
    assert content["trained"].keys() == Trained.model_fields.keys()


def test_a_record_explains_itself() -> None:
    """`skipped` needs a reason, `failed` an error, and `ok` neither."""
    content = make_record().model_dump()
    for wrong in ({"status": "skipped"}, {"status": "failed"}, {"reason": "because"}):
        with pytest.raises(ValueError, match="needs a reason"):
            Record.model_validate({**content, **wrong})


def test_a_measurement_must_fit_its_labels() -> None:
    """A curve has one y per x, a matrix is rectangular."""
    with pytest.raises(ValueError, match="2 x and 1 y"):
        Curve(name="c", unit="", x=[1, 2], y=[1], x_label="", y_label="")
    with pytest.raises(ValueError, match="rows have"):
        Matrix(name="m", unit="", values=[[1.0]], rows=["a", "b"], columns=["c"], row_label="", column_label="")


def test_finding_a_measurement_names_those_there_are() -> None:
    """A slip in a name is easy to mend."""
    with pytest.raises(KeyError, match="There are: "):
        make_record().find("acuracy")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """A record comes back equal, found by its cell's id."""
    store = RunDirectory(tmp_path / "run")
    store.create()
    record = make_record()
    store.write_record(record)
    assert store.read_record(record.id) == record
    assert list(store.read_records()) == [record]
    assert store.read_record("no such cell") is None


def test_a_torn_record_is_not_a_record(tmp_path: Path) -> None:
    """It counts as not measured; a report names the file instead of hiding it."""
    store = RunDirectory(tmp_path)
    store.create()
    record = make_record()
    store.write_record(record)
    path = store.records / f"{record.id}.json"
    path.write_bytes(path.read_bytes()[:100])
    assert store.read_record(record.id) is None
    with pytest.raises(RequestError, match=f"{record.id}.json"):
        list(store.read_records())


def test_unreadable_records_do_not_hide_the_others(tmp_path: Path) -> None:
    """Half a file, or one of another time: whoever listens gets all that can be read, and then one sentence."""
    store = RunDirectory(tmp_path)
    store.create()
    records = [make_record(seed=seed) for seed in range(3)]
    for record in records:
        store.write_record(record)
    (store.records / f"{records[0].id}.json").write_text("{", encoding="utf-8")
    (store.records / f"{records[2].id}.json").write_text('{"schema": 0}', encoding="utf-8")
    said: list[str] = []
    assert list(store.read_records(said.append)) == [records[1]]
    assert len(said) == 1
    assert said[0].startswith(f"2 of 3 record files cannot be read and are left out, the first one '{store.records}")
    assert f"{records[0].id}.json': Invalid JSON" in said[0]
    assert "Run the same command again" in said[0]


def _write_for_ever(path: str) -> None:
    content = b"x" * 200_000
    while True:
        write_atomic(Path(path), content)


def test_a_killed_writer_leaves_no_half_file(tmp_path: Path) -> None:
    """SIGKILL in the middle of writing: the file is there as a whole, or not at all."""
    path = tmp_path / "file.json"
    for _ in range(3):
        process = multiprocessing.get_context("fork").Process(target=_write_for_ever, args=[str(path)])
        process.start()
        while not path.exists():
            process.join(0.01)
        process.kill()
        process.join()
        assert len(path.read_bytes()) == 200_000
        path.unlink()


def test_an_unwritable_directory_is_a_wrong_request(tmp_path: Path) -> None:
    """Said before anything is trained. (A file in the way: root may write anywhere.)"""
    (tmp_path / "run").write_text("", encoding="utf-8")
    with pytest.raises(RequestError, match=r"choose another .*--out"):
        RunDirectory(tmp_path / "run").create()


def test_reading_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    """Not an empty report."""
    with pytest.raises(RequestError, match="there is no run in"):
        list(RunDirectory(tmp_path).read_records())


def test_clearing_leaves_other_files_alone(tmp_path: Path) -> None:
    """Neither records and models that were not asked for, nor what a user put beside them."""
    store = RunDirectory(tmp_path)
    store.create()
    own, other = "0123456789abcdef", "fedcba9876543210"
    files = ["records/{}.json", "trials/{}.json", "checkpoints/{}.safetensors", "records/.{}.json.a1b2.tmp"]
    for name in (own, other, "patients"):
        for file in files:
            (tmp_path / file.format(name)).write_text("{}", encoding="utf-8")
    store.clear({own, "patients"})
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {file.format(name) for name in (other, "patients") for file in files}
