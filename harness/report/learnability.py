"""What a grid says: where each model learns each task, for how many seeds, and which way of training to choose.

A seed is a success where its worst score within the trained range reaches a threshold. Success is told of every cell,
and nothing is chosen by it: the best cell is the one with the lowest median validation loss, whatever its score is.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from harness.grids import argument_part, cells
from harness.labels import short_labels
from harness.matching import label_arguments, matches, without
from harness.measurements import Scalar
from harness.report.conditions import conditions, differing, trained, written
from harness.report.grouping import Group, marked
from harness.report.numbers import number
from harness.report.success import SCORE, Threshold, threshold_of
from harness.schema import PluginUse, Record, Training
from harness.seeds import came_to_a_result, identity, of_newest_code, summarise, validation_loss
from harness.statistics import BRIEF, MARGIN
from harness.suites import Experiment, Suite
from harness.written import format_arguments

PROBE = "accuracy"
"""What measures scores."""


@dataclass(frozen=True)
class Cell:
    """One way of training a model on a task, in all its seeds."""

    values: Mapping[str, Any]
    """What tells it from the others, by field."""
    records: Sequence[Record]
    """By seed; none where it was not run."""
    threshold: Threshold | None
    default: bool
    """Whether the model would be trained, and made, like this if nobody had said anything of its fields."""

    @property
    def measured(self) -> list[Scalar]:
        """The scores of the seeds that were measured, with their standard errors."""
        return [m for r in self.records for m in r.measurements if isinstance(m, Scalar) and m.name == SCORE]

    @property
    def scores(self) -> list[float]:
        """Their values."""
        return [scalar.value for scalar in self.measured]

    @property
    def seeds(self) -> int:
        """How many came to a result; one whose loss diverged did."""
        return sum(map(came_to_a_result, self.records))

    @property
    def broken(self) -> int:
        """How many trials failed otherwise, which says nothing of the model."""
        return sum(record.status == "failed" for record in self.records if not came_to_a_result(record))

    @property
    def diverged(self) -> int:
        """Of how many seeds the loss did: they have no score."""
        return sum(record.status == "failed" for record in self.records if came_to_a_result(record))

    @property
    def successes(self) -> int:
        """How many seeds reached the threshold."""
        return sum(self.threshold.met(score) for score in self.scores) if self.threshold else 0

    @property
    def near(self) -> int:
        """How many seeds are so near to the threshold that another sample of examples could decide otherwise."""
        known = [(s.value, MARGIN * s.standard_error) for s in self.measured if s.standard_error]
        return sum(abs(score - self.threshold.value) < error for score, error in known) if self.threshold else 0

    @property
    def rate(self) -> str:
        """`2/3`: seeds that succeeded, of all; "" where nobody knows from which score on, unless all diverged."""
        known = self.threshold is not None or all(record.status != "ok" for record in self.records)
        return f"{self.successes}/{self.seeds}" if self.seeds and known else ""

    @property
    def works(self) -> bool:
        """Whether every seed did."""
        return 0 < self.seeds == self.successes

    @property
    def score(self) -> float:
        """The median over seeds, of test data, without those that are NaN; NaN where there is none."""
        return summarise(self.scores).median

    @property
    def told(self) -> str:
        """What stands under its rate: the median score, or how many seeds have none, since the others are not all."""
        if self.diverged:
            return f"{self.diverged} diverged"
        return number(self.score) if self.scores else ""

    @property
    def validation(self) -> float:
        """What it is chosen by."""
        return validation_loss(self.records)


@dataclass(frozen=True)
class Learnability:
    """A model on a task, wherever it was tried."""

    model: str
    task: str
    cells: Sequence[Cell]
    """In the order of their values."""
    threshold: Threshold | None
    default_training: dict[str, Any] | None
    """The settings that the suite's grid varies, as they would be without it; None where that is not known."""
    beside: bool = False
    """Whether a user put the model beside those of the suite."""
    planned: int = 0
    """How many seeds the suite has of it."""
    older: Sequence[Record] = ()
    """What other code of the model or the task gave, before it was edited: in no cell."""

    @property
    def records(self) -> list[Record]:
        """Those of all cells."""
        return [record for cell in self.cells for record in cell.records]

    @property
    def called(self) -> str:
        """The model as tables call it: with a word for a baseline, and a mark where there are warnings."""
        return marked(self.model, self.records)

    @property
    def fields(self) -> list[str]:
        """What was varied."""
        return [*self.cells[0].values]

    @property
    def axis(self) -> str:
        """The field along which cells are shown: the learning rate, or else the one with the most values."""
        several = {name: len({written(cell.values[name]) for cell in self.cells}) for name in self.fields}
        return "lr" if several.get("lr", 0) > 1 else max(several, key=lambda name: several[name])

    @property
    def tried(self) -> list[Cell]:
        """The cells that came to a result."""
        return [cell for cell in self.cells if cell.seeds]

    @property
    def outside(self) -> bool:
        """Whether only conditions beyond the trained range were measured."""
        ok = any(record.status == "ok" for cell in self.tried for record in cell.records)
        return ok and not any(cell.scores for cell in self.tried)

    @property
    def best(self) -> Cell | None:
        """The cell that did best on validation data; None where the loss of most seeds is infinite everywhere."""
        known = [cell for cell in self.tried if cell.scores and math.isfinite(cell.validation)]
        return min(known, key=lambda cell: cell.validation, default=None)

    @property
    def brief(self) -> bool:
        """Whether a seed was trained for much less than is recommended, and failed."""
        found = (m for cell in self.cells for r in cell.records for m in r.measurements if isinstance(m, Scalar))
        return any(scalar.name == SCORE and scalar.verdict == BRIEF for scalar in found)

    def rows(self) -> Iterator[tuple[dict[str, Any], list[Cell]]]:
        """The cells along the axis, for each combination of the other fields."""
        found: dict[str, tuple[dict[str, Any], list[Cell]]] = {}
        for cell in self.cells:
            others = {name: value for name, value in cell.values.items() if name != self.axis}
            found.setdefault(str({n: written(v) for n, v in others.items()}), (others, []))[1].append(cell)
        yield from found.values()


