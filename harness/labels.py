"""What people call the plugins of a run: short labels, which no two of a kind share.

    gpt:layers=4,width=64            ->  gpt:layers=4       beside a `gpt` of the same width and other layers
    gpt:position=none,width=64       ->  gpt:position=none  where it is the only `gpt`: words say which kind it is
    ./long/folder/mixers.py:Mixer    ->  Mixer
    hf:path=/long/folder/tiny-gpt    ->  tiny-gpt

An alias is the label that a user chose, and stays. Where two would be called alike, as much comes back as tells them
apart. What a run's plugins are called depends on nothing but which plugins it has: not on their order, and not on what
was measured of them.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any

from harness.matching import label_arguments, without
from harness.schema import PluginUse
from harness.seeds import Identity, identity
from harness.written import format_arguments

PATHS = re.compile(r"(path|file|folder|directory)$")
"""How the names of arguments end that are paths."""

PLACES = re.compile(r"\.{0,2}[/\\]|~|[A-Za-z]:[/\\]")
"""How a text begins that can only be a path: in a folder, at the root, at home, or on a drive."""

Ladder = Sequence[str]
"""What one plugin may be called, from short to long."""


class Named:
    """The plugins of one kind that words mean: the one that is called so, as it was asked for, by its label or alias;
    where none is, all of that name. Of a grid's models, the word is what they are called without it.

    Args:
        words: as a user says them.
        uses: all plugins of the kind.
        short: what tables call them, if that counts, too.
        varied: the arguments that a grid varies.
    """

    def __init__(
        self,
        words: Iterable[str],
        uses: Iterable[PluginUse],
        short: Mapping[Identity, str] = MappingProxyType({}),
        varied: Collection[str] = (),
    ) -> None:
        self.words, self.short, self.varied = {*words}, short, varied
        self._known: dict[tuple[Identity, str], set[str]] = {}
        self.exact = self.words & {called for use in uses for called in self.called(use)}
        """Those by which a plugin is called."""

    def called(self, use: PluginUse) -> set[str]:
        """What a plugin is called."""
        key = (identity(use), use.alias)
        if key not in self._known:
            base = without(use, self.varied).label if self.varied else use.label
            self._known[key] = {use.label, base, use.alias, self.short.get(key[0], "")} - {""}
        return self._known[key]

    def __contains__(self, use: PluginUse) -> bool:
        return not self.exact.isdisjoint(self.called(use)) or use.name in self.words - self.exact


def short_labels(uses: Iterable[PluginUse]) -> dict[Identity, str]:
    """The label of each plugin of a kind, as short as it can be, in the order given."""
    distinct = _distinct(uses)
    families: dict[tuple[str, str], list[PluginUse]] = {}
    for use in distinct.values():
        families.setdefault(_family(use), []).append(use)
    named = Counter(_name(family[0]) for family in families.values())
    files = {use.target for use in distinct.values() if not use.distribution}
    full = _full_ladders(distinct)
    ladders = {}
    for key, use in distinct.items():
        place = f"{use.distribution}:{_name(use)}" if use.distribution else _ending(use.target, files)
        # two plugins of one name would look like one with other arguments
        own_names = [_name(use), place] if named[_name(use)] == 1 else [place]
        family = families[_family(use)]
        if use.alias:  # of several models, which a grid has made of the one that was called so
            own_names, family = [use.alias, *own_names], [each for each in family if each.alias == use.alias]
        ladders[key] = [*_short(use, family, own_names), *full[key]]
    return _apart(ladders, aliases(distinct.values()))


def full_labels(uses: Iterable[PluginUse]) -> dict[Identity, str]:
    """Each plugin of a kind as a user would type it, in the order given; where several have the same label, with the
    distribution, or as much of the file's path as tells it from the others."""
    return _apart(_full_ladders(_distinct(uses)), {})


def aliases(uses: Iterable[PluginUse]) -> dict[Identity, str]:
    """Those that a user gave a name of its own."""
    distinct = _distinct(uses)
    known = Counter(use.alias for use in distinct.values())
    return {key: use.alias for key, use in distinct.items() if use.alias and known[use.alias] == 1}


