"""Open attention is PyTorch's: the same numbers for all shapes and flags, and nothing of PyTorch stays replaced."""

import math
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attending import INF, LAYERS, TIME, Encoder, Handwritten, largest, tokens_of
from attending import seeded as seeded  # the fixture
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

# By name, as many models do: what a module has imported must be seen too.
from torch.nn.functional import scaled_dot_product_attention

from harness.attention import cut, edges_after, observe

masks = st.sampled_from(["none", "bool", "float", "bool-2d", "key", "causal"])


class TestComputation:
    @settings(max_examples=200, deadline=None)
    @given(
        batch=st.integers(1, 3),
        heads=st.integers(1, 3),
        groups=st.integers(1, 3),
        queries=st.integers(1, 6),
        keys=st.integers(1, 6),
        width=st.integers(1, 5),
        mask=masks,
        scale=st.sampled_from([None, 0.3, 2.0]),
        axes=st.integers(2, 5),
        broadcast=st.booleans(),
        seed=st.integers(0, 2**16),
    )
    def test_equals_torch(
        self,
        batch: int,
        heads: int,
        groups: int,
        queries: int,
        keys: int,
        width: int,
        mask: str,
        scale: float | None,
        axes: int,
        broadcast: bool,
        seed: int,
    ) -> None:
        """The open computation is PyTorch's, for all shapes, masks and flags; rows without keys are 0."""
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64)

        grouped = axes >= 4
        outer = {2: (), 3: (batch,), 4: (batch, heads * groups), 5: (batch, 2, heads * groups)}[axes]
        inner = (*outer[:-1], heads) if grouped else outer
        if broadcast and axes >= 4:
            inner = (1, *inner[1:])
        query, key, value = (
            normal(*outer, queries, width),
            normal(*inner, keys, width),
            normal(*inner, keys, 4),
        )
        arguments: dict[str, Any] = {"scale": scale, "is_causal": mask == "causal", "enable_gqa": grouped}
        choice = torch.rand((*outer, queries, keys), generator=generator) > 0.4
        if mask == "bool":
            arguments["attn_mask"] = choice
        elif mask == "float":
            arguments["attn_mask"] = normal(*outer, queries, keys).masked_fill(~choice, -INF)
        elif mask == "bool-2d":
            arguments["attn_mask"] = torch.rand((queries, keys), generator=generator) > 0.4
        elif mask == "key":
            arguments["attn_mask"] = torch.rand((1, keys), generator=generator) > 0.4
        expected = F.scaled_dot_product_attention(query, key, value, **arguments)
        with observe() as seen:
            observed = F.scaled_dot_product_attention(query, key, value, **arguments)
        assert observed.shape == expected.shape
        assert largest(observed, expected) < 1e-12
        size, count = (outer[0] if outer else 1), math.prod(outer[1:])
        assert seen.patterns[0].shape == (size, count, queries, keys)

    @pytest.mark.parametrize("call", [torch.ops.aten.scaled_dot_product_attention, scaled_dot_product_attention])
    def test_every_name_of_the_function_is_seen(self, call: Callable[..., Tensor]) -> None:
        """Imported by name or called as an operator, it is the same function."""
        q = torch.randn(1, 1, 3, 2)
        with observe() as seen:
            call(q, q, q)
        assert len(seen.patterns) == 1

    @pytest.mark.parametrize("how", ["cut", "bool", "float"])
    def test_rows_without_keys(self, how: str) -> None:
        """A query that may attend to nothing gets exactly 0, in the output, the pattern and the gradient."""
        q, k, v = (torch.randn(1, 2, 4, 3, requires_grad=True) for _ in range(3))
        edges = torch.zeros(1, 4, 4, dtype=torch.bool)
        edges[0, 2] = True
        if how == "cut":
            with cut(edges), observe() as seen:
                out = F.scaled_dot_product_attention(q, k, v)
        else:
            mask = ~edges[0] if how == "bool" else torch.zeros(4, 4).masked_fill(edges[0], -INF)
            with observe() as seen:
                out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out.sum().backward()
        assert not out[0, :, 2].any()
        assert not seen.patterns[0][0, :, 2].any()
        assert q.grad is not None
        assert not q.grad[0, :, 2].any()
        assert all(each.grad is not None and each.grad.isfinite().all() for each in (q, k, v))
        assert out.isfinite().all()


class TestNothingIsReplaced:
    def state(self) -> tuple[object, ...]:
        return (
            F.scaled_dot_product_attention,
            F.multi_head_attention_forward,
            F.multi_head_attention_forward.__globals__["softmax"],
            torch.backends.mha.get_fastpath_enabled(),
            torch._C._len_torch_function_stack(),
        )

    def kernels(self, model: Callable[[Tensor], Tensor], tokens: Tensor) -> set[str]:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            model(tokens)
        return {event.key for event in profile.key_averages()}

    @pytest.mark.parametrize("failing", [False, True])
    def test_outside(self, failing: bool) -> None:
        """After the context, however it was left, PyTorch is as it was and runs its fused kernels."""
        before = self.state()
        tokens, causal, encoder = tokens_of(), Handwritten().eval(), Encoder(False).eval()
        fused = "aten::_scaled_dot_product_flash_attention_for_cpu"
        with torch.no_grad():
            assert fused in self.kernels(causal, tokens)
            try:
                with observe(), cut(edges_after(torch.tensor([1]), TIME)):
                    assert fused not in self.kernels(causal, tokens)
                    if failing:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                assert failing
            assert self.state() == before
            assert fused in self.kernels(causal, tokens)
            assert "aten::_transformer_encoder_layer_fwd" in self.kernels(
                lambda x: encoder.layers(encoder.embed(x)), tokens
            )
        with observe() as seen:
            causal(tokens)
        assert len(seen.patterns) == LAYERS  # and a later context starts afresh

    def test_other_threads(self) -> None:
        """A thread beside the one that observes runs the fused kernel, and sees its own calls if it asks."""
        q, layer = torch.randn(1, 1, 3, 2), nn.MultiheadAttention(2, 1)
        theirs: list[Tensor] = []

        def beside() -> None:
            scaled_dot_product_attention(q, q, q)
            layer(q[0], q[0], q[0])
            with observe() as seen:
                scaled_dot_product_attention(q, q, q)
            theirs.extend(seen.patterns)

        with observe() as seen:
            thread = threading.Thread(target=beside)
            thread.start()
            thread.join()
        assert seen.patterns == []
        assert len(theirs) == 1

    def test_dynamo_is_not_imported(self) -> None:
        """Observing costs no import of the compiler (seconds) where nothing has been compiled."""
        code = (
            "import sys, torch\nfrom harness.attention import observe\n"
            "with observe(): torch.nn.MultiheadAttention(2, 1)(*[torch.ones(1, 3, 2)] * 3)\n"
            "assert 'torch._dynamo' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
