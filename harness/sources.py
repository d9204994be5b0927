"""Where code comes from: files that belong to no package; fingerprints, so that what has changed is measured anew."""

import ast
import builtins
import hashlib
import importlib.util
import inspect
import linecache
import sys
import sysconfig
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

STDLIB = sysconfig.get_path("stdlib")
FILE_PREFIX = "harness_file_"
"""Modules that were loaded from a path, not imported by name, have names of ours that begin like this."""


def module_from_file(path: Path) -> ModuleType:
    """The module in a file, with the imports of its neighbours that a script would have, at once or later.

    Every folder is a package under a name of its own, so that files of two folders can each have their `layers.py`.
    """
    package = ModuleType(f"{FILE_PREFIX}{hashlib.sha256(str(path.parent).encode()).hexdigest()[:12]}")
    package.__path__ = [str(path.parent)]
    sys.modules.setdefault(package.__name__, package)
    if not any(isinstance(finder, _Neighbours) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Neighbours())
    name = f"{package.__name__}.{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path, loader=_Loader(name, str(path)))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and pickling look modules up by name
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


class _Neighbours(MetaPathFinder):
    """Finds the modules beside a file that was loaded from a path."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if not fullname.startswith(FILE_PREFIX):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.origin)
        return spec


class _Loader(SourceFileLoader):
    """Gives a module an `import` that knows its neighbours."""

    def exec_module(self, module: ModuleType) -> None:
        package = module.__name__.partition(".")[0]
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": partial(_import, package)}
        super().exec_module(module)


def _import(
    package: str,
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """What `import` and `from ... import` call, with the neighbours first."""
    top = name.partition(".")[0]
    if level or not _is_neighbour(package, top):
        return builtins.__import__(name, globals, locals, fromlist or (), level)
    found = builtins.__import__(f"{package}.{name}", globals, locals, fromlist or (), 0)
    return found if fromlist else sys.modules[f"{package}.{top}"]


@cache
def _is_neighbour(package: str, name: str) -> bool:
    """Whether a name means the module in the folder: not if it is Python's or ours, or found there anyway."""
    if name in sys.stdlib_module_names or name == __package__:
        return False
    beside = PathFinder.find_spec(name, sys.modules[package].__path__)
    if beside is None:
        return False
    try:
        elsewhere = importlib.util.find_spec(name)
    except ValueError:  # a module that was made by hand
        elsewhere = None
    return elsewhere is None or beside.origin not in (None, elsewhere.origin)


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
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level and package:
                base = importlib.util.resolve_name("." * node.level + base, package)
            names.update((base, *(f"{base}.{alias.name}" for alias in node.names)))
    return {name for name in names if name and "*" not in name}


def object_digest(code: type | FunctionType) -> str:
    """Digest of the text of a class or function and of whatever its module has that this text names: classes,
    functions, plain data, and modules of the user's own. So of a notebook those cells count that decide a result."""
    found: dict[str, str] = {}
    _collect_objects(code, found)
    return hashlib.sha256("\0".join(f"{name}\0{found[name]}" for name in sorted(found)).encode()).hexdigest()[:16]


def text_of(code: type | FunctionType) -> str:
    """What defines a class or function: its own lines of a file or notebook cell, or all of them where it is defined
    inside of something else; "" if they cannot be found."""
    for file in {each.__code__.co_filename: None for each in _functions(code)}:
        linecache.checkcache(file)
        if lines := linecache.getlines(file):
            for node in reversed(ast.parse("".join(lines)).body):
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == code.__qualname__:
                    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                    return "".join(lines[first - 1 : node.end_lineno])
            return "".join(lines)
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):
        return ""


def _functions(code: type | FunctionType) -> list[FunctionType]:
    """A function, or those of a class: they know their file and the names of their module."""
    members = vars(code).values() if isinstance(code, type) else [code]
    plain = [inspect.unwrap(getattr(each, "__func__", getattr(each, "fget", each))) for each in members]
    return [each for each in plain if isinstance(each, FunctionType) and each.__module__ == code.__module__]


def _collect_objects(code: type | FunctionType, found: dict[str, str]) -> None:
    text = found[code.__qualname__] = text_of(code)
    known = next((each.__globals__ for each in _functions(code)), vars(sys.modules[code.__module__]))
    names = {node.id for node in ast.walk(ast.parse(textwrap.dedent(text))) if isinstance(node, ast.Name)}
    for name in sorted(names & known.keys() - found.keys()):
        value = known[name]
        module = value if isinstance(value, ModuleType) else sys.modules.get(getattr(value, "__module__", None) or "")
        if isinstance(value, int | float | str | bytes | tuple | list | dict | None):
            found[name] = repr(value)
        elif isinstance(value, type | FunctionType) and value.__module__ == code.__module__:
            _collect_objects(value, found)
        elif module is not None and _own(module):
            found[name] = source_digest(module)


def _own(module: ModuleType) -> bool:
    """Whether a module is the user's: not Python's, not ours, not installed."""
    file = getattr(module, "__file__", None) or ""
    ours = module.__name__.partition(".")[0] == __package__
    return file.endswith(".py") and not ours and "-packages" not in file and not file.startswith(STDLIB)


def file_digest(path: Path) -> str:
    """Digest of a file's content. Large files are read once in a process, unless they change."""
    status = path.stat()
    return _file_digest(path.resolve(), status.st_mtime_ns, status.st_size)


@cache
def _file_digest(path: Path, modified: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
