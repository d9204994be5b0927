"""Fingerprints of code, so that what has changed is measured anew, and what has not is not."""

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import RequestError
from harness.files import sha256
from harness.folders import Folder, Texts, folder_of, forget_edited, imported_by


@dataclass(eq=False)
class _Place:
    """Where modules that belong together are: a package, or a folder of files that belong to none."""

    top: str
    """The package's name; "" for a folder."""
    home: Path
    texts: Texts = field(default_factory=Texts)
    folder: Folder | None = None
    specs: dict[Path, ModuleSpec] = field(default_factory=dict)
    """Of a package's modules as they were imported when they were read. Another import of them has another."""
    edited: Path | None = None
    """A file that is not what was imported."""


_packages: dict[str, _Place] = {}
"""By name: packages are read once in a process, as they are imported once."""

_digests: dict[str, tuple[str, list[_Place]]] = {}
"""By module, with the packages that have a part in it."""


def read_anew() -> None:
    """From now on code is what it is now: edited files of no package are loaded again when somebody asks for them.

    For the beginning of a run, during which its code stays what it is. A package is read again only if it was imported
    again (by `importlib.reload` or IPython's autoreload), since others may hold what it was.
    """
    forget_edited()
    _digests.clear()
    for name, place in [*_packages.items()]:
        edited = place.texts.edited()
        specs = _specs(name) if edited else {}
        held = [path for path in edited if path in specs and specs[path] is place.specs.get(path, specs[path])]
        place.edited = held[0] if held else None
        if edited and not held:
            del _packages[name]


def _specs(package: str) -> dict[Path, ModuleSpec]:
    """Of the package's imported modules, by file."""
    own = [module for name, module in [*sys.modules.items()] if name.partition(".")[0] == package]
    specs = [getattr(module, "__spec__", None) for module in own]
    return {Path(spec.origin): spec for spec in specs if isinstance(spec, ModuleSpec) and spec.origin}


def source_digest(module: ModuleType) -> str:
    """Digest of a module's source and of every module of its own package (or folder, for a file) that it imports,
    directly or not, at once or later.

    Raises:
        RequestError: a part of it was edited since this process imported it, so that nobody knows what runs.
    """
    name = module.__name__
    if name not in _digests:
        _digests[name] = _source_digest(name, Path(getattr(module, "__file__", None) or ""))
    digest, places = _digests[name]
    if edited := next((place.edited for place in places if place.edited), None):
        raise RequestError(
            f"{str(edited)!r} has changed since it was imported; start Python again (in a notebook, restart the "
            "kernel) to measure what it is now"
        )
    return digest


def source_texts(module: ModuleType) -> dict[str, bytes]:
    """The files that `source_digest` is taken of, as they were read: by their package's name and their place in it, and
    by `/` and their place for files of a folder."""
    return {key: text for key, (_, text) in _found(module).items()}


def source_files(module: ModuleType) -> list[Path]:
    """The paths of these files, sorted by those names: in the same order in every process and on every machine."""
    return [path for _, (path, _) in sorted(_found(module).items())]


def _found(module: ModuleType) -> dict[str, tuple[Path, bytes]]:
    return _source_texts(module.__name__, Path(getattr(module, "__file__", None) or ""))[0]


def _source_digest(name: str, path: Path) -> tuple[str, list[_Place]]:
    found, places = _source_texts(name, path)
    digest = hashlib.sha256()
    for key in sorted(found):
        digest.update(key.encode() + b"\0" + found[key][1] + b"\0")
    return digest.hexdigest()[:16], places


def _source_texts(name: str, path: Path) -> tuple[dict[str, tuple[Path, bytes]], list[_Place]]:
    top = name.partition(".")[0]
    found: dict[str, tuple[Path, bytes]] = {}
    places: list[_Place] = []
    if folder := folder_of(name):
        _collect(_Place("", folder.home, folder.texts, folder), path, "", found, places)
    elif path.suffix == ".py":
        _collect(_package(top, path), path, name, found, places)
    else:
        found[path.name] = path, path.read_bytes() if path.is_file() else b""
    return found, places


def _package(name: str, path: Path) -> _Place:
    """The package of that name, or the module of that name in a file that is in no package."""
    if name not in _packages:
        homes = getattr(sys.modules.get(name), "__path__", [path.parent])
        _packages[name] = _Place(name, Path(homes[0]))
    return _packages[name]


