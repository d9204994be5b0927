"""A plan in parts, for machines that know nothing of one another."""

import heapq
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import RequestError
from harness.files import write_atomic
from harness.plan import Plan, Planned

SHARDS = "shards"
"""The folder of a run that has a file for each shard that ran into it."""

EPOCH = 10_000
"""Examples that a pass over a training set is taken for: how many there are is known when the task is built."""

BACKWARD = 3
"""What a training example costs, in forward passes."""

CONDITIONS = 5
"""Conditions that a task is taken to have; examples are asked for by condition."""


class Shard(NamedTuple):
    """One of several parts of a plan."""

    number: int
    """Which one, from 1."""
    total: int
    """How many there are."""

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"

    @classmethod
    def read(cls, value: Any) -> "Shard":
        """A shard as users give it: `"3/16"`, or `(3, 16)`.

        Raises:
            RequestError: it is none.
        """
        parts = value.split("/") if isinstance(value, str) else value
        try:
            number, total = (int(part) if isinstance(part, str) and part.isdecimal() else part for part in parts)
        except (TypeError, ValueError):
            number = total = None
        if type(number) is not int or type(total) is not int or total < 1:
            raise RequestError(f"a shard is written NUMBER/HOW MANY, for example 3/16, or (3, 16); received {value!r}")
        if not 1 <= number <= total:
            raise RequestError(
                f"there is no shard {number} of {total}: shards are counted from 1/{total} to {total}/{total}"
            )
        return cls(number, total)

    def of(self, plan: Plan) -> Plan:
        """This part of a plan: whole trials, each in exactly one shard, with about the same work in all of them.

        What decides is the order of the suite and the training settings, which every machine knows, and not what is
        measured already. The most expensive trials are dealt first, each to the shard with the least work. What a model
        or a long sequence costs is not known before they are built, but seeds of one model cost the same: as neighbours
        in the plan they are dealt to different shards, so that all get equal shares of slow models too.
        """
        costs = [cost(planned) for planned in plan.trials]
        # a heap, least work first; then fewest trials, for where trials cost nothing
        shards = [(0.0, 0, index) for index in range(1, min(self.total, len(costs)) + 1)]
        mine = set()
        for place in sorted(range(len(costs)), key=lambda place: -costs[place]):
            work, trials, index = shards[0]
            heapq.heapreplace(shards, (work + costs[place], trials + 1, index))
            if index == self.number:
                mine.add(place)
        return replace(plan, trials=[each for place, each in enumerate(plan.trials) if place in mine], shard=str(self))


def cost(planned: Planned) -> float:
    """An estimate of a trial's work, in forward passes of one sequence."""
    training = planned.trial.training
    passes = training.epochs * EPOCH if training.epochs is not None else (training.steps or 0) * training.batch_size
    measured = sum(cell.examples for cell in planned.cells) * CONDITIONS
    return BACKWARD * (0 if planned.trial.pretrained else passes) + measured


def remember(run: Path, shard: str) -> None:
    """Note in a run directory that this shard of a suite runs into it, or ("") all of it. A file for each shard: those
    of one suite may run into one directory at once."""
    folder = run / SHARDS
    if shard:
        folder.mkdir(exist_ok=True)
        write_atomic(folder / shard.replace("/", "-of-"), b"")
    else:
        shutil.rmtree(folder, ignore_errors=True)


def remembered(run: Path) -> list[Shard]:
    """The shards that have run into a directory."""
    found: list[Shard] = []
    for path in (run / SHARDS).glob("[0-9]*-of-*[0-9]"):
        with suppress(RequestError):  # no run has written that
            found.append(Shard.read(path.name.replace("-of-", "/")))
    return sorted(found, key=lambda shard: (shard.total, shard.number))


def missing_parts(run: Path) -> str:
    """What to tell of a directory that has some shards of a suite and not all; "" for others."""
    shards = remembered(run)
    if not shards or any(len([each for each in shards if each.total == total]) == total for _, total in shards):
        return ""
    which = f"shard {shards[0]}" if len(shards) == 1 else f"shards {', '.join(map(str, shards))}"
    return f"Only {which} of the suite ran into this directory; harness merge puts shards together."
