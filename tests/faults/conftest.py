"""Shared by the tests of faults: what was counted, as tables at the end."""

from collections.abc import Callable

import pytest
from tabulate import tabulate

Row = dict[str, str | int]

TABLES = pytest.StashKey[dict[str, list[Row]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TABLES] = {}


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Callable[[str, Row], None]:
    """Put a row into a table, by its title."""
    tables = request.config.stash[TABLES]
    return lambda title, row: tables.setdefault(title, []).append(row)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What a maintainer can show."""
    for title, rows in config.stash[TABLES].items():
        terminalreporter.section(title)
        terminalreporter.write_line(tabulate(rows, headers="keys"))
