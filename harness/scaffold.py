"""`harness new`: a small plugin package from templates (`harness/templates/KIND`), ready to install and to edit."""

import ast
import keyword
import re
import shlex
import shutil
import sys
from contextlib import suppress
from importlib import metadata, resources, util
from importlib.resources.abc import Traversable
from pathlib import Path

from harness.errors import RequestError
from harness.registry import Registry
from harness.specs import CONTRACT_VERSION

NAME = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?")
LONGEST_NAME = 60
"""Characters of a name: it becomes part of file names."""

TEMPLATE = ".txt"
"""What template files have at the end of their names, so that no tool takes them for code."""


def write_package(kind: str, name: str, into: Path, registry: Registry) -> Path:
    """Write the package, and return its folder.

    Args:
        kind: `model`, `task` or `probe`.
        name: of the distribution and of the plugin; the import name has `_` for `-`.
        into: the folder to write it into.
        registry: what names are taken.

    Raises:
        RequestError: the name cannot be used, or the folder is there already; nothing has been written.
    """
    package = check_name(name)
    words = {
        "name": name,
        "package": package,
        "title": "".join(word.capitalize() for word in package.split("_") if word),
        "contract": str(CONTRACT_VERSION),
    }
    files = dict(_files(resources.files("harness") / "templates" / kind, Path()))
    _check_free(kind, words, files, registry)
    folder = into / name
    try:
        into.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
    except FileExistsError:
        what = folder if into.is_dir() else into
        raise RequestError(f"{str(what)!r} exists already and stays as it is; choose another name or --into") from None
    except OSError as error:
        raise RequestError(f"cannot write into {str(into)!r}: {error.strerror}; choose another with --into") from None
    try:
        for place, text in files.items():
            path = folder / _filled(str(place).removesuffix(TEMPLATE), words)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_filled(text, words), encoding="utf-8")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise RequestError(f"cannot write into {str(folder)!r}: {error.strerror}; choose another with --into") from None
    return folder


def check_name(name: str) -> str:
    """The import name that goes with a name.

    Raises:
        RequestError: it is no name of a distribution and of a module.
    """
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise RequestError(
            f"the name {name!r:.80} cannot be used: lower-case letters and digits, with - or _ between them, "
            f"{LONGEST_NAME} at most; for example acme-gru"
        )
    package = re.sub(r"[-_]+", "_", name)
    if not package.isidentifier() or keyword.iskeyword(package):
        raise RequestError(f"{name!r} gives the import name {package!r}, which Python does not allow; try acme-{name}")
    return package


def _check_free(kind: str, words: dict[str, str], files: dict[Path, str], registry: Registry) -> None:
    """Refuse a name that is taken: by a plugin, by something installed, or in the template itself."""
    name, package = words["name"], words["package"]
    if found := registry.entries[kind].get(name):
        owner = f"from {found[0].origin.distribution} {found[0].origin.version}"
        raise RequestError(f"there is a {kind} {name!r} already, {owner}; choose another name, for example acme-{name}")
    if package in sys.stdlib_module_names or util.find_spec(package) is not None:
        raise RequestError(
            f"the name {name!r} gives the import name {package!r}, which another installed package has; try acme-{name}"
        )
    with suppress(metadata.PackageNotFoundError):
        version = metadata.version(name)
        raise RequestError(f"{name} {version} is installed, and pip would replace it; try acme-{name}")
    code = _filled(next(text for place, text in files.items() if place.name == f"{kind}.py{TEMPLATE}"), words)
    own = package if kind == "probe" else words["title"]
    if keyword.iskeyword(own) or own in _names(code) or package in ("test", "tests"):
        raise RequestError(f"{name!r} gives the name {own!r}, which means something else there; try acme-{name}")


def _names(code: str) -> set[str]:
    """What code imports and uses, without what it defines."""
    nodes = list(ast.walk(ast.parse(code)))
    imported = {alias.asname or alias.name for node in nodes for alias in getattr(node, "names", ())}
    return imported | {node.id for node in nodes if isinstance(node, ast.Name)}


def next_commands(kind: str, name: str, folder: Path) -> list[str]:
    """What to type next."""
    run = {
        "model": f"harness run --model {name} --probe grad_reach",
        "task": f"harness run --model lstm --task {name}",
        "probe": f"harness run --model lstm --probe {name}",
    }
    return [f"pip install -e {shlex.quote(str(folder))}", f"harness check {name}", run[kind]]


def _files(folder: Traversable, place: Path) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            found += _files(item, place / item.name)
        elif item.name.endswith(TEMPLATE):
            found.append((place / item.name, item.read_text(encoding="utf-8")))
    return found


def _filled(text: str, words: dict[str, str]) -> str:
    """Replace `{{word}}`."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: words[match[1]], text)
