"""What probes cost, in forward passes over the same examples."""

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.bench_tools import ratio_of, title

PROBES = ["accuracy", "grad_reach", "attention_to_subject", "edge_cut", "position_extrapolation", "input_swap"]
EXAMPLES = 256


@pytest.mark.parametrize("probe", PROBES)
def test_probe(benchmark: Any, built: Callable[..., Any], probe: str) -> None:
    """A GPT (2 layers, 4 heads, width 64) on farm agreement; the unit: a forward pass over all conditions' examples."""
    import torch

    from harness.subject import Shared, Subject

    task = built("task", "farm_agreement")
    model = built("model", "gpt:heads=4,d_model=64", vocab_size=56).eval()
    code = built("probe", f"{probe}:examples={EXAMPLES}") if probe in ("grad_reach", "edge_cut") else None
    batches: dict[Any, Any] = {}

    def subject() -> Any:
        shared = Shared(batches)  # and no scores
        fresh = Subject(
            model, task, stage="initial", seed=0, device=torch.device("cpu"), examples=EXAMPLES, shared=shared
        )
        fresh.generator.manual_seed(0)
        return fresh

    def measure() -> None:
        if code is not None:
            list(code(subject()))
        elif probe in ("accuracy", "input_swap"):
            list(built("probe", probe, subject=subject()))
        else:
            list(built("probe", probe)(subject()))

    def forward() -> None:
        looking = subject()
        for condition in task.conditions():
            for piece in looking.chunks(looking.batch(condition)):
                looking.forward(piece)

    forward()  # makes the data
    benchmark.group = "probes, gpt on farm_agreement, 256 examples of each of 26 conditions"
    ratio = ratio_of(measure, forward, rounds=3)
    benchmark.pedantic(measure, rounds=3)
    title(benchmark, f"{probe}: {ratio:.1f} forwards")


@pytest.mark.parametrize("hidden", [64, 256])
@pytest.mark.parametrize("probe", ["state_cut", "state_decode"])
def test_state_probe(benchmark: Any, built: Callable[..., Any], probe: str, hidden: int) -> None:
    """An LSTM on recall; the unit: a pass over all conditions' examples that is computed again step by step."""
    import torch

    from harness.recurrence import states_of
    from harness.subject import Shared, Subject

    task = built("task", "recall")
    model = built("model", f"lstm:hidden={hidden}", vocab_size=task.interface.input_size).eval()
    code = built("probe", f"{probe}:examples={EXAMPLES}")
    batches: dict[Any, Any] = {}

    def subject() -> Any:
        return Subject(
            model,
            task,
            stage="trained",
            seed=0,
            device=torch.device("cpu"),
            examples=EXAMPLES,
            shared=Shared(batches),
        )

    def measure() -> None:
        list(code(subject()))

    def recomputed() -> None:
        looking = subject()
        for condition in task.conditions():
            for piece in looking.chunks(looking.batch(condition)):
                states_of(model, piece.tokens)

    recomputed()  # makes the data
    benchmark.group = "probes of the state, lstm on recall, 256 examples of each of 5 conditions"
    ratio = ratio_of(measure, recomputed, rounds=2)
    benchmark.pedantic(measure, rounds=1)
    title(benchmark, f"{probe}, hidden={hidden}: {ratio:.1f} passes computed step by step")


@pytest.mark.parametrize("probe", ["gates", "state_jacobian"])
def test_probe_inside(benchmark: Any, built: Callable[..., Any], probe: str) -> None:
    """An LSTM (64 cells) on recall at 100 distractors; the unit: its states recomputed in the open for the same
    examples. `gates` may take 5 of them; that of `state_jacobian` is for information."""
    import torch

    from harness.recurrence import states_of
    from harness.subject import Subject

    examples = {"gates": EXAMPLES, "state_jacobian": 8}[probe]
    task = built("task", "recall:train_max=100")
    model = built("model", "lstm", vocab_size=18).eval()
    code = built("probe", f"{probe}:examples={examples}")
    subject = Subject(model, task, stage="initial", seed=0, device=torch.device("cpu"), examples=EXAMPLES)
    tokens = subject.batch(task.conditions()[-1]).tokens[:examples]

    def measure() -> None:
        list(code(subject))

    def recomputed() -> None:
        states_of(model, tokens)

    measure()
    benchmark.group = f"probes inside the state, lstm on recall, {EXAMPLES} or 8 examples"
    ratio = ratio_of(measure, recomputed, rounds=3)
    benchmark.pedantic(measure, rounds=3)
    title(benchmark, f"{probe}: {ratio:.1f} recomputed passes")
    if probe == "gates":
        assert ratio <= 5
