"""A claim against records: does it hold?"""

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from textwrap import shorten
from typing import Any, Literal

from harness.errors import did_you_mean
from harness.schema import Curve, Matrix, PluginUse, Record, Scalar
from harness.statistics import FEW_SEEDS, current, identity, name_seeds
from harness.suites import Claim, Request, Selection, parse_request

Outcome = Literal["holds", "does not hold", "undecided", "cannot be read"]
"""`cannot be read`: the claim itself is wrong, since what it names was not measured; more seeds would not help."""
Pairs = dict[int, tuple[float, float]]
"""For each seed that was measured: the number, and what it is compared with."""

_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@dataclass(frozen=True)
class Verdict:
    """What the records say about a claim."""

    claim: Claim
    verdict: Outcome
    numbers: Pairs
    explanation: str
    """Why the verdict is what it is, in one line."""


class MissingError(Exception):
    """A seed has nothing to read; the message says why."""


class UnreadableError(MissingError):
    """It was measured, and the selection does not lead to a number: the claim is wrong."""


def judge(claim: Claim, records: Iterable[Record], seeds: Iterable[int] = ()) -> Verdict:
    """Decide a claim.

    A seed supports or contradicts the claim, or decides nothing (NaN, or closer to the reference than the
    margin). `every` and `worst` hold if all seeds support the claim and fail by one that contradicts it;
    `some` and `best` hold by one that supports it and fail if all contradict it; `median` asks the median
    over seeds of the difference. Where that needs all seeds, fewer than 3, or a missing, failed or skipped
    one, leave the claim undecided. If no seed can be read, and one because the claim names what is not there,
    it cannot be read.

    Args:
        claim: the claim.
        records: any records; superseded ones are ignored.
        seeds: the seeds that were asked for, if known: those without a record count as missing.
    """
    records, _ = current(records)
    own = _select(claim, records)
    other = claim.other()
    reference = None if other is None else _select(other, records)
    for selection, found in ((claim, own), (other, reference)):
        if selection is not None and found is not None and (trouble := _ambiguous(found)):
            return Verdict(claim, "undecided", {}, trouble)

    numbers: Pairs = {}
    gaps: dict[int, MissingError] = {}
    for seed in sorted({*seeds, *(r.seed for r in own)}):
        try:
            value = _of_seed(claim, own, seed)
            if other is None or reference is None:
                assert claim.value is not None  # a Claim has `value` or `than`
                numbers[seed] = (value, claim.value)
            else:
                numbers[seed] = (value, claim.factor * _of_seed(other, reference, seed))
        except MissingError as error:
            gaps[seed] = error
    verdict, explanation = _decide(claim, numbers, gaps)
    return Verdict(claim, verdict, numbers, explanation)


def _decide(claim: Claim, numbers: Pairs, gaps: dict[int, MissingError]) -> tuple[Outcome, str]:
    """The verdict and why."""
    wrong = {seed: gap for seed, gap in gaps.items() if isinstance(gap, UnreadableError)}
    if wrong and not numbers:
        return "cannot be read", _gap_text(wrong)
    if not numbers:
        return "undecided", _gap_text(gaps) or "nothing was measured that this claim speaks of"
    supports = {seed: _supports(claim, *pair) for seed, pair in numbers.items()}
    yes = [seed for seed, answer in supports.items() if answer is True]
    no = [seed for seed, answer in supports.items() if answer is False]
    if claim.seeds in ("every", "worst") and no:
        return "does not hold", f"contradicted by {name_seeds(no)}"
    if claim.seeds in ("some", "best") and yes:
        return "holds", f"shown by {name_seeds(yes)}"
    if gaps:
        return "undecided", _gap_text(gaps)
    if len(numbers) < FEW_SEEDS:
        ran = "only 1 seed was" if len(numbers) == 1 else f"only {len(numbers)} seeds were"
        return "undecided", f"{ran} measured; run {FEW_SEEDS} or more"
    if claim.seeds == "median":
        values = [_difference(*pair) for pair in numbers.values()]
        answer = None if any(map(math.isnan, values)) else _supports(claim, median(values), 0.0)
        if answer is None:
            return "undecided", _unclear(claim, numbers, "the median is")
        return ("holds" if answer else "does not hold"), f"the median of {len(numbers)} seeds"
    if len(yes) == len(numbers):
        return "holds", f"supported by all {len(numbers)} seeds"
    if len(no) == len(numbers):
        return "does not hold", f"contradicted by all {len(numbers)} seeds"
    open_ = [seed for seed, answer in supports.items() if answer is None]
    return "undecided", _unclear(claim, {s: numbers[s] for s in open_}, f"{name_seeds(open_)}:")


