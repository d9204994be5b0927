"""What is different about two runs, apart from their numbers, as far as records tell."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from harness.comparing.pairing import Pair
from harness.report.conditions import conditions, written
from harness.schema import ModelUse, PluginUse, Provenance, Record
from harness.vocabulary import CROSSED

DIGITS = 8
"""Of a digest or revision, as people tell them apart."""


class Change(NamedTuple):
    """One thing that differs."""

    of: str
    """`model`, `task` or `probe`; `training` or `evaluation`; `software`, `machine` or `torch settings`."""
    whose: str
    """Which plugin, or of whose training; "" where it concerns everything."""
    what: str
    """`code`, an argument, a setting, a version."""
    a: str
    b: str

    @property
    def called(self) -> str:
        """In words."""
        return " ".join(filter(None, (self.of, self.whose)))


def changes(pairs: Sequence[Pair]) -> list[Change]:
    """All that differs between the records of cells that are in both runs: plugins, settings, surroundings."""
    records = [(pair, pair.a[seed], pair.b[seed]) for pair in pairs for seed in pair.seeds]
    found: list[Change] = []
    for kind in CROSSED:
        uses: dict[str, list[tuple[Record, Record]]] = {}
        for pair, a, b in records:
            uses.setdefault(getattr(pair.cell, kind), []).append((a, b))
        for called, both in uses.items():
            found += _plugin(kind, called, both)
    found += _settings(records)
    found += _data(records)
    found += _surroundings([(a.provenance, b.provenance) for _, a, b in records])
    return found


def _plugin(kind: str, called: str, both: Sequence[tuple[Record, Record]]) -> Iterator[Change]:
    """What differs about a plugin: where it comes from, its code, its arguments, its size."""
    a, b = ([getattr(record, kind) for record in side] for side in zip(*both, strict=True))
    for what, of in (
        ("origin", lambda use: use.distribution or _folder(use)),
        ("code (digest)", lambda use: use.digest[:DIGITS]),
        ("parameters", lambda use: _size(use)),
    ):
        yield from _different(kind, called, what, map(of, a), map(of, b))
    yield from _different(kind, called, "version", *(_versions(side, kind) for side in zip(*both, strict=True)))
    names = [{name for use in side for name in use.arguments} for side in (a, b)]
    for name in (name for name in a[0].arguments if name in names[1]):
        values = ([written(use.arguments[name]) for use in side if name in use.arguments] for side in (a, b))
        yield from _different(kind, called, name, *values)
    further = [_further(use, other) for use, other in ((a[0], names[1]), (b[0], names[0]))]
    if any(further):
        yield Change(kind, called, "further arguments", *(each or "none" for each in further))


def _folder(use: PluginUse) -> str:
    return str(use.file) if use.file else use.target


def _size(use: PluginUse) -> str:
    return f"{use.parameters:,}" if isinstance(use, ModelUse) and use.parameters is not None else ""


def _versions(records: Iterable[Record], kind: str) -> list[str]:
    """Of the plugin's distribution, unless that is the harness itself, which is told of apart."""
    uses = [(getattr(record, kind), record.provenance.harness) for record in records]
    return ["" if use.version == harness else use.version for use, harness in uses]


def _further(use: PluginUse, others: set[str]) -> str:
    """The arguments that the plugin of the other run does not have."""
    return ", ".join(f"{name}={written(value)}" for name, value in use.arguments.items() if name not in others)


def _settings(records: Sequence[tuple[Pair, Record, Record]]) -> Iterator[Change]:
    """Of training and evaluation, each change once, with the models that it concerns if that is not all of them."""
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    concerned: dict[str, dict[str, None]] = {}
    for pair, a, b in records:
        model = pair.cell.model
        mine, theirs = conditions(a), conditions(b)
        for name in dict.fromkeys((*mine, *theirs)):
            concerned.setdefault(name, {})[model] = None
            values = [written(side[name]) if name in side else "" for side in (mine, theirs)]
            if values[0] != values[1]:
                found.setdefault((name, values[0], values[1]), {})[model] = None
    everywhere_first = sorted(found.items(), key=lambda item: item[1].keys() != concerned[item[0][0]].keys())
    for (name, old, new), models in everywhere_first:
        of = "evaluation" if name == "examples" else "machine" if name == "device" else "training"
        whose = "" if models.keys() == concerned[name].keys() else f"of {', '.join(models)}"
        yield Change(of, whose, name, old, new)


def _data(records: Sequence[tuple[Pair, Record, Record]]) -> Iterator[Change]:
    """Tasks of which the two runs saw different examples."""
    tasks = [pair.cell.task for pair, a, b in records if a.data and b.data and a.data != b.data]
    for task in dict.fromkeys(tasks):
        yield Change("evaluation", f"on {task}", "examples drawn", "these", "others")


SURROUNDINGS: Mapping[str, tuple[str, ...]] = {
    "software": ("harness", "core", "python", "torch"),
    "machine": ("platform", "host", "device", "threads"),
}
"""Fields of `Provenance`, by what they are about."""

CALLED = {"core": "core (digest)", "device": "processor", "python": "Python"}
"""Fields whose names say too little."""


def _surroundings(both: Sequence[tuple[Provenance, Provenance]]) -> Iterator[Change]:
    """What the runs ran on and with."""
    for of, fields in SURROUNDINGS.items():
        for name in fields:
            values = [[_short(name, getattr(side, name)) for side in sides] for sides in _sides(both)]
            yield from _different(of, "", CALLED.get(name, name), *values)
    yield from _different("software", "", "git revision", *([_revision(p) for p in side] for side in _sides(both)))
    known = [(a.settings, b.settings) for a, b in both if a.settings and b.settings]
    for name in dict.fromkeys(name for pair in known for settings in pair for name in settings):
        values = [[settings.get(name, "(not kept)") for settings in side] for side in _sides(known)]
        yield from _different("torch settings", "", name, *values)


def _sides(both: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [a for a, _ in both], [b for _, b in both]


def _short(name: str, value: Any) -> str:
    return str(value)[:DIGITS] if name == "core" else str(value)


def _revision(provenance: Provenance) -> str:
    if provenance.revision is None:
        return ""
    return provenance.revision[:DIGITS] + (" with uncommitted changes" if provenance.dirty else "")


def _different(of: str, whose: str, what: str, a: Iterable[str], b: Iterable[str]) -> Iterator[Change]:
    """A change, if both sides say something, and not the same."""
    old, new = (sorted({value for value in side if value}) for side in (a, b))
    if old and new and old != new:
        yield Change(of, whose, what, ", ".join(old), ", ".join(new))
