"""A claim against records: does it hold?"""

import math
import operator
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.grids import argument_part, cells
from harness.matching import means, trained_so, varied_so, without_baselines
from harness.schema import AMOUNT, Cell, Record, Training
from harness.seeds import (
    FEW_SEEDS,
    came_to_a_result,
    current,
    identity,
    measured_once,
    name_seeds,
    of_newest_code,
    percent,
    quantile,
    seeds_alike,
    validation_loss,
)
from harness.selection import MissingError, Reading, UnreadableError, difference, read, select_number
from harness.statistics import MARGIN
from harness.suites import Claim, Selection
from harness.vocabulary import SEEDS_ALIKE
from harness.written import format_arguments

Verdict = Literal["holds", "does not hold", "undecided", "invalid claim", "not judged"]
"""`invalid claim`: the claim itself is wrong, since what it names was not measured; more seeds would not help. `not
judged`: an error came up when its records were looked at."""
Pairs = dict[int, tuple[float, float]]
"""For each seed that was measured: the number, and what it is compared with."""

UNKNOWN_ERROR = "measured once, and the standard error of this number is not known"

_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@dataclass(frozen=True)
class Judgement:
    """What the records say about a claim."""

    claim: Claim
    verdict: Verdict
    numbers: Pairs
    explanation: str
    """Why the verdict is what it is, in one line."""
    errors: dict[int, float] = field(default_factory=dict)
    """The standard error of a number that was measured once, without seeds, under its key in `numbers`."""


def judge(
    claim: Claim, records: Iterable[Record], seeds: Iterable[int] = (), grid: Mapping[str, list[Any]] | None = None
) -> Judgement:
    """Decide a claim.

    A seed supports or contradicts the claim, or decides nothing (NaN, or closer to the reference than the
    margin). `every` and `worst` hold if all seeds support the claim and fail by one that contradicts it;
    `some` and `best` hold by one that supports it and fail if all contradict it; a share of the seeds holds as
    soon as so many support it, and fails as soon as the others cannot; `median` and `quantile` ask that quantile
    over seeds of the difference. Where that needs all seeds, fewer than 3 (or than the quantile has a seed beyond
    it), or a missing, failed or skipped one, leave the claim undecided. If no seed can be read, and one because the
    claim names what is not there, the claim is invalid. Seeds of a model whose weights do not depend on them count as
    one.

    A pretrained model that was measured once (`seeds.measured_once`) needs no seeds: its one number decides, and
    decides nothing if two of its standard errors, either way, would change the verdict. It stands beside every seed of
    a trained model that it is compared with.

    Args:
        claim: the claim.
        records: any records; superseded ones are ignored.
        seeds: the seeds that were asked for, if known: those without a record count as missing.
        grid: what the suite varies, if known: nothing is said of its best cell while one of them has no result.
    """
    records, _ = current(records)
    seeds = list(seeds)
    varied = argument_part(grid or {})
    own = _Side.of(claim, records, varied)
    other = claim.other()
    reference = None if other is None else _Side.of(other, records, varied)
    sides = [side for side in (own, reference) if side is not None]
    for side in sides:
        if trouble := _untried(side.selection, records, seeds, grid or {}) or _ambiguous(side.records):
            return Judgement(claim, "undecided", {}, trouble)

    numbers: Pairs = {}
    errors: dict[int, float] = {}
    gaps: dict[int, MissingError] = {}
    with_seeds = next((side for side in sides if not side.once), None)
    for seed in [0] if with_seeds is None else sorted({*seeds, *(r.seed for r in with_seeds.records)}):
        try:
            value = own.read(seed)
            against = Reading(claim.value or 0.0, 0.0) if reference is None else reference.read(seed)
        except MissingError as error:
            gaps[seed] = error
        else:
            numbers[seed] = (value.value, claim.factor * against.value)
            errors[seed] = math.hypot(value.error, claim.factor * against.error)
    alike = any(seeds_alike(side.records) for side in sides)
    verdict, explanation = _decide(claim, numbers, gaps, errors, once=with_seeds is None, alike=alike)
    return Judgement(claim, verdict, numbers, explanation, errors if with_seeds is None else {})


