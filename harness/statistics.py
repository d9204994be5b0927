"""From seeds to statements: summaries over seeds, and what a curve says in words.

Pure Python on lists of numbers, so that probes, reports and claims share it and none of them needs torch for
it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from harness.schema import PluginUse, Record
from harness.vocabulary import SEEDS_ALIKE

FEW_SEEDS = 3
"""With fewer seeds than this, nothing is concluded about an architecture."""

Diagnosis = Literal[
    "learned", "does not extrapolate", "forgets with distance", "partly learned", "never learned", "undecided"
]
Decay = Literal["exponential", "polynomial", "flat", "undecided"]


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
        """The worst seed."""
        return self.minimum if higher_is_better else self.maximum

    def best(self, higher_is_better: bool = True) -> float:
        """The best seed."""
        return self.maximum if higher_is_better else self.minimum


def summarise(values: Iterable[float]) -> Summary:
    """Median, smallest and largest of one value per seed; all NaN where there is no number."""
    given = [float(value) for value in values]
    numbers = sorted(value for value in given if not math.isnan(value))
    if not numbers:
        return Summary(0, len(given), math.nan, math.nan, math.nan)
    return Summary(len(numbers), len(given) - len(numbers), median(numbers), numbers[0], numbers[-1])


def coverage(n: int) -> float:
    """The probability that the range of `n` seeds contains the median over all possible seeds.

    Every seed falls on either side of that median with probability 1/2, whatever the distribution, so the
    range misses it only if all seeds fall on one side: 1 - 2 / 2^n. That is 0.75 for 3 seeds and 0.94 for 5;
    more cannot be said of so few without assuming a distribution.
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
    """Which plugin it is, in any of its versions: one from a package by distribution and label; one without a package
    also by where it is, so that two files of the same name in different folders are two plugins."""
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
    newest_first = sorted(enumerate(records), key=lambda item: -item[1].provenance.finished.timestamp())
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
    """Whether a model was measured as it came, on one set of examples, so that more seeds would add nothing. What is
    left to chance is which examples these are, and standard errors tell how much that is."""
    return all(record.pretrained for record in records) and len({record.data or record.id for record in records}) == 1


def seeds_alike(records: Iterable[Record]) -> bool:
    """Whether their model was built from the same weights whatever the seed, so that seeds are no repetitions."""
    return any(SEEDS_ALIKE in warning for record in records for warning in record.warnings)


NEAR = "near the threshold"
"""The verdict that another sample of examples could easily change."""

NOT_ENOUGH = "not enough to say"
"""The verdict where examples are too few, or training too short, for any other one."""

MARGIN = 2.0
"""Standard errors within which a score counts as near a threshold."""


def settled(judge: Callable[[Sequence[float]], str], values: Sequence[float], errors: Sequence[float]) -> str:
    """The verdict on values, or `near the threshold` if it changes once any one of them is moved by two of its standard
    errors, up or down. Values without a standard error (NaN) stay where they are."""
    verdict = judge(values)
    for index, error in enumerate(errors):
        if error > 0:
            for moved in (values[index] - MARGIN * error, values[index] + MARGIN * error):
                if judge([*values[:index], moved, *values[index + 1 :]]) != verdict:
                    return NEAR
    return verdict


SOLVED = 0.9
GOOD = 0.5
POOR = 0.25

WAY = "of the way from chance to perfect"
MEANINGS: dict[str, str] = {
    "learned": f"at least {SOLVED:.0%} {WAY} under every condition, also beyond the trained range if that was measured",
    "does not extrapolate": f"at least {SOLVED:.0%} {WAY} throughout the trained range, less somewhere beyond",
    "forgets with distance": f"at least {GOOD:.0%} {WAY} at the nearest condition of the trained range, and at least "
    f"{POOR:.0%} of that way less at the farthest: training worked, the distance hurts",
    "never learned": f"nowhere in the trained range {GOOD:.0%} {WAY}, and in the median less than {POOR:.0%}: training "
    "failed",
    "partly learned": f"less than {SOLVED:.0%} {WAY} somewhere in the trained range, and neither of: forgets with "
    "distance, never learned",
    "undecided": "nothing was measured in the trained range",
    NEAR: f"another sample of examples of this size could change the verdict (one score, moved by {MARGIN:g} of its "
    "standard errors, would); more of them decide: --examples",
    NOT_ENOUGH: "too few examples, or too little training, for any verdict",
}
"""What the verdicts of `diagnose` mean, and those that any probe may give: the `meaning` of a `Scalar`."""


