"""The card of a model: six questions, each answered by a word or two, with the number behind it.

An answer is made from the verdicts that probes gave, one for each seed, by rules that stand here and nowhere else:

- *Learns*: what `accuracy` says of the scores within the trained range.
- *Reaches*: `grad_reach`, at initialisation if that was measured (what training has to work with), else after training:
  the gradient at the cue, at the farthest place that training covers, as a share of that at the nearest place. It
  arrives from 1 % on.
- *Looks*: `attention_to_subject`: the head that looks at the cue most gives it at least half of its attention, and at
  least twice as much as a head would that looks everywhere alike. Where the cue always stands first, a head that
  rests on the first position, whatever it holds, would pass, too: it counts as a look only if `edge_cut` has moved the
  cue and found the cut of the first position harmless; else it may be a habit.
- *Relies*: `edge_cut`, where the score falls without the cue; for a model without attention `state_cut`, where it falls
  with the state of another answer after the cue, or else `input_swap`, where the answer follows the cue.
- *Extrapolates*: `position_extrapolation`, or else `accuracy`: the scores beyond the trained range.
- *Costs*: `speed`: the power of the length by which time grows; an answer without praise or blame.

All seeds must agree for praise or blame; where they do not, the answer says how many said what, and stays open. So it
does with fewer than three seeds, and wherever a verdict says that nothing can be told.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple

from harness.matching import without_baselines
from harness.measurements import Curve, Pattern, Scalar, format_place
from harness.report.grouping import Group, Row
from harness.report.numbers import spread
from harness.seeds import FEW_SEEDS, came_to_a_result, summarise
from harness.statistics import BRIEF, MARGIN, NEAR, NOT_ENOUGH, SOLVED

Tone = Literal["good", "bad", "open"]

ARRIVES = 0.01
"""Of the gradient at the nearest place, so much must arrive from the farthest."""

HALF = 0.5
TWICE = 2.0
"""What a head must give to the cue, as a share of its attention and as a multiple of a uniform head's."""


@dataclass(frozen=True)
class Answer:
    """What a card says of one question."""

    word: str
    tone: Tone = "open"
    number: str = ""
    """The number behind the word, with its range over seeds."""
    about: str = ""
    """What the number is."""
    probe: str = ""
    """Which probe it comes from; "" where nothing was measured."""
    meaning: str = ""
    """What the word means, with its thresholds."""


NOT_MEASURED = Answer("not measured")


@dataclass(frozen=True)
class Card:
    """One model on one task."""

    model: str
    task: str
    answers: dict[str, Answer]
    """By question, in the order of `QUESTIONS`."""
    called: str
    """The model, with a word for a baseline."""
    suspect: bool = False
    """Whether there are warnings about the model."""


OPEN = (NEAR, NOT_ENOUGH, BRIEF)
"""Verdicts that may be open for what lies beyond the trained range alone."""

GOOD_WORDS = {
    "learned": "yes",
    "does not extrapolate": "yes",
    "relies on it": "yes",
    "relies on it, at chance without": "yes",
    "relies on it, below chance without": "yes",
    "relies on it, the answer follows the state": "yes",
    "follows the cue": "yes",
    "above chance": "above chance",
}
"""Verdicts that answer a question with yes, and what cards say for them."""

BAD_WORDS = {
    "never learned": "no",
    "answers wrongly": "answers wrongly",
    "forgets with distance": "forgets",
    "does not rely on it": "no",
    "follows the distractors": "on distractors",
    "follows neither": "no",
    "at chance": "falls to chance",
    "below chance": "below chance",
}
"""The same for no."""


def cards(groups: Sequence[Group]) -> list[Card]:
    """A card for each model on each task, in the order of the groups; for baselines only where they are alone."""
    known = [(group.task, row) for group in groups for row in group.rows]
    asked = without_baselines(known, lambda each: each[1].records[0].model)
    places = {(task, row.label): row.called for task, row in asked}
    found = []
    for (task, model), called in places.items():
        every = [
            (row.records[0].probe.name, group.stage, row)
            for group in reversed(groups)
            if group.task == task
            for row in group.rows
            if row.label == model
        ]
        rows = {(probe, stage): row for probe, stage, row in every if row.ok}
        missing = {probe: row for probe, _, row in every if not row.ok}
        answers = {name: question.answer(rows) for name, question in QUESTIONS.items()}
        for name, answer in answers.items():
            if answer is NOT_MEASURED:
                answers[name] = _why_not([missing[probe] for probe in QUESTIONS[name].probes if probe in missing])
        found.append(Card(model, task, answers, called, any(row.suspect for *_, row in every)))
    return found


def _why_not(missing: Sequence[Row]) -> Answer:
    """What became of the probes that would have answered."""
    if not missing:
        return NOT_MEASURED
    failed = [record for row in missing for record in row.records if record.status == "failed"]
    if not failed:
        return Answer("skipped")
    return Answer("diverged" if all(map(came_to_a_result, failed)) else "failed")


