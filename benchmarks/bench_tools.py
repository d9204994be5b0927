"""What several benchmarks use."""

import time
from collections.abc import Callable
from typing import Any

MODELS = ["elman", "lstm", "gru", "gpt"]


def title(benchmark: Any, name: str) -> None:
    """Name the row after it was measured, so that the table shows the ratio."""
    benchmark.extra_info["result"] = name
    if benchmark.stats is not None:  # None with --benchmark-disable
        benchmark.stats.name = name


def ratio_of(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 5) -> float:
    """Shortest time of one over shortest time of the other, taken in turns, in processor time of this process."""
    shortest = [float("inf")] * 2
    for _ in range(rounds):
        for index, run in enumerate((ours, theirs)):
            started = time.process_time()
            run()
            shortest[index] = min(shortest[index], time.process_time() - started)
    return shortest[0] / shortest[1]
