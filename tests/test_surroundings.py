"""The suite and the harness do the same on every machine: whatever its terminal, locale and installed plugins."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from entry_points import write_distribution
from surroundings import SETTLED, hide, other_plugins, settle

from harness.registry import build_registry

ROOT = Path(__file__).parent.parent
SOURCES = [
    path
    for folder in ("harness", "plugins", "tests", "benchmarks", "examples")
    for pattern in ("*.py", "*.py.txt")
    for path in (ROOT / folder).rglob(pattern)
]


def without_encoding(source: str) -> Iterator[str]:
    """Calls that read or write text in the encoding of the locale."""
    for node in ast.walk(ast.parse(re.sub(r"\{\{(\w+)\}\}", r"\1", source))):
        if not isinstance(node, ast.Call):
            continue
        named = {keyword.arg for keyword in node.keywords}
        modes = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
        binary = any(re.fullmatch(r"[rwxa+]*b[rwxa+]*", mode) for mode in modes if isinstance(mode, str))
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        of_path = function in ("read_text", "write_text") and isinstance(node.func, ast.Attribute)
        bytes_only = ast.unparse(node.func) in ("os.open", "tarfile.open")
        opens = function in ("open", "fdopen", "NamedTemporaryFile") and not binary and not bytes_only
        pipes = bool({"text", "universal_newlines"} & named) and function in ("run", "Popen", "check_output")
        if (of_path or opens or pipes) and not {"encoding", None} & named:
            yield f"{node.lineno}: {ast.unparse(node)}"


def test_text_is_utf_8_whatever_the_locale() -> None:
    """Every file and pipe says so: a page with a dash is read on a machine whose locale is C, too."""
    assert len(SOURCES) > 100
    found = [f"{path}:{call}" for path in SOURCES for call in without_encoding(path.read_text(encoding="utf-8"))]
    assert not found, "add encoding='utf-8' (or open binary):\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ("path.read_text()", True),
        ("path.write_text('b')", True),
        ("open(path)", True),
        ("path.open('w')", True),
        ("subprocess.run(command, text=True)", True),
        ("path.read_text(encoding='utf-8')", False),
        ("open(path, 'rb')", False),
        ("path.open('rb+')", False),
        ("subprocess.run(command, encoding='utf-8')", False),
        ("subprocess.run(command)", False),
    ],
)
def test_text_of_the_locale_is_found(call: str, wrong: bool) -> None:
    """The check can fail."""
    assert bool(list(without_encoding(call))) == wrong


def test_variables_and_signals_are_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a terminal, a shell or a hook of git sets is gone, and what tests need stays."""
    strange = ["FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "LC_ALL", "LANG", "PYTHONPATH", "GIT_DIR"]
    for name in (*strange, *SETTLED, "KEPT"):
        monkeypatch.setenv(name, "1")
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        settle()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
    assert not set(strange) & os.environ.keys()
    assert os.environ.items() >= {**SETTLED, "KEPT": "1"}.items()


def test_installed_plugins_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the tests and from their child processes: a broken one beside the built-in ones changes nothing."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    installed = tmp_path / "installed"
    installed.mkdir()
    write_distribution(installed, monkeypatch, "acme_broken", "raise OSError")
    monkeypatch.setenv("PYTHONPATH", str(installed), prepend=os.pathsep)
    listing = [sys.executable, "-c", "from harness.cli import main; main(['list', '--format', 'json'])"]

    def broken() -> list[int]:
        listed = json.loads(subprocess.run(listing, capture_output=True, check=True).stdout)
        return [len(build_registry().broken), len(listed["broken"])]

    assert other_plugins() == ["acme-broken"]
    assert broken() == [1, 1]
    hide(other_plugins(), tmp_path / "hidden")
    assert other_plugins() == []
    assert broken() == [0, 0]
