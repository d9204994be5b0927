"""From seeds to summaries: which records are seeds of one another, and what their numbers come to.

Reports, claims and results share it, and none of them needs torch for it. Nothing that a record holds depends on it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.errors import DivergedError
from harness.schema import PluginUse, Record
from harness.vocabulary import SEEDS_ALIKE

FEW_SEEDS = 3
"""With fewer seeds than this, nothing is concluded about an architecture."""
MANY_SEEDS = 10
"""Of more seeds the 10 % and 90 % quantiles are told, and not the outermost, which move apart with every seed."""


@dataclass(frozen=True)
class Summary:
    """One number per seed, summarised. NaN is counted and otherwise left out; infinity is a number."""

    n: int
    """Values that are numbers."""
    nan: int
    """Values that are NaN."""
    median: float
    minimum: float
    maximum: float
    low: float
    """The 10 % quantile of more than `MANY_SEEDS` values, otherwise the smallest."""
    high: float
    """The 90 % quantile of more than `MANY_SEEDS` values, otherwise the largest."""

    @property
    def many(self) -> bool:
        """Whether `low` and `high` are quantiles."""
        return self.n > MANY_SEEDS


def summarise(values: Iterable[float]) -> Summary:
    """Median and range of `values`, one per seed; all NaN where there is no number."""
    given = [float(value) for value in values]
    numbers = sorted(value for value in given if not math.isnan(value))
    if not numbers:
        return Summary(0, len(given), *[math.nan] * 5)
    outer = (0.1, 0.9) if len(numbers) > MANY_SEEDS else (0.0, 1.0)
    told = (quantile(numbers, share) for share in (0.5, 0.0, 1.0, *outer))
    return Summary(len(numbers), len(given) - len(numbers), *told)


def quantile(numbers: Sequence[float], share: float) -> float:
    """The number below which that share of sorted numbers lies, 0 to 1; between two of them, on the line through both.
    (Half of each is added, since the sum of two may be more than a float can say.)"""
    place = share * (len(numbers) - 1)
    below = math.floor(place)
    above = place - below
    if not above or numbers[below] == numbers[below + 1]:
        return numbers[below]
    return (1 - above) * numbers[below] + above * numbers[below + 1]


def percent(share: float) -> str:
    """`60 %`."""
    return f"{100 * share:g} %"


def coverage(n: int) -> float:
    """The probability that the range of `n` seeds contains the median over all possible seeds.

    Every seed falls on either side of that median with probability 1/2, whatever the distribution, so the
    range misses it only if all seeds fall on one side: 1 - 2 / 2^n. That is 0.75 for 3 seeds and 0.94 for 5;
    more cannot be said of so few without assuming a distribution (the interval that goes with a sign test).
    """
    return 1 - 2 * 0.5**n if n > 0 else 0.0


def came_to_a_result(record: Record) -> bool:
    """Whether a record says something of its model: it was measured, or the loss diverged in training. A trial that
    broke otherwise, because of an error in the code or a process that was ended, says nothing."""
    return record.status == "ok" or (record.error is not None and record.error.type == DivergedError.__name__)


def validation_loss(records: Iterable[Record]) -> float:
    """The median over seeds of the validation loss at the end of training, by which one way of training is chosen among
    others. A seed that diverged, or whose loss is NaN, counts as infinite, one that broke does not count; NaN where
    nothing was trained."""
    records = [record for record in records if record.trained is not None or came_to_a_result(record)]
    if not any(record.trained is not None for record in records):
        return math.nan
    losses = [math.inf if r.trained is None else r.trained.validation_loss for r in records]
    return quantile(sorted(math.inf if math.isnan(loss) else loss for loss in losses), 0.5)


def name_seeds(seeds: Iterable[int]) -> str:
    """`seed 4`, `seeds 0-2, 7`."""
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"seed{'s' if sum(map(len, runs)) > 1 else ''} {', '.join(parts)}"


Identity = tuple[str, str, str]
"""Distribution, label and place of a plugin as used."""


def identity(use: PluginUse) -> Identity:
    """Which plugin a `use` is of, in any of its versions: one from a package by distribution and label; one without a
    package also by where it is, so that two files of the same name in different folders are two plugins."""
    return use.distribution, use.label, "" if use.distribution else use.target


def current(records: Iterable[Record]) -> tuple[list[Record], int]:
    """The records that count as seeds, in the order given, and how many older ones they supersede.

    Among records that agree in model, task, probe (`identity`), stage, training, number of evaluation examples and
    device, only those with the plugin sources of the newest one are kept, and of these the newest for each seed. So a
    file that was edited and run again supersedes what it was before. A file of the same name in another folder
    supersedes nothing, even if it is a copy: reports show both, with their folders.
    """
    records = list(records)
    sources: dict[object, object] = {}
    kept: dict[object, int] = {}
    newest_first = sorted(enumerate(records), key=lambda item: item[1].provenance.order, reverse=True)
    for index, record in newest_first:
        plugins = (record.model, record.task, record.probe)
        cell = (
            tuple(map(identity, plugins)),
            record.stage,
            record.training,
            record.examples,
            record.device,
        )
        digests = (*(use.digest for use in plugins), record.provenance.core)
        if sources.setdefault(cell, digests) == digests:
            kept.setdefault((cell, record.seed), index)
    return [records[index] for index in sorted(kept.values())], len(records) - len(kept)


def of_newest_code(records: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """Those of `current` records that the newest code of their model and task gave, and the others: of ways of training
    between which code was edited, none is to be called the better one. Numbers among a model's arguments tell no code
    apart; texts may name a file."""
    records = list(records)
    newest: dict[object, object] = {}
    older = set()
    newest_first = sorted(enumerate(records), key=lambda item: item[1].provenance.order, reverse=True)
    for index, record in newest_first:
        model = record.model
        texts = {name: str(v) for name, v in model.arguments.items() if not isinstance(v, int | float | None)}
        code = (model.distribution, model.name, model.target, str(sorted(texts.items())), identity(record.task))
        digests = (model.digest, record.task.digest)
        if newest.setdefault(code, digests) != digests:
            older.add(index)
    return [r for i, r in enumerate(records) if i not in older], [records[i] for i in sorted(older)]


def measured_once(records: Sequence[Record]) -> bool:
    """Whether `records` are of a pretrained model measured on one set of examples, so that more seeds would add
    nothing. What is left to chance is which examples these are, and standard errors tell how much that is."""
    return all(record.pretrained for record in records) and len({record.data or record.id for record in records}) == 1


def seeds_alike(records: Iterable[Record]) -> bool:
    """Whether the model of `records` was built from the same weights whatever the seed, so that seeds are no
    repetitions."""
    return any(SEEDS_ALIKE in warning for record in records for warning in record.warnings)
