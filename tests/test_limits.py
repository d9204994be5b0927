"""What a trial may use: said by a suite, or at the call, which wins."""

import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import SHORT

import harness
from harness.cli import main
from harness.errors import RequestError
from harness.executors import Limits
from harness.executors.choosing import limits_of
from harness.plan import make_plan
from harness.registry import default_registry
from harness.requests import find_suite
from harness.suites import Suite

EXPERIMENT = f'[[experiments]]\nmodels = ["lstm:hidden=4"]\ntasks = ["{SHORT}"]\nprobes = ["accuracy"]\n'


def suite_of(folder: Path, lines: str) -> Path:
    path = folder / "limited.toml"
    path.write_text(f"seeds = 1\n{lines}\n{EXPERIMENT}", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("said", "asked", "found"),
    [
        ("", {}, Limits()),
        ("timeout = 60\nretries = 1\nmemory = 2.5", {}, Limits(60, 1, 2.5)),
        ("timeout = 60\nretries = 1", {"timeout": 5, "retries": 0, "memory": 1}, Limits(5, 0, 1)),
        ("timeout = inf\nmemory = 2", {"memory": math.inf}, Limits()),
        ("", {"timeout": math.inf}, Limits()),
    ],
)
def test_the_call_wins_over_the_suite(tmp_path: Path, said: str, asked: dict[str, Any], found: Limits) -> None:
    """Of each limit for itself; infinity is none."""
    assert limits_of(find_suite(str(suite_of(tmp_path, said))), **asked) == found


@pytest.mark.parametrize("line", ["timeout = 0", "timeout = nan", "retries = -1", "retries = 1.5", "memory = true"])
def test_a_limit_that_makes_no_sense_is_refused(tmp_path: Path, line: str) -> None:
    """In a file, which is named, with the key and what was received; and at the call."""
    key, _, value = line.partition(" = ")
    with pytest.raises(RequestError) as caught:
        find_suite(str(suite_of(tmp_path, line)))
    for part in ("limited.toml", key, f"received {value.capitalize() if value == 'true' else value}"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "asked", [{"timeout": 0}, {"timeout": math.nan}, {"retries": -1}, {"memory": -1}, {"memory": 1e10}]
)
def test_a_limit_of_a_call_that_makes_no_sense_is_refused(tmp_path: Path, asked: dict[str, Any]) -> None:
    """Before anything is written."""
    with pytest.raises(RequestError, match=f"{next(iter(asked))} is a number of"):
        harness.run("lstm", SHORT, out=tmp_path / "run", **asked)
    assert not (tmp_path / "run").exists()


def test_limits_are_part_of_no_id(tmp_path: Path) -> None:
    """With others nothing is measured again."""
    plain, limited = (
        make_plan(find_suite(str(suite_of(tmp_path, lines))), default_registry())
        for lines in ("", "timeout = 60\nretries = 1\nmemory = 2")
    )
    assert [cell.id for cell in plain.cells] == [cell.id for cell in limited.cells]


def test_what_a_suite_says_reaches_the_executor(tmp_path: Path) -> None:
    """One that cannot limit anything refuses the suite; a user can lift the limit."""
    path = str(suite_of(tmp_path, "timeout = 60"))
    words = ["run", path, "--executor", "local", "--dry-run"]
    refused = CliRunner().invoke(main, words)
    assert (refused.exit_code, "cannot limit timeout" in refused.stderr) == (2, True)
    with pytest.raises(RequestError, match="cannot limit timeout"):
        harness.run(suite=path, executor="local", out=tmp_path / "run")
    assert CliRunner().invoke(main, [*words, "--timeout", "inf"]).exit_code == 0


def test_a_run_keeps_its_suite_with_the_limits(tmp_path: Path) -> None:
    """As JSON, which has no infinity."""
    suite = Suite.model_validate({"experiments": [{"models": ["lstm"]}], "timeout": math.inf, "memory": 2})
    assert Suite.model_validate_json(suite.as_json()) == suite
