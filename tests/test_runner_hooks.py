"""Hooks hear of trials and records; one that fails or leaves something changed costs a warning and no number."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import run, statuses

import harness
from harness.blame import Aside
from harness.registry import default_registry
from harness.schema import Record


@contextmanager
def listening(plugin: object) -> Iterator[None]:
    """A plugin is registered meanwhile."""
    manager = default_registry().manager
    manager.register(plugin)
    try:
        yield
    finally:
        manager.unregister(plugin)


def test_events_reach_plugins(tmp_path: Path) -> None:
    """A tracking service can be a plugin: it hears of trials, and of records that are on disk."""
    heard: list[str] = []

    class Logger:
        @harness.hookimpl
        def harness_trial_started(self, trial: Any) -> None:
            heard.append(f"trial {trial.seed}")

        @harness.hookimpl
        def harness_record_written(self, record: Record) -> None:
            assert (tmp_path / "records" / f"{record.id}.json").exists()
            heard.append(record.status)

    with listening(Logger()):
        run(["lstm:hidden=8"], tmp_path)
    assert heard == ["trial 0", "ok"]


def test_a_progress_bar_gives_way_to_what_plugins_print(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal its line is erased first, once for each line that is printed; elsewhere nothing is added."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, erase in ((Terminal(), "\r\x1b[K"), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stream)
        aside: Any = Aside()
        print("loss", 0.5, file=aside)
        print("done", file=aside, flush=True)
        assert stream.getvalue() == f"{erase}loss 0.5\n{erase}done\n"


def test_a_listener_that_fails_is_only_warned_about(tmp_path: Path) -> None:
    """A tracking service that is down costs no measurement."""

    class Down:
        @harness.hookimpl
        def harness_trial_started(self, trial: Any) -> None:
            raise ConnectionError("no route")

        @harness.hookimpl
        def harness_record_written(self, record: Record) -> None:
            raise ConnectionError("no route")

    with listening(Down()), pytest.warns(UserWarning, match="ConnectionError: no route"):
        results = run(["lstm:hidden=8"], tmp_path)
    assert statuses(results) == ["ok"]


def test_a_listener_that_leaves_something_changed_is_only_warned_about(tmp_path: Path) -> None:
    """Neither settings, nor what it does to the trial and the record that it is shown, reach a result."""

    class Careless:
        @harness.hookimpl
        def harness_trial_started(self, trial: Any) -> None:
            torch.set_default_dtype(torch.float64)
            torch.nn.LSTM.forward = lambda self, x: x  # type: ignore[assignment]
            trial.model.arguments["hidden"] = trial.__dict__["seed"] = 7

        @harness.hookimpl
        def harness_record_written(self, record: Record) -> None:
            record.__dict__["measurements"] = []

    (alone,) = run(["lstm:hidden=8"], tmp_path / "alone")
    with listening(Careless()), pytest.warns(UserWarning, match="default dtype"):
        (record,) = run(["lstm:hidden=8"], tmp_path / "run")
    assert (record.id, record.error, record.measurements) == (alone.id, None, alone.measurements)
