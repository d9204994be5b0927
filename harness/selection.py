"""Which number of a record a selection speaks of, and how much chance is in it."""

import math
from itertools import product
from textwrap import shorten
from typing import Any, NamedTuple

from harness.errors import did_you_mean
from harness.measurements import Axis, Measurement, Point, format_place
from harness.schema import Record
from harness.suites import Selection


class Reading(NamedTuple):
    """A number of a record."""

    value: float
    error: float
    """Its standard error over the examples of that record; NaN where it is not known."""


class MissingError(Exception):
    """A seed has nothing to read; the message says why."""


class UnreadableError(MissingError):
    """It was measured, and the selection does not lead to a number: the claim is wrong."""


def read(selection: Selection, record: Record | None) -> Reading:
    """The selected number of a seed's record, if it has one.

    Raises:
        MissingError: with the reason why there is none.
    """
    if record is None:
        raise MissingError("no record")
    if record.status == "skipped":
        raise MissingError(f"skipped: {record.reason}")
    if record.error is not None:
        raise MissingError(shorten(f"failed: {record.error.type}: {record.error.message}", 200))
    return select_number(selection, record)


def select_number(selection: Selection, record: Record) -> Reading:
    """The one number that a selection takes from a record; NaN if any of the numbers it is made of is NaN.

    The standard error of a smallest or largest number is that of the place where it is; other places are taken to be
    independent of one another.

    Raises:
        UnreadableError: there is no such place, or it is several numbers and `reduce` is not given.
    """
    try:
        measurement = record.find(selection.metric)
    except KeyError as error:
        raise UnreadableError(str(error.args[0])) from error
    found = _readings(selection, measurement)
    if not found:
        raise UnreadableError(f"{selection.metric} has nothing at {_places(selection)}")
    if any(math.isnan(each.value) for each in found):
        return Reading(math.nan, math.nan)
    if selection.reduce is None:
        if len(found) > 1:
            raise UnreadableError(f"{selection.metric} has {len(found)} numbers here; give `at` or `reduce`")
        return found[0]
    if selection.reduce == "mean":
        n = len(found)
        return Reading(sum(each.value for each in found) / n, math.hypot(*(each.error for each in found)) / n)
    low, high = min(found, key=lambda each: each.value), max(found, key=lambda each: each.value)
    if selection.reduce == "range":
        return Reading(difference(high.value, low.value), math.hypot(low.error, high.error))
    return low if selection.reduce == "min" else high


def difference(value: float, reference: float) -> float:
    """What one number is above another; infinity against infinity is a tie, not NaN."""
    return 0.0 if value == reference else value - reference


def _readings(selection: Selection, measurement: Measurement) -> list[Reading]:
    """The numbers at the selected places, all along an axis on which none is named; relative to another place where
    there is one axis only."""
    axes = measurement.axes()
    fields = [*axes, "relative_to"] if [*axes] == ["at"] else [*axes]
    for field in ("at", "row", "relative_to"):
        if field not in fields and getattr(selection, field) is not None:
            raise UnreadableError(f"{measurement.name} is {measurement.called}; `{field}` has no meaning here")
    places = [_indices(getattr(selection, field), axis, measurement.name) for field, axis in axes.items()]
    everywhere = product(*(range(len(axis.places)) for axis in axes.values()))
    known = dict(zip(everywhere, map(_reading, measurement.points()), strict=True))
    found = [known[index] for index in product(*places)]
    if selection.relative_to is None:
        return found
    (base,) = _indices(selection.relative_to, axes["at"]._replace(inside=None), measurement.name)
    divisor = known[base,]
    whole = Reading(1.0 if divisor.value else math.nan, 0.0)
    return [whole if each is divisor else _ratio(each, divisor) for each in found]


def _reading(entry: Point) -> Reading:
    return Reading(entry.value, math.nan if entry.standard_error is None else entry.standard_error)


def _ratio(dividend: Reading, divisor: Reading) -> Reading:
    """To first order, as if the two were independent."""
    if not divisor.value:
        return Reading(math.nan, math.nan)
    ratio = dividend.value / divisor.value
    return Reading(ratio, math.hypot(dividend.error, ratio * divisor.error) / abs(divisor.value))


def _indices(at: float | str | list[float] | list[str] | None, axis: Axis, name: str) -> list[int]:
    called, places, inside = axis
    if at is None:
        return list(range(len(places)))
    if at in ("inside", "beyond") and inside is not None:
        return [index for index, flag in enumerate(inside) if flag == (at == "inside")]
    wanted: list[Any] = [*at] if isinstance(at, list) else [at]
    found = []
    for asked in wanted:
        index = next((i for i, known in enumerate(places) if _same_place(asked, known)), None)
        if index is None:
            known = [*map(format_place, places)]
            words = [*known, *(("inside", "beyond") if inside is not None else ())]
            guess = did_you_mean(asked, words) if isinstance(asked, str) else ""
            listed = shorten(", ".join(known), 200, placeholder=" ...")
            raise UnreadableError(f"{format_place(asked)} is not among the {called} of {name}: {listed}.{guess}")
        found.append(index)
    return found


def _same_place(asked: float | str, known: float | str) -> bool:
    if isinstance(asked, str) or isinstance(known, str):
        return format_place(asked) == format_place(known)
    return math.isclose(asked, known)


def _places(selection: Selection) -> str:
    return " and ".join(str(p) for p in (selection.row, selection.at) if p is not None) or "any place"
