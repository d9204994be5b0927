"""A run that is not complete says so, once and before any number; and why, as soon as something fails."""

from pathlib import Path

import pytest
from record_factory import record
from small_runs import run

import harness
from harness.cli.common import MOST_FAILURES, first_failures
from harness.report import render
from harness.report.blocks import document
from harness.report.elements import Heading, Paragraph
from harness.suites import Suite
from harness.unmeasured import never_run, unmeasured


def test_what_has_no_record_is_told_before_any_number(tmp_path: Path) -> None:
    """Of a shard, of a run that was interrupted, and no longer of one that is complete."""
    models = ["lstm", "small=gru:hidden=8"]
    part = run(models, tmp_path, shard=(1, 2))
    for found in (part, harness.load(tmp_path)):
        assert "1 of 2 planned cells has no record yet, among them all of small." in found.note
        assert "shard 1/2" in found.note
        blocks = document(found.records, found.suite, note=found.note)
        assert isinstance(blocks[0], Heading)
        assert blocks[1] == Paragraph(found.note)
        assert blocks.count(Paragraph(found.note)) == 1
    pytest.importorskip("altair")
    assert part.page().count(part.note) == 1
    whole = run(models, tmp_path)
    assert (len(whole), whole.note) == (2, "")
    (lost,) = whole.filter(model="lstm")
    (tmp_path / "records" / f"{lost.id}.json").unlink()
    found = harness.load(tmp_path)
    assert "all of lstm; the same command measures them." in found.note


def test_models_of_a_grid_have_run_whatever_their_arguments() -> None:
    """Each is there once, and `gru` is not what `gru:hidden=8` was."""
    suite = Suite.model_validate(
        {
            "grid": {"hidden": [8, 16], "lr": [1e-3]},
            "planned": ["a", "b", "c"],
            "experiments": [{"models": ["lstm", "gru", "gpt"]}, {"models": ["gpt"], "tasks": ["parity"]}],
        }
    )
    records = [record(model="lstm:hidden=16"), record(model="gru:forget_bias=1")]
    assert never_run(suite, records) == ["gru", "gpt"]
    assert "2 of 3 planned cells have no record yet, among them all of gru, gpt;" in unmeasured(suite, {"b"}, records)
    assert not unmeasured(suite, {"a", "b", "c", "d"}, records)
    assert not unmeasured(suite.model_copy(update={"planned": []}), set(), records)


def test_why_a_model_fails_is_told_at_once_and_the_same_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another seed or task not again, of another model it is; and not without end."""
    told: list[str] = []
    monkeypatch.setattr("harness.cli.common.warn", told.append)
    tell = first_failures()
    for model in ("lstm", "gru"):
        for seed in range(2):
            tell(record(model=model, seed=seed, failed="a tensor of shape (2, 33)"))
    assert ["a tensor of shape (2, 33)" in text for text in told] == [True, True]
    assert [text.split()[0] for text in told] == ["lstm", "gru"]
    for number in range(2 * MOST_FAILURES):
        tell(record(failed=f"error {number}"))
    assert len(told) == MOST_FAILURES
    assert "the report" in told[-1]


def test_a_reason_stands_once_for_all_ways_of_training() -> None:
    """And apart where other seeds failed."""
    records = [record(failed="no such shape", training={"lr": lr}, seed=s) for lr in (1e-3, 1e-2, 1e-1) for s in (0, 1)]
    text = " ".join(render(records[:-1]).split())
    assert text.count("no such shape") == 2
    assert "lstm (lr=0.001), lstm (lr=0.01), seeds 0, 1 failed" in text
    assert "lstm (lr=0.1), seed 0 failed" in text
