"""What several benchmarks use."""

import time
from collections.abc import Callable, Iterator
from typing import Any

MODELS = ["elman", "lstm", "gru", "gpt"]
STEPPED = [
    "window_attention",
    "linear_attention",
    "delta_net",
    "mamba",
    "min_gru",
    "min_lstm",
    "m_lstm",
    "hybrid:first=window_attention",
]
"""Mixers that can be taken step by step, too."""
MIXERS = [*STEPPED, "attention", "hyena"]
TRAINED = {
    **dict.fromkeys([*MODELS, *MIXERS, "depth", "encoder", "bag", "window_mlp"], "recall"),
    "hf:config=gpt2,n_embd=32,n_layer=2,n_head=2": "recall",
    "seq2seq": "copy",
    "transformer": "copy",
}
"""Every built-in model that is trained by gradient steps (`backbone` is `attention`), and a task that it can read."""


def title(benchmark: Any, name: str) -> None:
    """Name the row after it was measured, so that the table shows the ratio."""
    benchmark.extra_info["result"] = name
    if benchmark.stats is not None:  # None with --benchmark-disable
        benchmark.stats.name = name


def shortest_of(*runs: Callable[[], object], rounds: int = 5) -> list[float]:
    """Shortest time of each, in processor time of this process; taken in turns, back and forth, so that what else the
    machine does hits all."""
    shortest = [float("inf")] * len(runs)
    order = list(enumerate(runs))
    for turn in range(rounds):
        for index, run in order if turn % 2 else reversed(order):
            started = time.process_time()
            run()
            shortest[index] = min(shortest[index], time.process_time() - started)
    return shortest


def ratio_of(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 5) -> float:
    """Shortest time of one over shortest time of the other."""
    one, other = shortest_of(ours, theirs, rounds=rounds)
    return one / other


class Clock:
    """Processor time of this process, by whose turn it is: of each turn."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}
        self.whose = ""
        self.since = time.process_time()

    def turn(self, whose: str) -> None:
        """From now on it is somebody's turn; "" for nobody's."""
        now = time.process_time()
        self.spent.setdefault(self.whose, []).append(now - self.since)
        self.whose, self.since = whose, now


def shortest_turns(rounds: list[Clock], whose: str) -> float:
    """Time of all turns of somebody, each as short as it was in any of several rounds that do the same."""
    turns: Iterator[tuple[float, ...]] = zip(*(clock.spent[whose] for clock in rounds), strict=True)
    return sum(min(turn) for turn in turns)
