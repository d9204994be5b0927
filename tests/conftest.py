"""Shared by all tests: the same surroundings everywhere, small settings that keep trained results fast, and plugins
written on the spot."""

import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import runtime_checks
import torch
from hypothesis import settings
from surroundings import hide, other_plugins, settle

SMALL = {"steps": 20, "batch_size": 16, "validate_every": 10}
"""Training that proves the machinery, not the model."""

FIRST_SEED = torch.initial_seed()
"""Of torch in a new process."""

SHORT = "recall:train_max=5,distances=[1,5,10]"


@pytest.hookimpl(trylast=True)  # after pytest has seen how its own output is wanted
def pytest_configure(config: pytest.Config) -> None:
    """Tests see the built-in plugins alone. Types and shapes are checked in every call while tests run, but not while
    costs are measured."""
    settle()
    settings.register_profile("any machine", deadline=None, derandomize=True)
    if not config.getoption("--hypothesis-profile"):  # `default` looks for other examples each time
        settings.load_profile("any machine")
    folder = tempfile.TemporaryDirectory()
    config.add_cleanup(folder.cleanup)
    hide(other_plugins(), Path(folder.name))
    if not config.getoption("benchmark_only"):
        runtime_checks.install()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What a test draws without a word of seeds is what it draws alone, whatever tests came before it."""
    torch.manual_seed(FIRST_SEED)


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that do not say where are made in the process of the tests: at once, with checked types, and where what a
    test replaces is replaced. Whoever tests processes asks for them; commands that a test starts have the default."""
    monkeypatch.setattr("harness.executors.choosing.DEFAULT_EXECUTOR", "local")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Small models are fastest, and exactly repeatable, with one thread."""
    torch.set_num_threads(1)


@pytest.fixture
def timed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are timed in the process of the test: a new one imports torch for seconds."""
    from harness.timing import measure

    for probe in ("speed", "ledger"):
        monkeypatch.setattr(f"harness_plugins.probes.{probe}.run_order", measure)


@pytest.fixture
def plugin_file(tmp_path: Path) -> Callable[..., str]:
    """Write a plugin without a package; returns its path, ready for `f"{path}:Name"`."""

    def write(source: str, name: str = "plugin.py") -> str:
        path = tmp_path / name
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return str(path)

    return write