def diagnose(accuracies: Sequence[float], inside: Sequence[bool] | None, chance: float) -> Diagnosis:
    """What accuracies along a distance say about learning.

    Accuracies are read as skill, the share of the way from chance (0) to perfect (1); they are given from
    near to far; NaN is left out. "Inside" are the places that training covered (all, where `inside` is None).
    The first that fits:

    - `undecided`: nothing was measured inside.
    - `learned`: skill of at least 0.9 everywhere, also beyond the trained range where that was measured.
    - `does not extrapolate`: skill of at least 0.9 everywhere inside, less somewhere beyond.
    - `forgets with distance`: skill of at least 0.5 at the nearest place inside, and lower by at least 0.25
      at the farthest one. Training worked; the distance is what hurts.
    - `never learned`: median skill inside below 0.25, and nowhere as much as 0.5. Training failed; a curve
      that is flat at failure does not forget, also if its nearest place is a little better than the rest.
    - `partly learned`: everything else.
    """
    flags = [True] * len(accuracies) if inside is None else list(inside)
    skills = [(a - chance) / (1 - chance) for a in accuracies]
    within = [s for s, flag in zip(skills, flags, strict=True) if flag and not math.isnan(s)]
    beyond = [s for s, flag in zip(skills, flags, strict=True) if not flag and not math.isnan(s)]
    tolerance = 1e-9  # 0.95 - 0.5 is a little less than 0.45
    if not within:
        return "undecided"
    if min(within) >= SOLVED - tolerance:
        return "learned" if min(beyond, default=1.0) >= SOLVED - tolerance else "does not extrapolate"
    if within[0] >= GOOD - tolerance and within[0] - within[-1] >= POOR - tolerance:
        return "forgets with distance"
    if median(within) < POOR and max(within) < GOOD:
        return "never learned"
    return "partly learned"


@dataclass(frozen=True)
class DecayFit:
    """How a positive quantity falls along a distance: the best exponential and the best polynomial."""

    points: int
    """Points used: both x and y finite and above 0."""
    factor: float
    """Exponential fit, y = A f^x: the factor f per step (below 1: falls)."""
    exponent: float
    """Polynomial fit, y = A / x^p: the exponent p (above 0: falls)."""
    residual_exponential: float
    """Root mean square error of log y, in nats, of the exponential fit."""
    residual_polynomial: float
    """The same of the polynomial fit."""
    verdict: Decay


def fit_decay(x: Sequence[float], y: Sequence[float]) -> DecayFit:
    """Fit y = A f^x and y = A / x^p by least squares on log y, and say which of them it is.

    Points where x or y is 0, negative, NaN or infinite are left out (a gradient of exactly 0 has no
    logarithm). Rules, the first that fits:

    - `undecided`: fewer than 4 points.
    - `flat`: the largest y is less than twice the smallest.
    - `exponential` / `polynomial`: that fit's residual is at most half of the other one's (so it explains at
      least three quarters of the variance of log y).
    - `undecided`: everything else, for example a range too short to tell the two apart.

    A curve that grows gets the same words, with a factor above 1 and a negative exponent.
    """
    usable = [(a, b) for a, b in zip(x, y, strict=True) if 0 < a < math.inf and 0 < b < math.inf]
    xs, logs = [a for a, _ in usable], [math.log(b) for _, b in usable]
    slope, exponential = _line(xs, logs)
    power, polynomial = _line([math.log(a) for a in xs], logs)
    verdict: Decay = "undecided"
    if len(usable) >= 4:
        if max(logs) - min(logs) < math.log(2):
            verdict = "flat"
        elif exponential <= polynomial / 2:
            verdict = "exponential"
        elif polynomial <= exponential / 2:
            verdict = "polynomial"
    return DecayFit(len(usable), math.exp(slope), -power, exponential, polynomial, verdict)


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
    """The first x at which y falls below `share` times its first value.

    Between two measured places it is interpolated, straight on log y; where y falls to 0 at once, it is the
    place of that 0. Infinity: never within what was measured. NaN points are left out; NaN is returned where
    nothing was measured or the first value is not a positive number.
    """
    points = [(a, b) for a, b in zip(x, y, strict=True) if not math.isnan(b)]
    if not points or not 0 < points[0][1] < math.inf:
        return math.nan
    threshold = share * points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if y1 < threshold:
            if y1 <= 0:
                return float(x1)
            return x0 + (x1 - x0) * math.log(y0 / threshold) / math.log(y0 / y1)
    return math.inf
