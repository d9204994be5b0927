"""Shared by the tests of faults: a run without any, and what was counted, as tables at the end."""

from collections.abc import Callable
from functools import cache

import pytest
from tabulate import tabulate

from faults.runs import Clean, innocent

Row = dict[str, str | int]

TABLES = pytest.StashKey[dict[str, list[Row]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TABLES] = {}


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Clean]:
    """Of so many seeds, a run in which nothing happens."""
    return cache(lambda seeds: innocent(tmp_path_factory.mktemp("clean"), seeds))


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Callable[[str, Row], None]:
    """Put a row into a table, by its title."""
    tables = request.config.stash[TABLES]
    return lambda title, row: tables.setdefault(title, []).append(row)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What a maintainer can show."""
    for title, rows in config.stash[TABLES].items():
        terminalreporter.section(title)
        sums = {name: sum(int(row[name]) for row in rows) for name in rows[0] if name not in ("kind", "jobs")}
        terminalreporter.write_line(tabulate([*rows, {"kind": "all", **sums}], headers="keys"))
