"""Sequential against matrix attention: the same numbers five ways (width 32, one head, causal, one thread)."""

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.bench_tools import title

CASES = [
    (form, length)
    for length in (64, 256, 1024, 4096)
    for form, longest in (
        ("python", 256),
        ("double_loop", 256),
        ("row_loop", 4096),
        ("matrix", 4096),
        ("fused", 4096),
    )
    if length <= longest
]
shortest: dict[tuple[int, str, str], float] = {}
"""Seconds of what was timed before, by length, direction and form."""


@pytest.mark.parametrize("direction", ["forward", "forward+backward"])
@pytest.mark.parametrize(("form", "length"), CASES)
def test_attention(benchmark: Any, built: Callable[..., Any], form: str, length: int, direction: str) -> None:
    """Time, with peak memory of a forward pass beside it; outputs are checked equal first."""
    import torch

    from harness import Interface
    from harness.timing import peak_memory

    if form == "python" and direction != "forward":
        pytest.skip("numbers without tensors have no gradient")
    benchmark.group = f"attention, {direction}, T = {length}"
    interface = Interface(32, 32, input="vectors", output="numbers")
    model = built("model", f"attention_forms:form={form}", interface=interface)
    x = torch.randn(1, length, 32)
    torch.testing.assert_close(
        model(x), built("model", "attention_forms", interface=interface)(x), atol=1e-5, rtol=1e-4
    )
    x.requires_grad_(direction != "forward")

    def run() -> None:
        if direction == "forward":
            with torch.inference_mode():
                model(x)
        else:
            model(x).sum().backward()

    memory = peak_memory(run) / 2**20
    benchmark.extra_info["peak_MiB"] = memory
    benchmark(run)
    title(benchmark, f"{form}{gain(benchmark, length, direction, form)}, peak {memory:.1f} MiB")


def gain(benchmark: Any, length: int, direction: str, form: str) -> str:
    """`, 3,295x the double_loop`: how many times as fast as a loop, or as the matrix, if that was timed before."""
    if benchmark.stats is None:
        return ""
    shortest[length, direction, form] = own = benchmark.stats.stats.min
    for other in {"matrix": ("double_loop", "row_loop"), "fused": ("matrix",)}.get(form, ()):
        if (length, direction, other) in shortest:
            return f", {shortest[length, direction, other] / own:,.4g}x the {other}"
    return ""
