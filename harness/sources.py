"""Fingerprints of code and of files, so that a changed plugin is measured anew and never served stale."""

import ast
import hashlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

FILE_PREFIX = "harness_file_"
"""Modules that were loaded from a path, not imported by name, have names of ours that begin like this."""


def source_digest(module: ModuleType) -> str:
    """Digest of a module's source and of every module of its own package (or folder, for a file) that it imports,
    directly or not, at once or later. Cached for the life of the process, since the imported code does not change."""
    return _source_digest(module.__name__)


@cache
def _source_digest(name: str) -> str:
    found: dict[str, bytes] = {}
    path = Path(getattr(sys.modules[name], "__file__", None) or "")
    top = name.partition(".")[0]
    if name.startswith(FILE_PREFIX):
        _collect("", path.parent, path, "", found)
    elif hasattr(sys.modules[top], "__path__"):
        _collect(top, Path(sys.modules[top].__path__[0]), path, name, found)
    else:
        found[path.name] = path.read_bytes() if path.is_file() else b""
    digest = hashlib.sha256()
    for key in sorted(found):
        digest.update(key.encode() + b"\0" + found[key] + b"\0")
    return digest.hexdigest()[:16]


def _collect(top: str, home: Path, path: Path, name: str, found: dict[str, bytes]) -> None:
    """Read a module and, from `home`, what it imports; nothing is executed to find out."""
    key = path.relative_to(home).as_posix() if path.is_relative_to(home) else path.name
    if key in found or path.suffix != ".py" or not path.is_file():
        return
    found[key] = path.read_bytes()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for imported in _imports(found[key], package):
        if not top or imported == top or imported.startswith(f"{top}."):
            parts = imported.split(".")[1 if top else 0 :]
            for candidate in (home.joinpath(*parts).with_suffix(".py"), home.joinpath(*parts, "__init__.py")):
                _collect(top, home, candidate, imported, found)


def _imports(source: bytes, package: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or package):
            base = node.module or ""
            if node.level:
                base = importlib.util.resolve_name("." * node.level + base, package) if package else base
            names.update((base, *(f"{base}.{alias.name}" for alias in node.names)))
    return {name for name in names if name and "*" not in name}


def file_digest(path: Path) -> str:
    """Digest of a file's content. Large files are read once in a process, unless they change."""
    status = path.stat()
    return _file_digest(path.resolve(), status.st_mtime_ns, status.st_size)


@cache
def _file_digest(path: Path, modified: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
