"""What trials take along to another machine: code in files of no package, and the files that plugins name (`files`, in
`harness.contracts`): those that arguments name, also within a text (`./my.py:Mixer:table=words.txt`), and those that
lie beside them or beside the plugin's own file.

Packages stay: they must be installed over there. So do files that a plugin reads without saying so, and those beyond
`MOST_BYTES`, which must be over there under the same path, as on a file system that both machines share.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.plugin import planned
from harness.registry import default_registry
from harness.schema import Cell, PluginUse, Record
from harness.sources import content_hash, source_texts
from harness.work import Work

MOST_BYTES = 256 * 2**20
"""The most that the files which plugins name may take together, if they are to travel."""

_MARK = re.compile("""([:=,"'])""")
"""Between the paths of a text that is a request."""

Use = tuple[str, PluginUse]
"""A plugin with its kind."""


@dataclass(frozen=True)
class Baggage:
    """Files, and what they are called where they come from. Plain data: it can be pickled."""

    files: dict[str, bytes] = field(default_factory=dict)
    """By their places in the folder that they are unpacked into."""
    code: dict[str, str] = field(default_factory=dict)
    """The place of a plugin's file, by its path at home."""
    arguments: dict[tuple[str, str], str] = field(default_factory=dict)
    """The place of what an argument names, by the plugin's target and the path as it is written; an absolute path for
    what does not travel."""
    shared: list[str] = field(default_factory=list)
    """Folders with packages that are imported under their own names."""

    def unpack(self, folder: Path) -> None:
        """Write the files into a folder."""
        for place, content in self.files.items():
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def moved(self, work: Work, folder: Path, out: Path) -> Work:
        """The same trial with `out` as its run directory, where the files are in a folder."""
        planned = work.planned
        new = {kind: self._moved(getattr(planned.trial, kind), folder) for kind in ("model", "task")}
        trial = planned.trial.model_copy(update=new)
        cells = [
            cell.model_copy(update={"trial": trial, "probe": self._moved(cell.probe, folder)}) for cell in planned.cells
        ]
        return replace(work, planned=replace(planned, trial=trial, cells=cells), out=out)

    def _moved(self, use: PluginUse, folder: Path) -> PluginUse:
        """A plugin where its files are now. Its label stays, which decides what a probe draws."""
        new: dict[str, Any] = {"arguments": _replaced(use.arguments, use.target, self.arguments, folder)}
        if place := self.code.get(str(use.file)):
            new |= dict.fromkeys(("name", "target"), f"{folder / place}:{use.target.rpartition(':')[2]}")
        return use.model_copy(update=new)

    def homely(self, text: str, folder: Path) -> str:
        """A text with the paths that the files have at home, and as arguments have them, for whoever reads an error
        message there."""
        longest_first = sorted(self.arguments.items(), key=lambda each: -len(each[1]))  # one may begin another
        for (_, written), place in longest_first:
            text = text.replace(str(folder / place), written)
        for home, place in self.code.items():
            text = text.replace(str((folder / place).parent), str(Path(home).parent))
        return text


def uses(works: Iterable[Work]) -> list[Use]:
    """The plugins of some trials, each once."""
    found = (
        (kind, use)
        for work in works
        for cell in work.planned.cells
        for kind, use in (("model", cell.trial.model), ("task", cell.trial.task), ("probe", cell.probe))
    )
    return list({(kind, use.name, use.label): (kind, use) for kind, use in found}.values())


def may_have_files(use: PluginUse) -> bool:
    """Whether there is something to pack for a plugin; it is not loaded to find out."""
    return use.file is not None or any(Path(path).exists() for path in _paths(use.arguments))


def pack(plugins: Iterable[Use], announce: Callable[[int], None] = lambda place: None) -> Baggage:
    """What these plugins need. Loads them, so that it is better done in a process of its own.

    Args:
        plugins: which.
        announce: hears, before it is loaded, which one is packed.
    """
    baggage = Baggage()
    sizes: dict[Path, int] = {}
    for place, (kind, use) in enumerate(plugins):
        announce(place)
        try:
            plugin = planned(default_registry(), kind, use)
            named = [path.absolute() for path in plugin.says.files(**plugin.arguments)]
        except HarnessError:
            continue  # the trial fails of it, and says so
        if use.file is not None:
            _pack_code(baggage, use.file, source_texts(plugin.definition.module))
            _pack_named(baggage, use.file.parent, named, sizes)
        for written in _paths(use.arguments):
            for root in dict.fromkeys((Path(written).absolute(), Path(written).resolve())):
                if any(root in (path, *path.parents) for path in named):
                    where = _pack_named(baggage, root.parent, named, sizes)
                    baggage.arguments[use.target, written] = f"{where}/{root.name}" if where else str(root)
    return baggage


def _pack_named(baggage: Baggage, folder: Path, named: Iterable[Path], sizes: dict[Path, int]) -> str:
    """Pack what is named and lies in a folder, each file where it is in there, so that modules find one another.

    Returns:
        The place of the folder; "" if too much would travel.
    """
    place = _place(folder)
    found = {path: path.stat().st_size for path in named if path.is_relative_to(folder)}
    if sum((sizes | found).values()) > MOST_BYTES:
        return ""
    sizes.update(found)
    for path in found:
        inner = path.relative_to(folder)
        baggage.files.setdefault(f"{place}/{inner.as_posix()}", path.read_bytes())
        if path.suffix == ".py":
            _pack_packages(baggage, folder, inner, place)
            if any(Path(each).absolute() == folder for each in sys.path) and place not in baggage.shared:
                baggage.shared.append(place)
    return place


def _pack_code(baggage: Baggage, file: Path, texts: Mapping[str, bytes]) -> None:
    folder = file.parent
    place = _place(folder)
    for key, text in texts.items():
        inner = Path(key.lstrip("/"))
        baggage.files[f"{place}/{inner.as_posix()}"] = text
        _pack_packages(baggage, folder, inner, place)
        if not key.startswith("/") and place not in baggage.shared:
            baggage.shared.append(place)
    baggage.code[str(file)] = f"{place}/{file.name}"


def _place(folder: Path) -> str:
    return f"files/{content_hash(str(folder))}"


def _pack_packages(baggage: Baggage, folder: Path, inner: Path, place: str) -> None:
    """What makes a folder a package runs, too, when something in it is imported."""
    for package in inner.parents[:-1]:
        first = package / "__init__.py"
        if (folder / first).is_file():
            baggage.files.setdefault(f"{place}/{first.as_posix()}", (folder / first).read_bytes())


def _paths(arguments: Any) -> list[str]:
    """All that may be a path in plain data: texts, and what stands in them where they are requests."""
    return [path for text in _texts(arguments) for path in dict.fromkeys((text, *_MARK.split(text))) if path]


def _texts(value: Any) -> Iterator[str]:
    """Every text in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _replaced(value: Any, target: str, places: Mapping[tuple[str, str], str], folder: Path) -> Any:
    """Plain data with the paths that its texts have now."""
    if isinstance(value, dict):
        return {name: _replaced(each, target, places, folder) for name, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, target, places, folder) for each in value]
    if not isinstance(value, str):
        return value
    pieces = [value] if (target, value) in places else _MARK.split(value)
    return "".join(str(folder / places[target, each]) if (target, each) in places else each for each in pieces)


def came_home(record: Record, cell: Cell) -> Record:
    """A record of a moved trial, with its plugins as the plan has them."""
    plugins = {"model": cell.trial.model, "task": cell.trial.task, "probe": cell.probe}
    fields = ("name", "target", "arguments")
    new = {
        kind: getattr(record, kind).model_copy(update={name: getattr(use, name) for name in fields})
        for kind, use in plugins.items()
    }
    return record.model_copy(update=new)
