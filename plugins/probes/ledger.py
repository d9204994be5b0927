"""What a model is made of and what that costs, beside the time it takes."""

import math
from collections.abc import Iterator
from typing import ClassVar

from harness_plugins.probes.speed import trial_of
from pydantic import PositiveFloat, PositiveInt

from harness import Matrix, Scalar, Skip, Subject
from harness.capabilities import Capabilities
from harness.ledger import ORDER, PARTS, count_costs
from harness.timing import Order, run_order


class LedgerProbe:
    """Parameters, operations, memory for the next token and order of steps, counted from outside (`harness.ledger`),
    beside measured time.

    Operations are multiplications and additions in products of matrices, attention and convolutions, for one sequence.

    Measures:
        parameters: numbers in all; shared ones count once.
        forward_operations: of a forward pass, in millions.
        training_operations: of a forward and a backward pass, in millions.
        exponent: p in operations ~ length^p of a forward pass, from half of the length to it.
        cache: keys and values that attention leaves behind, in KiB.
        state: states and cells of recurrent layers, in KiB.
        chain: the longest chain of operations that wait for one another, at a short length; the verdict says how it
            grows.
        by_part: parameters, and operations in millions, of each part.
        forward_speed: operations in a second of a forward pass, in thousands of millions.
        training_speed: the same of a forward and a backward pass.

    Args:
        length: tokens of the sequence.
        time: whether to time it, too, in a process of its own.
        batch: sequences at once, where it is timed.
        threads: torch threads, where it is timed.
        budget: seconds for each of the two times.
    """

    stages: ClassVar = ("initial",)

    def __init__(
        self,
        *,
        length: PositiveInt = 256,
        time: bool = True,
        batch: PositiveInt = 8,
        threads: PositiveInt = 1,
        budget: PositiveFloat = 2.0,
    ) -> None:
        self.length = length
        self.time = time
        self.batch = batch
        self.threads = threads
        self.budget = budget

    def __call__(self, subject: Subject) -> Iterator[Scalar | Matrix]:
        most = Capabilities(subject.model).max_length
        if most is not None and self.length > most:
            raise Skip(f"the model takes {most} tokens at most; ask for ledger:length={most}")
        found = count_costs(subject.model, subject.task.interface, self.length)
        forward, training = sum(found.forward.values()), sum(found.training.values())
        for name, unit, value in (
            ("parameters", "numbers", sum(found.parameters.values())),
            ("forward_operations", "MFLOP", forward / 1e6),
            ("training_operations", "MFLOP", training / 1e6),
            ("exponent", "", found.exponent),
            ("cache", "KiB", found.cache_bytes / 2**10),
            ("state", "KiB", found.state_bytes / 2**10),
        ):
            yield Scalar(name=name, unit=unit, value=value, headline=name != "parameters")
        yield Scalar(
            name="chain", unit="operations", value=found.chain[1], verdict=f"reads {ORDER[found.growth]}", headline=True
        )
        used = [part for part in PARTS if found.parameters[part] or found.training[part]]
        if used:
            yield Matrix(
                name="by_part",
                unit="",
                values=[[found.parameters[p], found.forward[p] / 1e6, found.training[p] / 1e6] for p in used],
                rows=used,
                columns=["parameters", "forward (MFLOP)", "forward and backward (MFLOP)"],
                row_label="part",
                column_label="cost",
                about=f"what each part costs at {self.length} tokens",
                headline=True,
            )
        if self.time:
            yield from self._speeds(subject, forward, training)

    def _speeds(self, subject: Subject, forward: int, training: int) -> Iterator[Scalar]:
        timings = run_order(
            Order(
                trial=trial_of(subject),
                lengths=[self.length],
                batch=self.batch,
                threads=self.threads,
                backward=True,
                budget=self.budget,
            )
        )
        for name, operations, seconds in (
            ("forward_speed", forward, timings.forward[0]),
            ("training_speed", training, timings.both[0]),
        ):
            if not math.isnan(seconds):
                speed = self.batch * operations / seconds / 1e9
                yield Scalar(name=name, unit="GFLOP/s", value=speed, headline=True)
