"""Distributions made on the spot, so that the registry can be tested without installing packages."""

import sys
import textwrap
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest


def write_distribution(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, source: str, version: str = "1.0"
) -> None:
    """Put a module on the import path, with the metadata that pip would write for it."""
    (folder / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    name = module.replace("_", "-")
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[harness]\n{name} = {module}\n", encoding="utf-8")
    if str(folder) not in sys.path:
        monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)


def entry_points_in(folder: Path) -> Iterator[metadata.EntryPoint]:
    """The entry points of the distributions in a folder, and of no others."""
    for distribution in metadata.distributions(path=[str(folder)]):
        yield from distribution.entry_points
