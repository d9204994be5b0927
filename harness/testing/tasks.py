"""What every task should do: the checks of its data, and the list of all checks of a task."""

from itertools import groupby

import torch

from harness.contracts import IGNORE, Batch, Condition, Interface, Metric, seeded
from harness.testing.checks import Check, Checker, Failed, NotApplicable, Report
from harness.testing.plugins import ADVICE, ARGUMENTS, Plugin, as_target
from harness.testing.task_case import TaskCase
from harness.testing.task_scores import SCORES
from harness.testing.task_streams import BATCHES, STREAMS


def check_task(task: Plugin) -> Report:
    """Check a task: a registered name with or without arguments, a file (`./copy.py:Copy`) or a class."""
    return task_checker(task).report()


def task_checker(task: Plugin) -> Checker:
    """The checks of a task, ready to run."""
    target, request = as_target("task", task)
    return Checker("task", str(request), TASK_CHECKS, TaskCase(target, request))


def interface(case: TaskCase) -> str:
    """What the harness reads before it asks for data."""
    task = case.task
    if not isinstance(getattr(task, "interface", None), Interface):
        raise Failed("it has no `interface`; say interface = Interface(vocabulary, classes)", case.where())
    metrics = getattr(task, "metrics", None)
    if not metrics or not all(isinstance(metric, Metric) for metric in metrics.values()):
        raise Failed("it has no `metrics`: a name and a Metric(unit, chance=..., best=...) for each", case.where())
    face = task.interface
    return f"{face.input_size} {face.input} in, {face.output_size} {face.output} out; headline {task.headline!r}"


