"""Does the answer follow the cue? Causal evidence from the input alone, for models with and without attention."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from harness_plugins.probes.conditions import (
    cue_mask,
    examples_used,
    learned,
    marks,
    reference,
    roles_before,
    skill,
    skill_error,
)
from jaxtyping import Bool, Int
from torch import Tensor

from harness import Batch, Condition, Curve, Scalar, Skip, Subject, Task
from harness.statistics import GOOD, MEANINGS, WAY, settled

WORDS = {
    **MEANINGS,
    "follows the cue": f"with the cue of another example the new answer is given, at least {GOOD:.0%} {WAY}",
    "follows the distractors": f"with other distractors the right answer is lost, by at least {GOOD:.0%} {WAY}",
    "follows the cue and the distractors": "both of them change the answer",
    "follows neither": "neither the other cue nor other distractors change the answer to what they would make it",
}
"""What the verdicts mean."""


def input_swap(subject: Subject) -> Iterator[Curve | Scalar]:
    """Give every sentence the cue of another one with another answer, or its distractors: what does the model answer?

    The same examples as for all other probes. The partner is drawn at random among those whose right answer differs
    (`Task.partners`). Distractors are the tokens of the role `distractor`; in a task without roles, all tokens between
    the cue and the query.

    Swaps are made where cue and distractors speak for the same answer (`Task.swap_group`), so that after either swap
    they speak for different ones: a model that answers by the distractors is then always wrong.

    Measures:
        untouched: score without a swap, per condition.
        follows_cue: score after the cue is swapped, against the answer that is now right.
        keeps_answer: score after the distractors are swapped, against the answer that is still right.
        cue_effect: how far the score against the old answer falls, at the farthest condition that training covered. The
            verdict says what the answer follows: the cue, if `follows_cue` is at least half of the way from chance to
            perfect there; the distractors, if their swap costs as much. There is none below half of the way untouched.
        distractor_effect: how far the score falls with the distractors.
    """
    task, name = subject.task, subject.task.headline
    metric = task.metrics[name]
    curves: dict[str, list[float]] = {"untouched": [], "follows_cue": [], "keeps_answer": []}
    errors: dict[str, list[float]] = {key: [] for key in curves}
    batches = {condition: subject.marked(condition) for condition in swap_conditions(task)}
    conditions = [condition for condition, batch in batches.items() if batch is not None]
    if not conditions:
        raise Skip("no example of the conditions in which cues are swapped marks a cue and a query")
    against_old: list[float] = []
    for batch in filter(None, batches.values()):
        partner = task.partners(batch, subject.generator)
        swapped_cue = batch.with_tokens(exchange(batch, partner, cue_mask(batch)))
        swapped_others = batch.with_tokens(exchange(batch, partner, distractor_mask(batch, task.roles)))
        for key, changed in (
            ("untouched", batch),
            ("follows_cue", with_answers_of(swapped_cue, partner)),
            ("keeps_answer", swapped_others),
        ):
            scores = subject.score(changed)
            curves[key].append(task.summarise(scores)[name])
            errors[key].append(task.standard_errors(scores)[name])
        against_old.append(task.summarise(subject.score(swapped_cue))[name])
    for key, values in curves.items():
        yield Curve(
            name=key,
            unit=metric.unit,
            x=[condition.x for condition in conditions],
            y=values,
            x_label=task.axis,
            y_label=key.replace("_", " "),
            inside=[condition.inside for condition in conditions],
            standard_errors=errors[key],
            headline=True,
        )
    yield from examples_used(subject, batches, subject.examples)
    at = conditions.index(reference(conditions))
    words = None
    if not math.isnan(skill(metric, 0.0)):
        found, spread = ([each[key][at] for key in curves] for each in (curves, errors))
        words = learned(subject, metric, found[0], spread[0]) or settled(
            what_counts, [skill(metric, value) for value in found], [skill_error(metric, each) for each in spread]
        )
    yield Scalar(
        name="cue_effect",
        unit=metric.unit,
        value=curves["untouched"][at] - against_old[at],
        verdict=words,
        meaning=WORDS.get(words or ""),
        headline=True,
    )
    lost = curves["untouched"][at] - curves["keeps_answer"][at]
    yield Scalar(name="distractor_effect", unit=metric.unit, value=lost, headline=True)


def swap_conditions(task: Task) -> list[Condition]:
    """The conditions of the group that the task names for swaps, or of its first one."""
    conditions = task.conditions()
    group = conditions[0].group if task.swap_group is None else task.swap_group
    return [condition for condition in conditions if condition.group == group]


def what_counts(skills: Sequence[float]) -> str:
    """What the answer follows, from the skills untouched, after the cue's swap and after that of the distractors."""
    untouched, follows, keeps = skills
    counts = {"the cue": follows >= GOOD, "the distractors": untouched - keeps >= GOOD}
    return f"follows {' and '.join(what for what, yes in counts.items() if yes) or 'neither'}"


def distractor_mask(batch: Batch, roles: Sequence[str]) -> Bool[Tensor, "batch time"]:
    """True at the distractors."""
    cue, query = marks(batch)
    known = roles_before(batch, roles)
    if known:
        return known.get("distractor", torch.zeros_like(batch.mask))
    positions = torch.arange(batch.tokens.shape[1], device=cue.device)
    return (positions > cue[:, None]) & (positions < query[:, None])


def exchange(batch: Batch, partner: Int[Tensor, " batch"], places: Bool[Tensor, "batch time"]) -> Tensor:
    """The tokens with those at `places` taken from the partner: its first such token for the first one, and so on, for
    the partner's sentence may be laid out differently."""
    rank = places.cumsum(1) - 1
    theirs = places.long().argsort(dim=1, descending=True, stable=True)[partner]
    source = theirs.gather(1, rank.clamp(min=0))
    exists = places & (rank < places.sum(1)[partner][:, None])
    tokens = batch.tokens.clone()
    tokens[exists] = batch.tokens[partner[:, None], source][exists]
    return tokens


def with_answers_of(batch: Batch, partner: Int[Tensor, " batch"]) -> Batch:
    """The batch with the partner's right answer: its target at the query, and what the task's score needs."""
    _, query = marks(batch)
    rows = torch.arange(len(batch), device=query.device)
    targets = batch.targets.clone()
    targets[rows, query] = batch.targets[partner, query[partner]]
    extra = None if batch.extra is None else {name: value[partner] for name, value in batch.extra.items()}
    return replace(batch, targets=targets, extra=extra)


input_swap.needs = ("cue",)  # type: ignore[attr-defined]
