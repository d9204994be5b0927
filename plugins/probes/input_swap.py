"""Does the answer follow the cue? Causal evidence from the input alone, for models with and without attention."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from harness_plugins.probes.conditions import (
    cue_mask,
    curve,
    examples_used,
    first_group,
    in_order,
    learned,
    marks,
    reference,
    roles_before,
    skill,
    skill_error,
)
from jaxtyping import Bool, Int
from torch import Tensor

from harness import IGNORE, Batch, Condition, Curve, Scalar, Skip, Subject, Task
from harness.statistics import GOOD, MEANINGS, WAY, settled

WORDS = {
    **MEANINGS,
    "follows the cue": f"with the cue of another example the new answer is given, at least {GOOD:.0%} {WAY}",
    "follows the distractors": f"with other distractors the right answer is lost, by at least {GOOD:.0%} {WAY}",
    "follows the cue and the distractors": "both of them change the answer",
    "follows neither": "neither another cue nor other distractors change the answer",
}
"""What the verdicts mean."""


def input_swap(subject: Subject) -> Iterator[Curve | Scalar]:
    """Give every sentence the cue of another one with another answer, or its distractors: what does the model answer?

    The same examples as for all other probes. The partner is drawn at random among those whose right answer differs
    (`Task.partners`). Distractors are the tokens of the role `distractor`; in a task without roles, all tokens between
    the cue and the query but a separator.

    Swaps are made where cue and distractors speak for the same answer (`Task.swap_group`), so that after either swap
    they speak for different ones: a model that answers by the distractors is then always wrong.

    Measures:
        untouched: score without a swap, per condition; like the others at the query alone, where a task scores more.
        follows_cue: score after the cue is swapped, against the answer that is now right.
        keeps_answer: score after the distractors are swapped, against the answer that is still right.
        cue_effect: how far the score against the old answer falls, at the farthest condition that training covered. The
            verdict says what the answer follows: the cue, if `cue_effect` and `follows_cue` are at least half of the
            way from chance to perfect there; the distractors, if their swap costs as much. There is none below half of
            the way untouched.
        distractor_effect: how far the score falls with the distractors.
    """
    task, name = subject.task, subject.task.headline
    metric = task.metrics[name]
    batches = {condition: subject.marked(condition) for condition in swap_conditions(task)}
    used = {condition: asked_at_query(batch) for condition, batch in batches.items() if batch is not None}
    if not used:
        raise Skip("no example of the conditions in which cues are swapped marks a cue and a query")
    group = next(iter(used)).group
    found: dict[str, list[tuple[float, float]]] = {}
    for batch in used.values():
        partner = task.partners(batch, subject.generator)
        distractors = distractor_mask(batch, task.roles, task.interface.separator)
        swapped_cue = batch.with_tokens(exchange(batch, partner, cue_mask(batch)))
        swapped_others = batch.with_tokens(exchange(batch, partner, distractors))
        for key, changed in (
            ("untouched", batch),
            ("follows_cue", task.with_answers_of(swapped_cue, partner)),
            ("keeps_answer", swapped_others),
            ("old answer", swapped_cue),
        ):
            scores = subject.score(changed)
            pair = task.summarise(scores)[name], task.standard_errors(scores)[name]
            found.setdefault(key, []).append(pair)
    x_label = f"{task.axis}, conditions {group!r}" if group else task.axis
    for key, y_label in (
        ("untouched", "score without a swap"),
        ("follows_cue", "score after the cue is swapped, against the answer that is then right"),
        ("keeps_answer", "score after the distractors are swapped"),
    ):
        scored, chance = zip(*found[key], strict=True)
        yield curve(key, metric.unit, task, used, scored, chance, y_label=y_label, x_label=x_label)
    yield from examples_used(subject, batches, subject.examples)
    at = list(used).index(reference(list(used)))
    values, errors = zip(*(pairs[at] for pairs in found.values()), strict=True)
    words = None
    if not math.isnan(skill(metric, 0.0)):
        words = learned(subject, metric, values[0], errors[0]) or settled(
            what_counts, [skill(metric, value) for value in values], [skill_error(metric, error) for error in errors]
        )
    untouched, _, others, old = values
    for effect, after, verdict, about in (
        ("cue_effect", old, words, "how far the score against the old answer falls when the cue is swapped"),
        ("distractor_effect", others, None, "how far the score falls when the distractors are swapped"),
    ):
        yield Scalar(
            name=effect,
            unit=metric.unit,
            value=untouched - after,
            verdict=verdict,
            meaning=WORDS[verdict] if verdict else None,
            about=about,
            headline=True,
        )


def swap_conditions(task: Task) -> list[Condition]:
    """The conditions of the group that the task names for swaps, or of its first one."""
    return first_group(task) if task.swap_group is None else in_order(task).get(task.swap_group, [])


def what_counts(skills: Sequence[float]) -> str:
    """What the answer follows, from the skills untouched, after the cue's swap, after that of the distractors, and
    after the cue's swap against the old answer."""
    untouched, follows, keeps, old = skills
    counts = {"the cue": follows >= GOOD and untouched - old >= GOOD, "the distractors": untouched - keeps >= GOOD}
    return f"follows {' and '.join(what for what, yes in counts.items() if yes) or 'neither'}"


def distractor_mask(batch: Batch, roles: Sequence[str], separator: int | None = None) -> Bool[Tensor, "batch time"]:
    """True at the distractors; never at a separator."""
    cue, query = marks(batch)
    known = roles_before(batch, roles)
    if known:
        return known.get("distractor", torch.zeros_like(batch.mask))
    positions = torch.arange(batch.tokens.shape[1], device=cue.device)
    between = (positions > cue[:, None]) & (positions < query[:, None])
    return between if separator is None else between & (batch.tokens != separator)


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


def asked_at_query(batch: Batch) -> Batch:
    """The batch with no other target than the one at the query: what is predicted elsewhere is not about the cue."""
    if batch.targets.is_floating_point():
        return batch
    _, query = marks(batch)
    positions = torch.arange(batch.targets.shape[1], device=query.device)
    return replace(batch, targets=batch.targets.where(positions == query[:, None], IGNORE))


input_swap.needs = ("cue",)  # type: ignore[attr-defined]
