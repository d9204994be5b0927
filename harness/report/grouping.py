"""Records in order: what was measured together, which are seeds of one another, and how to call them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from harness.grids import argument_part
from harness.labels import full_labels, short_labels
from harness.matching import matches, without
from harness.measurements import Measured
from harness.report.conditions import SETTINGS, conditions, differing, settings, written
from harness.schema import PluginUse, Record, Training
from harness.seeds import Identity, identity, measured_once, seeds_alike
from harness.suites import Suite
from harness.vocabulary import CROSSED
from harness.written import format_arguments

M = TypeVar("M", bound=Measured)

MARK = "!"
"""Behind the label of a model that there are warnings about."""

Way = tuple[Training, int, str]
"""How a model was trained, and on how many examples it was evaluated."""

Ways = dict[Way, list[Record]]
"""Of one model in one cell of the plan, by how it was trained and evaluated."""


NUMBER = re.compile(r"(\d{1,20}(?:\.\d{1,20})?(?:e-?\d{1,2}\b)?)", re.ASCII)
"""In a label."""

BASELINE = "(baseline)"
"""Behind the label of a model that is there to compare others with."""

IN_WORDS = {"initial": "at initialisation", "trained": "after training"}
"""The stages in order, in words."""


@dataclass(frozen=True)
class Row:
    """One model, trained and evaluated in one way; its records are seeds of one another."""

    label: str
    records: list[Record]
    """By seed, whatever their outcome."""
    conditions: dict[str, str]
    """The settings in which the rows of its table differ, as far as the label does not tell them."""
    model: str
    """What the model is called, however it was trained."""

    @property
    def called(self) -> str:
        """The label, with a word for a baseline: what cards and charts say."""
        return f"{self.label} {BASELINE}" if self.baseline else self.label

    @property
    def marked(self) -> str:
        """The label, with what a table must say of the model: that it is a baseline, or that there are warnings."""
        return marked(self.label, self.records)

    @property
    def baseline(self) -> bool:
        """Whether the model is there to compare others with."""
        return self.records[0].model.baseline

    @property
    def suspect(self) -> bool:
        """Whether there are warnings about the model."""
        return _suspect(self.records)

    @property
    def once(self) -> bool:
        """Whether it is one pretrained model on one set of examples, so that there are no seeds to compare."""
        return measured_once(self.ok)

    @property
    def repetitions(self) -> int:
        """Seeds that were trained (or constructed) independently of one another."""
        fixed = any(record.pretrained for record in self.ok)
        return 0 if fixed else min(1, len(self.ok)) if seeds_alike(self.ok) else len(self.ok)

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
    models, tasks, probes = (names(records, kind, suite) for kind in CROSSED)
    cells: dict[tuple[Identity, Identity, str], dict[Identity, Ways]] = {}
    decided: dict[tuple[Identity, Identity], set[str]] = {}
    for record in records:
        task, model = identity(record.task), identity(record.model)
        by_settings = cells.setdefault((identity(record.probe), task, record.stage), {}).setdefault(model, {})
        by_settings.setdefault((record.training, record.examples, record.device), []).append(record)
        if record.status == "ok":
            decided.setdefault((task, model), set()).update(conditions(record))
    apart = {name for found in cells.values() for ways in found.values() for name in _differing(ways)}
    return [
        Group(
            probes[probe],
            tasks[task],
            stage,
            _rows(
                {models[model]: found[model] for model in models if model in found},
                {models[model]: apart & decided.get((task, model), set()) for model in found},
            ),
        )
        for probe in probes
        for task in tasks
        for stage in IN_WORDS
        if (found := cells.get((probe, task, stage)))
    ]


def marked(label: str, records: Sequence[Record]) -> str:
    """A model's label as tables show it, from records of that model."""
    marks = (BASELINE if records[0].model.baseline else "", MARK if _suspect(records) else "")
    return " ".join(filter(None, (label, *marks)))


def _suspect(records: Iterable[Record]) -> bool:
    return any(record.warnings for record in records)


def _differing(ways: Ways) -> list[str]:
    return differing(settings(records[0]) for records in ways.values())


def _rows(found: dict[str, Ways], apart: dict[str, set[str]]) -> list[Row]:
    """A row for each model and way of training and evaluating it. Its label tells the settings in which ways of one
    model differ, also where another probe measured them; what else differs between rows with numbers stands beside it.

    Args:
        found: the records by model and settings.
        apart: by model, the settings that tell ways of models apart and had a say in this one's numbers.
    """
    measured = [r for ways in found.values() for records in ways.values() for r in records if r.status == "ok"]
    labelled = {model: apart[model] | {*_differing(ways)} for model, ways in found.items()}
    told = [name for name in differing(map(conditions, measured)) if name not in set().union(*labelled.values())]
    rows = []
    for model, ways in found.items():
        own = []
        for records in ways.values():
            values, known = settings(records[0]), conditions(records[0])
            said = format_arguments({name: values[name] for name in SETTINGS if name in labelled[model]})
            beside = {name: written(known[name]) if name in known else "" for name in told}
            own.append(Row(f"{model} ({said})" if said else model, _by_seed(records), beside, model))
        rows += sorted(own, key=lambda row: natural(row.label))
    return rows


def _by_seed(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: record.seed)


def names(records: Iterable[Record], kind: str, suite: Suite | None = None) -> dict[Identity, str]:
    """In the suite's order (or the alphabet's), each plugin of a kind with its short label; what a grid has made of one
    model together."""
    requests = suite.requests(kind) if suite else []
    varied = argument_part(suite.grid) if suite else {}
    distinct: dict[Identity, PluginUse] = {identity(use): use for use in (getattr(r, kind) for r in records)}

    def order(key: Identity) -> tuple[int, list[tuple[float, str]], Identity]:
        asked = without(distinct[key], varied) if varied and kind == "model" else distinct[key]
        ranks = (i for i, request in enumerate(requests) if matches(request, asked))
        return next(ranks, len(requests)), natural(distinct[key].called), key

    labels = short_labels(distinct.values())
    return {key: labels[key] for key in sorted(distinct, key=order)}


def spelled_out(records: Iterable[Record]) -> dict[str, str]:
    """What a user would type for each model, task and probe whose label is shorter, by that."""
    records = list(records)
    found: dict[str, str] = {}
    for kind in CROSSED:
        uses = [getattr(record, kind) for record in records]
        full = full_labels(uses)
        found |= {label: full[key] for key, label in short_labels(uses).items() if label != full[key]}
    return found


def natural(text: str) -> list[tuple[float, str]]:
    """A sort key by which `d=10` comes after `d=9`, and `lr=0.01` after `lr=0.003`."""
    parts = NUMBER.split(text)  # every other one is a number
    return [(float(part), "") if index % 2 else (-1.0, part) for index, part in enumerate(parts) if part]