def _difference(value: float, reference: float) -> float:
    return 0.0 if value == reference else value - reference  # infinity against infinity is a tie, not NaN


def _supports(claim: Claim, value: float, reference: float) -> bool | None:
    """Whether one number supports the claim; None where it decides nothing."""
    difference = _difference(value, reference)
    if math.isnan(difference) or abs(difference) < claim.margin:
        return None
    return bool(_COMPARE[claim.comparison](difference, 0.0))


def _unclear(claim: Claim, numbers: Pairs, subject: str) -> str:
    bad = [seed for seed, pair in numbers.items() if any(map(math.isnan, pair))]
    return f"NaN at {name_seeds(bad)}" if bad else f"{subject} within the margin of {claim.margin:g}"


def _gap_text(gaps: Mapping[int, MissingError]) -> str:
    reasons: dict[str, list[int]] = {}
    for seed, gap in gaps.items():
        reasons.setdefault(str(gap), []).append(seed)
    return "; ".join(f"{name_seeds(seeds)}: {reason}" for reason, seeds in reasons.items())


def matches(request: Request | None, use: PluginUse) -> bool:
    """Whether a request names this use of a plugin; None names any.

    It is the use's alias; or the names agree (the request's may be qualified by the distribution), every argument of
    the request has that value, and nothing that the request does not mention differs from its default.
    """
    if request is None or (use.alias == request.name and not request.arguments):
        return True
    if request.name != use.name:
        distribution, _, name = request.name.rpartition(":")
        if name != use.name.rpartition(":")[2] or _normal(distribution) != _normal(use.distribution):
            return False
    typed = _typed_arguments(use.label)
    return typed.keys() <= request.arguments.keys() and all(
        any(key in known and _same(value, known[key]) for known in (use.arguments, typed))
        for key, value in request.arguments.items()
    )


@lru_cache(maxsize=4096)
def _typed_arguments(label: str) -> dict[str, Any]:
    arguments: dict[str, Any] = parse_request(label)["arguments"]
    return arguments


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _same(asked: Any, resolved: Any) -> bool:
    """Equality up to what text and JSON cannot tell apart: `none` and None, lists and tuples, 1 and 1.0."""
    if isinstance(asked, list | tuple) and isinstance(resolved, list | tuple):
        return len(asked) == len(resolved) and all(map(_same, asked, resolved))
    if isinstance(asked, bool) or isinstance(resolved, bool):
        return asked is resolved
    if resolved is None or asked is None:
        return str(asked).lower() == str(resolved).lower()
    return bool(asked == resolved)


def _select(selection: Selection, records: Iterable[Record]) -> list[Record]:
    return [
        record
        for record in records
        if record.stage == selection.stage
        and matches(selection.probe, record.probe)
        and matches(selection.model, record.model)
        and matches(selection.task, record.task)
        and selection.trained_so(record.training)
    ]


def _ambiguous(records: list[Record]) -> str:
    """Why the records are not the seeds of one experiment, or ``."""
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


def _of_seed(selection: Selection, records: list[Record], seed: int) -> float:
    """The selected number of a seed.

    Raises:
        MissingError: with the reason why there is none.
    """
    record = next((r for r in records if r.seed == seed), None)
    if record is None:
        raise MissingError("no record")
    if record.status == "skipped":
        raise MissingError(f"skipped: {record.reason}")
    if record.error is not None:
        raise MissingError(shorten(f"failed: {record.error.type}: {record.error.message}", 200))
    return select_number(selection, record)