@dataclass(frozen=True)
class _Side:
    """One of the two selections of a claim, with the records it takes its numbers from."""

    selection: Selection
    records: list[Record]
    once: bool
    """Whether one record stands for all seeds."""

    @classmethod
    def of(cls, selection: Selection, records: Iterable[Record], varied: Collection[str]) -> "_Side":
        found = _select(selection, records, varied)
        found = _chosen(of_newest_code(found)[0]) if selection.best else found
        ok = [record for record in found if record.status == "ok"]
        once = measured_once(ok)
        return cls(selection, ok if once else found, once)

    def read(self, seed: int) -> Reading:
        """The number of a seed; its standard error counts only where there are no seeds to tell what is chance."""
        if self.once:
            return read(self.selection, self.records[0])
        found = read(self.selection, next((r for r in self.records if r.seed == seed), None))
        return Reading(found.value, 0.0)


class FirstLook:
    """Whether claims can be read: a misspelt metric, row or place shows at the first record that a claim speaks of, and
    not sooner, since what a probe measures is named after what it finds.

    Args:
        claims: of the suite that is measured.
        varied: the arguments of models that its grid varies.
    """

    def __init__(self, claims: Iterable[Claim], varied: Collection[str] = ()) -> None:
        self._varied = varied
        self._left = [(claim, each) for claim in claims for each in (claim, claim.other()) if each is not None]

    def problems(self, cell: Cell, record: Record) -> list[str]:
        """What is wrong with claims of which this is the first measured record, a sentence for each claim.

        Args:
            cell: as it is planned, with today's aliases.
            record: what was measured.
        """
        if record.status != "ok":
            return []
        found: dict[str, str] = {}
        left, self._left = self._left, []
        for claim, selection in left:
            if not _speaks_of(selection, cell, self._varied):
                self._left.append((claim, selection))
                continue
            try:
                select_number(selection, record)
            except Exception as error:  # whatever it is, the run goes on
                measured = f"{cell.trial.model.called} on {cell.trial.task.called}, seed {record.seed}"
                found.setdefault(claim.text, f"the claim {claim.text!r} cannot be read from {measured}: {error}")
        return [*found.values()]


def _speaks_of(selection: Selection, cell: Cell, varied: Collection[str]) -> bool:
    trial = cell.trial
    of_baseline = selection.model is None and trial.model.baseline
    return (
        not of_baseline
        and means(selection, trial.model, trial.task, cell.probe, cell.stage, varied)
        and trained_so(selection, trial.training)
    )


def _decide(
    claim: Claim, numbers: Pairs, gaps: dict[int, MissingError], errors: dict[int, float], *, once: bool, alike: bool
) -> tuple[Verdict, str]:
    """The verdict and why."""
    wrong = {seed: gap for seed, gap in gaps.items() if isinstance(gap, UnreadableError)}
    if wrong and not numbers:
        return "invalid claim", str(wrong[0]) if once else _gap_text(wrong)
    if not numbers:
        return "undecided", _gap_text(gaps) or "nothing was measured that this claim speaks of"
    if once:
        return _decide_once(claim, *numbers[0], errors[0])
    supports = {seed: _supports(claim, *_gap(claim, *pair, errors[seed])) for seed, pair in numbers.items()}
    yes = [seed for seed, answer in supports.items() if answer is True]
    no = [seed for seed, answer in supports.items() if answer is False]
    share = 0.5 if claim.seeds == "median" else claim.quantile
    if claim.seeds in ("every", "worst") and share is None and no:
        return "does not hold", f"contradicted by {name_seeds(no)}"
    if claim.seeds in ("some", "best") and yes:
        return "holds", f"shown by {name_seeds(yes)}"
    if isinstance(claim.seeds, float) and not alike and len(numbers) >= FEW_SEEDS:
        found = _decide_share(claim.seeds, yes, no, len(numbers) + len(gaps))
        if found is not None:
            return found
    if gaps:
        return "undecided", _gap_text(gaps)
    if alike:
        return "undecided", f"the {SEEDS_ALIKE}, so that {len(numbers)} seeds count as one"
    needed = FEW_SEEDS if share is None else max(FEW_SEEDS, _whole(1 / min(share, 1 - share)))
    if len(numbers) < needed:
        ran = "only 1 seed was" if len(numbers) == 1 else f"only {len(numbers)} seeds were"
        return "undecided", f"{ran} measured; run {needed} or more"
    if share is not None:
        return _decide_quantile(claim, share, numbers, errors)
    if len(yes) == len(numbers):
        return "holds", f"supported by all {len(numbers)} seeds"
    if len(no) == len(numbers):
        return "does not hold", f"contradicted by all {len(numbers)} seeds"
    open_ = [seed for seed, answer in supports.items() if answer is None]
    return "undecided", _unclear(claim, {s: numbers[s] for s in open_}, errors, f"{name_seeds(open_)}:")