Rows = dict[tuple[str, str], Row]
"""What was measured of one model on one task, by probe and stage."""


def _learns(rows: Rows) -> Answer:
    row, about = rows.get(("accuracy", "trained")), "worst score in the trained range"
    return _verdicts(row, "accuracy", "worst_inside", about, _within)


def _within(scalar: Scalar) -> str:
    """What a seed's verdict says of the trained range, where it may be open for what lies beyond alone."""
    return "learned" if scalar.verdict in OPEN and _solved(scalar) else _said_of(scalar)


def _solved(scalar: Scalar) -> bool:
    """Whether a worst score is that of a model that has learned, also less two standard errors."""
    chance, best = (scalar.levels.get(name, math.nan) for name in ("chance", "best"))
    if chance == best:
        return False
    error = MARGIN * (scalar.standard_error or 0.0) / abs(best - chance)
    return (scalar.value - chance) / (best - chance) - error >= SOLVED - 1e-9


def _reaches(rows: Rows) -> Answer:
    row = rows.get(("grad_reach", "initial")) or rows.get(("grad_reach", "trained"))
    if row is None:
        return NOT_MEASURED
    shares, far = [], ""
    for curve in row.find(Curve, "reach"):
        flags = curve.inside or [True] * len(curve.y)
        inside = [index for index, flag in enumerate(flags) if flag] or list(range(len(curve.y)))
        if len(inside) > 1 and curve.y[inside[0]] > 0:
            shares.append(curve.y[inside[-1]] / curve.y[inside[0]])
            far = format_place(curve.x[inside[-1]])
    if not shares:
        return Answer("not enough to say", probe="grad_reach", meaning="only one place was measured")
    when = "at initialisation" if row is rows.get(("grad_reach", "initial")) else "after training"
    return _judged(
        row,
        [_said(share, "yes" if share >= ARRIVES else "fades") for share in shares],
        {"yes": "good", "fades": "bad"},
        number=spread(summarise(shares)),
        about=f"gradient at {far} over that at the nearest one, {when}",
        probe="grad_reach",
        meaning=f"yes: at the farthest trained place at least {ARRIVES:.0%} of the gradient at the nearest one",
    )


def _looks(rows: Rows) -> Answer:
    row = rows.get(("attention_to_subject", "trained"))
    if row is None:
        return NOT_MEASURED
    shares, multiples = _by_seed(row, "sharpest_head"), _by_seed(row, "times_uniform")
    seeds = sorted(shares.keys() & multiples.keys())
    told = _told_from_the_first_position(row, rows.get(("edge_cut", "trained")))

    def word(seed: int) -> str:
        if shares[seed].value >= HALF and multiples[seed].value >= TWICE:
            return "yes" if told.get(seed, True) else "may be a habit"
        return "hardly"

    return _judged(
        row,
        [_said(shares[seed].value, word(seed)) for seed in seeds],
        {"yes": "good", "hardly": "bad"},
        number=spread(summarise(shares[seed].value for seed in seeds)),
        about="attention to the cue, sharpest head",
        probe="attention_to_subject",
        meaning=f"yes: the sharpest head gives the cue at least {HALF:.0%} of its attention, and {TWICE:g} times that "
        "of a head that looks everywhere alike; may be a habit: the cue always stands first, where heads often rest, "
        "and edge_cut has not shown that the model does without the first position when the cue stands elsewhere",
    )


def _told_from_the_first_position(looks: Row, cut: Row | None) -> dict[int, bool]:
    """For each seed whose cue always stands first, whether a look at it was told from a rest on the first position."""
    patterns = {r.seed: [m for m in r.measurements if isinstance(m, Pattern)] for r in looks.ok}
    told = {seed: False for seed, found in patterns.items() if found and all(each.cue == 0 for each in found)}
    moved = _by_seed(cut, "first_position_cut") if cut else {}
    return told | {seed: each.verdict == "harmless" for seed, each in moved.items() if each.headline}


def _by_seed(row: Row, name: str) -> dict[int, Scalar]:
    found = ((record.seed, m) for record in row.ok for m in record.measurements)
    return {seed: m for seed, m in found if isinstance(m, Scalar) and m.name == name}


def _relies(rows: Rows) -> Answer:
    for probe, about in (
        ("edge_cut", "score with the cue cut"),
        ("state_cut", "score with the state of another answer"),
    ):
        if (cut := rows.get((probe, "trained"))) is not None:
            return _verdicts(cut, probe, "score_after_cut", about)
    return _verdicts(rows.get(("input_swap", "trained")), "input_swap", "cue_effect", "fall when the cue is swapped")


