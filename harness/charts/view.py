"""A run as charts look at it: what can be compared, in which colour, along what."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from harness.charts.style import looks
from harness.measurements import Curve
from harness.report.grouping import Group, Row, group
from harness.report.learnability import Learnability, at_their_best, learnability
from harness.schema import Record
from harness.seeds import current
from harness.suites import Suite
from harness.written import count

T = TypeVar("T")

MOST_MODELS, MOST_TASKS, MOST_SEEDS = 12, 6, 20
"""At most this many of a run are drawn; more cannot be told apart."""

MOST_PLACES = 200
"""Of a curve; of longer ones evenly chosen places are drawn, the first and the last among them."""

MOST_PARTS = 12
"""Matrices of one chart."""


class NothingToDraw(Exception):  # noqa: N818
    """A run lacks what a chart shows; the message says what, and how to get it."""


@dataclass(frozen=True)
class View:
    """The records of a run for charts.

    Args:
        records: any records; of those that were measured again, the newest count.
        suite: the suite they come from.
        learning: gives the learning curve of a trial, by its id: a dictionary for each validation.
    """

    records: Sequence[Record]
    suite: Suite | None = None
    learning: Callable[[str], list[dict[str, float]]] = lambda trial: []

    @cached_property
    def kept(self) -> list[Record]:
        """The records that count."""
        return current(self.records)[0]

    @cached_property
    def groups(self) -> list[Group]:
        """What can be compared, in the suite's order."""
        return group(self.kept, self.suite)

    @cached_property
    def learnt(self) -> list[Learnability]:
        """Where each model learns each task."""
        return learnability(self.kept, self.suite)

    @cached_property
    def at_best(self) -> list[Group]:
        """The groups; where there is a grid, with the cell of each model that is best on validation data alone."""
        return at_their_best(self.groups, self.learnt) if self.suite and self.suite.grid else self.groups

    @cached_property
    def looks(self) -> dict[str, dict[str, Any]]:
        """Colour, dash and shape of each model as charts call it, the same in every chart of the run; where there is a
        grid, also for whatever cell of it is shown."""
        rows = [row for each in self.at_best for row in each.rows]
        whose = {row.called: row.model if self.suite and self.suite.grid else row.called for row in rows}
        known = looks(list(dict.fromkeys(whose.values())))
        return {called: known[model] for called, model in whose.items()}

    @cached_property
    def measured(self) -> list[Group]:
        """The groups that have numbers, and nothing but these in them; rows are labelled as charts call them."""
        found = [
            replace(each, rows=[replace(row, label=row.called, records=row.ok) for row in each.measured])
            for each in self.at_best
        ]
        return [each for each in found if each.rows]

    def all_of(self, *probes: str, stage: str | None = None) -> list[Group]:
        """What was measured by some probes, whatever their arguments; by any, if none is named."""
        return [
            each
            for each in self.measured
            if (not probes or probe_of(each) in probes) and (stage is None or each.stage == stage)
        ]

    def of(self, *probes: str, stage: str | None = None) -> list[Group]:
        """As much of it as a chart has room for: the first models, tasks and seeds."""
        found = self.all_of(*probes, stage=stage)
        models, tasks = set(_models(found)[:MOST_MODELS]), set(tasks_of(found)[:MOST_TASKS])
        kept = [
            replace(
                each,
                rows=[replace(row, records=row.records[:MOST_SEEDS]) for row in each.rows if row.label in models],
            )
            for each in found
            if each.task in tasks
        ]
        return [each for each in kept if each.rows]

    @cached_property
    def left_out(self) -> str:
        """What charts have no room for, in a sentence; "" for nothing."""
        models, tasks = len(_models(self.measured)), len(tasks_of(self.measured))
        seeds = max((len(row.records) for each in self.measured for row in each.rows), default=0)
        said = [
            f"{most} of {count(number, what)}"
            for number, most, what in (
                (models, MOST_MODELS, "model"),
                (tasks, MOST_TASKS, "task"),
                (seeds, MOST_SEEDS, "seed"),
            )
            if number > most
        ]
        return f"Charts show the first {', '.join(said)}; choose others with --model and --task." if said else ""


def probe_of(group: Group) -> str:
    """The name of its probe, without arguments."""
    return group.rows[0].records[0].probe.name


def _models(groups: Sequence[Group]) -> list[str]:
    return list(dict.fromkeys(row.label for each in groups for row in each.rows))


def tasks_of(groups: Sequence[Group]) -> list[str]:
    """What their tasks are called, in order."""
    return list(dict.fromkeys(each.task for each in groups))


def curves(row: Row, name: str) -> Iterator[tuple[int, Curve]]:
    """The curve of that name for each seed of a row."""
    for record in row.ok:
        for measurement in record.measurements:
            if isinstance(measurement, Curve) and measurement.name == name:
                yield record.seed, measurement


def places(curve: Curve) -> list[tuple[float, float]]:
    """The numbers of a curve with their places; none where these are names."""
    xs: list[Any] = list(curve.x)
    if any(isinstance(x, str) for x in xs):
        return []
    return thinned([(float(x), y) for x, y in zip(xs, curve.y, strict=True)])


def thinned(line: list[T], most: int = MOST_PLACES) -> list[T]:
    """At most so many of a line's entries, evenly chosen, the first and the last among them."""
    if len(line) <= most:
        return line
    return [line[round(index * (len(line) - 1) / (most - 1))] for index in range(most)]
