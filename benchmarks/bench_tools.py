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
    """Shortest time of one over shortest time of the other, in processor time of this process; taken in turns, each
    first as often as second, so that what else the machine does hits both."""
    runs = [ours, theirs]
    shortest = dict.fromkeys(runs, float("inf"))
    for turn in range(rounds):
        for run in runs if turn % 2 else reversed(runs):
            started = time.process_time()
            run()
            shortest[run] = min(shortest[run], time.process_time() - started)
    return shortest[ours] / shortest[theirs]


class Clock:
    """Processor time of this process, by whose turn it is."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.whose = ""
        self.since = time.process_time()

    def turn(self, whose: str) -> None:
        """From now on it is somebody's turn; "" for nobody's."""
        now = time.process_time()
        self.spent[self.whose] = self.spent.get(self.whose, 0.0) + now - self.since
        self.whose, self.since = whose, now
