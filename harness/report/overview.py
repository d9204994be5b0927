"""Several models on several tasks, each at its best: one table, and what is special about those that came beside."""

from collections.abc import Sequence

from harness.report.elements import Block, Items, Paragraph, Table
from harness.report.grid_table import BROKE
from harness.report.grouping import marked
from harness.report.layout import Column
from harness.report.learnability import Cell, Learnability
from harness.seeds import FEW_SEEDS
from harness.written import count

MARK = ">"
"""Before a model that a user put beside those of a suite."""


def overview_blocks(found: Sequence[Learnability]) -> list[Block]:
    """A row for each model, a column for each task; nothing where there is one task.

    Args:
        found: where each model learns each task.
    """
    tasks = list(dict.fromkeys(each.task for each in found))
    if len(tasks) < 2:
        return []
    models = sorted(dict.fromkeys((each.model, each.beside) for each in found), key=lambda model: not model[1])
    records = {model: [r for each in found if each.model == model for r in each.records] for model, _ in models}
    learnt = {(each.model, each.task): each for each in found}
    table = Table(
        [
            Column("model", [MARK * beside + marked(model, records[model]) for model, beside in models], "label"),
            *(Column(task, [_cell(learnt.get((model, task))) for model, _ in models], "text") for task in tasks),
        ],
        "Every model at its best: seeds that succeed, over the median score",
    )
    own = [(each, _special(each, found)) for each in found if each.beside]
    special = [f"{each.called} on {each.task} {words}." for each, words in own if words]
    blocks: list[Block] = [Items(special), table] if special else [table]
    if any(beside for _, beside in models):
        blocks.append(Paragraph(f"{MARK} marks what was put beside the suite's own models."))
    return blocks


def _shown(each: Learnability) -> Cell | None:
    """Its best cell; where none is, since all diverged, the first that came to this."""
    return each.best or next(iter(each.tried), None)


def _cell(each: Learnability | None) -> str:
    cell = None if each is None else _shown(each)
    if cell is None:
        return BROKE if each and any(cell.broken for cell in each.cells) else "-"
    return "\n".join(filter(None, (cell.rate, cell.told)))


def _special(each: Learnability, found: Sequence[Learnability]) -> str:
    """What tells a model from the suite's own on one task: it works where most of them fail, or nowhere where most do;
    "" for neither, and of fewer seeds than a verdict takes."""
    others = [_shown(other) for other in found if other.task == each.task and not other.beside]
    known = [other for other in others if other is not None and other.seeds >= FEW_SEEDS]
    best = _shown(each)
    if best is None or not best.rate or best.seeds < FEW_SEEDS or not known:
        return ""
    works, many = sum(other.works for other in known), count(len(known), "other model")
    if best.works and 2 * works < len(known):
        why = "; its warnings may say why" if any(record.warnings for record in each.records) else ""
        return f"works, where {works or 'none'} of {many} {'does' if works <= 1 else 'do'}{why}"
    if not any(cell.works for cell in each.cells) and 2 * works > len(known):
        return f"does not work ({best.successes}/{best.seeds}), where {works} of {many} do"
    return ""
