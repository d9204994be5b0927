"""`harness new`: a small plugin package from templates (`harness/templates/KIND`), ready to install and to edit."""

import keyword
import re
import shlex
import sys
from importlib import resources, util
from importlib.resources.abc import Traversable
from pathlib import Path

from harness.errors import RequestError
from harness.registry import Registry
from harness.specs import CONTRACT_VERSION

NAME = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?")
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
    package = check_name(kind, name, registry)
    folder = into / name
    if folder.exists():
        raise RequestError(f"{str(folder)!r} exists already and stays as it is; choose another name or --into")
    words = {
        "name": name,
        "package": package,
        "title": "".join(word.capitalize() for word in package.split("_") if word),
        "contract": str(CONTRACT_VERSION),
    }
    files = dict(_files(resources.files("harness") / "templates" / kind, Path()))
    try:
        for place, text in files.items():
            path = folder / _filled(str(place).removesuffix(TEMPLATE), words)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_filled(text, words), encoding="utf-8")
    except OSError as error:
        raise RequestError(f"cannot write into {str(into)!r}: {error.strerror}; choose another with --into") from None
    return folder


def check_name(kind: str, name: str, registry: Registry) -> str:
    """The import name that goes with a name.

    Raises:
        RequestError: it is no name of a distribution and of a module, or it is taken.
    """
    if not NAME.fullmatch(name):
        raise RequestError(
            f"the name {name!r} cannot be used: lower-case letters and digits, with - or _ between them, for example "
            "acme-gru"
        )
    package = re.sub(r"[-_]+", "_", name)
    if not package.isidentifier() or keyword.iskeyword(package) or package in ("test", "tests"):
        raise RequestError(f"{name!r} gives the import name {package!r}, which Python does not allow; try acme-{name}")
    if found := registry.entries[kind].get(name):
        raise RequestError(
            f"there is a {kind} {name!r} already, from {found[0].origin.distribution} {found[0].origin.version}; "
            f"choose another name, for example acme-{name}"
        )
    if package in sys.stdlib_module_names or util.find_spec(package) is not None:
        raise RequestError(
            f"the name {name!r} gives the import name {package!r}, which another installed package has; try acme-{name}"
        )
    return package


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
