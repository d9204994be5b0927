"""From seeds to statements: summaries over seeds, and what a curve says in words.

Pure Python on lists of numbers, so that probes, reports and claims share it and none of them needs torch for
it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeVar

from harness.schema import PluginUse, Record
from harness.vocabulary import SEEDS_ALIKE

FEW_SEEDS = 3
"""With fewer seeds than this, nothing is concluded about an architecture."""

Diagnosis = Literal[
    "learned",
    "does not extrapolate",
    "forgets with distance",
    "answers wrongly",
    "partly learned",
    "never learned",
    "near the threshold",
    "not enough to say",
    "trained too briefly",
    "not a number",
    "not measured",
]
Near = Literal["near the threshold", "not enough to say"]
Decay = Literal["exponential", "polynomial", "flat", "grows", "cut off", "no clear law", "not enough to say"]


@dataclass(frozen=True)
class Summary:
    """One number per seed, summarised. NaN is counted and otherwise left out; infinity is a number."""

    n: int
    """Values that are numbers."""
    nan: int
    """Values that are NaN."""
    median: float
    minimum: float
    maximum: float

    def worst(self, higher_is_better: bool = True) -> float:
        """The worst seed: the smallest value, or the largest unless `higher_is_better`."""
        return self.minimum if higher_is_better else self.maximum

    def best(self, higher_is_better: bool = True) -> float:
        """The best seed: the largest value, or the smallest unless `higher_is_better`."""
        return self.maximum if higher_is_better else self.minimum


def summarise(values: Iterable[float]) -> Summary:
    """Median, smallest and largest of `values`, one per seed; all NaN where there is no number."""
    given = [float(value) for value in values]
    numbers = sorted(value for value in given if not math.isnan(value))
    if not numbers:
        return Summary(0, len(given), math.nan, math.nan, math.nan)
    return Summary(len(numbers), len(given) - len(numbers), median(numbers), numbers[0], numbers[-1])


def coverage(n: int) -> float:
    """The probability that the range of `n` seeds contains the median over all possible seeds.

    Every seed falls on either side of that median with probability 1/2, whatever the distribution, so the
    range misses it only if all seeds fall on one side: 1 - 2 / 2^n. That is 0.75 for 3 seeds and 0.94 for 5;
    more cannot be said of so few without assuming a distribution (the interval that goes with a sign test).
    """
    return 1 - 2 * 0.5**n if n > 0 else 0.0


def name_seeds(seeds: Iterable[int]) -> str:
    """`seed 4`, `seeds 0-2, 7`."""
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"seed{'s' if sum(map(len, runs)) > 1 else ''} {', '.join(parts)}"


Identity = tuple[str, str, str]
"""Distribution, label and place of a plugin as used."""


def identity(use: PluginUse) -> Identity:
    """Which plugin a `use` is of, in any of its versions: one from a package by distribution and label; one without a
    package also by where it is, so that two files of the same name in different folders are two plugins."""
    return use.distribution, use.label, "" if use.distribution else use.target


def current(records: Iterable[Record]) -> tuple[list[Record], int]:
    """The records that count as seeds, in the order given, and how many older ones they supersede.

    Among records that agree in model, task, probe (`identity`), stage, training, number of evaluation examples and
    device, only those with the plugin sources of the newest one are kept, and of these the newest for each seed. So a
    file that was edited and run again supersedes what it was before. A file of the same name in another folder
    supersedes nothing, even if it is a copy: reports show both, with their folders.
    """
    records = list(records)
    sources: dict[object, object] = {}
    kept: dict[object, int] = {}
    newest_first = sorted(enumerate(records), key=lambda item: item[1].provenance.order, reverse=True)
    for index, record in newest_first:
        plugins = (record.model, record.task, record.probe)
        cell = (
            tuple(map(identity, plugins)),
            record.stage,
            record.training,
            record.examples,
            record.device,
        )
        digests = (*(use.digest for use in plugins), record.provenance.core)
        if sources.setdefault(cell, digests) == digests:
            kept.setdefault((cell, record.seed), index)
    return [records[index] for index in sorted(kept.values())], len(records) - len(kept)


def measured_once(records: Sequence[Record]) -> bool:
    """Whether `records` are of a model that was measured as it came, on one set of examples, so that more seeds would
    add nothing. What is left to chance is which examples these are, and standard errors tell how much that is."""
    return all(record.pretrained for record in records) and len({record.data or record.id for record in records}) == 1


def seeds_alike(records: Iterable[Record]) -> bool:
    """Whether the model of `records` was built from the same weights whatever the seed, so that seeds are no
    repetitions."""
    return any(SEEDS_ALIKE in warning for record in records for warning in record.warnings)


NEAR: Literal["near the threshold"] = "near the threshold"
"""The verdict that another sample of examples could easily change."""

NOT_ENOUGH: Literal["not enough to say"] = "not enough to say"
"""The verdict where there are too few examples for any other one."""

BRIEF: Literal["trained too briefly"] = "trained too briefly"
"""The verdict on a failure after too little training."""

MARGIN = 2.0
"""Standard errors within which a score counts as near a threshold."""

SOLVED = 0.9
GOOD = 0.5
POOR = 0.25
"""Shares of the way from chance to perfect, at which verdicts change."""

ENOUGH = 0.5
"""Of a model that was trained for less than this share of the recommended steps, no failure to learn is told."""

WAY = "of the way from chance to perfect"
MEANINGS: dict[str, str] = {
    "learned": f"at least {SOLVED:.0%} {WAY} under every condition, also beyond the trained range if that was measured",
    "does not extrapolate": f"at least {SOLVED:.0%} {WAY} throughout the trained range, less somewhere beyond",
    "answers wrongly": f"somewhere in the trained range worse than guessing, by {POOR:.0%} {WAY} or more: the answer "
    "follows something else than it should",
    "forgets with distance": f"at least {GOOD:.0%} {WAY} at the nearest condition of the trained range, and at least "
    f"{POOR:.0%} of that way less at the farthest: training worked, the distance hurts",
    "never learned": f"nowhere in the trained range {GOOD:.0%} {WAY}, and in the median less than {POOR:.0%}: training "
    "failed",
    "partly learned": f"less than {SOLVED:.0%} {WAY} somewhere in the trained range, and neither of: answers wrongly, "
    "forgets with distance, never learned",
    "has not learned": f"less than {GOOD:.0%} {WAY} as it is, so that nothing is to be told of how it answers",
    NEAR: f"another sample of examples of this size could change the verdict (scores moved by {MARGIN:g} of their "
    "standard errors would); more of them decide: --examples",
    NOT_ENOUGH: "too few examples to tell verdicts apart; more of them decide: --examples",
    BRIEF: f"no success, after less than {ENOUGH:.0%} of the steps that task and model recommend (harness show task "
    "NAME says how many these are): nothing is told of what they would bring",
    "not a number": "the model's outputs are NaN somewhere in the trained range",
    "not measured": "nothing was measured in the trained range",
}
"""What the verdicts of `diagnose` mean, and those that any probe may give: the `meaning` of a `Scalar`."""

V = TypeVar("V", bound=str)


def settled(judge: Callable[[Sequence[float]], V], values: Sequence[float], errors: Sequence[float]) -> V | Near:
    """The verdict on values; `near the threshold` if it changes once any one of them, or all of them together, are
    moved by two of their standard errors, up or down; `not enough to say` if that is more than a quarter of the way
    from chance to perfect, so that it reaches from one kind of verdict to another.

    Args:
        judge: gives the verdict.
        values: skills, which are 0 at chance and 1 at the best.
        errors: their standard errors; a value whose error is 0 or NaN stays where it is.
    """
    verdict = judge(values)
    moves = [MARGIN * error if error > 0 else 0.0 for error in errors]
    single = [[move if index == at else 0.0 for index in range(len(moves))] for at, move in enumerate(moves) if move]
    for step in (moves, *single):
        for sign in (-1, 1):
            if judge([value + sign * move for value, move in zip(values, step, strict=True)]) != verdict:
                return NOT_ENOUGH if max(step) > POOR else NEAR
    return verdict


def diagnose(
    skills: Sequence[float],
    inside: Sequence[bool] | None = None,
    errors: Sequence[float] | None = None,
    budget: float = 1.0,
) -> Diagnosis:
    """What scores along a distance say about learning.

    Skills are the share of the way from chance (0) to perfect (1), from near to far. "Inside" are the places that
    training covered (all, where `inside` is None). The first that fits:

    - `not measured`: there is no place inside.
    - `not a number`: the score is NaN somewhere inside, since the model's outputs are.
    - `learned`: skill of at least 0.9 everywhere, also beyond the trained range where that was measured.
    - `does not extrapolate`: skill of at least 0.9 everywhere inside, less (or NaN) somewhere beyond.
    - `answers wrongly`: skill below -0.25 somewhere inside. That is worse than guessing: the answer follows something
      else than it should.
    - `forgets with distance`: skill of at least 0.5 at the nearest place inside, and lower by at least 0.25
      at the farthest one. Training worked; the distance is what hurts.
    - `never learned`: median skill inside below 0.25, and nowhere as much as 0.5. Training failed; a curve
      that is flat at failure does not forget, also if its nearest place is a little better than the rest.
    - `partly learned`: everything else.

    Whatever fits, it is `near the threshold` if two standard errors of one score decide it, and `not enough to say` if
    those are more than 0.25. A failure of a model that was trained for less than half of the steps that are recommended
    for it is `trained too briefly`.

    Args:
        skills: one for each place.
        inside: whether training covered the place.
        errors: standard errors of the skills; without them, they are taken as they stand.
        budget: the steps of training, as a share of what is recommended.
    """
    flags = [True] * len(skills) if inside is None else list(inside)
    tolerance = 1e-9  # 0.95 - 0.5 is a little less than 0.45

    def judge(values: Sequence[float]) -> Diagnosis:
        within = [s for s, flag in zip(values, flags, strict=True) if flag]
        beyond = [s for s, flag in zip(values, flags, strict=True) if not flag]
        if not within:
            return "not measured"
        if any(map(math.isnan, within)):
            return "not a number"
        if min(within) >= SOLVED - tolerance:
            return "learned" if all(s >= SOLVED - tolerance for s in beyond) else "does not extrapolate"
        if min(within) < -POOR - tolerance:
            return "answers wrongly"
        if within[0] >= GOOD - tolerance and within[0] - within[-1] >= POOR - tolerance:
            return "forgets with distance"
        if median(within) < POOR and max(within) < GOOD:
            return "never learned"
        return "partly learned"

    verdict = settled(judge, skills, errors or [math.nan] * len(skills))
    failures = ("answers wrongly", "forgets with distance", "never learned", "partly learned", NEAR, NOT_ENOUGH)
    return BRIEF if budget < ENOUGH and verdict in failures else verdict


@dataclass(frozen=True)
class DecayFit:
    """How a positive quantity falls along a distance: the best exponential and the best polynomial."""

    points: int
    """Points used: both x and y finite and above 0."""
    factor: float
    """Exponential fit, y = A f^x: the factor f per step (below 1: falls; 0: the curve is cut off)."""
    exponent: float
    """Polynomial fit, y = A / x^p: the exponent p (above 0: falls; infinite: the curve is cut off)."""
    residual_exponential: float
    """Root mean square error of log y, in nats, of the exponential fit; NaN for a curve that is cut off."""
    residual_polynomial: float
    """The same of the polynomial fit."""
    verdict: Decay
    """Which of them it is."""
    zero_from: int | None = None
    """For a curve that is cut off, the index of the first of the zeros that it ends in."""


def fit_decay(x: Sequence[float], y: Sequence[float], *, smallest: float = 0.0) -> DecayFit:
    """Fit y = A f^x and y = A / x^p by least squares on log y, and say which of them it is.

    What is known of recurrent nets is that gradients fall exponentially with the number of steps (Bengio et al., 1994).

    Points where x or y is 0, negative, NaN or infinite are left out of the fits. Rules, the first that fits:

    - `cut off`: from some place on, y is exactly 0 wherever it was measured. No exponential and no polynomial does
      that, so the factor is 0 and the exponent infinite, whatever came before.
    - `not enough to say`: fewer than 4 points.
    - `no clear law`: y is 0 at a place, and not at a farther one.
    - `flat`: the largest y is less than twice the smallest.
    - `grows`: both fits rise and the last y is at least twice the first.
    - `exponential` / `polynomial`: the fit falls and its residual is at most half of the other one's (so it explains at
      least three quarters of the variance of log y).
    - `no clear law`: everything else, for example a range too short to tell the two apart, or a curve that jumps.

    Args:
        x: places, from near to far.
        y: the quantity, one for each place.
        smallest: what the arithmetic behind y could just tell from 0. A 0 that the steepness before it (the factor per
            step between the last two points above 0; 0.01 where there is only one) explains as less than this is no
            sign of a cut-off, and is left out.
    """
    zeros = _zeros_at_the_end(x, y, smallest)
    usable = [(a, b) for a, b in zip(x, y, strict=True) if 0 < a < math.inf and 0 < b < math.inf]
    last = max((index for index, value in enumerate(y) if value > 0), default=0)
    interrupted = 0 in y[:last]
    if zeros is not None:
        return DecayFit(len(usable), 0.0, math.inf, math.nan, math.nan, "cut off", zeros)
    xs, logs = [a for a, _ in usable], [math.log(b) for _, b in usable]
    slope, exponential = _line(xs, logs)
    power, polynomial = _line([math.log(a) for a in xs], logs)
    verdict: Decay = "no clear law"
    if len(usable) < 4:
        verdict = "not enough to say"
    elif interrupted:
        verdict = "no clear law"
    elif max(logs) - min(logs) < math.log(2):
        verdict = "flat"
    elif slope > 0 and power > 0 and logs[-1] - logs[0] >= math.log(2):
        verdict = "grows"
    elif slope < 0 and exponential <= polynomial / 2:
        verdict = "exponential"
    elif power < 0 and polynomial <= exponential / 2:
        verdict = "polynomial"
    return DecayFit(len(usable), math.exp(slope), -power, exponential, polynomial, verdict)


def _zeros_at_the_end(x: Sequence[float], y: Sequence[float], smallest: float) -> int | None:
    """The index of the first of the zeros that y ends in; None where it does not, or where they are no surprise."""
    known = [index for index, value in enumerate(y) if not math.isnan(value)]
    above = [index for index in known if y[index] != 0]
    zeros = [index for index in known if not above or index > above[-1]]
    if not zeros:
        return None
    if above and 0 < smallest < y[above[-1]] < math.inf:
        last = above[-1]
        steepness = math.log(0.01)
        if len(above) > 1 and 0 < y[above[-2]] < math.inf:
            steepness = (math.log(y[last]) - math.log(y[above[-2]])) / (x[last] - x[above[-2]])
        if math.log(y[last]) + steepness * (x[zeros[0]] - x[last]) < math.log(smallest):
            return None
    return zeros[0]


def _line(u: Sequence[float], v: Sequence[float]) -> tuple[float, float]:
    """Slope and root mean square residual of the least-squares line; NaN where no line is determined."""
    if len(set(u)) < 2:
        return math.nan, math.nan
    mean_u, mean_v = math.fsum(u) / len(u), math.fsum(v) / len(v)
    slope = math.fsum((a - mean_u) * (b - mean_v) for a, b in zip(u, v, strict=True)) / math.fsum(
        (a - mean_u) ** 2 for a in u
    )
    squares = math.fsum((b - mean_v - slope * (a - mean_u)) ** 2 for a, b in zip(u, v, strict=True))
    return slope, math.sqrt(squares / len(u))


def falls_below(x: Sequence[float], y: Sequence[float], share: float) -> float:
    """The first measured x at which y is below `share` times its first value; `located` says what it lies between.

    Infinity: nowhere within what was measured. NaN points are left out; NaN is returned where fewer than two are left,
    or the first value is not a positive number.
    """
    points = [(a, b) for a, b in zip(x, y, strict=True) if not math.isnan(b)]
    if len(points) < 2 or not 0 < points[0][1] < math.inf:
        return math.nan
    return next((float(a) for a, b in points if b < share * points[0][1]), math.inf)


def located(x: Sequence[float], y: Sequence[float], place: float) -> str:
    """Where a change of y along x lies that was first seen at the measured place `place` (see `falls_below`).

    `between 20 and 50` where nothing was measured between the two; `at 24` where places are whole numbers and 23 was
    measured too, or nothing nearer; `not within what was measured (100)` for infinity, with the farthest place; `not
    enough to say` for NaN.
    """
    if math.isnan(place):
        return "not enough to say"
    measured = [a for a, b in zip(x, y, strict=True) if not math.isnan(b)]
    if math.isinf(place):
        return f"not within what was measured ({measured[-1]:g})"
    before = max((a for a in measured if a < place), default=place)
    whole = all(a == int(a) for a in measured)
    return (
        f"at {place:g}" if place == before or (whole and place - before <= 1) else f"between {before:g} and {place:g}"
    )