def conditions(case: TaskCase) -> str:
    """Order, names and flags."""
    found = list(case.task.conditions())
    where = case.where("conditions")
    if not found or not all(isinstance(condition, Condition) for condition in found):
        raise Failed(f"conditions() gave {found!r:.80}; at least one Condition is expected", where)
    names = [str(condition) for condition in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Failed(f"the conditions {', '.join(twice)} are there twice; x and group tell them apart", where)
    groups = [group for group, _ in groupby(condition.group for condition in found)]
    if len(groups) != len(set(groups)):
        raise Failed("the conditions of a group do not stand together", where)
    for group in groups:
        places = [condition.x for condition in found if condition.group == group]
        if places != sorted(places):
            raise Failed(f"x is not in order: {places}" + (f" in group {group!r}" if group else ""), where)
    if not any(condition.inside for condition in found):
        raise Failed("no condition is inside the trained range, so that never learned and forgotten look alike", where)
    if list(case.build().conditions()) != found:
        raise Failed("conditions() gives other conditions the second time", where)
    return f"{len(found)} conditions, {sum(condition.inside for condition in found)} inside the trained range"


def shapes(case: TaskCase) -> None:
    """Axes and types of everything in a batch, in training and in each condition."""
    face = case.task.interface
    for name, batch in case.batches():
        where = case.where_of(name)
        if not isinstance(batch, Batch):
            raise Failed(f"{name} gave a {type(batch).__name__}; a Batch is expected", where)
        size = tuple(batch.tokens.shape[:2])
        vectors = face.input == "vectors"
        if batch.tokens.is_floating_point() != vectors or batch.tokens.ndim != (3 if vectors else 2):
            raise Failed(
                f"{name}: the interface promises {face.input}, tokens are {tuple(batch.tokens.shape)} of "
                f"{batch.tokens.dtype}",
                where,
            )
        numbers = face.output == "numbers"
        if batch.targets.is_floating_point() != numbers or (not numbers and batch.targets.dtype != torch.long):
            raise Failed(f"{name}: the interface promises {face.output}, targets are {batch.targets.dtype}", where)
        for what, tensor in (("targets", batch.targets), ("mask", batch.mask), ("roles", batch.roles)):
            if tensor is not None and tuple(tensor.shape[:2]) != size:
                raise Failed(f"{name}: tokens are {size}, {what} {tuple(tensor.shape)}", where)
        per_example = {"cue": batch.cue, "query": batch.query, **(batch.extra or {})}
        for what, tensor in per_example.items():
            if tensor is not None and (tensor.ndim == 0 or len(tensor) != size[0]):
                raise Failed(f"{name}: {size[0]} examples, but {what} has the shape {tuple(tensor.shape)}", where)
        if batch.mask.dtype != torch.bool:
            raise Failed(f"{name}: the mask is {batch.mask.dtype}, not torch.bool", where)


def ids(case: TaskCase) -> None:
    """Token, class and role numbers within the sizes of the interface."""
    face, roles = case.task.interface, case.task.roles
    for name, batch in case.batches():
        where = case.where_of(name)
        if face.input == "tokens":
            _within(f"{name}: token id", batch.tokens, 0, face.input_size, where)
        elif batch.tokens.shape[2] != face.input_size or not torch.isfinite(batch.tokens).all():
            raise Failed(f"{name}: vectors are not finite, or not {face.input_size} wide", where)
        if face.output == "classes":
            _within(f"{name}: target", batch.targets[batch.targets != IGNORE], 0, face.output_size, where)
        if batch.roles is not None:
            _within(f"{name}: role", batch.roles, -1, len(roles), where)


def _within(what: str, values: torch.Tensor, low: int, end: int, where: str) -> None:
    if values.numel() and not low <= int(values.min()) <= int(values.max()) < end:
        raise Failed(f"{what}s run from {int(values.min())} to {int(values.max())}, not {low} to {end - 1}", where)


def masks(case: TaskCase) -> None:
    """Padding on the right, targets on real positions."""
    for name, batch in case.batches():
        where = case.where_of(name)
        if bool((~batch.mask[:, :-1] & batch.mask[:, 1:]).any()) or not bool(batch.mask[:, 0].all()):
            raise Failed(f"{name}: padding stands before real tokens; pad on the right", where)
        missing, none = case.missing(batch)
        wanted = ~missing
        if case.task.interface.output == "classes" and bool((wanted & ~batch.mask).any()):
            raise Failed(f"{name}: there are targets on padding; set them to {none}", where)
        if not bool(wanted.any(1).all()):
            raise Failed(f"{name}: some examples have no target at all", where)


def positions(case: TaskCase) -> str:
    """Real positions (-1 for none), the cue before its query, and a target at the query."""
    marked = 0
    for name, batch in case.batches():
        where = case.where_of(name)
        if (batch.cue is None) != (batch.query is None):
            raise Failed(f"{name}: mark both cue and query, or neither", where)
        if batch.cue is None or batch.query is None:
            continue
        marked += bool(batch.marked.any())
        last = batch.mask.sum(1) - 1
        for what, position in (("cue", batch.cue), ("query", batch.query)):
            if bool(((position < -1) | (position > last)).any()):
                raise Failed(f"{name}: a {what} is outside its sequence", where)
        asked = batch.query >= 0
        if bool((asked & (batch.cue > batch.query)).any()):
            raise Failed(f"{name}: a cue comes after its query", where)
        if bool(case.missing(batch)[0][asked, batch.query[asked]].any()):
            raise Failed(f"{name}: there is no target at the query", where)
    if not marked:
        raise NotApplicable("it marks no cue and query; probes that need them skip it")
    return f"marked in {marked} batches"


def partners(case: TaskCase) -> str:
    """In every condition, of the examples that have a cue and a query."""
    tried = 0
    for condition in case.conditions:
        batch = case.evaluate(condition)
        batch = batch[batch.marked]
        if batch.query is None or not len(batch):
            continue
        other = case.task.partners(batch, seeded("partners"))
        again = case.task.partners(batch, seeded("partners"))
        where = case.where("partners")
        if other.shape != (len(batch),) or not torch.equal(other, again):
            raise Failed("partners() does not give one index per example, or another one each time", where)
        answers = batch.targets[torch.arange(len(batch)), batch.query]
        if bool((other == torch.arange(len(batch))).any()) or bool((answers == answers[other]).all()):
            raise Failed(f"in the condition {str(condition)!r} partners have the same right answer", where)
        tried += 1
    if not tried:
        raise NotApplicable("it marks no query")
    return f"in {tried} conditions"


def cue(case: TaskCase) -> str:
    """Examples with different answers should not often have the same token there."""
    condition = case.conditions[0]
    batch = case.evaluate(condition, examples=256)
    batch = batch[batch.marked]
    if batch.cue is None or not len(batch):
        raise NotApplicable(f"it marks no cue in the condition {str(condition)!r}")
    if batch.tokens.is_floating_point():
        raise NotApplicable("real-valued input at the cue is not compared")
    rows = torch.arange(len(batch))
    partner = case.task.partners(batch, seeded("partners"))
    content = batch.tokens[rows, batch.cue]
    same = (content == content[partner]).double().mean().item()
    by_chance = (content[:, None] == content).double().mean().item()
    if by_chance > 0 and same > 0.5 * by_chance:
        raise Failed(
            f"the token at the cue does not tell the answer: of two examples with different answers {same:.0%} have "
            f"the same token there, of any two {by_chance:.0%}",
            case.where("evaluate"),
        )
    return "different answers go with different cues"


TASK_CHECKS: tuple[Check, ...] = (
    ARGUMENTS,
    ADVICE,
    Check(
        "interface",
        asks="it can be built, and says what goes in, what comes out and what it scores",
        means="no model can be built for it",
        fix="set `interface` and `metrics` on the class, or in __init__ where they depend on arguments",
        run=interface,
    ),
    Check(
        "conditions",
        asks="evaluation conditions are distinct, in order, and marked as inside or beyond the trained range",
        means="curves are drawn wrongly, and a model that never learned passes for one that forgets",
        fix="return [Condition(x, inside=...), ...] by group and by x, the same list each time",
        run=conditions,
        after=("interface",),
    ),
    Check(
        "shapes",
        asks="the tensors of a batch fit one another and the interface",
        means="no model can be trained on it",
        fix="see Batch in the reference: tokens, targets and mask are (batch, time); cue and query are (batch,)",
        run=shapes,
        after=("conditions",),
    ),
    Check(
        "ids",
        asks="token ids, targets and roles are within their ranges",
        means="models crash in the embedding or the loss, perhaps only for rare tokens",
        fix="correct the sizes in Interface(input_size, output_size), or `roles`",
        run=ids,
        after=BATCHES,
    ),
    Check(
        "masks",
        asks="padding is on the right and has no targets",
        means="models are trained and scored on padding",
        fix="mask = True on the real positions, which come first; targets = -100 (NaN for real numbers) on all others",
        run=masks,
        after=BATCHES,
    ),
    Check(
        "positions",
        asks="cue and query stand where they should",
        means="gradient, attention and cut probes look at the wrong tokens",
        fix="cue: index of the token that holds the answer; query: index at which the answer is the target",
        run=positions,
        after=("ids", "masks"),
    ),
    Check(
        "partners",
        asks="examples can be paired with others that have another answer",
        means="swaps are made between sentences with the same answer, and seem to have no effect",
        fix="evaluate with every answer about equally often; override partners() where answers are alike",
        run=partners,
        after=("positions",),
    ),
    Check(
        "cue",
        asks="the token at the cue tells the answer",
        means="gradient, attention and cut probes look at a token that does not matter",
        fix="mark the token that decides what is right at the query (a key's value, the subject of a verb)",
        run=cue,
        after=("partners",),
    ),
    *STREAMS,
    *SCORES,
)
"""All checks of a task, in the order of the report."""
