"""Fingerprints of classes and functions that are given as they are, as in a notebook: of their text and all it uses."""

import ast
import hashlib
import inspect
import linecache
import symtable
import sys
import textwrap
from contextlib import suppress
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, cast

from harness.contents import Code, Content, cached, owned
from harness.errors import HarnessError, RequestError, describe
from harness.sources import source_digest


def object_digest(code: Code) -> str:
    """Digest of the text of a class or function, of whatever its module has that this text uses (classes, functions,
    values, and modules of the user's own), and of what it has from a function that it was made in. So of a notebook
    those cells count that decide a result.

    Raises:
        RequestError: it uses a value whose content nobody can tell.
    """
    parts = _Parts()
    parts.add_code(code, code.__qualname__)
    found = parts.found
    return hashlib.sha256("\0".join(f"{name}\0{found[name]}" for name in sorted(found)).encode()).hexdigest()[:16]


def text_of(code: Code) -> str:
    """What defines a class or function: the lines of a file or notebook cell that define it, or the function around
    it; "" if they cannot be found."""
    files = {each.__code__.co_filename: None for each in _functions(code)}
    for file in files:
        linecache.checkcache(file)
        if lines := linecache.getlines(file):
            text = "".join(lines)
            for node in reversed(ast.parse(text).body):
                if _defines(node, code):
                    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
                    return "".join(lines[first - 1 : node.end_lineno])
            # Python 3.13 keeps the text of `python -c` under the name that all text without a file has
            return text if code.__name__ in text else ""
    try:
        # without a function there is only the module to ask, and its file may hold something else at that line
        text = "" if files else inspect.getsource(code)
    except (OSError, TypeError):
        return ""
    return text if code.__name__ in text else ""


def _defines(node: ast.stmt, code: Code) -> bool:
    """Whether a statement of a file or notebook cell defines a class or function; of a lambda, whether it holds it."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return node.name == code.__qualname__.partition(".")[0]
    lambda_ = isinstance(code, FunctionType) and code.__qualname__ == "<lambda>"
    line = inspect.unwrap(code).__code__.co_firstlineno if lambda_ else 0
    return node.lineno <= line <= (node.end_lineno or 0)


def _functions(code: Code) -> list[FunctionType]:
    """A function, or those of a class: they know their file and the names of their module."""
    members = vars(code).values() if isinstance(code, type) else [code]
    plain = [inspect.unwrap(getattr(each, "__func__", getattr(each, "fget", each))) for each in members]
    return [each for each in plain if isinstance(each, FunctionType) and each.__module__ == code.__module__]


@dataclass(frozen=True)
class _Parts:
    """What decides what code does."""

    found: dict[str, str] = field(default_factory=dict)
    """By name, text or content."""
    seen: list[Code] = field(default_factory=list)

    def add_code(self, code: Code, key: str) -> None:
        """A class or function, and what it uses."""
        self.seen.append(code)
        while key in self.found:  # an older one has the same name
            key += "'"
        text = self.found[key] = text_of(code)
        functions = _functions(code)
        known = functions[0].__globals__ if functions else getattr(sys.modules.get(code.__module__), "__dict__", {})
        names = _global_names(textwrap.dedent(text)) & known.keys()
        used = {name: known[name] for name in names} | {f"{key}: {k}": v for k, v in _taken(code, text).items()}
        for name in sorted(used.keys() - self.found.keys()):
            self._add(used[name], name, code)
        for wrapper in _wrappers(code):
            self._refer(wrapper, key, code)

    def _add(self, value: Any, name: str, user: Code) -> None:
        with suppress(RecursionError, ValueError):  # it contains itself, or is a number too long to be written
            if _is_plain(value):
                self.found[name] = repr(value)
                return
        value = cached(value) or value
        try:
            content = Content(lambda part: self._refer(part, name, user)).of(value)
        except HarnessError:
            raise
        except Exception as error:
            raise RequestError(
                f"{user.__qualname__!r} uses {name!r}, whose content can be no part of an id, so that a change of it "
                f"would go unnoticed ({describe(error)}); make it in {user.__qualname__!r}, or from an argument of it"
            ) from error
        code = isinstance(value, Code | ModuleType | BuiltinFunctionType)
        if not code or (not isinstance(value, ModuleType) and value.__name__ != name):
            self.found[f"{name}: content"] = content

    def _refer(self, code: Code | ModuleType, name: str, user: Code) -> None:
        """A class or function of the same module counts as the user does; one from a module of their own with it."""
        if isinstance(code, Code) and code.__module__ == user.__module__:
            if not any(code is each for each in self.seen):
                self.add_code(code, code.__qualname__ if code.__qualname__.isidentifier() else f"{name}, code")
            return
        module = code if isinstance(code, ModuleType) else sys.modules.get(code.__module__ or "")
        if module is not None and owned(module):
            self.found[name if name not in self.found else f"{name}: {module.__name__}"] = source_digest(module)


def _wrappers(code: Code) -> list[FunctionType]:
    """The functions that a function is wrapped in, as what they are, not as what `functools.wraps` calls them."""
    wrappers = []
    while isinstance(code, FunctionType) and hasattr(code, "__wrapped__"):
        inside = code.__code__
        bare = FunctionType(inside, code.__globals__, inside.co_name, code.__defaults__, code.__closure__)
        bare.__kwdefaults__ = code.__kwdefaults__
        wrappers.append(bare)
        code = code.__wrapped__
    return wrappers


def _global_names(text: str) -> set[str]:
    """The names in a text that stand for what its module has."""
    names: set[str] = set()
    tables = [symtable.symtable(text, "", "exec")]
    for table in tables:
        tables += table.get_children()
        inside = table.get_type() == "class"  # what a class calls like its module does may be made of that
        names |= {
            each.get_name() for each in table.get_symbols() if each.is_referenced() and (inside or each.is_global())
        }
    return names


def _taken(code: Code, text: str) -> dict[str, Any]:
    """What a class or function has from where it was made, and its text does not say."""
    functions = _functions(code)
    taken: dict[str, Any] = {}
    for each in functions:
        for name, cell in zip(each.__code__.co_freevars, each.__closure__ or (), strict=True):
            with suppress(ValueError):  # it is empty until later
                if cell.cell_contents is not code:  # as for `super`
                    taken[name] = cell.cell_contents
    made = "<locals>" in code.__qualname__
    if made:
        taken |= {f"{each.__name__}()": (each.__defaults__, each.__kwdefaults__) for each in functions}
    if isinstance(code, type) and (made or not text):  # the functions of a dataclass are in no file
        taken |= {k: v for k, v in vars(code).items() if not (k.startswith("__") or hasattr(v, "__get__"))}
        taken["bases"] = code.__bases__
    return taken


def _is_plain(value: object) -> bool:
    if type(value) is dict:
        return all(map(_is_plain, [*value, *value.values()]))
    if type(value) in (tuple, list):
        return all(map(_is_plain, cast("list[object]", value)))
    return value is None or type(value) in (bool, int, float, str, bytes)
