"""Commands as a person types them, in the process of the tests and in a folder of their own."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conftest import SHORT

from harness.cli import main

QUICK = ["--task", SHORT, "--seeds", "1", "--training", "steps=5,batch_size=8", "--examples", "32", "--jobs", "1"]
"""Options of a run that takes no time."""


def harness(*words: str) -> Result:
    """What a command prints, and its exit code; an error that the command does not explain is raised."""
    return CliRunner().invoke(main, words, catch_exceptions=False)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go to `runs/` in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