def _decide_share(share: float, yes: list[int], no: list[int], n: int) -> tuple[Verdict, str] | None:
    """The verdict on a share of `n` seeds, as soon as those that have none yet cannot change it."""
    needed = _whole(share * n)
    text = f"supported by {len(yes)} of {n} seeds, where {needed} are needed"
    if len(yes) >= needed:
        return "holds", text
    return ("does not hold", f"{text}; contradicted by {name_seeds(no)}") if n - len(no) < needed else None


def _decide_quantile(claim: Claim, share: float, numbers: Pairs, errors: Mapping[int, float]) -> tuple[Verdict, str]:
    """The verdict on a quantile of the differences."""
    called = "the median" if claim.quantile is None else f"the {percent(share)} quantile"
    values, moves = zip(*(_gap(claim, *pair, errors[seed]) for seed, pair in numbers.items()), strict=True)
    answer = None
    if not any(map(math.isnan, values)):
        answer = _supports(claim, quantile(sorted(values), share), max(moves))
    if answer is None:
        return "undecided", _unclear(claim, numbers, errors, f"{called} is")
    return ("holds" if answer else "does not hold"), f"{called} of {len(numbers)} seeds"


def _whole(number: float) -> int:
    """Rounded up, but for a float's last digits: 0.7 of 10 seeds are 7, and not 7.000000000000001."""
    return math.ceil(round(number, 6))


def _decide_once(claim: Claim, value: float, reference: float, error: float) -> tuple[Verdict, str]:
    """The verdict on the one number that there is."""
    answer = _supports(claim, *_gap(claim, value, reference, error))
    if answer is not None:
        return ("holds" if answer else "does not hold"), "measured once, and clear by more than two standard errors"
    if math.isnan(difference(value, reference)):
        return "undecided", "measured once, and there is no number (NaN)"
    if math.isnan(error):
        return "undecided", UNKNOWN_ERROR
    if abs(difference(value, reference)) < claim.margin:
        return "undecided", _within_margin(claim)
    return "undecided", "within two standard errors"


def _gap(claim: Claim, value: float, reference: float, error: float) -> tuple[float, float]:
    """What a number is above another one, with its standard error: in its unit, or as a share of the other."""
    gap = difference(value, reference)
    if not claim.share_of_value or not math.isfinite(gap) or math.isinf(reference):
        return gap, error
    if reference == 0:
        return math.copysign(math.inf, gap) if gap else 0.0, math.inf if error else 0.0
    return gap / abs(reference), error / abs(reference)


def _supports(claim: Claim, gap: float, error: float) -> bool | None:
    """Whether a difference supports the claim; None where it, or that difference moved by two standard errors, decides
    nothing or something else."""
    if math.isnan(gap) or math.isnan(error):
        return None
    if claim.within is not None:  # how much nearer it is than it must be; a float's last digits do not count
        gap = 0.0 if math.isclose(abs(gap), claim.tolerance) else claim.tolerance - abs(gap)
    answers = {_clearly(claim, gap + moved) for moved in (-MARGIN * error, 0.0, MARGIN * error)}
    return answers.pop() if len(answers) == 1 else None


def _clearly(claim: Claim, gap: float) -> bool | None:
    return None if abs(gap) < claim.margin else bool(_COMPARE[claim.comparison or ">="](gap, 0.0))