class Window(NamedTuple):
    """Neighbours among the values that were tried, at all of which every seed succeeded."""

    low: float
    high: float
    open_below: bool
    """Whether nothing lower was tried."""
    open_above: bool
    """Whether nothing higher was tried."""

    @property
    def factor(self) -> float:
        """Its width: the highest over the lowest; NaN where that is none."""
        return self.high / self.low if self.low > 0 else math.nan


def windows(axis: str, row: Sequence[Cell]) -> list[Window]:
    """Where a model works along a number.

    Args:
        axis: the field.
        row: cells that differ in it alone, in order.
    """
    tried = [cell for cell in row if cell.seeds and is_number(cell.values[axis])]
    found: list[list[int]] = []
    for index, cell in enumerate(tried):
        if not cell.works:
            continue
        if found and found[-1][-1] == index - 1:
            found[-1].append(index)
        else:
            found.append([index])
    values = [float(cell.values[axis]) for cell in tried]
    return [Window(values[i[0]], values[i[-1]], i[0] == 0, i[-1] == len(tried) - 1) for i in found]


def learnability(records: Sequence[Record], suite: Suite | None = None) -> list[Learnability]:
    """Each model on each task that was trained in several ways, or varied by the suite's grid.

    Args:
        records: those that count (`harness.seeds.current`).
        suite: with the grid, its defaults and the threshold; without one, whatever training settings differ.
    """
    grid = suite.grid if suite else {}
    found: dict[Any, list[Record]] = {}
    bases: dict[Any, PluginUse] = {}
    for record in records:
        if record.probe.name == PROBE and trained(record):
            base = without(record.model, argument_part(grid))
            key = (identity(base), identity(record.task), identity(record.probe), record.examples, record.device)
            found.setdefault(key, []).append(record)
            bases.setdefault(key, base)
    models = short_labels(bases.values())
    tasks = short_labels(own[0].task for own in found.values())
    result = []
    for key, own in sorted(found.items(), key=lambda item: _rank(bases[item[0]], item[1][0].task, suite)):
        own, older = of_newest_code(own)
        names = _fields([*own, *older], grid)
        threshold = threshold_of(own, suite)
        default = _default(bases[key], own[0].task, suite)
        if default is not None and any(name not in default for name in names if name in Training.model_fields):
            default = None  # of what an earlier run has set otherwise
        ways = _cells(own, names, grid, default, threshold)
        if (
            names
            and (grid or older or len(ways) > 1)
            and any(cell.scores or (grid and (cell.seeds or cell.broken)) for cell in ways)
        ):
            alike = [records[0] for other, records in found.items() if other[:2] == key[:2]]
            model, task = models[identity(bases[key])] + _evaluated(own[0], alike), tasks[identity(own[0].task)]
            beside, planned = _beside(bases[key], suite), _planned(own[0], suite)
            result.append(Learnability(model, task, ways, threshold, default, beside, planned, older))
    return result


def _evaluated(record: Record, alike: Iterable[Record]) -> str:
    """How a model was evaluated, as far as that tells it from itself: ` (examples=64)`."""

    def how(record: Record) -> dict[str, Any]:
        return {"probe": record.probe.called, "examples": record.examples, "device": record.device}

    told = {name: value for name, value in how(record).items() if any(how(other)[name] != value for other in alike)}
    return f" ({format_arguments(told)})" if told else ""


def at_their_best(groups: Sequence[Group], found: Iterable[Learnability]) -> list[Group]:
    """The groups without those rows of which another cell of the same model did better on validation data,
    or that older code of it gave."""
    found = list(found)
    tried = [(each.best, cell) for each in found if each.best for cell in each.cells]
    others = {record.trial for best, cell in tried if cell is not best for record in cell.records}
    others |= {record.trial for each in found for record in each.older}
    return [
        replace(each, rows=[row for row in each.rows if not all(record.trial in others for record in row.records)])
        for each in groups
    ]


