"""What cuts say in words, with the chance that is in their scores."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from harness_plugins.probes.conditions import learned, skill, skill_error
from harness_plugins.probes.cuts import CutResult, Scores, Untouched
from harness_plugins.probes.looks import Share

from harness import Scalar, Subject, Task
from harness.statistics import BRIEF, MEANINGS, NEAR, NOT_ENOUGH, WAY, settled

LOOKS = 0.3
"""A head looks at the cue if this share of its attention, and at least twice the uniform share, goes there."""

MATTERS = 0.25
"""A cut matters if it takes this share of the way from a perfect score to chance."""

NEAR_CHANCE = 0.2
"""What a cut leaves is at chance if it is within this share of that way, above or below: a wrong answer of eight, 0.14
of the way below it, is no sign yet that the model follows something else."""

APART = "not to be told apart from the cue"
RELIES = (
    "without the cue's position, which holds the token and what it took up of earlier ones, the score falls by "
    f"{MATTERS:.0%} {WAY} or more, and at least twice as far as under the sham cut of a random other position"
)
WORDS = {
    **MEANINGS,
    "relies on it": RELIES,
    "relies on it, at chance without": f"{RELIES}; what is left is within {NEAR_CHANCE:.0%} {WAY} of chance",
    "relies on it, below chance without": f"{RELIES}; what is left is worse than chance by {NEAR_CHANCE:.0%} {WAY} or "
    "more, so that the answer follows something else",
    "does not rely on it": f"without the cue the score falls by less than {MATTERS:.0%} {WAY}",
    "any cut hurts as much": "the sham cut of a random other position costs more than half of what the cue's costs, so "
    "that the loss says little about the cue",
    "proven": "under the full cut, in all layers and heads, swapping the cut tokens changes no later output at all, "
    "and no output depends on a later token (cuts of one layer or head leak by nature: by_head)",
    "not proven": "the cut tokens still change later outputs, or the cut lets outputs depend on later tokens: it says "
    "nothing about reliance",
    APART: "the cue always stands first, and has no other place where the model would answer: what its cut takes away "
    "may be the cue or the first position, where attention often rests",
    "harmless": f"cutting the first position, where it is not the cue, costs less than {MATTERS:.0%} {WAY}",
    "hurts, though it is not the cue": "the model needs the first position, for what it holds or as a place where "
    "attention rests; where the cue stands first, its cut may remove that as well",
}
"""What the verdicts here mean."""


def reliance(subject: Subject, whole: Untouched, outcomes: Mapping[str, CutResult]) -> Iterator[Scalar]:
    """Whether the answer relies on the cue, whether that is proven, and what the sham leaves."""
    cue, sham = outcomes["cue"], outcomes.get("sham")
    verdict = judged(subject, whole.scores, lambda: cue.unproven or relies(subject, cue, sham))
    abouts = (
        "the score with all attention to the cue cut",
        "the score with a random other position cut in place of the cue",
    )
    yield from after_cuts(subject.task, cue, sham, verdict, WORDS, abouts)


def after_cuts(
    task: Task,
    cue: CutResult,
    sham: CutResult | None,
    verdict: str | None,
    words: Mapping[str, str],
    abouts: tuple[str, str],
) -> Iterator[Scalar]:
    """The score without the cue, the leak of that cut, and the score under the sham.

    Args:
        verdict: on the first of them.
        words: what verdicts mean.
        abouts: what the two scores are.
    """
    score = task.headline
    unit = task.metrics[score].unit
    value, error = cue.scores.metrics[score], cue.scores.errors[score]
    yield Scalar(
        name="score_after_cut",
        unit=unit,
        value=value,
        verdict=verdict,
        meaning=meaning(verdict, words),
        about=abouts[0],
        standard_error=error,
        headline=True,
    )
    proven = "not proven" if cue.unproven else "proven"
    yield Scalar(name="leak", unit="outputs", value=cue.leak, verdict=proven, meaning=words[proven], headline=True)
    if sham:
        value, error = sham.scores.metrics[score], sham.scores.errors[score]
        yield Scalar(
            name="score_after_sham",
            unit=unit,
            value=value,
            standard_error=error,
            about=abouts[1],
            headline=True,
        )


def meaning(verdict: str | None, words: Mapping[str, str] = WORDS) -> str | None:
    """Of a verdict, in a phrase; a reason after a colon explains itself."""
    return words.get(verdict) or words.get(verdict.partition(":")[0]) if verdict else None


def first_position(subject: Subject, whole: Untouched, outcome: CutResult | None, moved: bool) -> Scalar:
    """Whether it hurts to cut the first position where that is not the cue.

    Args:
        outcome: of that cut; None where the cue always stands there and has no other place.
        moved: the cue always stands there, and the examples are ones in which it has changed places.
    """
    score = subject.task.headline

    def verdict() -> str | None:
        if outcome is None:
            return APART
        words = judged(subject, outcome.untouched, lambda: outcome.unproven or _hurts(subject, outcome))
        if moved and words in ("has not learned", BRIEF, NOT_ENOUGH):
            return APART
        return words

    words = judged(subject, whole.scores, verdict)
    return Scalar(
        name="first_position_cut",
        unit=subject.task.metrics[score].unit,
        value=outcome.scores.metrics[score] if outcome else math.nan,
        verdict=words,
        meaning=meaning(words),
        about="the score with all attention to the first position cut, in examples where that is not the cue",
        standard_error=outcome.scores.errors[score] if outcome else None,
        headline=moved,
    )


def disagreements(
    subject: Subject, whole: Untouched, outcomes: Mapping[str, CutResult], shares: Mapping[str, Share], uniform: float
) -> Scalar:
    """Heads that look at the cue without an effect, or have an effect without looking. None in a model that has not
    learned, and none that two standard errors of its numbers would take off the list.

    Args:
        shares: the attention to the cue of each head.
        uniform: that of a head that looks everywhere alike.
    """

    def judge(values: Sequence[float]) -> str:
        looks, before, after = values
        if looks >= max(LOOKS, 2 * uniform) and before - after < MATTERS:
            return "looks there, the answer does not depend on it alone"
        if looks < LOOKS and before - after >= MATTERS:
            return "hardly looks there, yet the answer depends on it"
        return ""

    named = []
    for name, share in shares.items() if judged(subject, whole.scores, lambda: "") == "" else ():
        values, errors = skills(subject, outcomes[name].untouched, outcomes[name].scores)
        verdict = settled(judge, [share.value, *values], [share.error, *errors])
        if verdict not in ("", NEAR, NOT_ENOUGH):
            named.append(f"{name} {verdict}")
    return Scalar(name="disagreements", unit="heads", value=len(named), verdict="; ".join(named) or None)


def judged(subject: Subject, untouched: Scores, judge: Callable[[], str | None]) -> str | None:
    """The verdict on a model that answers well; why there is none on others; None for a metric without a scale from
    chance to perfect, which has numbers and no verdict."""
    score = subject.task.headline
    metric, value = subject.task.metrics[score], untouched.metrics[score]
    if math.isnan(skill(metric, value)):
        return None
    return learned(subject, metric, value, untouched.errors[score]) or judge()


def skills(subject: Subject, *scores: Scores) -> tuple[list[float], list[float]]:
    """The headline scores as shares of the way from chance to perfect, and their standard errors."""
    score = subject.task.headline
    metric = subject.task.metrics[score]
    values = [skill(metric, each.metrics[score]) for each in scores]
    return values, [skill_error(metric, each.errors[score]) for each in scores]


def relies(subject: Subject, cue: CutResult, sham: CutResult | None) -> str:
    """Whether the answer relies on what is cut, for a cut that is proven; where it does, what is left of the score."""
    values, errors = skills(subject, cue.untouched, cue.scores)
    if sham:
        # both losses are counted from one score, for the sham may have had fewer examples to cut
        (whole, after), (_, error) = skills(subject, sham.untouched, sham.scores)
        values, errors = [*values, values[0] - (whole - after)], [*errors, error]
    if any(map(math.isnan, values)):
        return "not proven: a score under the cut is no number"

    def judge(values: Sequence[float]) -> str:
        before, after, *sham = values
        if before - after < MATTERS:
            return "does not rely on it"
        if sham and before - sham[0] > (before - after) / 2:
            return "any cut hurts as much"
        return "relies on it"

    bounded = subject.task.metrics[subject.task.headline].unit == "share"  # a loss is easily worse than a guess

    def left(values: Sequence[float]) -> str:
        if not bounded:
            return ""
        below = values[0] < -NEAR_CHANCE
        return ", below chance without" if below else ", at chance without" if values[0] < NEAR_CHANCE else ""

    verdict = settled(judge, values, errors)
    without = settled(left, values[1:2], errors[1:2]) if verdict == "relies on it" else ""
    return verdict + (without if without not in (NEAR, NOT_ENOUGH) else "")


def _hurts(subject: Subject, outcome: CutResult) -> str:
    values, errors = skills(subject, outcome.untouched, outcome.scores)
    return settled(
        lambda each: "harmless" if each[0] - each[1] < MATTERS else "hurts, though it is not the cue", values, errors
    )
