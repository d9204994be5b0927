"""What a person types and sees: runs, their reports, plans, and what there is to run."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import QUICK, harness
from commands import elsewhere as elsewhere  # the fixture
from conftest import SHORT

from harness.cli import common
from harness.cli.common import terminal_width
from harness.cli.planned import plan_data, plan_lines
from harness.execution import Progress
from harness.plan import make_plan
from harness.registry import Broken, Origin, default_registry
from harness.requests import build_suite, find_suite
from harness.schema import Record
from harness.suites import Suite
from harness.vocabulary import FORMATS


def test_a_run_ends_with_a_table_and_the_next_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records' folder, a table with the model, and what to do next."""
    monkeypatch.setattr(common, "PATIENCE", math.inf)
    result = harness("run", "--model", "lstm:hidden=8", "--probe", "grad_reach", *QUICK)
    assert result.exit_code == 0
    assert "lstm:hidden=8" in result.stdout
    assert "at initialisation" in result.stdout
    assert "harness report runs/lstm+recall" in result.stdout
    assert len(list(Path("runs/lstm+recall/records").glob("*.json"))) == 2
    assert result.stderr == ""  # no progress bar where there is no terminal


def test_without_a_terminal_a_line_says_each_tenth_of_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For logs; nothing of what is over within a few seconds."""
    told = {}
    for patience in (0.0, math.inf):
        monkeypatch.setattr(common, "PATIENCE", patience)
        with common.progress() as report:
            for done in range(1, 41):
                report(Progress(done / 10, 4, 5.0 * done, 200))
        told[patience] = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in told[0.0]] == [f"{tenth}0%" for tenth in range(1, 10)]
    assert "trial 2.0 of 4, step 100 of 200" in told[0.0][4]
    assert told[math.inf] == []


def test_a_run_offers_its_page_or_writes_it() -> None:
    """`--page` alone writes into the run directory, and says where."""
    pytest.importorskip("altair", reason="a page needs the extra `page`")
    words = ("run", "--model", "lstm:hidden=8", "--out", "there", *QUICK)
    offered = harness(*words).stdout.strip().split("\n")[-1]
    assert "harness report there --format html --out page.html" in offered
    for place, file in (([], Path("there/page.html")), (["here.html"], Path("here.html"))):
        result = harness(*words, "--page", *place)
        assert result.exit_code == 0
        assert str(file) in result.stdout.strip().split("\n")[-1]
        assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    data = harness(*words, "--format", "csv", "--page")
    assert "page" not in data.stdout
    assert "there/page.html" in data.stderr


def test_report_shows_a_finished_run_again() -> None:
    """The same tables, from the records alone."""
    ran = harness("run", "--model", "lstm:hidden=8", "--out", "there", *QUICK)
    shown = harness("report", "there")
    assert shown.exit_code == 0
    assert shown.stdout.strip() in ran.stdout


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_offered(form: str) -> None:
    """text, markdown, latex, csv and json, from run and report alike."""
    ran = harness("run", "--model", "lstm:hidden=8", "--out", "there", "--format", form, *QUICK)
    shown = harness("report", "there", "--format", form)
    assert ran.exit_code == shown.exit_code == 0
    assert "lstm:hidden=8" in shown.stdout.replace("\\", "")
    if form != "text":
        assert ran.stdout == shown.stdout


def test_json_is_one_array_of_records() -> None:
    """With the fields that others rely on."""
    harness("run", "--model", "lstm:hidden=8", "--out", "there", *QUICK)
    (record,) = json.loads(harness("report", "there", "--format", "json").stdout)
    assert Record.model_validate(record).status == "ok"
    assert record["model"]["name"] == "lstm"
    assert record["model"]["parameters"] > 0
    assert record["model"]["arguments"]["hidden"] == 8
    assert {"training", "stage", "seed", "timing", "provenance"} <= record.keys()
    curve = next(m for m in record["measurements"] if m["name"] == "accuracy")
    assert curve["kind"] == "curve"
    assert len(curve["x"]) == len(curve["y"]) == 3


def test_records_that_cannot_be_read_are_not_said_to_be_missing() -> None:
    """Where none can be read, there is nothing else to report."""
    Path("there/records").mkdir(parents=True)
    Path("there/records/0123456789abcdef.json").write_text("{", encoding="utf-8")
    result = harness("report", "there")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "1 of 1 record files cannot be read" in result.stderr


def test_failed_cells_are_exit_code_1(plugin_file: Callable[..., str]) -> None:
    """And the report says why; skipped ones are no failure."""
    broken = plugin_file("def p(subject):\n    raise OSError('no disk')", "broken.py") + ":p"
    result = harness("run", "--model", "lstm:hidden=8", "--probe", broken, "--probe", "accuracy", *QUICK)
    assert result.exit_code == 1
    assert "no disk" in " ".join(result.stdout.split())
    skipping = plugin_file("from harness import Skip\ndef p(subject):\n    raise Skip('no gates')", "skips.py") + ":p"
    result = harness("run", "--model", "lstm:hidden=8", "--probe", skipping, *QUICK)
    assert result.exit_code == 0
    assert "no gates" in " ".join(result.stdout.split())


def test_a_dry_run_prints_trials_and_cells() -> None:
    """And writes nothing."""
    words = ["--model", "lstm", "--model", "gpt:position=none", "--probe", "grad_reach", "--seeds", "2", "--dry-run"]
    result = harness("run", *words)
    assert "4 trials, 8 cells" in result.stdout
    assert "gpt:position=none on recall, seed 1, 1000 steps, lr 0.001" in result.stdout
    assert not Path("runs").exists()


def test_a_large_plan_fits_on_a_screen() -> None:
    """What is crossed with what, with all counts; every id is there as JSON, alone on standard output."""
    grid: dict[str, list[Any]] = {"lr": [1e-3, 1e-2], "hidden": [4, 8]}
    asked = build_suite(["lstm", "elman", "ngram"], ["recall", "copy"], ["accuracy", "grad_reach"], seeds=5, grid=grid)
    plan = make_plan(asked, default_registry())
    lines = [*plan_lines(plan)]
    assert len(lines) < 10 < 90 == len(plan.trials)
    told = " ".join(lines)
    for words in ("lstm, elman on recall, copy: 80 trials", "seeds 0-4", "lr 0.001, 0.01", "hidden 4, 8", "grad_reach"):
        assert words in told
    assert not any(planned.trial.id in told for planned in plan.trials)
    listed = json.loads(plan_data(plan, "there"))
    assert [each["id"] for each in listed["trials"]] == [planned.trial.id for planned in plan.trials]
    assert {cell["id"] for each in listed["trials"] for cell in each["cells"]} == {cell.id for cell in plan.cells}
    printed = harness("run", "--model", "lstm", "--seeds", "1", "--dry-run", "--format", "json")
    assert len(json.loads(printed.stdout)["trials"]) == 1
    assert "1 trial, 1 cell" in printed.stderr


def test_ways_of_training_are_repeated_like_all_else() -> None:
    """None of them is lost; settings that belong together stand in one option."""
    words = ["run", "--model", "lstm", "--task", SHORT, "--seeds", "1", "--dry-run"]
    planned = harness(*words, "--training", "steps=7,lr=1e-3", "--training", "steps=7,lr=1e-2").stdout
    assert "2 trials, 2 cells" in planned
    assert "7 steps, lr 0.001" in planned
    assert "7 steps, lr 0.01" in planned


def test_one_is_not_counted_as_many() -> None:
    """In a dry run and after a run."""
    words = ["run", "--model", "lstm:hidden=4", "--task", SHORT, "--seeds", "1", "--training", "steps=1"]
    planned = harness(*words, "--dry-run").stdout
    assert ", 1 step, lr" in planned
    assert "1 trial, 1 cell;" in planned
    assert "\n1 record is in runs" in harness(*words, "--examples", "8").stdout
    epochs = ["run", "--model", "lstm", "--task", "farm_agreement", "--training", "epochs=1", "--dry-run"]
    assert ", 1 epoch, lr" in harness(*epochs).stdout


@pytest.mark.parametrize(("columns", "width"), [("20", 40), ("40", 40), ("60", 60), ("100", 100), ("300", 140)])
def test_text_fits_the_terminal(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 40 columns up to what reads well."""
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width() == width
    assert max(map(len, harness("list").stdout.splitlines())) <= width
    reason = f"importing it raised OSError: {'x' * 150} " + 9 * "and more "
    monkeypatch.setattr(default_registry(), "broken", [Broken(Origin("acme", "acme-gru", "1.0"), reason)])
    listed = harness("list").stdout
    assert max(map(len, listed.splitlines())) <= width
    assert f"entry point 'acme' of acme-gru 1.0: {reason}".replace(" ", "") in "".join(listed.split())


