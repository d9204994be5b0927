"""What commands print of plugins, files and records: no terminal obeys it, and every encoding can hold it."""

import json
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pluggy
import pytest
from click.testing import CliRunner
from record_factory import record

from harness import ModelSpec, hookimpl, hookspecs
from harness.blame import blame
from harness.cli import main
from harness.cli.common import say
from harness.measurements import Scalar
from harness.registry import Broken, Entry, Origin, Registry, default_registry
from harness.schema import Record
from harness.store import RunDirectory

BAD = "x\x1b[31m\u202e"
SEEN = r"x\x1b[31m\u202e"


def run_of(folder: Path, *records: Record) -> str:
    """A run directory with these records."""
    store = RunDirectory(folder)
    store.create()
    for each in records:
        store.write_record(each)
    return str(folder)


def of_label(label: str) -> Record:
    """A record of a model of that label."""
    made = record(Scalar(name="score", unit="", value=0.5, headline=True)).model_copy(update={"id": "a"})
    return made.model_copy(update={"model": made.model.model_copy(update={"label": label})})


def test_nothing_fails_since_nobody_reads_what_it_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind `2>&1 | head -1`, or where the log's disk is full, a run goes on, and so do plugins that print."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", buffering=1, encoding="utf-8") as broken:
        monkeypatch.setattr("sys.stderr", broken)
        with pytest.raises(BrokenPipeError):
            broken.write("nobody\n")
        with blame(record().model, "printing"):
            sys.stdout.write("some words\n")
            sys.stdout.flush()
        say("a line", error=True)
        with pytest.raises(BrokenPipeError), redirect_stdout(broken):
            say("a result")
        with suppress(BrokenPipeError):  # what is left in the buffer
            broken.close()


@pytest.fixture
def offering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes this process's registry have one more model and one more broken plugin."""

    def offer() -> None:
        registry = default_registry()
        entries = {kind: {**found} for kind, found in registry.entries.items()}
        origin = Origin("acme", "acme", BAD)
        entries["model"]["acme"] = [Entry(ModelSpec("acme", "harness_plugins.models.lstm:LSTM", BAD), origin)]
        monkeypatch.setattr(registry, "entries", entries)
        monkeypatch.setattr(registry, "broken", [Broken(origin, BAD)])

    return offer


@pytest.mark.parametrize("words", [["list"], ["show", "model", "acme"], ["check", BAD], ["show", "model", BAD], [BAD]])
def test_commands_print_no_control_characters(words: list[str], offering: Callable[..., None]) -> None:
    """Summaries, versions, reasons, names that were asked for; in results and in errors."""
    offering()
    result = CliRunner().invoke(main, words)
    assert not set(result.output) & set("\x1b\u202e")
    assert "x1b" in result.output


def test_json_of_commands_is_exact(offering: Callable[..., None]) -> None:
    """What is for programs is escaped by JSON alone."""
    offering()
    found = json.loads(CliRunner().invoke(main, ["list", "--format", "json"]).stdout)
    assert [each["summary"] for each in found["plugins"] if each["name"] == "acme"] == [BAD]


@pytest.mark.parametrize("charset", ["utf-8", "latin-1", "cp1252", "ascii"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_any_encoding_can_hold_a_report(charset: str, form: str, tmp_path: Path) -> None:
    """What it lacks is an escape, and JSON is still JSON that says the same."""
    label = "模型 é 🙂"
    run = run_of(tmp_path / "run", of_label(label))
    result = CliRunner(charset=charset).invoke(main, ["report", run, "--format", form], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout
    if form == "json":
        text = result.stdout_bytes.decode("utf-8" if charset == "ascii" else charset)  # click writes UTF-8 as "ASCII"
        assert json.loads(text)[0]["model"]["label"] == label


def test_a_report_names_the_plugin_whose_section_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the place of the section; everything else is shown."""

    class Bad:
        @hookimpl
        def harness_report_sections(self, records: Any) -> Any:
            yield "first", "one"
            raise RuntimeError("boom\x1b")

    class Junk:
        @hookimpl
        def harness_report_sections(self, records: Any) -> Any:
            return "no list"

    registry = Registry(pluggy.PluginManager(hookspecs.PROJECT))
    registry.manager.add_hookspecs(hookspecs)
    registry.manager.register(Bad(), name="acme-bad:x")
    registry.manager.register(Junk(), name="acme-junk:x")
    monkeypatch.setattr("harness.registry.default_registry", lambda: registry)
    result = CliRunner().invoke(main, ["report", run_of(tmp_path / "run", of_label("lstm"))], catch_exceptions=False)
    shown = " ".join(result.stdout.split())
    assert result.exit_code == 0
    assert (
        r"this section could not be drawn: acme-bad:x: harness_report_sections raised RuntimeError: boom\x1b" in shown
    )
    assert "received 'no list'" in shown
    assert "first" in shown
    assert "0.500" in shown