def _extrapolates(rows: Rows) -> Answer:
    found = rows.get(("position_extrapolation", "trained"))
    if found is not None and found.find(Scalar, "worst_beyond"):
        return _verdicts(found, "position_extrapolation", "worst_beyond", "worst score beyond the trained range")
    row = rows.get(("accuracy", "trained"))
    inside, beyond = (row.find(Scalar, name) if row else [] for name in ("worst_inside", "worst_beyond"))
    if row is None or not (beyond or any(scalar.verdict == "does not extrapolate" for scalar in inside)):
        return NOT_MEASURED
    taken = [scalar.value for scalar in row.find(Scalar, "limit") if not math.isnan(scalar.value)]
    numbers = spread(summarise(scalar.value for scalar in beyond)), f"up to {format_place(min(taken))}" if taken else ""
    return _judged(
        row,
        [*map(_beyond, inside)],
        {"yes": "good", "no": "bad"},
        number=" ".join(filter(None, numbers)),
        about="worst score beyond the trained range",
        probe="accuracy",
        meaning=next((scalar.meaning for scalar in inside if scalar.meaning), ""),
    )


def _beyond(scalar: Scalar) -> str:
    """What a seed's verdict says of extrapolation."""
    words = {"learned": "yes", "does not extrapolate": "no", NEAR: NEAR, NOT_ENOUGH: NOT_ENOUGH}
    if scalar.verdict == BRIEF and _solved(scalar):
        return NEAR
    return words.get(scalar.verdict, "has not learned") if scalar.verdict else "no verdict"


def _costs(rows: Rows) -> Answer:
    row = rows.get(("speed", "initial")) or rows.get(("speed", "trained"))
    exponents = [scalar.value for scalar in row.find(Scalar, "time_exponent")] if row else []
    known = [value for value in exponents if not math.isnan(value)]
    if row is None or not known:
        return NOT_MEASURED
    return Answer(
        f"~ length^{median(known):.1f}",
        number=spread(summarise(known)),
        about="exponent of time at the longest lengths",
        probe="speed",
        meaning="1: linear in the length, 2: quadratic, 0: fixed costs rule",
    )


class Question(NamedTuple):
    """A column of cards."""

    asks: str
    """The question in full."""
    probes: tuple[str, ...]
    """Those that can answer it."""
    answer: Callable[[Rows], Answer]
    """The rule that answers it."""
    judges: bool = True
    """Whether an answer is praise or blame, or stays undecided."""


QUESTIONS = {
    "learns": Question("Does it answer within the trained range?", ("accuracy",), _learns),
    "reaches": Question("Does gradient arrive from the farthest trained place?", ("grad_reach",), _reaches),
    "looks": Question("Does a head look at the cue?", ("attention_to_subject",), _looks),
    "relies": Question("Does the answer depend on the cue?", ("edge_cut", "state_cut", "input_swap"), _relies),
    "extrapolates": Question(
        "Does it answer beyond the trained range?", ("accuracy", "position_extrapolation"), _extrapolates
    ),
    "costs": Question("How does time grow with length?", ("speed",), _costs, judges=False),
}
"""In the order of columns."""


def _said(value: float, word: str) -> str:
    """The word for a number, unless it is none: that is neither praise nor blame."""
    return "not a number" if math.isnan(value) else word


def _said_of(scalar: Scalar) -> str:
    return scalar.verdict or "no verdict"


def _verdicts(row: Row | None, probe: str, name: str, about: str, word: Callable[[Scalar], str] = _said_of) -> Answer:
    """From the verdicts of one number."""
    scalars = row.find(Scalar, name) if row else []
    if row is None or not scalars:
        return NOT_MEASURED
    said = [*map(word, scalars)]
    tones: dict[str, Tone] = {**dict.fromkeys(GOOD_WORDS, "good"), **dict.fromkeys(BAD_WORDS, "bad")}
    return _judged(
        row,
        said,
        tones,
        number=spread(summarise(scalar.value for scalar in scalars)),
        about=about,
        probe=probe,
        meaning="; ".join(dict.fromkeys(f"{s.verdict}: {s.meaning}" for s in scalars if s.verdict and s.meaning)),
    )


def _judged(
    row: Row, said: Sequence[str], tones: dict[str, Tone], *, number: str, about: str, probe: str, meaning: str
) -> Answer:
    """One answer from what each seed says."""
    if not said:
        return NOT_MEASURED
    counts = Counter({**GOOD_WORDS, **BAD_WORDS}.get(word, word) for word in said)
    given = {tones.get(word, "open") for word in said}
    enough = row.once or row.repetitions >= FEW_SEEDS
    tone: Tone = given.pop() if len(given) == 1 and enough else "open"
    return Answer(", ".join(_counted(counts, enough=enough)), tone, number, about, probe, meaning)


def _counted(counts: Counter[str], *, enough: bool) -> Iterator[str]:
    """`yes`, or `yes 2/3, no 1/3`; of too few seeds how many there are."""
    total = counts.total()
    for word, n in counts.most_common():
        if len(counts) > 1:
            yield f"{word} {n}/{total}"
        elif enough:
            yield word
        else:
            yield f"{word} ({total} seed{'s' if total > 1 else ''})"
