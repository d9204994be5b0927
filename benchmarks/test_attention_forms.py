"""Sequential against matrix attention: the same numbers five ways (width 32, one head, causal)."""

from collections.abc import Callable
from typing import Any

import pytest
from bench_tools import title

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


@pytest.mark.parametrize("direction", ["forward", "forward+backward"])
@pytest.mark.parametrize(("form", "length"), CASES)
def test_attention(benchmark: Any, built: Callable[..., Any], form: str, length: int, direction: str) -> None:
    """Time, with peak memory of a forward pass beside it; outputs are checked equal first."""
    import torch

    from harness.contracts import Interface
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
    title(benchmark, f"{form}, peak {memory:.0f} MiB")
