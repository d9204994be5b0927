"""`harness clean`: what a run directory holds, and freeing what nothing needs."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from record_factory import record as make_record
from record_factory import trained

from harness.cleaning import MEANING, REMOVABLE, contents, remove
from harness.cli import main
from harness.errors import RequestError
from harness.schema import Record
from harness.store import RunDirectory
from harness.suites import Suite


def write(store: RunDirectory, record: Record, checkpoint: bool = True) -> Record:
    store.create()
    store.write_record(record)
    if checkpoint:
        store.checkpoint(record.trial).write_bytes(b"12345")
        store.write_trained(record.trial, trained(1, 0.5), [])
    return record


def held(store: RunDirectory) -> dict[str, list[str]]:
    found = contents(store.path)
    return {kind: [path.name for path in each.paths] for kind, each in found.items() if each.paths}


def test_everything_has_a_kind(tmp_path: Path) -> None:
    """With sizes; also what a user put there, and folders."""
    store = RunDirectory(tmp_path)
    record = write(store, make_record())
    (store.records / ".x.json.abc.tmp").write_bytes(b"1")
    folder = store.checkpoints / ".x.safetensors.abc.tmp"
    folder.mkdir()
    (folder / "inner").write_bytes(b"12")
    (tmp_path / "suite.json.damaged").write_bytes(b"123")
    (tmp_path / "notes.txt").write_bytes(b"1234")
    (store.checkpoints / f"{record.trial}.partial.safetensors").write_bytes(b"1")
    (store.checkpoints / "new.partial.safetensors").write_bytes(b"1")
    assert held(store) == {
        "records": [f"{record.id}.json"],
        "learning-curves": [f"{record.trial}.json"],
        "needed": ["new.partial.safetensors"],
        "checkpoints": [f"{record.trial}.safetensors"],
        "partial": [f"{record.trial}.partial.safetensors"],
        "temporary": [".x.json.abc.tmp", ".x.safetensors.abc.tmp"],
        "set-aside": ["suite.json.damaged"],
        "other": ["notes.txt"],
    }
    sizes = {kind: each.size for kind, each in contents(tmp_path).items()}
    assert (sizes["checkpoints"], sizes["temporary"], sizes["set-aside"], sizes["other"]) == (5, 3, 3, 4)


@pytest.mark.parametrize(
    ("records", "needed"),
    [
        ([{}], False),
        ([{"skipped": "no attention"}], False),
        ([{"stage": "initial"}], True),
        ([{"failed": "broken"}], True),
        ([{}, {"probe": "ablation", "failed": "broken"}], True),
        ([{}, {"probe": "ablation", "seed": 1}], True),
        ([{}, {"probe": "ablation", "model": "gpt"}], False),
        ([], True),
    ],
)
def test_a_checkpoint_is_needed_while_something_is_left_to_measure(
    tmp_path: Path, records: list[dict[str, Any]], needed: bool
) -> None:
    """Nothing measured after training, something failed, or another seed is further."""
    store = RunDirectory(tmp_path)
    store.create()
    for fields in records:
        write(store, make_record(**fields), checkpoint=False)
    trial = make_record().trial
    store.checkpoint(trial).write_bytes(b"12345")
    assert held(store)["needed" if needed else "checkpoints"] == [f"{trial}.safetensors"]


def test_a_checkpoint_is_needed_for_probes_of_the_suite(tmp_path: Path) -> None:
    """Of experiments with its model and task."""
    store = RunDirectory(tmp_path)
    write(store, make_record())
    for probes, model, needed in (
        (["accuracy"], "lstm", False),
        (["ablation"], "lstm", True),
        (["ablation"], "gpt", False),
    ):
        suite = {"models": [model], "probes": ["accuracy", *probes]}
        store.write_suite(Suite.model_validate({"experiments": [suite]}))
        assert ("needed" in held(store)) is needed


def test_only_what_is_named_is_removed(tmp_path: Path) -> None:
    """And nothing that was measured, whatever is named."""
    store = RunDirectory(tmp_path)
    done, failed = write(store, make_record()), write(store, make_record(model="gpt", failed="broken"))
    (store.records / ".x.json.abc.tmp").write_bytes(b"1")
    before = held(store)
    removed = remove(tmp_path, ["checkpoints"])
    assert removed["checkpoints"].paths == [store.checkpoint(done.trial)]
    assert removed["checkpoints"].size == 5
    assert held(store) == {kind: each for kind, each in before.items() if kind != "checkpoints"}
    remove(tmp_path, REMOVABLE)
    assert held(store).keys() == {"records", "learning-curves", "needed"}
    assert store.read_trained(failed.trial) is not None
    with pytest.raises(RequestError, match="choose from checkpoints"):
        remove(tmp_path, ["records"])


def test_the_command_shows_and_deletes_only_when_told(tmp_path: Path) -> None:
    """As a table or as data; where there is no run it says so."""
    store = RunDirectory(tmp_path)
    write(store, make_record())
    before = held(store)
    shown = CliRunner().invoke(main, ["clean", str(tmp_path)])
    assert shown.exit_code == 0
    assert "checkpoints" in shown.stdout
    data = json.loads(CliRunner().invoke(main, ["clean", str(tmp_path), "--format", "json"]).stdout)
    assert data.keys() == MEANING.keys()
    assert data["checkpoints"] == {"files": [str(store.checkpoint(make_record().trial))], "bytes": 5}
    assert held(store) == before
    assert CliRunner().invoke(main, ["clean", str(tmp_path), "--remove", "all"]).exit_code == 0
    assert held(store).keys() == {"records", "learning-curves"}
    assert CliRunner().invoke(main, ["clean", str(tmp_path), "--remove", "records"]).exit_code == 2
    assert CliRunner().invoke(main, ["clean", str(tmp_path / "nothing")]).exit_code == 2
