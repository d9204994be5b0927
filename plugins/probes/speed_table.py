"""Times of several models beside one another, as a section of reports. Imports no torch: reports need none."""

import math
from collections.abc import Iterable, Iterator
from statistics import median

from harness import Curve
from harness.report.numbers import number
from harness.schema import Record
from harness.seeds import current

MEASURED = {"forward": "a forward pass", "forward_and_backward": "forward and backward"}


def relative_times(records: Iterable[Record]) -> Iterator[tuple[str, str]]:
    """For each task, way of timing and device: every model's time as a multiple of the fastest model's, per length;
    the slowest model first."""
    from tabulate import tabulate

    found: dict[tuple[str, ...], dict[str, list[Curve]]] = {}
    for record in current(records)[0]:
        for curve in record.measurements:
            if record.probe.name == "speed" and isinstance(curve, Curve) and curve.name in MEASURED:
                group = (curve.name, record.task.label, record.device, record.probe.label)
                found.setdefault(group, {}).setdefault(record.model.called, []).append(curve)
    for (name, task, *_), models in sorted(found.items()):
        if len(models) < 2:
            continue
        lengths = sorted({float(x) for curves in models.values() for curve in curves for x in curve.x})
        points = {
            model: [dict(zip(each.x, each.y, strict=True)) for each in curves] for model, curves in models.items()
        }
        times = {m: [_median(each.get(n, math.nan) for each in seeds) for n in lengths] for m, seeds in points.items()}
        slowest_first = dict(sorted(times.items(), key=lambda item: -item[1][0]))
        rows = [
            [model, *("" if math.isnan(ratio) else f"{number(ratio)}x" for ratio in ratios)]
            for model, ratios in multiples(slowest_first).items()
        ]
        headers = ["length", *(f"{length:g}" for length in lengths)]
        table = tabulate(rows, headers, colalign=["left", *["right"] * len(lengths)])
        yield f"Time of {MEASURED[name]}, as a multiple of the fastest ({task})", table


def multiples(times: dict[str, list[float]]) -> dict[str, list[float]]:
    """Each model's time over that of the fastest model at the same length; NaN where it, or no other, was timed."""
    columns = [_known(column) for column in zip(*times.values(), strict=True)]
    fastest = [min(column) if len(column) > 1 else math.nan for column in columns]
    return {model: [own / best for own, best in zip(row, fastest, strict=True)] for model, row in times.items()}


def _median(values: Iterable[float]) -> float:
    known = _known(values)
    return median(known) if known else math.nan


def _known(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]