def test_list_shows_all_kinds_and_where_they_come_from() -> None:
    """As a table and as JSON, all kinds or one."""
    text = harness("list").stdout
    assert all(word in text for word in ("lstm", "recall", "grad_reach", "sequence-harness"))
    content = json.loads(harness("list", "models", "--format", "json").stdout)
    assert {item["kind"] for item in content["plugins"]} == {"model"}
    assert content["broken"] == []


def test_a_kind_without_plugins_is_listed_as_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the built-in plugins themselves are broken: the list is what then tells."""
    monkeypatch.setattr(default_registry(), "all", lambda kind: [])
    listed = harness("list")
    assert listed.exit_code == 0
    assert listed.stdout.count("none") == 5


def test_show_explains_a_plugin() -> None:
    """Arguments with types and defaults, needs, stages, source; as JSON too."""
    text = harness("show", "model", "gpt").stdout
    assert "one of learned, sinusoidal, none, rope, alibi" in text
    assert "harness_plugins.models.gpt:GPT" in text
    content = json.loads(harness("show", "probe", "grad_reach", "--format", "json").stdout)
    assert content["stages"] == ["initial", "trained"]
    assert content["arguments"] == [{"name": "examples", "type": "int > 0", "required": False, "default": 64}]


def test_show_a_suite() -> None:
    """What it crosses and claims; as JSON whole, ready to be run."""
    assert "claims" in harness("show", "suite", "recall").stdout
    shown = Suite.model_validate_json(harness("show", "suite", "recall", "--format", "json").stdout)
    assert shown == find_suite("recall")


def test_the_schema_describes_records() -> None:
    """It is JSON Schema, and its descriptions say what each field means."""
    schema: dict[str, Any] = json.loads(harness("schema").stdout)
    assert {"status", "measurements", "provenance"} <= schema["properties"].keys()
    assert schema["$defs"]["Timing"]["properties"]["probe"]["description"]
    assert "claims" in json.loads(harness("schema", "suite").stdout)["properties"]
