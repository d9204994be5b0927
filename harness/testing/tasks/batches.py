"""Checks of what is in a task's batches, and of the conditions they belong to."""

from itertools import groupby

import torch

from harness.batches import IGNORE, Batch, Interface
from harness.contracts import Condition, Metric
from harness.testing.checks import Failed, NotApplicable, check
from harness.testing.tasks.case import BATCHES, TaskCase


@check(
    asks="it can be built, and says what goes in, what comes out and what it scores",
    means="no model can be built for it",
    fix="set `interface` and `metrics` on the class, or in __init__ where they depend on arguments",
)
def interface(case: TaskCase) -> str:
    """What the harness reads before it asks for data."""
    task = case.task
    if not isinstance(getattr(task, "interface", None), Interface):
        raise Failed("it has no `interface`; say interface = Interface(vocabulary, classes)")
    metrics = getattr(task, "metrics", None)
    if not metrics or not all(isinstance(metric, Metric) for metric in metrics.values()):
        raise Failed("it has no `metrics`: a name and a Metric(unit, chance=..., best=...) for each")
    face = task.interface
    return f"{face.input_size} {face.input} in, {face.output_size} {face.output} out; headline {task.headline!r}"


@check(
    asks="evaluation conditions are distinct, in order, and marked as inside or beyond the trained range",
    means="curves are drawn wrongly, and a model that never learned passes for one that forgets",
    fix="return [Condition(x, inside=...), ...] by group and by x, the same list each time",
    after=("interface",),
)
def conditions(case: TaskCase) -> str:
    """Order, names and flags."""
    found = list(case.task.conditions())
    where = case.at("conditions")
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


@check(
    asks="the tensors of a batch fit one another and the interface",
    means="no model can be trained on it",
    fix="see Batch in the reference: tokens, targets and mask are (batch, time); cue and query are (batch,)",
    after=("conditions",),
)
def shapes(case: TaskCase) -> None:
    """Axes and types of everything in a batch, in training and in each condition."""
    for name, where, batch in case.batches():
        if not isinstance(batch, Batch):
            raise Failed(f"{name} gave a {type(batch).__name__}; a Batch is expected", where)
        if misfit := _misfit(batch, case.task.interface):
            raise Failed(f"{name}: {misfit}", where)


def _misfit(batch: Batch, face: Interface) -> str:
    """What does not fit; "" if everything does."""
    vectors, numbers = face.input == "vectors", face.output == "numbers"
    if batch.tokens.is_floating_point() != vectors or batch.tokens.ndim != (3 if vectors else 2):
        given = f"{tuple(batch.tokens.shape)} of {batch.tokens.dtype}"
        return f"the interface promises {face.input}, tokens are {given}"
    if batch.targets.is_floating_point() != numbers or (not numbers and batch.targets.dtype != torch.long):
        return f"the interface promises {face.output}, targets are {batch.targets.dtype}"
    size = tuple(batch.tokens.shape[:2])
    whole = {"targets": batch.targets, "mask": batch.mask, "roles": batch.roles, "source": batch.source}
    for what, tensor in whole.items():
        if tensor is not None and tuple(tensor.shape[:2]) != size:
            return f"tokens are {size}, {what} {tuple(tensor.shape)}"
    for what, tensor in {"cue": batch.cue, "query": batch.query, **(batch.extra or {})}.items():
        if tensor is not None and (tensor.ndim == 0 or len(tensor) != size[0]):
            return f"{size[0]} examples, but {what} has the shape {tuple(tensor.shape)}"
    return "" if batch.mask.dtype == torch.bool else f"the mask is {batch.mask.dtype}, not torch.bool"


@check(
    asks="token ids, targets and roles are within their ranges",
    means="models crash in the embedding or the loss, perhaps only for rare tokens",
    fix="correct the sizes in Interface(input_size, output_size), or `roles`",
    after=BATCHES,
)
def ids(case: TaskCase) -> None:
    """Token, class and role numbers within the sizes of the interface."""
    face, roles = case.task.interface, case.task.roles
    for name, where, batch in case.batches():
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


@check(
    asks="a source and a target are separated once in every sequence (where the interface names a separator)",
    means="models with an encoder and a decoder cannot tell what to read from what to write",
    fix="make each sequence source, separator, target: source tokens first, and the separator nowhere else",
    after=("ids",),
)
def separator(case: TaskCase) -> str:
    """The token that `Interface.separator` names."""
    token = case.task.interface.separator
    if token is None:
        raise NotApplicable("its interface names no separator: it has no source and target")
    if case.task.interface.input != "tokens" or not 0 <= token < case.task.interface.input_size:
        raise Failed(f"separator = {token} is no token id of its interface ({case.task.interface})")
    for name, where, batch in case.batches():
        times = (batch.tokens == token).sum(1)
        if wrong := [each for each in times.tolist() if each != 1]:
            raise Failed(f"{name}: the separator ({token}) occurs {wrong[0]} times in a sequence", where)
        if bool((batch.tokens[:, 0] == token).any()):
            raise Failed(f"{name}: a sequence begins with the separator ({token}): its source is empty", where)
    return f"token {token}"


@check(
    asks="padding is on the right and has no targets",
    means="models are trained and scored on padding",
    fix="mask = True on the real positions, which come first; targets = -100 (NaN for real numbers) on all others",
    after=BATCHES,
)
def masks(case: TaskCase) -> None:
    """Padding on the right, targets on real positions."""
    for name, where, batch in case.batches():
        if bool((~batch.mask[:, :-1] & batch.mask[:, 1:]).any()) or not bool(batch.mask[:, 0].all()):
            raise Failed(f"{name}: padding stands before real tokens; pad on the right", where)
        missing, none = case.missing(batch)
        if case.task.interface.output == "classes" and bool((~missing & ~batch.mask).any()):
            raise Failed(f"{name}: there are targets on padding; set them to {none}", where)
        if bool(missing.all(1).any()):
            raise Failed(f"{name}: some examples have no target at all", where)
