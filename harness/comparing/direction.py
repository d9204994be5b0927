"""Which way of a number is good, as far as records tell."""

import math
from collections.abc import Sequence
from typing import Literal

from harness.measurements import SIZES, TIMES, Curve, Measurement, Scalar
from harness.schema import Record

Direction = Literal[1, -1, 0]
"""1 where more is better, -1 where less is, 0 where that is not known or not so."""

BY_NAME: dict[str, Direction] = {"longest_good": 1, "limit": 1}
"""Of distances that a model masters."""

INTERVENING = ("edge_cut", "input_swap", "state_cut")
"""Probes that change what a model sees: what is left of its score then is evidence, and neither good nor bad."""


def direction(measurement: Measurement, record: Record, values: Sequence[float]) -> Direction:
    """Which way of a measurement is good.

    - Of time and memory, less.
    - Of what has a best value: towards it, from chance where that is known, or else from all that was measured.
    - Of any other number in the unit of such a curve (or number) in the same record: as of that one.
    - Of distances up to which a model works (`longest_good`, `limit`), more.
    - Of everything else, and of whatever is left of a score after an intervention, it is not known.

    Args:
        measurement: of one record.
        record: it.
        values: the same number of both runs, all seeds.
    """
    if record.probe.name in INTERVENING:
        return 0
    unit = measurement.unit
    if unit in TIMES or unit in SIZES:
        return -1
    if isinstance(measurement, Curve) or (isinstance(measurement, Scalar) and measurement.levels):
        return _towards(measurement.levels, values)
    alike = (m for m in record.measurements if isinstance(m, Curve | Scalar) and m.unit == unit and unit)
    found = {way for each in alike if (way := _towards(each.levels, [entry.value for entry in each.points()]))}
    if len(found) == 1:
        return found.pop()
    return BY_NAME.get(measurement.name, 0)


def _towards(levels: dict[str, float], values: Sequence[float]) -> Direction:
    best = levels.get("best", math.nan)
    known = [value for value in (levels.get("chance"), *values) if value is not None and not math.isnan(value)]
    away = known[:1] if "chance" in levels else known
    if away and all(value <= best for value in away) and min(away) < best:
        return 1
    if away and all(value >= best for value in away) and max(away) > best:
        return -1
    return 0