def _collect(place: _Place, path: Path, name: str, found: dict[str, tuple[Path, bytes]], places: list[_Place]) -> None:
    """Read a module and, from its place, what it imports; nothing is executed to find out."""
    inner = path.relative_to(place.home).as_posix() if path.is_relative_to(place.home) else path.name
    key = f"{place.top}/{inner}"
    text = place.texts(path)
    if text is None or key in found:
        return
    found[key] = path, text
    if place.top:
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if isinstance(spec, ModuleSpec) and spec.origin == str(path):
            place.specs.setdefault(path, spec)
        if place not in places:
            places.append(place)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    names = _imports(text, package)
    for imported in names if place.folder is None else _with_packages(names):
        for where, file in _files(place, imported):
            _collect(where, file, imported, found, places)


def _with_packages(names: Iterable[str]) -> set[str]:
    """The modules, and the packages they are in, which Python imports before them. Not of a package's own modules: it
    is imported for each of them, and what it holds of other plugins must not decide their ids."""
    parts = [name.split(".") for name in names]
    return {".".join(each[:n]) for each in parts for n in range(1, len(each) + 1)}


def _files(place: _Place, imported: str) -> Iterator[tuple[_Place, Path]]:
    """The files in which a module of that name would be, if it belongs to the place, or to a package that a folder
    shares."""
    top, *inner = imported.split(".")  # of a relative import in a folder the first is ""
    folder = place.folder
    if folder is None and top != place.top:
        return
    if folder is not None:
        if folder.shares(top):
            place = _package(top, place.home / top / "__init__.py")
        elif not top or folder.owns(top):
            inner = [top, *inner]
        else:
            place.texts(place.home / f"{top}.py")  # which may be there when the texts are read anew
            return
    for file in (place.home.joinpath(*inner).with_suffix(".py"), place.home.joinpath(*inner, "__init__.py")):
        yield place, file


@lru_cache(maxsize=1024)
def _imports(source: bytes, package: str) -> frozenset[str]:
    names: set[str] = set()
    tree = ast.parse(source)
    for node in ast.walk(tree) if b"import_module" in source else _statements(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level and package:  # of a file's folder, which is a package without a name, the parts are fewer
                around = package.split(".")[: max(0, package.count(".") + 2 - node.level)]
                base = ".".join((*around, base)) if base else ".".join(around)
            names.update((base, *(f"{base}.{alias.name}" for alias in node.names)))
        elif isinstance(node, ast.Call):
            names.add(imported_by(node))
    return frozenset(name for name in names if name and "*" not in name)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All of them, within one another; a tenth of all nodes that there are."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, part, ()):
            yield each
            yield from _statements(each)


def code_digest(files: Iterable[Path]) -> str:
    """Digest of what files do, whatever they say: layout, comments, docstrings and what errors are raised with count
    for nothing, and everything else does. The same for every version of Python that reads them."""
    words: list[str] = []
    for file in files:
        _spell(ast.parse(file.read_bytes()), words)
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def _spell(node: object, words: list[str]) -> None:
    """A syntax tree as words, one after the other. Versions of Python differ in the empty fields that a node has."""
    if isinstance(node, list):
        words.append("[")
        for each in node:
            if not _is_text(each):
                _spell(each, words)
        words.append("]")
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        words.append("Raise")
        _spell(node.exc.func, words)
    elif isinstance(node, ast.AST):
        words += (type(node).__name__, "(")
        for name in node._fields:
            value = getattr(node, name, None)
            if value is not None and value != []:
                words.append(name)
                _spell(value, words)
        words.append(")")
    else:
        words.append(repr(node))


def _is_text(node: object) -> bool:
    """Whether it is a string that is a statement: a docstring."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def file_digest(path: Path) -> str:
    """Digest of a file's content. Large files are read once in a process, unless they change."""
    status = path.stat()
    return _file_digest(path.resolve(), status.st_mtime_ns, status.st_size)


@cache
def _file_digest(path: Path, modified: int, size: int) -> str:
    return sha256(path)[:16]


def canonical(value: Any) -> str:
    """JSON that is equal exactly when the value is."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def content_hash(text: str) -> str:
    """Sixteen hexadecimal digits that stand for the text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
