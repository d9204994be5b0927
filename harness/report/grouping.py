"""Records in order: what was measured together, which are seeds of one another, and how to call them."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import TypeVar

from harness.claims import matches
from harness.schema import Curve, Matrix, PluginUse, Record, Scalar, Training
from harness.statistics import Identity, identity
from harness.suites import Request, Suite, format_arguments

M = TypeVar("M", Scalar, Curve, Matrix)

Settings = tuple[Training, int, str]
"""How a model was trained, and on how many examples it was evaluated."""


IN_WORDS = {"initial": "at initialisation", "trained": "after training"}
"""The stages in order, in words."""


@dataclass(frozen=True)
class Row:
    """One model, trained and evaluated in one way; its records are seeds of one another."""

    label: str
    records: list[Record]
    """By seed, whatever their outcome."""

    @property
    def ok(self) -> list[Record]:
        """The records that were measured."""
        return [record for record in self.records if record.status == "ok"]

    @property
    def parameters(self) -> int | None:
        """Trained values of the model, if it could be built."""
        return next((r.model.parameters for r in self.records if r.model.parameters is not None), None)

    def find(self, kind: type[M], name: str) -> list[M]:
        """The measurement of that name, from every record that has it: one for each seed."""
        found = ((m for m in r.measurements if isinstance(m, kind) and m.name == name) for r in self.ok)
        return [first for each in found for first in islice(each, 1)]


@dataclass(frozen=True)
class Group:
    """What can be compared: one probe, one task, one stage; a row for each model."""

    probe: str
    task: str
    stage: str
    rows: list[Row]

    @property
    def measured(self) -> list[Row]:
        """The rows that have numbers."""
        return [row for row in self.rows if row.ok]

    def names(self, kind: type[M]) -> list[str]:
        """The measurements that tables show: those marked as headline, or all if none is."""
        found = [m for row in self.rows for record in row.ok for m in record.measurements]
        shown = [m for m in found if m.headline] or found
        return list(dict.fromkeys(m.name for m in shown if isinstance(m, kind)))


def group(records: Sequence[Record], suite: Suite | None = None) -> list[Group]:
    """Groups in the suite's order (or the alphabet's), one for each probe, task and stage.

    The records must be `current`: two of one cell would be counted as two seeds.
    """
    experiments = suite.experiments if suite else []
    models = names((r.model for r in records), [x for e in experiments for x in e.models])
    tasks = names((r.task for r in records), [x for e in experiments for x in e.tasks])
    probes = names((r.probe for r in records), [x for e in experiments for x in e.probes])
    cells: dict[tuple[Identity, Identity, str], dict[Identity, dict[Settings, list[Record]]]] = {}
    for record in records:
        cell = cells.setdefault((identity(record.probe), identity(record.task), record.stage), {})
        by_settings = cell.setdefault(identity(record.model), {})
        by_settings.setdefault((record.training, record.examples, record.device), []).append(record)
    return [
        Group(
            probes[probe],
            tasks[task],
            stage,
            [row for model in models if model in found for row in _rows(models[model], found[model])],
        )
        for probe in probes
        for task in tasks
        for stage in IN_WORDS
        if (found := cells.get((probe, task, stage)))
    ]


def _rows(model: str, by_settings: dict[Settings, list[Record]]) -> list[Row]:
    """A row for each way of training and evaluating; what differs between them goes into the label."""
    settings = [
        training.model_dump() | {"examples": examples, "device": device} for training, examples, device in by_settings
    ]
    differing = [key for key in settings[0] if any(other[key] != settings[0][key] for other in settings)]
    rows = []
    for own, records in zip(settings, by_settings.values(), strict=True):
        note = f" ({format_arguments({key: own[key] for key in differing})})" if differing else ""
        rows.append(Row(model + note, sorted(records, key=lambda record: record.seed)))
    return sorted(rows, key=lambda row: _natural(row.label))


def names(uses: Iterable[PluginUse], requests: Sequence[Request] = ()) -> dict[Identity, str]:
    """In order, each plugin as used with its alias, or else its label; where several have the same, with the
    distribution or folder."""
    distinct = {identity(use): use for use in uses}
    aliases = Counter(use.alias for use in distinct.values())
    alike: dict[str, list[PluginUse]] = {}
    for use in distinct.values():
        alike.setdefault(use.label, []).append(use)

    def order(key: Identity) -> tuple[int, list[tuple[int, str]], Identity]:
        ranks = (i for i, request in enumerate(requests) if matches(request, distinct[key]))
        return next(ranks, len(requests)), _natural(distinct[key].called), key

    def name(use: PluginUse) -> str:
        return use.alias if use.alias and aliases[use.alias] == 1 else _qualified(use, alike[use.label])

    return {key: name(distinct[key]) for key in sorted(distinct, key=order)}


def _qualified(use: PluginUse, alike: list[PluginUse]) -> str:
    """The label, with the distribution, or as much of the file's path as tells it from the others of that label."""
    if len(alike) == 1:
        return use.label
    if use.distribution:
        return f"{use.distribution}:{use.label}"
    paths = [re.split(r"[/\\]", other.target) for other in alike if not other.distribution]
    depth = next(n for n in count(2) if len({tuple(path[-n:]) for path in paths}) == len(paths))
    return "/".join(re.split(r"[/\\]", use.target)[-depth:]) + use.label.removeprefix(use.name)


def _natural(text: str) -> list[tuple[int, str]]:
    """A sort key by which `d=10` comes after `d=9`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text) if part]
