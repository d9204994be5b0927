"""Every number that two runs have in common: how it differs, seed by seed, and what may be said of that.

A difference is B - A of one seed. The rule of the verdict, which is said only of 3 seeds or more:

- `identical`: the same number in every seed, bit for bit (of any number of seeds).
- `not comparable`: other units, the task and its data are not the same, times of different machines, no number (NaN).
- `undecided`: fewer than 3 seeds in common, or seeds that are no repetitions (weights that are given, or the same
  whatever the seed).
- `better` or `worse`, where it is known which way is good, and otherwise `higher` or `lower`: all seeds differ in one
  direction; or so many of them that a coin would do that in less than 1 of 20 cases (8 of 9, 10 of 12). And the
  mean difference goes the same way, by more than 2 standard errors as far as these are known, so that it is not the
  choice of examples.
- `no clear difference`: everything else.

Seeds that differ by less than a millionth are taken as the same.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from harness.comparing.direction import Direction, direction
from harness.comparing.pairing import CellName, Pair
from harness.measurements import TIMES, Measured, Measurement, Pattern, Point, Scalar, format_place
from harness.schema import PluginUse, Record
from harness.seeds import FEW_SEEDS, Summary, coverage, seeds_alike, summarise
from harness.selection import difference
from harness.statistics import MARGIN

Verdict = Literal[
    "better", "worse", "higher", "lower", "no clear difference", "identical", "undecided", "not comparable"
]
"""What may be said of B beside A."""

RARE = 0.05
"""Where not all seeds agree: how rarely a coin may do the same."""

TRAINING = "training"
"""What stands in the place of a probe where training itself is told of."""

SAME = 1e-6
"""Relative differences below this are rounding."""


class Place(NamedTuple):
    """Where in a measurement a number is; `nth` tells places of one name apart."""

    x: float | str | None = None
    row: str | None = None
    column: str | None = None
    nth: int = 0

    @property
    def called(self) -> str:
        """`20`, `layer 1 head 2, cue`; "" for a single number."""
        parts = [*([format_place(self.x)] if self.x is not None else []), *filter(None, (self.row, self.column))]
        return ", ".join(parts)


@dataclass(frozen=True)
class Difference:
    """One number in both runs. What has a value for each seed is in the order of `seeds`."""

    cell: CellName
    of: Measurement
    """The measurement, as one record of the first run has it."""
    place: Place
    inside: bool | None
    """Whether training covered the place."""
    seeds: tuple[int, ...]
    """Those that both runs have a number of, or NaN."""
    a: tuple[float, ...]
    b: tuple[float, ...]
    direction: Direction
    """Which way is good: 1 for more, -1 for less, 0 where that is not known."""
    error: float = math.nan
    """The standard error of the mean difference, as if both runs had seen other examples; NaN where it is not known."""
    repetitions: int = 0
    """Seeds that are independent of one another."""
    obstacle: str = ""
    """Why the two numbers must not be compared; "" where they may be."""
    said_a: tuple[str, ...] = ()
    said_b: tuple[str, ...] = ()
    """The verdicts of the probe, for each seed that has one."""

    @property
    def measurement(self) -> str:
        """The name of what was measured."""
        return self.of.name

    @property
    def unit(self) -> str:
        """Of both numbers, and of their difference."""
        return self.of.unit

    @cached_property
    def differences(self) -> tuple[float, ...]:
        """B - A of each seed; 0 for infinity and infinity."""
        return tuple(difference(mine, other) for other, mine in zip(self.a, self.b, strict=True))

    @cached_property
    def summary(self) -> Summary:
        """The median of the differences, with their range."""
        return summarise(self.differences)

    @property
    def median_a(self) -> float:
        """Over the seeds in common."""
        return summarise(self.a).median

    @property
    def median_b(self) -> float:
        """Over the seeds in common."""
        return summarise(self.b).median

    @cached_property
    def ways(self) -> tuple[int, int, int]:
        """In how many seeds B is higher, lower, and neither."""
        signs = [_sign(mine, other) for other, mine in zip(self.a, self.b, strict=True)]
        return signs.count(1), signs.count(-1), signs.count(0)

    @property
    def identical(self) -> bool:
        """Whether every seed has the same number in both, bit for bit."""
        return all(
            mine == other or (mine != mine and other != other) for mine, other in zip(self.a, self.b, strict=True)
        )

    @cached_property
    def verdict(self) -> Verdict:
        """What may be said of it."""
        return "identical" if self.identical else self._judged()

    def _judged(self) -> Verdict:
        if self.why:
            return "not comparable" if self.obstacle or self._nan else "undecided"
        up, down, _ = self.ways
        most = max(up, down)
        agree = most == len(self.seeds) or luck(most, len(self.seeds)) < RARE
        mean = sum(self.differences) / len(self.differences)
        error = 0.0 if math.isnan(self.error) else self.error
        if not agree or (mean if up > down else -mean) <= MARGIN * error:
            return "no clear difference"
        if not self.direction:
            return "higher" if up > down else "lower"
        return "better" if (up > down) == (self.direction > 0) else "worse"

    @property
    def _nan(self) -> bool:
        return any(math.isnan(value) for value in (*self.a, *self.b))

    @property
    def why(self) -> str:
        """Why there is no verdict; "" where there is one."""
        if self.obstacle:
            return self.obstacle
        if self._nan:
            return "not a number in some seeds"
        if self.repetitions < FEW_SEEDS:
            n = len(self.seeds)
            return f"{n} seed{'s' if n > 1 else ''}" if self.repetitions == n else "seeds are no repetitions"
        return ""


def luck(most: int, seeds: int) -> float:
    """How often a coin falls on one side at least so many times: what is left to chance where most seeds agree."""
    if most == seeds:
        return 1 - coverage(seeds)
    return min(1.0, 2 * sum(math.comb(seeds, n) for n in range(most, seeds + 1)) * 0.5**seeds)


def _sign(b: float, a: float) -> int:
    close = math.isclose(a, b, rel_tol=SAME)  # which infinity is to nothing but itself
    return 0 if close else 1 if b > a else -1 if b < a else 0


def differences(pairs: Iterable[Pair]) -> Iterator[Difference]:
    """Of all cells: what training came to, once for each trial, then every number that both runs measured."""
    told: set[tuple[str, str, str]] = set()
    for pair in pairs:
        seeds = [seed for seed in pair.seeds if pair.a[seed].status == pair.b[seed].status == "ok"]
        a, b = [pair.a[seed] for seed in seeds], [pair.b[seed] for seed in seeds]
        trial = (pair.cell.model, pair.cell.task, pair.cell.way)
        if seeds and trial not in told and (found := _validation(pair.cell, a, b)):
            told.add(trial)
            yield found
        if seeds:
            yield from _measured(pair.cell, a, b)


def _validation(cell: CellName, a: Sequence[Record], b: Sequence[Record]) -> Difference | None:
    """The validation loss, where every seed has one."""
    old, new = ([record.trained.validation_loss for record in side if record.trained] for side in (a, b))
    if len(old) < len(a) or len(new) < len(b):
        return None
    changed = any(not same_task(mine.task, other.task) for other, mine in zip(a, b, strict=True))
    return Difference(
        cell._replace(probe=TRAINING),
        Scalar(name="validation_loss", unit="", value=old[0], headline=True),
        Place(),
        None,
        seeds=tuple(record.seed for record in a),
        a=tuple(old),
        b=tuple(new),
        direction=-1,
        repetitions=_repetitions(a, b),
        obstacle="the task has changed" if changed else "",
    )


def _measured(cell: CellName, a: Sequence[Record], b: Sequence[Record]) -> Iterator[Difference]:
    obstacle = "" if all(map(_same_data, a, b)) else "the task has changed, and so has its data"
    others = [_by_name(record) for record in b]
    own = [_by_name(record) for record in a]
    for name in dict.fromkeys(name for each in own for name in each):
        both = [index for index in range(len(a)) if name in own[index] and name in others[index]]
        if not both:
            continue
        mine, theirs = [own[index][name] for index in both], [others[index][name] for index in both]
        first = mine[0]
        alike = {(m.kind, m.unit) for m in (*mine, *theirs)} == {(first.kind, first.unit)}
        reason = obstacle or ("" if alike else "other units, or another kind of number")
        if not reason and first.unit in TIMES and not _one_machine([*a, *b]):
            reason = "times of different machines"
        entries = [(_entries(x), _entries(y)) for x, y in zip(mine, theirs, strict=True)]
        for at in dict.fromkeys(at for x, _ in entries for at in x):
            known = [(index, x[at], y[at]) for index, (x, y) in zip(both, entries, strict=True) if at in x and at in y]
            if known:
                yield _difference(cell, first, at, a, b, known, reason)


def _difference(
    cell: CellName,
    first: Measurement,
    at: Place,
    a: Sequence[Record],
    b: Sequence[Record],
    known: Sequence[tuple[int, Point, Point]],
    obstacle: str,
) -> Difference:
    """One number; `known` are, for each seed that has it, the index of its records and both entries."""
    olds, news = [old for _, old, _ in known], [new for _, _, new in known]
    some_a, some_b = [a[index] for index, _, _ in known], [b[index] for index, _, _ in known]
    errors = [math.nan if each.standard_error is None else each.standard_error for each in (*olds, *news)]
    values = [entry.value for entry in (*olds, *news)]
    return Difference(
        cell,
        first,
        at,
        olds[0].inside,
        seeds=tuple(record.seed for record in some_a),
        a=tuple(entry.value for entry in olds),
        b=tuple(entry.value for entry in news),
        direction=direction(first, some_a[0], values),
        error=math.hypot(*errors) / len(known),
        repetitions=_repetitions(some_a, some_b),
        obstacle=obstacle,
        said_a=tuple(entry.verdict for entry in olds if entry.verdict),
        said_b=tuple(entry.verdict for entry in news if entry.verdict),
    )


def _by_name(record: Record) -> dict[str, Measurement]:
    """What has numbers to compare; the first of each name. A pattern is of one example, and for looking at."""
    found: dict[str, Measurement] = {}
    for measurement in record.measurements:
        if not isinstance(measurement, Pattern):
            found.setdefault(measurement.name, measurement)
    return found


def _entries(measurement: Measured) -> dict[Place, Point]:
    seen: Counter[Place] = Counter()
    found = {}
    for entry in measurement.points():
        at = Place(entry.x, entry.row, entry.column)
        found[at._replace(nth=seen[at])] = entry
        seen[at] += 1
    return found


def _repetitions(a: Sequence[Record], b: Sequence[Record]) -> int:
    """Seeds that were trained (or built) independently of one another, in both runs."""
    if any(record.pretrained for record in (*a, *b)):
        return 0
    return 1 if seeds_alike([*a, *b]) else len(a)


def same_task(a: PluginUse, b: PluginUse) -> bool:
    """Whether it is the same code with the same arguments, and so the same data for the same seed and settings."""
    return a.digest == b.digest and a.arguments == b.arguments


def _same_data(a: Record, b: Record) -> bool:
    """Whether both were measured on the same data, or on other examples of the same task."""
    return (a.data == b.data and a.data != "") or same_task(a.task, b.task)


def _one_machine(records: Iterable[Record]) -> bool:
    return len({(record.provenance.device, record.provenance.threads) for record in records}) == 1


def headlines(found: Iterable[Difference]) -> list[Difference]:
    """Those that reports show: of each cell the headline ones, or all where there is none."""
    found = list(found)
    have = {each.cell for each in found if each.of.headline}
    return [each for each in found if each.of.headline or each.cell not in have]
