"""Plugins in files of a test's own, and what is loaded from them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.plugin import Plugin, resolve
from harness.registry import default_registry
from harness.suites import Request
from harness.targets import Definition, find_entry, load_definition

Write = Callable[..., str]


def definition(name: str) -> Definition:
    return load_definition(find_entry(default_registry(), "model", name))


def plugin(name: str) -> Plugin:
    return resolve(definition(name), Request(name=name))


def value(path: str) -> Any:
    return plugin(f"{path}:M").construct().value()


def digest(path: str) -> str:
    return plugin(f"{path}:M").use.digest


@pytest.fixture
def files(tmp_path: Path, plugin_file: Write) -> Write:
    """Write a file, and the folders it is in."""

    def write(source: str, name: str) -> str:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        return plugin_file(source, name)

    return write
