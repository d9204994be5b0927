"""What models cost: threads, lengths, one pass against steps, and our training loop against a bare one."""

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest

from benchmarks.bench_tools import MIXERS, MODELS, STEPPED, TRAINED, Clock, ratio_of, shortest_of, shortest_turns, title


@cache
def _step(model: str, threads: int) -> float:
    from harness.plan import make_plan
    from harness.registry import default_registry
    from harness.requests import build_suite
    from harness.timing import Order, run_order

    label = "gpt:max_length=512" if model == "gpt" else model
    plan = make_plan(build_suite([label], ["recall"], ["speed"], seeds=1), default_registry())
    trial = plan.trials[0].trial
    return run_order(Order(trial=trial, lengths=[512], batch=8, threads=threads, backward=True, budget=5.0)).both[0]


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


@pytest.mark.parametrize("model", [*MODELS, *MIXERS])
def test_lengths(benchmark: Any, built: Callable[..., Any], model: str) -> None:
    """Time per token at T = 512, 2048, 8192, and the exponent of time against length between the last two."""
    import torch

    lengths = [512, 2048, 8192]
    net = built("model", "gpt:max_length=8192" if model == "gpt" else model, vocab_size=18).eval()

    def times() -> list[float]:
        with torch.inference_mode():
            return shortest_of(*(partial(net, torch.randint(18, (1, length))) for length in lengths), rounds=15)

    benchmark.group = "length, forward, batch 1 (the whole measurement)"
    shortest = benchmark.pedantic(times, rounds=1)
    each = ", ".join(f"{1e6 * t / n:.1f}" for t, n in zip(shortest, lengths, strict=True))
    exponent = math.log(shortest[2] / shortest[1]) / math.log(4)
    title(benchmark, f"{model}: {each} us a token, exponent {exponent:.2f}")


@pytest.mark.parametrize("model", STEPPED)
def test_forms(benchmark: Any, built: Callable[..., Any], model: str) -> None:
    """All positions at once against one after the other, T = 256, without gradients, at batch 1, 16 and 64."""
    import torch
    from harness_plugins.models.stepped import one_pass

    net = built("model", model, vocab_size=18).eval()

    def gain(batch: int) -> float:
        tokens = torch.randint(18, (batch, 256))
        with torch.inference_mode():
            return ratio_of(lambda: one_pass(net, tokens), lambda: net(tokens), rounds=9)

    benchmark.group = "parallel form against steps, T = 256 (the whole measurement)"
    gains = benchmark.pedantic(lambda: [gain(batch) for batch in (1, 16, 64)], rounds=1)
    title(benchmark, f"{model}: {', '.join(f'{each:.1f}x' for each in gains)} as fast at batch 1, 16, 64")


@pytest.mark.parametrize(("model", "name"), TRAINED.items())
def test_training_step(benchmark: Any, built: Callable[..., Any], model: str, name: str) -> None:
    """Our loop, with its looks at the validation loss, against the loop that everybody writes, which has none: the same
    model, data and optimiser, step by step in turns, so that what else the machine does hits both."""
    import torch

    from harness.examples import seeded
    from harness.schema import Training
    from harness.training import train

    task, steps = built("task", name), 100

    def new() -> torch.nn.Module:
        torch.manual_seed(0)
        net: torch.nn.Module = built(
            "model", model, vocab_size=task.interface.input_size, interface=task.interface
        ).train()
        return net

    def bare(net: torch.nn.Module) -> Iterator[None]:
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
            stream, others = task.train(batch_size, generator), bare(new())
            rounds[-1].turn("bare")
            for _ in others:
                rounds[-1].turn("ours")
                yield next(stream)
                rounds[-1].turn("bare")

        validation = type(task).train

    rounds: list[Clock] = []

    def run() -> None:
        rounds.append(Clock())
        train(new(), InTurns(), Training(steps=steps), 0, torch.device("cpu"))
        rounds[-1].turn("")

    benchmark.group = f"training, {steps} steps of 64 sequences, ours and a bare loop's in turns"
    benchmark.pedantic(run, rounds=5)
    ratio = shortest_turns(rounds, "ours") / shortest_turns(rounds, "bare")
    title(benchmark, f"{model}: {ratio:.3f}x the bare loop")
