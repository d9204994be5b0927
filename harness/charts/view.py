"""A run as charts look at it: what can be compared, in which colour, along what."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.charts.style import looks
from harness.measurements import Curve
from harness.report.grouping import Group, Row, group
from harness.schema import Record
from harness.seeds import current
from harness.suites import Suite


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
    def looks(self) -> dict[str, dict[str, Any]]:
        """Colour, dash and shape of each model, the same in every chart of the run."""
        return looks(list(dict.fromkeys(row.label for each in self.groups for row in each.rows)))

    def of(self, probe: str, stage: str | None = None) -> list[Group]:
        """The groups of a probe, whatever its arguments, that have numbers."""
        return [
            each
            for each in self.groups
            if each.measured and each.measured[0].ok[0].probe.name == probe and (stage is None or each.stage == stage)
        ]

    @property
    def tasks(self) -> list[str]:
        """What tasks are called, in order."""
        return list(dict.fromkeys(each.task for each in self.groups))


def curves(row: Row, name: str) -> Iterator[tuple[int, Curve]]:
    """The curve of that name for each seed of a row."""
    for record in row.ok:
        for measurement in record.measurements:
            if isinstance(measurement, Curve) and measurement.name == name:
                yield record.seed, measurement


def places(curve: Curve) -> list[tuple[float, float]]:
    """The numbers of a curve with their places; none where these are names."""
    xs: list[Any] = list(curve.x)
    return [] if any(isinstance(x, str) for x in xs) else [(float(x), y) for x, y in zip(xs, curve.y, strict=True)]
