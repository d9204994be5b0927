"""What a grid says, as tables and sentences."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from harness.report.conditions import written
from harness.report.elements import Block, Heading, Items, Paragraph, Table
from harness.report.layout import Column
from harness.report.learnability import Cell, Learnability, Window, is_number, windows
from harness.report.numbers import number, spread
from harness.seeds import FEW_SEEDS, summarise
from harness.written import count, format_arguments

EVERYWHERE = "fails everywhere it was tried"
DEFAULT = "fails at the default"
NO_RESULT = "no result, all trials failed"
NOT_MEASURED = "not measured"
OUTSIDE = "not measured within the trained range"
BROKE = "broke"
BEYOND = "no score can be a success"
GUESSED = "guessing would be a success"


def grid_blocks(found: Sequence[Learnability], *, best_only: bool = False) -> list[Block]:
    """Nothing where nothing was varied; else for each task how many seeds succeeded where, the best cell of each model,
    and a sentence on each.

    Args:
        found: where each model learns each task.
        best_only: whether all other tables of the report are of the best cells alone.
    """
    found = [each for each in found if len(each.cells) > 1 or each.older]
    if not found:
        return []
    blocks: list[Block] = [Heading("Learnability")]
    tasks = list(dict.fromkeys(each.task for each in found))
    for task in tasks:
        own = [each for each in found if each.task == task]
        axes = dict.fromkeys(each.axis for each in own)
        blocks += [_rates([each for each in own if each.axis == axis], task, axis) for axis in axes]
        blocks.append(_best(own, f"The best cell on {task}" if len(tasks) > 1 else "The best cell"))
    blocks.append(Items([*_sentences(found)]))
    return [*blocks, *map(Paragraph, _explained(found, best_only))]


def _sentences(found: Sequence[Learnability]) -> Iterator[str]:
    """On each model, together on those of a task of which the same is to be said."""
    models: dict[tuple[str, str], list[str]] = {}
    for each in found:
        models.setdefault((each.task, sentence(each)), []).append(each.called)
    several = len({each.task for each in found}) > 1
    for (task, said), called in models.items():
        yield f"{', '.join(called)}{f' on {task}' if several else ''}: {said}."


def _rates(found: Sequence[Learnability], task: str, axis: str) -> Table:
    """A row for each model, and for each combination of what else was varied."""
    rows = [(_label(each, others), row) for each in found for others, row in each.rows()]
    values = {written(cell.values[axis]): cell.values[axis] for each in found for cell in each.cells}
    numbers = all(isinstance(value, int | float) for value in values.values())
    order = sorted(values, key=lambda text: values[text]) if numbers else list(values)
    whole, narrow = (
        [
            Column("model", [label for label, _ in rows], "label"),
            *(Column(text, [_cell(row, axis, text, scores) for _, row in rows], "text") for text in order),
            Column("works at", [_works(axis, row) for _, row in rows], "text"),
        ]
        for scores in (True, False)
    )
    return Table(whole, f"{task}: seeds that succeed, by {axis}", narrow=narrow)


def _label(each: Learnability, others: dict[str, Any]) -> str:
    return f"{each.called} ({format_arguments(others)})" if others else each.called


def _cell(row: Sequence[Cell], axis: str, text: str, scores: bool) -> str:
    """`2/3` over what is told of its scores; `broke` where no trial came to a result, a dash where none was run."""
    cell = next((cell for cell in row if written(cell.values[axis]) == text), None)
    if cell is None or not cell.seeds:
        return "" if cell is None else BROKE if cell.broken else "-"
    return "\n".join(filter(None, (cell.rate, cell.told if scores else "")))


def _works(axis: str, row: Sequence[Cell]) -> str:
    """`0.0003 .. 0.003, a factor of 10`."""
    words = (written(cell.values[axis]) for cell in row if cell.works and not is_number(cell.values[axis]))
    nowhere = "nowhere" if any(cell.rate for cell in row) else ""
    return "; ".join([*map(_window, windows(axis, row)), *words]) or nowhere


def _window(window: Window) -> str:
    ends = [word for word, open_ in (("lower", window.open_below), ("higher", window.open_above)) if open_]
    unknown = f"; nothing {' or '.join(ends)} was tried" if ends else ""
    if window.low == window.high:
        return f"{number_of(window.low)}{unknown}"
    width = "" if math.isnan(window.factor) else f", a factor of {window.factor:.3g}{' or more' if ends else ''}"
    return f"{number_of(window.low)} .. {number_of(window.high)}{width}{unknown}"


def number_of(value: float) -> str:
    """As a user would type it."""
    return f"{value:g}"


def _best(found: Sequence[Learnability], title: str) -> Table:
    best = [each.best for each in found]
    scores = [f"{spread(summarise(cell.scores))}{_diverged(cell)}" if cell else "" for cell in best]
    return Table(
        [
            Column("model", [each.called for each in found], "label"),
            Column("verdict", [verdict(each) for each in found], "text"),
            Column("best at", [format_arguments(dict(cell.values)) if cell else "none" for cell in best], "text"),
            Column("seeds", [cell.rate if cell else "" for cell in best]),
            Column("test score", scores),
            Column("validation loss", [number(cell.validation) if cell else "" for cell in best]),
        ],
        title,
    )


def _diverged(cell: Cell) -> str:
    return f" ({cell.diverged} diverged)" if cell.diverged else ""


def verdict(each: Learnability) -> str:
    """Where a model learns a task, in a few words."""
    if not each.tried:
        return NO_RESULT if any(cell.broken for cell in each.cells) else NOT_MEASURED
    if each.threshold is not None and each.threshold.beyond:
        return BEYOND
    if each.threshold is not None and each.threshold.within_luck:
        return GUESSED
    if each.outside:
        return OUTSIDE
    if each.threshold is None and any(cell.scores for cell in each.tried):
        return "no threshold"
    default = next((cell for cell in each.tried if cell.default), None)
    works = [cell for cell in each.tried if cell.works]
    if not any(cell.successes for cell in each.tried):
        words = EVERYWHERE
    elif not works:
        words = "for some seeds only"
    elif default is None:
        words = "works"
    elif default.works:
        words = "works at the default"
    elif default.successes:
        words = "for some seeds at the default, works elsewhere"
    else:
        words = f"{DEFAULT}, works elsewhere"
    seeds = _seeds(each)
    if seeds < each.planned:
        words += f" ({seeds} of {count(each.planned, 'seed')})"
    elif seeds < FEW_SEEDS:
        words += f" ({count(seeds, 'seed')})"
    return words if seeds >= FEW_SEEDS else f"? {words}"


def _seeds(each: Learnability) -> int:
    """The fewest of a cell that was tried."""
    return min(cell.seeds for cell in each.tried)


def sentence(each: Learnability) -> str:
    """What the grid says of a model on a task."""
    words = verdict(each)
    if words in (NO_RESULT, NOT_MEASURED, OUTSIDE):
        return words
    if words in (BEYOND, GUESSED) and each.threshold:
        return f"--success {number_of(each.threshold.value)} is {each.threshold.problem}"
    if words == "no threshold":
        return "its metric states no scale from chance to the best, so that no score is a success; say --success SCORE"
    parts = [words, *_more(each)]
    if _seeds(each) < FEW_SEEDS:
        parts.append(f"a verdict about an architecture takes {FEW_SEEDS} seeds")
    return "; ".join(parts)


def _more(each: Learnability) -> Iterator[str]:
    """Where it was tried, what is the default, and what else there is to say."""
    default = next((cell for cell in each.tried if cell.default), None)
    seeds = sorted({cell.seeds for cell in each.tried})
    many = count(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    if not any(cell.successes for cell in each.tried):
        yield f"tried: {_tried(each)}, {many} each"
        if each.brief:
            yield "some were trained too briefly, so that more steps may change that"
    most = max(each.tried, key=lambda cell: cell.successes / cell.seeds)
    if not most.works and most.successes:
        yield f"at most {most.successes} of {most.seeds}, at {format_arguments(dict(most.values))}"
    if default is not None:
        yield f"the default is {format_arguments(dict(default.values))}"
        if not default.works and (works := [cell for cell in each.tried if cell.works]):
            at = ", ".join(format_arguments(dict(cell.values)) for cell in works[:3])
            yield f"works at {at}{' and elsewhere' if len(works) > 3 else ''}"
    elif each.default_training is not None:
        tried = [cell.records[0].training for cell in each.tried]
        new = {
            name: value
            for name, value in each.default_training.items()
            if all(getattr(training, name) != value for training in tried)
        }
        yield f"the default{f', {format_arguments(new)},' if new else ''} was not tried"
    best = each.best
    if best is not None and not best.works and (works := [cell for cell in each.tried if cell.works]):
        yield "what is best on validation data is not where every seed succeeds"
    trials = sum(cell.seeds for cell in each.cells)
    if diverged := sum(cell.diverged for cell in each.cells):
        yield f"{diverged} of {count(trials, 'trial')} diverged"
    if near := sum(cell.near for cell in each.cells):
        yield f"{near} of {count(trials, 'trial')} within two standard errors of the threshold: use more --examples"
    if broken := sum(cell.broken for cell in each.cells):
        yield f"{broken} of {count(trials + broken, 'trial')} broke, which says nothing of the model"
    if missing := sum(not (cell.seeds or cell.broken) for cell in each.cells):
        yield f"{count(missing, 'cell')} not run"


def _tried(each: Learnability) -> str:
    """`lr 0.0001 .. 0.01 (5 values), layers 1, 2`."""
    parts = []
    for name in each.fields:
        values = list(dict.fromkeys(written(cell.values[name]) for cell in each.tried))
        numbers = [cell.values[name] for cell in each.tried]
        if len(values) > 2 and all(isinstance(value, int | float) for value in numbers):
            low, high = min(numbers), max(numbers)
            parts.append(f"{name} {written(low)} .. {written(high)} ({len(values)} values)")
        else:
            parts.append(f"{name} {', '.join(values)}")
    return ", ".join(parts)


def _explained(found: Sequence[Learnability], best_only: bool) -> Iterator[str]:
    """What counts as a success, and how the best cell is chosen."""
    thresholds = dict.fromkeys(f"{each.task}: {each.threshold}" for each in found if each.threshold)
    several = len({text.partition(": ")[2] for text in thresholds}) > 1
    said = "; ".join(thresholds) if several else next((text.partition(": ")[2] for text in thresholds), "")
    if said:
        yield (
            f"A seed succeeds where its worst score within the trained range is {said}; one whose loss diverged did "
            "not, and a trial that broke otherwise is no seed. A model works where every seed succeeds. Where there is "
            "room, the median score stands with the rate, or how many seeds diverged."
        )
    others = " All other tables are of it; --format csv has every cell." if best_only else ""
    yield (
        "The best cell has the lowest median validation loss; its score is on test data, by which nothing was chosen."
        f"{others}"
    )
    if older := [each for each in found if each.older]:
        whose = ", ".join(dict.fromkeys(f"{each.called} on {each.task}" for each in older))
        records = count(sum(len(each.older) for each in older), "record")
        yield (
            f"{records} of {whose} left out: the code of the model or the task was edited since, and the same code is "
            "to be compared; run those cells again."
        )
