"""Which plugin and which cell of one run is which of another: by what was asked for, since ids change with the code."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import RequestError, did_you_mean
from harness.labels import full_labels
from harness.matching import matches
from harness.report.conditions import SETTINGS, differing, settings
from harness.report.grouping import IN_WORDS, names, natural
from harness.schema import PluginUse, Record
from harness.seeds import Identity, current, identity
from harness.sources import canonical
from harness.suites import Request, Suite
from harness.vocabulary import CROSSED, Stage
from harness.written import format_arguments


@dataclass(frozen=True)
class Side:
    """One of the two runs."""

    out: Path
    records: Sequence[Record]
    """Those that count."""
    suite: Suite | None = None
    note: str = ""
    """What reports say of the run."""

    @classmethod
    def of(cls, out: Path, records: Iterable[Record], suite: Suite | None = None, note: str = "") -> "Side":
        """A run with all its records, of which those count that no later one supersedes."""
        return cls(out, current(records)[0], suite, note)

    @cached_property
    def labels(self) -> dict[str, dict[Identity, str]]:
        """What reports of the run call its plugins, by kind, in the order of reports."""
        return {kind: names(self.records, kind, self.suite) for kind in CROSSED}

    @cached_property
    def uses(self) -> dict[str, dict[Identity, PluginUse]]:
        """A use of each plugin, by kind."""
        return {kind: {identity(use): use for use in (getattr(r, kind) for r in self.records)} for kind in CROSSED}

    def listed(self, kind: str) -> str:
        """The plugins of a kind, as a message lists them."""
        return ", ".join(self.labels[kind].values())


class CellName(NamedTuple):
    """What was measured, by the names that reports give it."""

    model: str
    """`OLD -> NEW` where the two runs call it differently; so for the others."""
    task: str
    probe: str
    stage: Stage
    way: str = ""
    """The settings that tell it from other cells of these names, for example `lr=0.001`."""

    @property
    def called(self) -> str:
        """In words."""
        return f"{self.probe} of {self.trained} on {self.task}, {IN_WORDS[self.stage]}"

    @property
    def trained(self) -> str:
        """The model, with its way of training where it has several."""
        return f"{self.model} ({self.way})" if self.way else self.model


@dataclass(frozen=True)
class Pair:
    """A cell that is in both runs; records by seed, whatever their outcome."""

    cell: CellName
    a: Mapping[int, Record]
    b: Mapping[int, Record]

    @property
    def seeds(self) -> list[int]:
        """Those in both."""
        return sorted(self.a.keys() & self.b.keys())


class Lone(NamedTuple):
    """What one of the runs has alone."""

    cell: CellName
    seeds: tuple[int, ...]
    lacks: str
    """What the other run does not have: the `model`, the `task`, the `probe`, the `cell` or the `seeds`."""


@dataclass(frozen=True)
class Pairing:
    """Two runs, side by side."""

    pairs: list[Pair]
    only_a: list[Lone]
    only_b: list[Lone]


def pair_runs(a: Side, b: Side, same: Iterable[tuple[str, str]] = ()) -> Pairing:
    """Put the cells of two runs side by side.

    Two plugins are the same if they have one alias, one label and origin, one label, one name and equal arguments
    (defaults included), or one file name, class and label: the first of these that leads to one in each run.

    Args:
        a: a run.
        b: another one.
        same: names of plugins of the first run with those of the second that take their place.

    Raises:
        RequestError: a run has no such plugin.
    """
    asked = _asked(a, b, same)
    found = {kind: _paired(a.uses[kind], b.uses[kind], asked[kind]) for kind in CROSSED}
    cells_a, cells_b = _cells(a), _cells(b)
    pairs: list[Pair] = []
    only_a: list[Lone] = []
    only_b: list[Lone] = []
    taken: set[_Key] = set()
    for key, ways in cells_a.items():
        other = _translated(key, found)
        if other is None or other not in cells_b:
            only_a += _alone(a, key, ways, _lacking(key, {kind: set(found[kind]) for kind in CROSSED}))
            continue
        taken.add(other)
        for way, (mine, theirs) in _ways(ways, cells_b[other]).items():
            cell = _cell(a, key, b, other, way)
            if mine and theirs:
                pairs.append(Pair(cell, mine, theirs))
            for records, lone, rest in ((mine, only_a, theirs), (theirs, only_b, mine)):
                if seeds := tuple(sorted(records.keys() - rest.keys())):
                    lone.append(Lone(cell, seeds, "seeds" if rest else "cell"))
    known_b = {kind: set(found[kind].values()) for kind in CROSSED}
    for key, ways in cells_b.items():
        if key not in taken:
            only_b += _alone(b, key, ways, _lacking(key, known_b))
    return Pairing(pairs, only_a, only_b)


_Key = tuple[Identity, Identity, Identity, Stage]
"""Model, task, probe and stage."""

_Ways = list[dict[int, Record]]
"""By seed the records of each way of training and evaluating."""


def _cells(side: Side) -> dict[_Key, _Ways]:
    """In the order of reports."""
    found: dict[_Key, dict[Any, dict[int, Record]]] = {}
    for record in side.records:
        key = (identity(record.model), identity(record.task), identity(record.probe), record.stage)
        way = (record.training, record.examples, record.device)
        found.setdefault(key, {}).setdefault(way, {})[record.seed] = record
    rank = {kind: {each: index for index, each in enumerate(side.labels[kind])} for kind in CROSSED}
    stages = list(IN_WORDS)

    def order(key: _Key) -> tuple[int, ...]:
        model, task, probe, stage = key
        return rank["model"][model], rank["task"][task], rank["probe"][probe], stages.index(stage)

    return {key: list(found[key].values()) for key in sorted(found, key=order)}


AS_ASKED: tuple[Callable[[PluginUse], object], ...] = (
    lambda use: use.alias,
    identity,
    lambda use: use.label,
    lambda use: (use.name, canonical(use.arguments)),
    lambda use: use.file and (use.file.name, use.target.rpartition(":")[2], use.label.removeprefix(use.name)),
)
"""By what a plugin of one run is found in another, the surest first; nothing where it has no such thing."""


def _paired(
    a: Mapping[Identity, PluginUse], b: Mapping[Identity, PluginUse], asked: Mapping[Identity, Identity]
) -> dict[Identity, Identity]:
    """Plugins of A with those of B."""
    found = dict(asked)
    for key in AS_ASKED:
        mine, theirs = (
            _by_key(key, {name: use for name, use in uses.items() if name not in done})
            for uses, done in ((a, set(found)), (b, set(found.values())))
        )
        found |= {
            mine[each][0]: theirs[each][0] for each in mine if len(mine[each]) == 1 and len(theirs.get(each, ())) == 1
        }
    return found


def _by_key(key: Callable[[PluginUse], object], uses: Mapping[Identity, PluginUse]) -> dict[object, list[Identity]]:
    found: dict[object, list[Identity]] = {}
    for name, use in uses.items():
        if known := key(use):
            found.setdefault(known, []).append(name)
    return found


def _translated(key: _Key, found: Mapping[str, Mapping[Identity, Identity]]) -> _Key | None:
    """The cell of B that a cell of A would be."""
    model, task, probe, stage = key
    if model in found["model"] and task in found["task"] and probe in found["probe"]:
        return found["model"][model], found["task"][task], found["probe"][probe], stage
    return None


def _lacking(key: _Key, known: Mapping[str, set[Identity]]) -> str:
    """The first of the plugins of a cell that the other run lacks; `cell` if it has all of them."""
    return next((kind for kind, own in zip(CROSSED, key[:3], strict=True) if own not in known[kind]), "cell")


def _alone(side: Side, key: _Key, ways: _Ways, lacks: str) -> Iterator[Lone]:
    for way, (records, _) in _ways(ways, []).items():
        yield Lone(_cell(side, key, side, key, way), tuple(sorted(records)), lacks)


def _cell(a: Side, key: _Key, b: Side, other: _Key, way: str) -> CellName:
    def called(kind: str, own: Identity, its: Identity) -> str:
        mine, theirs = a.labels[kind][own], b.labels[kind][its]
        if mine == theirs:  # each in its own run, where it may need no arguments to be told from the others
            whole = a.uses[kind][own], b.uses[kind][its]
            if any(use.alias for use in whole) or whole[0].arguments == whole[1].arguments:
                return mine
            mine, theirs = full_labels([whole[0]])[own], full_labels([whole[1]])[its]
        return mine if mine == theirs else f"{mine} -> {theirs}"

    model, task, probe = (called(*each) for each in zip(CROSSED, key[:3], other[:3], strict=True))
    return CellName(model, task, probe, key[3], way)


def _ways(a: _Ways, b: _Ways) -> dict[str, tuple[dict[int, Record], dict[int, Record]]]:
    """Ways of A with those of B, by what they are called. What tells the ways of one run apart is what they are paired
    by: whatever else differs is what has changed. In the order of reports."""
    every = [[settings(next(iter(records.values()))) for records in ways] for ways in (a, b)]
    telling = {name for each in every for name in differing(each)}
    found: dict[str, tuple[dict[int, Record], dict[int, Record]]] = {}
    for index, (ways, known) in enumerate(zip((a, b), every, strict=True)):
        for records, own in zip(ways, known, strict=True):
            called = format_arguments({name: own[name] for name in SETTINGS if name in telling})
            found.setdefault(called, ({}, {}))[index].update(records)
    return dict(sorted(found.items(), key=lambda way: natural(way[0])))


def split(words: str, a: Side, b: Side) -> tuple[str, str]:
    """`OLD=NEW` as its two names, both of which may have `=` in their arguments.

    Raises:
        RequestError: there is no `=`, or none that has a plugin of one run before it and one of the other behind it.
    """
    places = [index for index, letter in enumerate(words) if letter == "="]
    if not places:
        raise RequestError(f"cannot read the pair {words!r}: write OLD=NEW, for example lstm=./my.py:LSTM")
    parts = [(words[:at].strip(), words[at + 1 :].strip()) for at in places]
    known = [(old, new) for old, new in parts for kind in CROSSED if _meant(a, kind, old) and _meant(b, kind, new)]
    return (known or parts)[0]


def _asked(a: Side, b: Side, same: Iterable[tuple[str, str]]) -> dict[str, dict[Identity, Identity]]:
    """What a user says is the same, by kind.

    Raises:
        RequestError: a run has no such plugin, several are meant, or one is given twice.
    """
    found: dict[str, dict[Identity, Identity]] = {kind: {} for kind in CROSSED}
    for old, new in same:
        meant = {kind: (_meant(a, kind, old), _meant(b, kind, new)) for kind in CROSSED}
        kinds = [kind for kind in CROSSED if meant[kind][0] and meant[kind][1]]
        if not kinds:
            for side, which, word in ((a, 0, old), (b, 1, new)):
                if not any(each[which] for each in meant.values()):
                    raise _nothing_called(side, word)
            raise RequestError(f"{old!r} and {new!r} name no two models, no two tasks and no two probes")
        kind = kinds[0]
        mine, theirs = meant[kind]
        if len(mine) > 1 or len(theirs) > 1:
            side, several, word = (a, mine, old) if len(mine) > 1 else (b, theirs, new)
            known = ", ".join(side.labels[kind][each] for each in several)
            raise RequestError(f"{word!r} may be any of {known} in {str(side.out)!r}; name one of them")
        if mine[0] in found[kind] or theirs[0] in found[kind].values():
            raise RequestError(
                f"the {kind} {old!r} or {new!r} is paired twice; say once what it is to be compared with"
            )
        found[kind][mine[0]] = theirs[0]
    return found


def _meant(side: Side, kind: str, word: str) -> list[Identity]:
    """The plugins of a run that a user may mean: those of that label, as reports show it, or else as requests name
    them, or of that bare name."""
    uses, labels = side.uses[kind], side.labels[kind]
    for fits in (
        lambda key: word in (labels[key], uses[key].label, uses[key].alias),
        lambda key: matches(_request(word), uses[key]),
        lambda key: word == uses[key].name,
    ):
        if found := [key for key in labels if fits(key)]:
            return found
    return []


def _request(word: str) -> Request:
    try:
        return Request.model_validate(word)
    except (ValueError, RequestError):
        return Request(name=word)


def _nothing_called(side: Side, word: str) -> RequestError:
    known = [label for kind in CROSSED for label in side.labels[kind].values()]
    return RequestError(
        f"the run {str(side.out)!r} has nothing called {word!r}.{did_you_mean(word, known)} Its models: "
        f"{side.listed('model')}; tasks: {side.listed('task')}; probes: {side.listed('probe')}."
    )
