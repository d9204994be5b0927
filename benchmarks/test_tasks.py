"""What data costs: making a batch, against the cheapest training step that a built-in model takes with it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.bench_tools import Clock, shortest_turns, title

SMALL = ["bag", "depth", "elman", "window_mlp"]
"""Built-in models whose training steps are cheap; which one's is the cheapest depends on the task."""
ROUNDS = 4


def _tasks() -> Iterator[str]:
    """All that have something to train on; minimal pairs are for testing."""
    from harness.registry import default_registry

    return (entry.spec.name for entry in default_registry().all("task") if entry.spec.name != "minimal_pairs")


@pytest.mark.parametrize("task", list(_tasks()))
def test_data(benchmark: Any, built: Callable[..., Any], task: str) -> None:
    """Each batch is made, of the size that the task recommends, and trained on (forward, backward, clipping and AdamW).
    The shortest of several rounds counts, for either by itself; all rounds have the same batches."""
    from harness.examples import seeded
    from harness.training_settings import merge_training

    code = built("task", task)
    size = merge_training(code.recommended_training).batch_size

    def spent(model: str, steps: int) -> Clock:
        step, clock = _step(built, model, code), Clock()
        stream = iter(code.train(size, seeded("train", 0)))
        step(next(stream))
        for _ in range(steps):
            clock.turn("data")
            batch = next(stream)
            clock.turn("step")
            step(batch)
        clock.turn("")
        return clock

    quick = {model: shortest_turns([spent(model, 10) for _ in range(3)], "step") for model in SMALL}
    model = min(quick, key=lambda each: quick[each])
    rounds: list[Clock] = []
    benchmark.group = "a batch of data"
    benchmark.pedantic(lambda: rounds.append(spent(model, 400)), rounds=ROUNDS)
    data, step = (shortest_turns(rounds, whose) for whose in ("data", "step"))
    title(benchmark, f"{task}: making a batch is {data / step:.1%} of a training step of {model}")


def _step(built: Callable[..., Any], model: str, task: Any) -> Callable[[Any], None]:
    """A training step as everybody writes it."""
    import torch

    torch.manual_seed(0)
    net = built("model", model, vocab_size=task.interface.input_size, interface=task.interface)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.0, fused=True)

    def step(batch: Any) -> None:
        loss = task.loss(net(batch.tokens), batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    return step
