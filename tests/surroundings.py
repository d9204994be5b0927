"""What tests must not depend on: the terminal, the locale, the shell, and plugins that happen to be installed."""

import os
import re
import signal
import sys
from importlib import metadata
from pathlib import Path

DECIDED_ELSEWHERE = re.compile(
    r"COLUMNS|LINES|TERM|COLORTERM|(FORCE|NO|PY|CLI)_?COLORS?\w*|TTY_\w+|LANG|LANGUAGE|LC_\w+"
    r"|PYTHON(?!HOME)\w+|VIRTUAL_ENV|PYTEST_(ADDOPTS|PLUGINS|DISABLE_PLUGIN_AUTOLOAD)"
    r"|GIT_(DIR|WORK_TREE|INDEX_FILE|PREFIX)"  # which git sets for its hooks
)
"""Variables of whoever runs the tests."""

SETTLED = {"COLUMNS": "100", "LINES": "24", "TERM": "dumb", "PYTHONUTF8": "1"}


def settle() -> None:
    """The same variables and signals for the tests and their child processes, wherever they run."""
    for name in filter(DECIDED_ELSEWHERE.fullmatch, list(os.environ)):
        del os.environ[name]
    os.environ.update(SETTLED)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as shells start what runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def other_plugins() -> list[str]:
    """Names of the installed distributions that offer plugins, the built-in ones left out."""
    names = {point.dist.name for point in metadata.entry_points(group="harness") if point.dist is not None}
    return sorted(names - {"sequence-harness"})


def hide(distributions: list[str], folder: Path) -> None:
    """Put a folder on the import path in which these distributions offer nothing, here and in child processes.

    The first of two distributions with one name counts, so that what stands further back on the path is not seen.
    """
    for name in distributions:
        info = folder / f"{re.sub(r'[-_.]+', '_', name)}-0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n", encoding="utf-8")
    if distributions:
        sys.path.insert(0, str(folder))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