def _distinct(uses: Iterable[PluginUse]) -> dict[Identity, PluginUse]:
    found: dict[Identity, PluginUse] = {}
    for use in uses:
        other = found.setdefault(identity(use), use)
        if (use.alias, use.name, use.target) > (other.alias, other.name, other.target):
            found[identity(use)] = use  # whatever the order
    return found


def _family(use: PluginUse) -> tuple[str, str]:
    """The code, whatever its arguments and however its file was written."""
    return use.distribution, use.name if use.distribution else use.target


def _name(use: PluginUse) -> str:
    """Without the module or file, but for a file of which no class was named."""
    return use.name if use.distribution else use.target.rpartition(":")[2] or _ending(use.target.rstrip(":"), [])


def _apart(ladders: Mapping[Identity, Ladder], taken: Mapping[Identity, str]) -> dict[Identity, str]:
    """From each ladder of labels, short to long, the lowest rung on which no two are the same; where ladders end alike,
    with a number behind it."""
    rungs = {key: 0 for key in ladders if key not in taken}
    while True:
        labels = {key: taken[key] if key in taken else ladders[key][rungs[key]] for key in ladders}
        known = Counter(labels.values())
        alike = [key for key, rung in rungs.items() if known[labels[key]] > 1 and rung + 1 < len(ladders[key])]
        if not alike:
            return _numbered(labels, taken)
        for key in alike:
            rungs[key] += 1


def _numbered(labels: dict[Identity, str], taken: Mapping[Identity, str]) -> dict[Identity, str]:
    used = {*labels.values()}
    seen = {*taken.values()}
    for key in sorted(labels.keys() - taken.keys()):
        if labels[key] in seen:
            labels[key] = next(text for n in count(2) if (text := f"{labels[key]} ({n})") not in used)
            used.add(labels[key])
        seen.add(labels[key])
    return labels


def _short(use: PluginUse, family: Sequence[PluginUse], own_names: Sequence[str]) -> Ladder:
    """By the end of a path among its arguments, or by one of its own names, with the arguments that say which it is."""
    every = [label_arguments(each.label) for each in family]
    own = label_arguments(use.label)
    paths = {name: _ending(value, _values(every, name)) for name, value in own.items() if _is_path(name, value)}
    telling = {
        name: paths.get(name, value)
        for name, value in own.items()
        if (_is_word(value) if len(family) == 1 else any(each.get(name, every) != value for each in every))
    }
    ladder = [_with(own_names[0], telling), *(_with(name, telling | paths) for name in own_names)]
    if first := next((name for name in paths if name == "path"), None):
        ladder.insert(0, _with(paths[first], {key: value for key, value in telling.items() if key != first}))
    return ladder


def _with(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}:{format_arguments(arguments)}" if arguments else name


def _values(every: Iterable[Mapping[str, Any]], name: str) -> set[str]:
    return {value for arguments in every if isinstance(value := arguments.get(name), str)}


def _is_word(value: Any) -> bool:
    return isinstance(value, str | bool)


def _is_path(name: str, value: Any) -> bool:
    """By its name, or its beginning: `1/2` is none."""
    return isinstance(value, str) and bool(PATHS.search(name) or PLACES.match(value))


def _ending(path: str, among: Iterable[str]) -> str:
    """The shortest ending of a path, in whole parts, that no other path has."""
    parts = _parts(path)
    others = [_parts(other) for other in among if other != path]
    depth = next((n for n in range(1, len(parts)) if all(o[-n:] != parts[-n:] for o in others)), len(parts))
    return "/".join(parts[-depth:]) or path


def _parts(path: str) -> list[str]:
    return [part for part in re.split(r"[/\\]", path) if part not in ("", ".", "..")]


def _full_ladders(distinct: Mapping[Identity, PluginUse]) -> dict[Identity, Ladder]:
    """The label; then with the distribution, or the end of the file's path; then with the whole path."""
    files: dict[str, set[str]] = {}
    for use in distinct.values():
        if not use.distribution:
            files.setdefault(use.label, set()).add(use.target)
    return {key: _full(use, files.get(use.label, set())) for key, use in distinct.items()}


def _full(use: PluginUse, files: Iterable[str]) -> Ladder:
    if use.distribution:
        return [use.label, f"{use.distribution}:{use.label}"]
    arguments = use.label.removeprefix(use.name)
    return [use.label, _ending(use.target, files) + arguments, use.target + arguments]
