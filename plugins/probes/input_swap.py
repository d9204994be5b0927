"""Does the answer follow the cue? Causal evidence from the input alone, for models with and without attention."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from harness_plugins.probes.conditions import cue_mask, first_group, marked, reference, roles_before, skill
from jaxtyping import Bool, Int
from torch import Tensor

from harness import Batch, Curve, Scalar, Subject


def input_swap(subject: Subject) -> Iterator[Curve | Scalar]:
    """Give every sentence the cue of another one with another answer, or its distractors: what does the model answer?

    The same examples as for all other probes. The partner is drawn at random among those whose right answer differs
    (`Task.partners`). Distractors are the tokens of the role `distractor`; in a task without roles, all tokens between
    the cue and the query.

    Measures:
        untouched: score without a swap, per condition.
        follows_cue: score after the cue is swapped, against the answer that is now right.
        keeps_answer: score after the distractors are swapped, against the answer that is still right.
        cue_effect, distractor_effect: how far the score against the old answer falls, at the farthest condition that
            training covered; the verdict says what the answer follows.
    """
    conditions = first_group(subject.task)
    name = subject.task.headline
    curves: dict[str, list[float]] = {"untouched": [], "follows_cue": [], "keeps_answer": []}
    against_old: dict[str, float] = {}
    for condition in conditions:
        batch = subject.batch(condition)
        partner = subject.task.partners(batch, subject.generator)
        cue_only, others = cue_mask(batch), distractor_mask(batch, subject.task.roles)
        swapped_cue = batch.with_tokens(exchange(batch, partner, cue_only))
        swapped_others = batch.with_tokens(exchange(batch, partner, others))
        scores = {
            "untouched": subject.scores(condition),
            "follows_cue": subject.score(with_answers_of(swapped_cue, partner)),
            "keeps_answer": subject.score(swapped_others),
        }
        results = {key: subject.task.summarise(each)[name] for key, each in scores.items()}
        for key, value in results.items():
            curves[key].append(value)
        if condition == reference(conditions):
            after = subject.task.summarise(subject.score(swapped_cue))[name]
            against_old = {
                "cue": results["untouched"] - after,
                "distractors": results["untouched"] - results["keeps_answer"],
            }
    metric = subject.task.metrics[name]
    for key, values in curves.items():
        yield Curve(
            name=key,
            unit=metric.unit,
            x=[condition.x for condition in conditions],
            y=values,
            x_label=subject.task.axis,
            y_label=key.replace("_", " "),
            inside=[condition.inside for condition in conditions],
            headline=key != "untouched",
        )
    untouched = skill(metric, curves["untouched"][conditions.index(reference(conditions))])
    lost = {what: skill(metric, effect) - skill(metric, 0.0) for what, effect in against_old.items()}
    yield Scalar(
        name="cue_effect",
        unit=metric.unit,
        value=against_old["cue"],
        verdict=verdict(untouched, lost["cue"], lost["distractors"]),
        headline=True,
    )
    yield Scalar(name="distractor_effect", unit=metric.unit, value=against_old["distractors"], headline=True)


def verdict(untouched: float, cue: float, distractors: float) -> str | None:
    """What the answer follows; effects are shares of the way from perfect to chance, and half of it counts."""
    if math.isnan(untouched):
        return None
    if untouched < 0.5:
        return "has not learned"
    words = [word for word, effect in (("the cue", cue), ("the distractors", distractors)) if effect >= 0.5]
    return f"follows {' and '.join(words)}" if words else "follows neither"


def distractor_mask(batch: Batch, roles: Sequence[str]) -> Bool[Tensor, "batch time"]:
    """True at the distractors."""
    cue, query = marked(batch)
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
    _, query = marked(batch)
    rows = torch.arange(len(batch), device=query.device)
    targets = batch.targets.clone()
    targets[rows, query] = batch.targets[partner, query[partner]]
    extra = None if batch.extra is None else {name: value[partner] for name, value in batch.extra.items()}
    return replace(batch, targets=targets, extra=extra)


input_swap.needs = ("cue",)  # type: ignore[attr-defined]
