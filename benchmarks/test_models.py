"""What models cost: threads, lengths, and our training loop against a bare one."""

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from benchmarks.bench_tools import MODELS, Clock, title


def _order(model: str, lengths: list[int], threads: int, batch: int) -> Any:
    from harness.plan import make_plan
    from harness.registry import default_registry
    from harness.requests import build_suite
    from harness.timing import Order

    label = "gpt:max_length=4096" if model == "gpt" else model
    plan = make_plan(build_suite([label], ["recall"], ["speed"], seeds=1), default_registry())
    return Order(trial=plan.trials[0].trial, lengths=lengths, batch=batch, threads=threads, backward=True, budget=5.0)


@cache
def _step(model: str, threads: int) -> float:
    from harness.timing import run_order

    return run_order(_order(model, [512], threads, batch=8)).both[0]


def _threads() -> Iterator[int]:
    from harness.devices import default_jobs

    yield from range(1, default_jobs() + 1)


@pytest.mark.parametrize("threads", list(_threads()))
@pytest.mark.parametrize("model", MODELS)
def test_threads(benchmark: Any, model: str, threads: int) -> None:
    """Forward and backward at T = 512, batch 8, in a process that starts with so many threads. The row's time is of
    the whole process; the name has the time of a step and the gain over one thread."""
    benchmark.group = f"threads, T = 512: {model}"
    seconds = benchmark.pedantic(_step, args=[model, threads], rounds=1)
    title(benchmark, f"{threads} threads: {1e3 * seconds:.1f} ms a step, {_step(model, 1) / seconds:.2f}x")


@pytest.mark.parametrize("model", MODELS)
def test_lengths(benchmark: Any, model: str) -> None:
    """Time per token at T = 128, 512, 2048, and the exponent of time against length between the last two."""
    from harness.timing import run_order

    benchmark.group = "length, forward, batch 1 (a whole process)"
    lengths = [128, 512, 2048]
    timings = benchmark.pedantic(run_order, args=[_order(model, lengths, 1, batch=1)], rounds=1)
    each = ", ".join(f"{1e6 * t / n:.1f}" for t, n in zip(timings.forward, lengths, strict=True))
    exponent = math.log(timings.forward[2] / timings.forward[1]) / math.log(4)
    title(benchmark, f"{model}: {each} us a token, exponent {exponent:.2f}")


@pytest.mark.parametrize("model", MODELS)
def test_training_step(benchmark: Any, built: Callable[..., Any], model: str) -> None:
    """Our loop, with its looks at the validation loss, against the loop that everybody writes, which has none: the same
    model, data and optimiser, step by step in turns, so that what else the machine does hits both."""
    import torch

    from harness.examples import seeded
    from harness.schema import Training
    from harness.training import train

    task, steps, clock = built("task", "recall"), 300, Clock()

    def bare() -> Iterator[None]:
        torch.manual_seed(0)
        net = built("model", model, vocab_size=18)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
        for batch in task.train(64, seeded("train", 0)):
            loss = torch.nn.functional.cross_entropy(net(batch.tokens).flatten(0, 1), batch.targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            yield

    class InTurns(type(task)):  # type: ignore[misc]
        """The task, whose training stream takes a bare step before each batch."""

        def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Any]:
            for _ in others:
                clock.turn("ours")
                batch = next(stream)
                yield batch
                clock.turn("bare")

        validation = type(task).train

    others, stream = bare(), task.train(64, seeded("train", 0))
    next(others)  # imports what torch's optimisers import

    def run() -> None:
        torch.manual_seed(0)
        clock.turn("ours")
        train(built("model", model, vocab_size=18), InTurns(), Training(steps=steps), 0, torch.device("cpu"))
        clock.turn("")

    benchmark.group = f"training, {steps} steps of 64 sequences, T = 3..22, ours and a bare loop's in turns"
    benchmark.pedantic(run, rounds=1)
    title(benchmark, f"{model}: {clock.spent['ours'] / clock.spent['bare']:.3f}x the bare loop")
