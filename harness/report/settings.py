"""What a report says about how models were trained and on what they were measured, before it shows any number."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.report.conditions import SETTINGS, conditions, differing, examples_used, trained, written
from harness.report.elements import Block, Heading, Paragraph, Table
from harness.report.grouping import marked, names
from harness.report.layout import Column
from harness.report.numbers import spread
from harness.schema import Record, Training
from harness.seeds import Identity, identity, name_seeds, summarise
from harness.suites import Suite
from harness.written import count


def settings_blocks(records: Sequence[Record], suite: Suite | None, listed: Iterable[Record]) -> list[Block]:
    """What all models have in common, then how the training of each one went.

    Args:
        records: those of the run.
        suite: that of the run.
        listed: of which trainings are listed.
    """
    found = [record for record in listed if trained(record) and record.status != "skipped"]
    parts = [_training(found)] if found else []
    parts += [_evaluation(records), f"Measured {'; '.join(_machines(records))}."]
    blocks: list[Block] = [Heading("Settings"), Paragraph(" ".join(parts))]
    if done := [record for record in found if record.trained is not None]:
        models, tasks = (names(records, kind, suite) for kind in ("model", "task"))
        blocks.append(_trainings(done, models, tasks))
    return blocks


def _training(records: Sequence[Record]) -> str:
    every = _alone(records)
    varied = differing(every)
    told = {name: value for each in reversed(every) for name, value in each.items()}
    first = {name: told[name] for name in SETTINGS if name in told}
    unused = [name for name in ("truncate", "steps", "epochs", "validate_every", "patience") if first.get(name) is None]
    fixed = {name: value for name, value in first.items() if name not in (*varied, *unused, "device")}
    text = ", ".join(f"{name}={written(value)}" for name, value in fixed.items())
    return f"Training: {text}{f'; {_listed(varied)} as listed below' if varied else ''}."


def _alone(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The settings of training, without those of the evaluation."""
    return [{name: value for name, value in conditions(r).items() if name != "examples"} for r in records]


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _evaluation(records: Sequence[Record]) -> str:
    examples = sorted({record.examples for record in records})
    text = f"at most {' or '.join(map(str, examples))} examples per condition"
    if fewer := examples_used(records):
        text += f" ({', '.join(f'{n} for {probe}' for probe, n in fewer.items())})"
    return f"Evaluation: {text}, {name_seeds({record.seed for record in records})}."


def _machines(records: Sequence[Record]) -> list[str]:
    """`on AMD EPYC, 1 thread, with torch 2.13.0`, for all that took part."""
    found = sorted({(p.device, p.threads, p.torch) for p in (record.provenance for record in records)})
    return [f"on {device}, {count(threads, 'thread')}, with torch {torch}" for device, threads, torch in found]


def _trainings(records: Sequence[Record], models: Mapping[Identity, str], tasks: Mapping[Identity, str]) -> Table:
    """A row for each model, task and way of training: where the ways differ, the steps if they were not those that were
    asked for, and the validation loss. Models and tasks are called as in the rest of the report, also where some of
    them were not trained."""
    ways: dict[tuple[Identity, Identity, Training, str], dict[int, Record]] = {}
    for record in records:
        key = (identity(record.task), identity(record.model), record.training, record.device)
        ways.setdefault(key, {})[record.seed] = record
    rank = {key: index for index, key in enumerate((*tasks, *models))}
    rows = [list(ways[key].values()) for key in sorted(ways, key=lambda key: (rank[key[0]], rank[key[1]]))]
    first = [row[0] for row in rows]
    columns = [Column("model", [marked(models[identity(row[0].model)], row) for row in rows], "label")]
    if len({identity(record.task) for record in first}) > 1:
        columns.append(Column("task", [tasks[identity(record.task)] for record in first], "label"))
    settings = _alone(first)
    columns += [
        Column(name, [written(each[name]) if name in each else "" for each in settings]) for name in differing(settings)
    ]
    how = [[record.trained for record in row if record.trained] for row in rows]
    if any(each.steps != record.training.steps for record, found in zip(first, how, strict=True) for each in found):
        columns.append(Column("steps taken", [spread(summarise(each.steps for each in found)) for found in how]))
    columns.append(
        Column("validation loss", [spread(summarise(each.validation_loss for each in found)) for found in how])
    )
    return Table(columns)