def select_number(selection: Selection, record: Record) -> float:
    """The one number that a selection takes from a record; NaN if any of the numbers it is made of is NaN.

    Raises:
        UnreadableError: there is no such place, or it is several numbers and `reduce` is not given.
    """
    try:
        measurement = record.find(selection.metric)
    except KeyError as error:
        raise UnreadableError(str(error.args[0])) from error
    if isinstance(measurement, Curve):
        values = _of_curve(selection, measurement)
    elif isinstance(measurement, Matrix):
        values = _of_matrix(selection, measurement)
    else:
        values = _of_scalar(selection, measurement)
    if not values:
        raise UnreadableError(f"{selection.metric} has nothing at {_places(selection)}")
    if any(map(math.isnan, values)):
        return math.nan
    if selection.reduce is None:
        if len(values) > 1:
            raise UnreadableError(f"{selection.metric} has {len(values)} numbers here; give `at` or `reduce`")
        return values[0]
    return {
        "min": min(values),
        "max": max(values),
        "mean": sum(values) / len(values),
        "range": _difference(max(values), min(values)),
    }[selection.reduce]


def _of_scalar(selection: Selection, scalar: Scalar) -> list[float]:
    for field in ("at", "row", "relative_to"):
        if getattr(selection, field) is not None:
            raise UnreadableError(f"{scalar.name} is a single number; `{field}` has no meaning here")
    return [scalar.value]


def _of_curve(selection: Selection, curve: Curve) -> list[float]:
    if selection.row is not None:
        raise UnreadableError(f"{curve.name} is a curve; `row` has no meaning here")
    values = [curve.y[i] for i in _indices(selection.at, curve.x, curve.inside, f"the x of {curve.name}")]
    if selection.relative_to is not None:
        (base,) = _indices(selection.relative_to, curve.x, None, f"the x of {curve.name}")
        divisor = curve.y[base]
        values = [value / divisor if divisor else math.nan for value in values]
    return values


def _of_matrix(selection: Selection, matrix: Matrix) -> list[float]:
    if selection.relative_to is not None:
        raise UnreadableError(f"{matrix.name} is a matrix; `relative_to` has no meaning here")
    rows = _indices(selection.row, matrix.rows, None, f"the rows of {matrix.name}")
    columns = _indices(selection.at, matrix.columns, None, f"the columns of {matrix.name}")
    return [matrix.values[row][column] for row in rows for column in columns]


def _indices(
    at: float | str | list[float] | list[str] | None,
    places: Sequence[float | str],
    inside: list[bool] | None,
    what: str,
) -> list[int]:
    if at is None:
        return list(range(len(places)))
    if at in ("inside", "beyond") and inside is not None:
        return [index for index, flag in enumerate(inside) if flag == (at == "inside")]
    wanted: list[Any] = [*at] if isinstance(at, list) else [at]
    found = []
    for place in wanted:
        index = next((i for i, known in enumerate(places) if _same_place(place, known)), None)
        if index is None:
            known = [_place(each) for each in places]
            words = [*known, *(("inside", "beyond") if inside is not None else ())]
            guess = did_you_mean(place, words) if isinstance(place, str) else ""
            listed = shorten(", ".join(known), 200, placeholder=" ...")
            raise UnreadableError(f"{_place(place)} is not among {what}: {listed}.{guess}")
        found.append(index)
    return found


def _same_place(asked: float | str, known: float | str) -> bool:
    if isinstance(asked, str) or isinstance(known, str):
        return _place(asked) == _place(known)
    return math.isclose(asked, known)


def _place(place: float | str) -> str:
    return place if isinstance(place, str) else f"{place:g}"


def _places(selection: Selection) -> str:
    return " and ".join(str(p) for p in (selection.row, selection.at) if p is not None) or "any place"
