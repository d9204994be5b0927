"""Code in files that belong to no package: the folder of such a file becomes a package of its own.

`import layers` in `one/gru.py` is compiled as `from harness_file_<one> import layers`, to run at once or later. The
rest is Python's own: modules have names, so that pickling and `isinstance` work, and files of two folders can each have
their `layers.py`, so that two versions of a model can be compared in one run. (With the folder on Python's path nothing
would be rewritten, and such a comparison refused.) Only names that are written out are found; a digest can know of no
others.
"""

import ast
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Literal

FILE_PREFIX = "harness_file_"
"""Modules that were loaded from a path, not imported by name, have names of ours that begin like this."""


def is_file(path: str) -> bool:
    """Whether there is a file; no text is too long or too strange to ask, as it is for a `Path`."""
    return os.path.isfile(path)  # noqa: PTH113


class Texts:
    """Python files as they were when they were first read, so that what runs is what is digested, whatever is edited
    meanwhile."""

    def __init__(self) -> None:
        self.known: dict[Path, bytes | None] = {}
        """None where there was no such file."""

    def __call__(self, path: Path) -> bytes | None:
        if path not in self.known:
            self.known[path] = _read(path)
        return self.known[path]

    def edited(self) -> list[Path]:
        """The files that are not what they were."""
        return [path for path, text in self.known.items() if _read(path) != text]


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.suffix == ".py" and path.is_file() else None


class Folder:
    """A folder whose files belong to no package, as a package, with the texts of its files as they were read."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.texts = Texts()
        self.beside = cache(self._beside)
        package = ModuleType(f"{FILE_PREFIX}{hashlib.sha256(str(home).encode()).hexdigest()[:12]}")
        package.__path__ = [str(home)]
        self.package = package.__name__
        sys.modules[self.package] = package
        importlib.invalidate_caches()  # Python's list of the folder may be older than its files

    def _beside(self, name: str) -> Literal["own", "shared", ""]:
        """Whether there is a module of that name in the folder: "own" if the name means it; "shared" if it is a package
        that Python finds anyway, whose classes others may have imported; not if the name is Python's or ours."""
        beside = PathFinder.find_spec(name, [str(self.home)])
        if beside is None or name in sys.stdlib_module_names or name == __package__:
            return ""
        if beside.submodule_search_locations is None:
            return "own"
        try:
            elsewhere = importlib.util.find_spec(name)
        except ValueError:  # a module that was made by hand
            elsewhere = None
        if elsewhere is None or beside.origin not in (None, elsewhere.origin):
            return "own"
        return "shared"

    def owns(self, name: str) -> bool:
        """Whether a name without dots means a module of the folder."""
        return self.beside(name) == "own"

    def shares(self, name: str) -> bool:
        """Whether it means a package in the folder that is imported under its own name."""
        return self.beside(name) == "shared"

    def forget(self) -> None:
        """Whoever imports the folder's modules from now on loads them anew."""
        for name in [*sys.modules]:
            if name == self.package or name.startswith(f"{self.package}."):
                del sys.modules[name]


_folders: dict[str, Folder] = {}
"""By the names of their packages."""


def folder_of(module: str) -> Folder | None:
    """The folder of a module that was loaded from a path."""
    return _folders.get(module.partition(".")[0])


def forget_edited() -> None:
    """Forget every folder of which a file has changed since it was read, all of it: its modules know one another."""
    for package, folder in [*_folders.items()]:
        if folder.texts.edited():
            folder.forget()
            del _folders[package]


def module_from_file(path: Path) -> ModuleType:
    """The module in a file, with the imports of its neighbours that a script would have, at once or later."""
    folder = next((each for each in _folders.values() if each.home == path.parent), None)
    if folder is None:
        folder = Folder(path.parent)
        _folders[folder.package] = folder
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    name = f"{folder.package}.{path.stem.replace('.', '_')}"
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


class _Finder(MetaPathFinder):
    """Finds the modules of our packages, and has them compiled by us."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if not fullname.startswith(FILE_PREFIX):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.origin)
        return spec


class _Loader(SourceFileLoader):
    """Compiles a file as it was first read, with imports of its neighbours from our package."""

    def get_code(self, fullname: str) -> CodeType:
        folder = _folders[fullname.partition(".")[0]]
        tree = _Imports(folder).visit(ast.parse(folder.texts(Path(self.path)) or b"", self.path))
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


class _Imports(ast.NodeTransformer):
    """Lets modules import their neighbours from the package that the folder is."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def _within(self, name: str) -> str:
        return f"{self.folder.package}.{name}" if self.folder.owns(name.partition(".")[0]) else name

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        return [ast.copy_location(new, node) for alias in node.names for new in self._import(alias)]

    def _import(self, alias: ast.alias) -> Iterator[ast.stmt]:
        """`import a.b` gives the name `a`, and `import a.b as c` what is in `a.b`."""
        top, _, inner = alias.name.partition(".")
        name = self._within(alias.name)
        if name == alias.name or inner:
            yield ast.Import([ast.alias(name, alias.asname)])
        if name != alias.name and not (inner and alias.asname):
            yield ast.ImportFrom(self.folder.package, [ast.alias(top, alias.asname)], 0)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.module and not node.level:
            node.module = self._within(node.module)
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if name := imported_by(node):
            node.args[0] = ast.copy_location(ast.Constant(self._within(name)), node.args[0])
        return node


def imported_by(call: ast.Call) -> str:
    """The name in `importlib.import_module("name")`, if it is written out and not relative; "" for other calls."""
    called = getattr(call.func, "attr", getattr(call.func, "id", ""))
    name = getattr(call.args[0], "value", None) if called == "import_module" and call.args else None
    return name if isinstance(name, str) and not name.startswith(".") else ""