def _unclear(claim: Claim, numbers: Pairs, errors: Mapping[int, float], subject: str) -> str:
    bad = [seed for seed, pair in numbers.items() if any(map(math.isnan, pair))]
    if bad:
        return f"NaN at {name_seeds(bad)}"
    if any(math.isnan(errors[seed]) for seed in numbers):
        return UNKNOWN_ERROR
    if any(errors[seed] for seed in numbers):
        return f"{subject} within two standard errors"
    return f"{subject} {_within_margin(claim)}"


def _within_margin(claim: Claim) -> str:
    """What is said of a difference smaller than the margin, and what would decide."""
    text = f"within the margin of {claim.margin:g}; a difference of that size, either way, would decide"
    equal = "=" in (claim.comparison or "")
    return f"{text} (without a margin, {claim.comparison} holds for equal numbers)" if equal else text


def _gap_text(gaps: Mapping[int, MissingError]) -> str:
    reasons: dict[str, list[int]] = {}
    for seed, gap in gaps.items():
        reasons.setdefault(str(gap), []).append(seed)
    return "; ".join(f"{name_seeds(seeds)}: {reason}" for reason, seeds in reasons.items())


def _select(selection: Selection, records: Iterable[Record], varied: Collection[str]) -> list[Record]:
    found = [
        record
        for record in records
        if means(selection, record.model, record.task, record.probe, record.stage, varied)
        and trained_so(selection, record.training)
    ]
    return without_baselines(found, lambda record: record.model) if selection.model is None else found


def _chosen(records: list[Record]) -> list[Record]:
    """Those of the model, trained in one way, that did best on validation data; all, where nothing was trained."""
    ways: dict[object, list[Record]] = {}
    for record in records:
        way = (record.training, identity(record.model), identity(record.task), record.examples, record.device)
        ways.setdefault(way, []).append(record)
    known = [found for found in ways.values() if math.isfinite(validation_loss(found))]
    return min(known, key=validation_loss, default=records)


def _untried(
    selection: Selection, records: Iterable[Record], seeds: Collection[int], grid: Mapping[str, list[Any]]
) -> str:
    """Which cells of a grid might be better than the best one that is known, since there is no result; "" for none."""
    found, _ = of_newest_code(_select(selection, records, argument_part(grid)))
    if not selection.best or not any(record.trained for record in found):
        return ""
    settings = AMOUNT if any(r.trained and r.trained.fitted for r in found) else (*Training.model_fields,)
    names = [name for name in settings if name not in selection.training]
    said = {*Training.model_fields, *(selection.model.arguments if selection.model else ())}
    names += {name for record in found for name in record.model.arguments if name not in said}
    planned = cells({name: values for name, values in grid.items() if name in names})
    parts = []
    for cell in planned if len(planned) > 1 else []:
        own = {record.seed: record for record in found if varied_so(cell, record.model, record.training)}
        missing = [seed for seed in seeds if seed not in own]
        broken = [seed for seed, r in own.items() if r.status == "failed" and not came_to_a_result(r)]
        if missing or not own:
            parts.append(f"{format_arguments(cell)} has no record{f' of {name_seeds(missing)}' if own else ''}")
        if broken:
            parts.append(f"{format_arguments(cell)} broke at {name_seeds(broken)}")
    return f"which cell is best is not known: {'; '.join(parts)}" if parts else ""


def _ambiguous(records: list[Record]) -> str:
    """Why the records are not the seeds of one experiment, or ""."""
    for what, uses in (
        ("models", [r.model for r in records]),
        ("tasks", [r.task for r in records]),
        ("probes", [r.probe for r in records]),
    ):
        values = {identity(use): use.label if use.distribution else use.target for use in uses}
        if len(values) > 1:
            labels = ", ".join(sorted(values.values()))
            return f"ambiguous: several {what} match ({labels}); name one in the claim"
    if len({(record.training, record.examples, record.device) for record in records}) > 1:
        return "ambiguous: the model was trained or evaluated in several ways; say `training` in the claim, or keep one"
    return ""
