"""Checks of where a task's data comes from: seeds, random states and the training stream."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, islice

from harness.batches import Batch
from harness.examples import seeded
from harness.testing.checks import Failed, NotApplicable, check
from harness.testing.tasks.case import BATCHES, TaskCase
from harness.testing.untouched import move_random_states, moved_since, random_states, same_batches


@check(
    asks="the same seed gives the same data",
    means="models are compared on different data, and no run can be repeated",
    fix="draw everything from the generator that is handed in: torch.randint(..., generator=generator)",
    after=BATCHES,
)
def same_seed(case: TaskCase) -> None:
    """Two instances, from generators with the same seed."""
    for (name, where, one), (_, _, two) in zip(case.batches(), case.batches(case.build()), strict=True):
        if not same_batches(one, two):
            raise Failed(f"{name} gives other data for the same seed", where)


@check(
    asks="training, validation and test, and all seeds, have data of their own",
    means="models are tested on what they were trained on, or an interval over seeds leaves out the data",
    fix="seed nothing yourself; use the generator that is handed in (fixed_data = True says that a data set is "
    "the same for every seed)",
    after=("same_seed",),
)
def other_seeds(case: TaskCase) -> str:
    """Training, validation and test, and two seeds of each."""
    if case.task.fixed_data or case.says.files(**case.plugin.arguments):
        raise NotApplicable("its data is a fixed set, from files")
    streams = {
        f"{use} data of seed {seed}": case.train(seeded(use, seed))
        for use in ("train", "validation")
        for seed in (0, 1)
    }
    for one, two in combinations(streams, 2):
        if same_batches(streams[one], streams[two]):
            raise Failed(f"the {one} is also the {two}", case.at("train"))
    same = [
        str(condition)
        for condition in case.conditions
        if same_batches(case.evaluate(condition, seed=0), case.evaluate(condition, seed=1))
    ]
    if len(same) == len(case.conditions):
        raise Failed("every seed is evaluated on the same examples", case.at("evaluate"))
    return f"except in {', '.join(same)}, where there is nothing to draw" if same else "all differ"


@check(
    asks="data neither depends on the global random state nor changes it",
    means="data depends on the model that was built before it",
    fix="pass generator=generator to every torch.rand...; use neither numpy.random nor random",
    after=BATCHES,
)
def random_state(case: TaskCase) -> None:
    """Moves the global random states between two runs, and looks whether they moved during one."""
    before = random_states()
    first = list(case.batches())
    if moved := moved_since(before):
        raise Failed(f"making data draws from the global random state of {' and '.join(moved)}", case.at("train"))
    move_random_states()
    for (name, where, one), (_, _, two) in zip(first, case.batches(), strict=True):
        if not same_batches(one, two):
            raise Failed(f"{name} depends on the global random state", where)


@check(
    asks="the training stream does not end",
    means="training stops with an error as soon as the data is used up",
    fix="`while True:` around the loop of train(); reshuffle a finite set each time",
    after=BATCHES,
)
def endless(case: TaskCase) -> str:
    """A finite set starts over; a stream does not end."""
    finite = case.task.examples
    size = 16 if finite is None else max(1, finite // 2 + 1)
    taken = list(islice(case.task.train(size, seeded("train", 0)), 5))
    if len(taken) < 5:
        raise Failed(f"the training stream ends after {len(taken)} batches of {size}", case.at("train"))
    if max(map(len, taken)) > size or not all(len(batch) for batch in taken):
        have = ", ".join(str(len(batch)) for batch in taken)
        raise Failed(f"batches of {size} were asked for; they have {have}", case.at("train"))
    return "an endless stream" if finite is None else f"{finite} examples, which start over"


@check(
    asks="a finite training set is gone through in passes, each example once",
    means="epochs are not passes: some examples are learned more often than others",
    fix="for rows in torch.randperm(n, generator=generator).split(batch_size): the last batch is smaller; if new "
    "examples are drawn all the time, leave `examples` None",
    after=("endless",),
)
def passes(case: TaskCase) -> str:
    """Takes two passes, in batches that do not divide them."""
    finite = case.task.examples
    if finite is None:
        raise NotApplicable("its training stream has no end, and its training no epochs")
    size = finite // 2 + 1
    batches = math.ceil(finite / size)
    stream = iter(case.task.train(size, seeded("train", 0)))
    first, second = ([next(stream) for _ in range(batches)] for _ in range(2))
    for name, one in (("first", first), ("second", second)):
        if sum(map(len, one)) != finite:
            sizes = " and ".join(str(len(batch)) for batch in one)
            raise Failed(
                f"batches of {size} were asked for; of {finite} examples, the {name} pass has {sizes}",
                case.at("train"),
            )
    if others := (Counter(_examples(second)) - Counter(_examples(first))).total():
        raise Failed(f"{others} of the {finite} examples of the second pass were not in the first", case.at("train"))
    return f"{finite} examples in each"


def _examples(batches: list[Batch]) -> Iterator[bytes]:
    """Each example's tokens and targets, without padding."""
    for batch in batches:
        for tokens, targets, mask in zip(batch.tokens, batch.targets, batch.mask, strict=True):
            yield tokens[mask].numpy().tobytes() + targets[mask].numpy().tobytes()
