"""What a model costs: time and memory against the length of the sequence, and what more threads gain."""

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field, PositiveFloat, PositiveInt

from harness import Curve, Scalar, Skip, Subject
from harness.devices import default_jobs
from harness.schema import Trial
from harness.timing import Order, run_order

Lengths = Annotated[list[PositiveInt], Field(min_length=1)]


class Speed:
    """Time and peak memory per sequence length, in a process of its own; the shortest of several runs.

    Times are of the model as constructed: training does not change them. Compare them within one run on one machine.

    Measures:
        forward: milliseconds of a forward pass without gradients, per length.
        forward_and_backward: milliseconds of both, in training mode.
        time_per_token: microseconds per token of a forward pass.
        memory: peak of a forward pass in MiB beyond what was in use (Linux only).
        time_exponent: p in time ~ length^p, between the two longest lengths: 1 is linear, 2 quadratic; 0 where fixed
            costs rule.

    Args:
        lengths: sequence lengths in tokens.
        batch: sequences at once.
        threads: torch threads.
        backward: whether to time training, too.
        budget: seconds per length; lengths of which one run would take longer are left out (NaN).
    """

    stages: ClassVar = ("initial",)

    def __init__(
        self,
        *,
        lengths: Lengths = [64, 256, 1024],  # noqa: B006
        batch: PositiveInt = 1,
        threads: PositiveInt = 1,
        backward: bool = True,
        budget: PositiveFloat = 5.0,
    ) -> None:
        self.lengths = sorted(set(lengths))
        self.batch = batch
        self.threads = threads
        self.backward = backward
        self.budget = budget

    def __call__(self, subject: Subject) -> Iterator[Curve | Scalar]:
        timings = run_order(
            Order(
                trial=trial_of(subject),
                lengths=self.lengths,
                batch=self.batch,
                threads=self.threads,
                backward=self.backward,
                budget=self.budget,
            )
        )
        if math.isnan(timings.forward[0]):
            raise Skip(timings.limit or "the shortest length takes longer than the budget")
        tokens = [length * self.batch for length in self.lengths]
        per_token = [1e6 * seconds / n for seconds, n in zip(timings.forward, tokens, strict=True)]
        for name, unit, values, headline in (
            ("forward", "ms", [1e3 * seconds for seconds in timings.forward], True),
            ("forward_and_backward", "ms", [1e3 * seconds for seconds in timings.both], self.backward),
            ("time_per_token", "us", per_token, False),
            ("memory", "MiB", [size / 2**20 for size in timings.forward_bytes], True),
        ):
            if not all(map(math.isnan, values)):
                yield Curve(
                    name=name,
                    unit=unit,
                    x=[float(length) for length in self.lengths],
                    y=values,
                    x_label="length (tokens)",
                    y_label=name.replace("_", " "),
                    scale="log",
                    headline=headline,
                )
        yield Scalar(
            name="time_exponent",
            unit="",
            value=exponent(self.lengths, timings.forward),
            verdict=timings.limit,
            about="p in time ~ length^p at the longest lengths: 1 is linear, 2 quadratic, 0 where fixed costs rule",
            headline=True,
        )


class ThreadScaling:
    """How much faster more threads make a model, each number of threads in a process of its own.

    Measures:
        speed_up: time with one thread over time with n, forward and backward together; NaN for more threads than this
            process has cores.

    Args:
        length: tokens per sequence.
        batch: sequences at once.
        threads: numbers of threads; 1, 2, 4, ... up to the cores if not said.
        budget: seconds per measurement.
    """

    stages: ClassVar = ("initial",)

    def __init__(
        self,
        *,
        length: PositiveInt = 512,
        batch: PositiveInt = 8,
        threads: list[PositiveInt] | None = None,
        budget: PositiveFloat = 5.0,
    ) -> None:
        self.cores = default_jobs()
        powers = [2**n for n in range(self.cores.bit_length()) if 2**n <= self.cores]
        self.threads = sorted({1, *(threads or [*powers, self.cores])})
        self.length = length
        self.batch = batch
        self.budget = budget

    def __call__(self, subject: Subject) -> Iterator[Curve]:
        seconds = []
        for threads in self.threads:
            if threads > self.cores:
                seconds.append(math.nan)
                continue
            order = Order(
                trial=trial_of(subject),
                lengths=[self.length],
                batch=self.batch,
                threads=threads,
                backward=True,
                budget=self.budget,
            )
            timings = run_order(order)
            if math.isnan(timings.both[0]):
                raise Skip(timings.limit or "one run takes longer than the budget")
            seconds.append(timings.both[0])
        yield Curve(
            name="speed_up",
            unit="ratio",
            x=[float(threads) for threads in self.threads],
            y=[seconds[0] / each for each in seconds],
            x_label="threads",
            y_label="speed-up over one thread",
            headline=True,
        )


def trial_of(subject: Subject) -> Trial:
    """What to build again in the timing process."""
    if subject.trial is None:
        raise Skip("only a run can be timed: the model is built again in a process of its own")
    return subject.trial


def exponent(lengths: list[int], seconds: list[float]) -> float:
    """Slope of log time against log length between the two longest lengths that were timed."""
    points = [(n, t) for n, t in zip(lengths, seconds, strict=True) if not math.isnan(t)]
    if len(points) < 2:
        return math.nan
    (n0, t0), (n1, t1) = points[-2:]
    return math.log(t1 / t0) / math.log(n1 / n0)
