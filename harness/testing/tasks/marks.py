"""Checks of the cue and the query that a task marks."""

import torch

from harness.batches import Batch
from harness.examples import seeded
from harness.testing.checks import Failed, NotApplicable, check
from harness.testing.tasks.case import TaskCase


@check(
    asks="cue and query stand where they should",
    means="gradient, attention and cut probes look at the wrong tokens",
    fix="cue: index of the token that holds the answer; query: index at which the answer is the target",
    after=("ids", "masks"),
)
def positions(case: TaskCase) -> str:
    """Real positions (-1 for none), the cue before its query, and a target at the query."""
    marked = 0
    for name, where, batch in case.batches():
        if (batch.cue is None) != (batch.query is None):
            raise Failed(f"{name}: mark both cue and query, or neither", where)
        if batch.source is not None and (wrong := _misplaced(case, batch)):
            raise Failed(f"{name}: {wrong}", where)
        batch = batch.asked()
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


def _misplaced(case: TaskCase, batch: Batch) -> str:
    """What is wrong with the source positions of a batch; "" if nothing is."""
    assert batch.source is not None
    length = batch.mask.sum(1)[:, None]
    if batch.source.is_floating_point() or bool(((batch.source < -1) | (batch.source >= length)).any()):
        return "a source is outside its sequence"
    if bool(((batch.source >= 0) & case.missing(batch)[0]).any()):
        return "there is a source, but no target, at a position; give -1 there"
    return ""


@check(
    asks="examples can be paired with others that have another answer",
    means="swaps are made between sentences with the same answer, and seem to have no effect",
    fix="evaluate with every answer about equally often; override answers() where several targets are alike",
    after=("positions",),
)
def partners(case: TaskCase) -> str:
    """In every condition, of the examples that have a cue and a query."""
    tried = 0
    for condition in case.conditions:
        batch = case.evaluate(condition).asked()
        batch = batch[batch.marked]
        if batch.query is None or not len(batch):
            continue
        other = case.task.partners(batch, seeded("partners"))
        again = case.task.partners(batch, seeded("partners"))
        where = case.at("partners")
        if other.shape != (len(batch),) or not torch.equal(other, again):
            raise Failed("partners() does not give one index per example, or another one each time", where)
        answers = batch.targets[torch.arange(len(batch)), batch.query]
        if bool((other == torch.arange(len(batch))).any()) or bool((answers == answers[other]).all()):
            raise Failed(f"in the condition {str(condition)!r} partners have the same right answer", where)
        tried += 1
    if not tried:
        raise NotApplicable("it marks no query")
    return f"in {tried} conditions"


@check(
    asks="the token at the cue tells the answer",
    means="gradient, attention and cut probes look at a token that does not matter",
    fix="mark the token that decides what is right at the query (a key's value, the subject of a verb)",
    after=("partners",),
)
def cue(case: TaskCase) -> str:
    """Examples with different answers should not often have the same token there."""
    condition = case.conditions[0]
    batch = case.evaluate(condition, examples=256).asked()
    batch = batch[batch.marked]
    if batch.cue is None or not len(batch):
        raise NotApplicable(f"it marks no cue in the condition {str(condition)!r}")
    if batch.tokens.is_floating_point():
        raise NotApplicable("real-valued input at the cue is not compared")
    partner = case.task.partners(batch, seeded("partners"))
    content = batch.tokens[torch.arange(len(batch)), batch.cue]
    same = (content == content[partner]).double().mean().item()
    by_chance = (content[:, None] == content).double().mean().item()
    if by_chance > 0 and same > 0.5 * by_chance:
        raise Failed(
            f"the token at the cue does not tell the answer: of two examples with different answers {same:.0%} have "
            f"the same token there, of any two {by_chance:.0%}",
            case.at("evaluate"),
        )
    return "different answers go with different cues"