def cell_rows(found: Iterable[Learnability]) -> list[dict[str, Any]]:
    """One dictionary for each cell, ready for a data frame: what was varied, then how it went."""
    found = list(found)
    fields = dict.fromkeys(name for each in found for name in each.fields)
    return [
        {"model": each.model, "task": each.task}
        | dict.fromkeys(fields)
        | dict(cell.values)
        | {
            "seeds": cell.seeds,
            "diverged": cell.diverged,
            "broken": cell.broken,
            "successes": cell.successes,
            "success_rate": cell.successes / cell.seeds if cell.rate else None,
            "score": None if math.isnan(cell.score) else cell.score,
            "validation_loss": None if math.isnan(cell.validation) else cell.validation,
            "threshold": cell.threshold.value if cell.threshold else None,
            "works": cell.works,
            "default": cell.default,
            "best": cell is each.best,
        }
        for each in found
        for cell in each.cells
    ]


def _rank(model: PluginUse, task: PluginUse, suite: Suite | None) -> tuple[int, int]:
    """Their places in the suite; what it does not name stays in the order of the records, behind."""

    def place(kind: str, use: PluginUse) -> int:
        known = suite.requests(kind) if suite else []
        return next((i for i, request in enumerate(known) if matches(request, use)), len(known))

    return place("task", task), place("model", model)


def _fields(records: Sequence[Record], grid: Mapping[str, list[Any]]) -> list[str]:
    """What was varied, by the grid or otherwise, and had a say: a model that is fitted takes no learning rate."""
    asked = [name for name in argument_part(grid) if all(name in record.model.arguments for record in records)]
    told = differing(record.training.model_dump() for record in records)
    meant = [name for name in Training.model_fields if all(name in conditions(record) for record in records)]
    return [*[name for name in meant if name in grid or name in told], *asked]


def _beside(model: PluginUse, suite: Suite | None) -> bool:
    """Whether a user put a model beside those of the suite: in the last run, or in an earlier one, of which the suite
    knows nothing any more."""
    if suite is None or not suite.beside:
        return False
    own = [request for request in suite.requests("model") if request not in suite.beside]
    return not any(matches(request, model) for request in own)


def _planned(record: Record, suite: Suite | None) -> int:
    """The seeds of the experiments that have the model and the task; 0 where that is not known."""
    if suite is None:
        return 0

    def has(experiment: Experiment) -> bool:
        kinds = ((experiment.models, record.model), (experiment.tasks, record.task))
        return all(any(matches(request, use) for request in requests) for requests, use in kinds)

    return max((suite.seeds_of(each) for each in suite.experiments if has(each)), default=0)


def _default(base: PluginUse, task: PluginUse, suite: Suite | None) -> dict[str, Any] | None:
    """The training settings that the grid varies, as they would be without it; None where that is not known."""
    known = [each for each in suite.defaults if (each.model, each.task) == (base.label, task.label)] if suite else []
    return known[0].training if known else None


def _cells(
    records: Sequence[Record],
    names: Sequence[str],
    grid: Mapping[str, list[Any]],
    default: dict[str, Any] | None,
    threshold: Threshold | None,
) -> list[Cell]:
    """Those that were run, and those of the grid that were not."""
    values: dict[tuple[str, ...], dict[str, Any]] = {}
    by_values: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        own = {name: _value(record, name) for name in names}
        key = tuple(map(written, own.values()))
        values.setdefault(key, own)
        by_values.setdefault(key, []).append(record)
    if all(name in grid for name in names):
        for cell in cells({name: grid[name] for name in names}):
            if cell.get("steps") == 0:
                continue  # nothing is learned there
            values.setdefault(tuple(map(written, cell.values())), cell)

    def cell_of(key: tuple[str, ...], own: dict[str, Any]) -> Cell:
        found = sorted(by_values.get(key, []), key=lambda record: record.seed)
        return Cell(own, found, threshold, _usual(found, names, default))

    return [cell_of(key, own) for key, own in sorted(values.items(), key=lambda item: [*map(_order, item[1].values())])]


def _value(record: Record, name: str) -> Any:
    return getattr(record.training, name) if name in Training.model_fields else record.model.arguments[name]


def _usual(records: Sequence[Record] | None, names: Iterable[str], default: dict[str, Any] | None) -> bool:
    """Whether a cell is what a user gets who says nothing of its fields."""
    if not records or default is None:
        return False
    training, given = records[0].training, label_arguments(records[0].model.label)
    as_usual = all(getattr(training, name) == value for name, value in default.items())
    return as_usual and not any(name in given for name in names)


def _order(value: Any) -> tuple[int, float, str]:
    """Numbers by size, before words by the alphabet."""
    return (0, float(value), "") if is_number(value) else (1, 0.0, written(value))


def is_number(value: Any) -> bool:
    """Whether a value has a place among others: none that is missing, a word, or a yes or no."""
    return isinstance(value, int | float) and not isinstance(value, bool)
