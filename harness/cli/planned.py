"""What `harness run --dry-run` says of a plan: each trial with its cells; of many trials, what is crossed with what."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.written import count

if TYPE_CHECKING:  # whoever calls with a plan has imported them
    from harness.plan import Plan, Planned
    from harness.schema import PluginUse, Trial

MOST_TRIALS = 40
"""Of a plan with more, trials are not listed one by one."""

TOLD = ("steps", "epochs", "lr")
"""Settings that are told of every trial; of others those in which trials differ."""


def plan_lines(plan: "Plan") -> Iterator[str]:
    """What is planned, for people."""
    return _one_by_one(plan) if len(plan.trials) <= MOST_TRIALS else _in_groups(plan)


def plan_data(plan: "Plan", out: Path | str) -> str:
    """Every trial and cell with its id, and where records would go, as JSON."""
    trials = [
        {
            "id": planned.trial.id,
            "model": planned.trial.model.label,
            "task": planned.trial.task.label,
            "seed": planned.trial.seed,
            "training": planned.trial.training.model_dump(mode="json"),
            "error": planned.broken.message if planned.broken else None,
            "cells": [{"id": cell.id, "probe": cell.probe.label, "stage": cell.stage} for cell in planned.cells],
        }
        for planned in plan.trials
    ]
    return json.dumps({"out": str(out), "shard": plan.shard, "trials": trials}, indent=1)


def _one_by_one(plan: "Plan") -> Iterator[str]:
    varied = _varied([planned.trial for planned in plan.trials])
    for planned in plan.trials:
        trial = planned.trial
        yield f"{trial.id}  {_called(trial.model)} on {trial.task.called}, seed {trial.seed}, {_how([planned], varied)}"
        if planned.broken:
            yield f"  cannot run: {planned.broken.message}"
        for cell in planned.cells:
            yield f"  {cell.id}  {cell.probe.called} ({cell.stage})"


def _in_groups(plan: "Plan") -> Iterator[str]:
    """Models on tasks, with all seeds, settings and probes; together stand those of which the same is to be said."""
    from harness.grids import argument_part
    from harness.matching import without

    varied = _varied([planned.trial for planned in plan.trials])
    arguments = [*argument_part(plan.suite.grid)]
    groups: dict[tuple[str, str], list[Planned]] = {}
    for planned in plan.trials:
        model = _called(without(planned.trial.model, arguments))
        groups.setdefault((model, planned.trial.task.called), []).append(planned)
    said = {key: _details(own, varied, arguments) for key, own in groups.items()}
    by_model = _crossed(said)
    by_task = [(models, tasks, how) for tasks, models, how in _crossed({(t, m): how for (m, t), how in said.items()})]
    for models, tasks, details in min(by_model, by_task, key=len):
        every = [planned for model in models for task in tasks for planned in groups[model, task]]
        trials, cells = count(len(every), "trial"), count(sum(len(each.cells) for each in every), "cell")
        yield f"{', '.join(models)} on {', '.join(tasks)}: {trials}, {cells}"
        yield f"  {details}"
    for message in dict.fromkeys(planned.broken.message for planned in plan.trials if planned.broken):
        yield f"  cannot run: {message}"
    yield "Each of them with its id: --dry-run --format json"


def _crossed(said: dict[tuple[str, str], str]) -> list[tuple[Sequence[str], Sequence[str], str]]:
    """Pairs as a few crosses: all that a first stands with, and then all firsts that stand with the same."""
    rows: dict[tuple[str, str], list[str]] = {}
    for (first, second), details in said.items():
        rows.setdefault((first, details), []).append(second)
    blocks: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (first, details), seconds in rows.items():
        blocks.setdefault((tuple(seconds), details), []).append(first)
    return [(firsts, seconds, details) for (seconds, details), firsts in blocks.items()]


def _details(group: "Sequence[Planned]", varied: Iterable[str], arguments: Iterable[str]) -> str:
    """Seeds, settings, arguments of the grid and probes of some trials of one model on one task."""
    from harness.seeds import name_seeds

    models = [planned.trial.model for planned in group]
    given = {name: [use.arguments[name] for use in models if name in use.arguments] for name in arguments}
    parts = [name_seeds({planned.trial.seed for planned in group}), _how(group, varied)]
    parts += [f"{name} {_values(values)}" for name, values in given.items() if values]
    stages: dict[str, dict[str, None]] = {}
    for cell in chain.from_iterable(planned.cells for planned in group):
        stages.setdefault(cell.probe.called, {})[cell.stage] = None
    probes = [f"{probe} ({' and '.join(when)})" for probe, when in stages.items()]
    return "; ".join([*parts, *probes])


def _called(use: "PluginUse") -> str:
    return f"{use.alias}={use.label}" if use.alias else str(use.label)


def _how(group: "Sequence[Planned]", varied: Iterable[str]) -> str:
    """How the trials are trained, with all values of what differs among them."""
    first, trainings = group[0], [planned.trial.training for planned in group]
    steps = [each.steps for each in trainings if each.steps is not None]
    epochs = [each.epochs for each in trainings if each.steps is None]
    lengths = [count(_values(values), word) for values, word in ((steps, "step"), (epochs, "epoch")) if values]
    told = {name: f"{name} {_values([getattr(each, name) for each in trainings])}" for name in varied}
    if first.trial.pretrained:
        how = "pretrained, not trained"
    elif first.fits:
        batch_size = [told["batch_size"]] if "batch_size" in told else []
        how = ", ".join(["fitted", f"{' or '.join(lengths)} at most", *batch_size])
    else:
        how = ", ".join([" or ".join(lengths), f"lr {_values(each.lr for each in trainings)}", *told.values()])
    return how + (" (one seed stands for all: the data is fixed)" if first.for_all_seeds else "")


def _values(values: Iterable[Any]) -> str:
    """Each once, in order, as a user types them."""
    from harness.report.conditions import written

    return ", ".join(dict.fromkeys(map(written, values)))


def _varied(trials: "Sequence[Trial]") -> list[str]:
    """The training settings in which trials of one model on one task differ, beside those that are told anyway."""
    from harness.report.conditions import differing

    ways: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for trial in trials:
        ways.setdefault((trial.model.label, trial.task.label), []).append(trial.training.model_dump())
    return [name for name in dict.fromkeys(chain.from_iterable(map(differing, ways.values()))) if name not in TOLD]
