# The call of a module gives Any.
# mypy: no-warn-return-any

import math
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

# By name, as many models do: what a module has imported must be seen too.
from torch.nn.functional import scaled_dot_product_attention

from harness.attention import (
    CutCheck,
    attention_patterns,
    attention_shape,
    check_cut,
    cut,
    edges_after,
    edges_at_query,
    observe,
    select,
)
from harness.errors import RequestError

BATCH, TIME, VOCAB, WIDTH, HEADS, LAYERS = 3, 8, 11, 16, 4, 2
INF = math.inf


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


class Block(nn.Module):
    """Causal self-attention by hand, optionally with grouped queries."""

    def __init__(self, heads: int = HEADS, groups: int | None = None) -> None:
        super().__init__()
        self.heads, self.groups = heads, groups or heads
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH * self.groups // heads)
        self.value = nn.Linear(WIDTH, WIDTH * self.groups // heads)
        self.out = nn.Linear(WIDTH, WIDTH)

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    def values(self, x: Tensor) -> Tensor:
        values = self.split(self.value(x), self.groups)
        return values.repeat_interleave(self.heads // self.groups, 1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y = scaled_dot_product_attention(
            self.split(self.query(x), self.heads),
            self.split(self.key(x), self.groups),
            self.split(self.value(x), self.groups),
            attn_mask=mask,
            is_causal=mask is None,
            enable_gqa=self.groups != self.heads,
        )
        return self.out(y.transpose(1, 2).flatten(2))


class Handwritten(nn.Module):
    def __init__(self, heads: Sequence[int] = (HEADS, HEADS), groups: int | None = None) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.positions = nn.Parameter(torch.randn(TIME, WIDTH))
        self.blocks = nn.ModuleList(Block(each, groups) for each in heads)
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.embed(tokens) + self.positions
        for block in self.blocks:
            x = x + block(x, mask)
        return self.out(x)


class MultiHead(nn.Module):
    def __init__(self, batch_first: bool, need_weights: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first) for _ in range(LAYERS))
        self.batch_first, self.need_weights = batch_first, need_weights
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        x = x if self.batch_first else x.transpose(0, 1)
        mask = torch.ones(TIME, TIME, dtype=torch.bool).triu(1)
        for layer in self.layers:
            x = x + layer(x, x, x, attn_mask=mask, need_weights=self.need_weights, is_causal=True)[0]
        return self.out(x if self.batch_first else x.transpose(0, 1))


class Encoder(nn.Module):
    """PyTorch's own Transformer, which knows nothing of the harness."""

    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True, norm_first=norm_first)
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=not norm_first)
        for parameter in self.layers.parameters():  # layers begin as copies of each other
            nn.init.normal_(parameter, std=0.3)
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor:
        mask = torch.ones(TIME, TIME, dtype=torch.bool).triu(1) if padding is None else None
        x = self.layers(self.embed(tokens), mask=mask, is_causal=mask is not None, src_key_padding_mask=padding)
        return self.out(x)


MODELS = {
    "handwritten": lambda: Handwritten(),
    "grouped": lambda: Handwritten(groups=2),
    "mha": lambda: MultiHead(True, False),
    "mha-weights": lambda: MultiHead(True, True),
    "mha-time-first": lambda: MultiHead(False, False),
    "mha-time-first-weights": lambda: MultiHead(False, True),
    "encoder": lambda: Encoder(False),
    "encoder-norm-first": lambda: Encoder(True),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> nn.Module:
    return MODELS[request.param]().eval()


def tokens_of(batch: int = BATCH) -> Tensor:
    return torch.randint(0, VOCAB, (batch, TIME))


def swap(tokens: Tensor, position: Tensor) -> Tensor:
    swapped = tokens.clone()
    rows = torch.arange(len(tokens))
    swapped[rows, position] = (swapped[rows, position] + 1) % VOCAB
    return swapped


def largest(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


class TestObserve:
    @pytest.mark.parametrize("grad", ["no_grad", "inference_mode", "enable_grad"])
    @pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
    def test_outputs_are_those_of_the_untouched_model(
        self, model: nn.Module, dtype: torch.dtype, bound: float, grad: str
    ) -> None:
        """Every layer is seen, in causal rows that sum to 1, and the outputs stay the fused kernel's."""
        model, tokens = model.to(dtype), tokens_of()
        with getattr(torch, grad)():
            plain = model(tokens)
            with observe() as seen:
                observed = model(tokens)
        assert largest(plain, observed) < bound
        assert [tuple(p.shape) for p in seen.patterns] == [(BATCH, HEADS, TIME, TIME)] * LAYERS
        for pattern in seen.patterns:
            assert pattern.dtype == dtype
            assert largest(pattern.sum(-1), torch.ones(())) < bound
            assert not pattern.triu(1).any()

    @pytest.mark.parametrize("groups", [None, 2, 1])
    @pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
    def test_pattern_times_values_is_the_output_of_a_block(
        self, groups: int | None, dtype: torch.dtype, bound: float
    ) -> None:
        """The recorded pattern is what the model used: times the values it is the untouched output."""
        block, x = Block(groups=groups).to(dtype), torch.randn(BATCH, TIME, WIDTH, dtype=dtype)
        with observe() as seen:
            block(x)
        rebuilt = block.out((seen.patterns[0] @ block.values(x)).transpose(1, 2).flatten(2))
        assert largest(rebuilt, block(x)) < bound

    @pytest.mark.parametrize("batch_first", [True, False])
    @pytest.mark.parametrize("need_weights", [True, False])
    @pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
    def test_pattern_times_values_is_the_output_of_multihead_attention(
        self, batch_first: bool, need_weights: bool, dtype: torch.dtype, bound: float
    ) -> None:
        """The same for `nn.MultiheadAttention`, whose returned weights are the recorded ones too."""
        layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first, dtype=dtype).eval()
        x = torch.randn(BATCH, TIME, WIDTH, dtype=dtype)
        given = x if batch_first else x.transpose(0, 1)
        with torch.inference_mode():
            plain, _ = layer(given, given, given)
        with torch.no_grad(), observe() as seen:
            _, weights = layer(given, given, given, need_weights=need_weights, average_attn_weights=False)
        values = F.linear(x, layer.in_proj_weight[-WIDTH:], layer.in_proj_bias[-WIDTH:])
        mixed = seen.patterns[0] @ values.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        rebuilt = layer.out_proj(mixed.transpose(1, 2).flatten(2))
        assert largest(rebuilt, plain if batch_first else plain.transpose(0, 1)) < bound
        assert (weights is not None) is need_weights
        if need_weights:
            assert torch.equal(weights, seen.patterns[0])

    def test_unbatched_multihead_attention(self) -> None:
        """Without a batch axis the pattern still has one, and the returned weights do not."""
        layer, x = nn.MultiheadAttention(WIDTH, HEADS), torch.randn(TIME, WIDTH)
        plain, plain_weights = layer(x, x, x)
        with observe() as seen:
            observed, weights = layer(x, x, x)
        assert seen.patterns[0].shape == (1, HEADS, TIME, TIME)
        assert largest(plain, observed) < 1e-6
        assert largest(plain_weights, weights) < 1e-6

    @pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
    @pytest.mark.parametrize("norm_first", [True, False])
    @pytest.mark.parametrize("grad", ["no_grad", "inference_mode", "enable_grad"])
    def test_padding_of_an_encoder(self, norm_first: bool, grad: str) -> None:
        """Padded keys get no weight, and real positions keep their outputs, fast path or not."""
        model, tokens = Encoder(norm_first).double().eval(), tokens_of()
        padding = torch.arange(TIME) >= torch.tensor([[TIME], [5], [2]])
        with getattr(torch, grad)():
            plain = model(tokens, padding)
            with observe() as seen:
                observed = model(tokens, padding)
        assert largest(plain[~padding], observed[~padding]) < 1e-12
        assert len(seen.patterns) == LAYERS
        for pattern in seen.patterns:
            assert not pattern.masked_select(padding[:, None, None]).any()

    def test_dropout_in_training(self) -> None:
        """Dropout stays active, and drops the same weights as in the untouched model for the same seed."""
        q, k, v = torch.randn(3, BATCH, HEADS, TIME, 5).double()

        def attend(seed: int) -> Tensor:
            torch.manual_seed(seed)
            return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

        plain = attend(1)
        with observe() as seen:
            assert largest(plain, attend(1)) < 1e-12
            assert largest(plain, attend(2)) > 0.01
        assert torch.allclose(seen.patterns[0].sum(-1), torch.ones(()).double())

        layer, x = nn.MultiheadAttention(WIDTH, HEADS, dropout=0.5), torch.randn(TIME, BATCH, WIDTH)
        for need_weights in (True, False):
            torch.manual_seed(1)
            plain, _ = layer(x, x, x, need_weights=need_weights)
            torch.manual_seed(1)
            with observe():
                observed, _ = layer(x, x, x, need_weights=need_weights)
            assert largest(plain, observed) < 1e-6

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_half_precision(self, dtype: torch.dtype) -> None:
        """Half precision comes back as it went in, computed in float32 like PyTorch's reference kernel."""
        q, k, v = torch.randn(3, BATCH, HEADS, TIME, 16).to(dtype)
        exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
        with observe() as seen:
            observed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        assert observed.dtype == dtype
        assert seen.patterns[0].dtype == torch.float32
        # One rounding at the end, no more; float32's own error tips it over in rare cases.
        assert (observed == exact.to(dtype)).double().mean() > 0.99

    def test_autocast(self) -> None:
        """Under autocast the output has autocast's type, as without the observer."""
        q, k, v = torch.randn(3, BATCH, HEADS, TIME, 16)
        exact = F.scaled_dot_product_attention(*(each.bfloat16().double() for each in (q, k, v)))
        with torch.autocast("cpu", torch.bfloat16):
            plain = F.scaled_dot_product_attention(q, k, v)
            with observe():
                observed = F.scaled_dot_product_attention(q, k, v)
        assert plain.dtype == observed.dtype == torch.bfloat16
        assert (observed == exact.bfloat16()).double().mean() > 0.99

    def test_gradients_flow_through(self, model: nn.Module) -> None:
        """Gradients under observation are the untouched model's, and reach the patterns."""
        model, tokens = model.double(), tokens_of()
        parameters = list(model.parameters())
        plain = torch.autograd.grad(model(tokens).square().sum(), parameters, allow_unused=True)
        with observe() as seen:
            loss = model(tokens).square().sum()
        observed = torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
        for a, b in zip(plain, observed, strict=True):
            assert a is None or largest(a, b) < 1e-9 * (1 + a.abs().max())
        assert seen.patterns[0].requires_grad

    def test_heads_may_differ_between_layers(self) -> None:
        """Each layer is recorded with its own number of heads."""
        assert attention_shape(Handwritten(heads=(4, 2, 1)), tokens_of()) == (4, 2, 1)

    def test_attention_from_other_positions_is_seen(self) -> None:
        """Cross-attention has a pattern of queries by keys."""
        q, k, v = (torch.randn(2, 4, t, 3) for t in (5, 7, 7))
        with observe() as seen:
            F.scaled_dot_product_attention(q, k, v)
        assert seen.patterns[0].shape == (2, 4, 5, 7)

    def test_causal_bias_of_torch(self) -> None:
        """PyTorch's own bias objects, which hold no data, are understood."""
        from torch.nn.attention.bias import causal_lower_right

        q, k, v = (torch.randn(2, 4, t, 3) for t in (5, 7, 7))
        plain = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(5, 7))
        with observe() as seen:
            observed = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(5, 7))
        assert largest(plain, observed) < 1e-6
        assert torch.equal(seen.patterns[0] > 0, torch.ones(2, 4, 5, 7).tril(2).bool())

    def test_a_compiled_model_is_seen(self) -> None:
        """`torch.compile` does not hide attention, before or inside the context."""
        model, tokens = Handwritten().eval(), tokens_of()
        compiled = torch.compile(model, backend="eager")
        with torch.no_grad():
            plain = compiled(tokens)
            with observe() as seen:
                assert largest(compiled(tokens), plain) < 1e-5
            assert len(seen.patterns) == LAYERS

    def test_models_without_attention(self) -> None:
        """A model without such a call has no layers and no patterns, and cutting it is an error."""
        model, tokens = nn.Sequential(nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)), tokens_of()
        assert attention_shape(model, tokens) == ()
        assert attention_patterns(model, tokens) == []
        with pytest.raises(RequestError, match="nothing was cut"), cut(edges_after(torch.tensor([1]), TIME)):
            model(tokens)

    def test_models_that_offer_their_patterns(self) -> None:
        """What a model shows itself is used where nothing is seen; it cannot be cut."""
        offered = torch.full((BATCH, 2, TIME, TIME), 1 / TIME)

        class Offers(nn.Embedding):
            def attention_patterns(self, tokens: Tensor) -> tuple[Tensor, ...]:
                return (offered,)

        model = Offers(VOCAB, WIDTH)
        assert attention_patterns(model, tokens_of())[0] is offered
        assert attention_shape(model, tokens_of()) == ()


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


class TestCut:
    position = torch.tensor([2, 0, 5])

    def check(self, model: nn.Module, edges: Tensor, where: Tensor | None = None) -> CutCheck:
        tokens = tokens_of()
        return check_cut(model, tokens, swap(tokens, self.position), edges, where)

    def test_the_full_cut_lets_exactly_nothing_through(self, model: nn.Module) -> None:
        """In float32, to the last bit: a swapped token changes nothing after it; the cut has an effect."""
        checked = self.check(model, edges_after(self.position, TIME))
        assert checked.leak.tolist() == [0.0] * BATCH
        assert checked.before.tolist() == [0.0] * BATCH
        assert (checked.effect > 1e-3).all()

    def test_no_cut_leaks(self, model: nn.Module) -> None:
        """The check sees the token when nothing is cut, and no effect, not even of rounding."""
        checked = self.check(model, torch.zeros(1, TIME, TIME, dtype=torch.bool))
        assert (checked.leak > 1e-3).all()
        assert checked.before.tolist() == [0.0] * BATCH
        assert checked.effect.tolist() == [0.0] * BATCH

    @pytest.mark.parametrize("partial", [{"layer": 0}, {"layer": 1}, {"head": 2}, {"layer": 1, "head": 0}])
    def test_a_cut_in_some_layers_or_heads_leaks(self, model: nn.Module, partial: dict[str, int]) -> None:
        """The token passes through what is left."""
        where = select(attention_shape(model, tokens_of()), **partial)
        assert (self.check(model, edges_after(self.position, TIME), where).leak > 1e-4).all()

    def test_a_cut_at_one_query_leaks(self, model: nn.Module) -> None:
        """Other queries hear of the token and pass it on."""
        query = torch.full((BATCH,), TIME - 1)
        assert (self.check(model, edges_at_query(query, self.position, TIME)).leak > 1e-4).all()

    def test_a_cut_after_the_softmax_leaks(self) -> None:
        """Zeroed weights still show the token in the normaliser of the others."""
        edges = edges_after(self.position, TIME)

        class Zeroes(Handwritten):
            def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
                x = self.embed(tokens) + self.positions
                eye = torch.eye(TIME)
                block: Any = self.blocks[0]
                q, k = block.split(block.query(x), HEADS), block.split(block.key(x), HEADS)
                weights = F.scaled_dot_product_attention(q, k, eye, is_causal=True)
                return self.out((weights * ~edges[:, None] @ block.values(x)).transpose(1, 2).flatten(2))

        nothing = torch.zeros(1, TIME, TIME, dtype=torch.bool)
        assert (self.check(Zeroes().eval(), nothing).leak > 1e-5).all()

    def test_a_model_that_is_not_causal_shows_it(self) -> None:
        """A swapped token changes what stands before it in an encoder without a mask."""

        class Bidirectional(Encoder):
            def forward(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor:
                return self.out(self.layers(self.embed(tokens)))

        checked = self.check(Bidirectional(False).eval(), edges_after(self.position, TIME))
        assert checked.before[1] == 0.0  # nothing stands before position 0
        assert (checked.before[[0, 2]] > 1e-4).all()

    def test_several_keys_at_once(self, model: nn.Module) -> None:
        """A mask of keys cuts them all: both swapped, nothing comes through between and after them."""
        tokens = tokens_of()
        swapped = swap(swap(tokens, torch.tensor([1, 1, 1])), torch.tensor([4, 4, 4]))
        checked = check_cut(model, tokens, swapped, edges_after(tokens != swapped, TIME))
        assert checked.leak.tolist() == [0.0] * BATCH

    def test_vectors_in_and_infinities_out(self) -> None:
        """Input may be vectors, and outputs that are -inf on both sides do not differ; NaN proves nothing."""
        block, vectors = Block(), torch.randn(BATCH, TIME, WIDTH)
        swapped, edges = vectors.clone(), edges_after(self.position, TIME)
        swapped[torch.arange(BATCH), self.position, 0] += 1
        checked = check_cut(lambda x: block(x).index_fill(2, torch.tensor([3]), -INF), vectors, swapped, edges)
        assert checked.leak.tolist() == checked.before.tolist() == [0.0] * BATCH
        assert checked.effect.isfinite().all()
        assert check_cut(lambda x: block(x) * math.nan, vectors, swapped, edges).leak.isnan().all()

    def test_cuts_of_many_examples_equal_the_same_cuts_one_by_one(self, model: nn.Module) -> None:
        """Edges, layers and heads of each example are its own."""
        model, tokens = model.double(), tokens_of(1).expand(4, -1)
        edges = edges_after(torch.tensor([0, 2, 2, 3]), TIME)
        shape = (HEADS,) * LAYERS
        where = torch.cat([select(shape), select(shape, layer=1), select(shape, 0, 3), select(shape, head=1)])
        with torch.no_grad():
            with cut(edges, where), observe() as seen:
                together = model(tokens)
            for each in range(4):
                with cut(edges[[each]], where[[each]]):
                    assert largest(model(tokens[[each]]), together[[each]]) < 1e-12
        for layer, pattern in enumerate(seen.patterns):
            removed = edges[:, None] & where[:, layer, :, None, None]
            assert torch.equal(pattern == 0, removed | torch.ones(TIME, TIME, dtype=torch.bool).triu(1))
        assert all(largest(a, b) > 1e-6 for i, a in enumerate(together) for b in together[:i])

    def test_equals_a_float_mask(self) -> None:
        """The cut is the one a model makes itself by adding -inf to its scores."""
        model, tokens = Handwritten().double().eval(), tokens_of()
        edges = edges_after(self.position, TIME)
        where = torch.rand(BATCH, 1, HEADS).expand(-1, LAYERS, -1) > 0.5
        with cut(edges, where), observe() as seen:
            ours = model(tokens)
        mask = torch.zeros(BATCH, HEADS, TIME, TIME).double()
        mask.masked_fill_(torch.ones(TIME, TIME).triu(1).bool(), -INF)
        mask.masked_fill_(edges[:, None] & where[:, 0, :, None, None], -INF)
        assert largest(ours, model(tokens, mask)) < 1e-12
        for pattern in seen.patterns:
            assert torch.equal(pattern == 0, mask == -INF)

    def test_returned_weights_are_cut(self) -> None:
        """`nn.MultiheadAttention` returns the weights it used."""
        layer, x = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval(), torch.randn(1, TIME, WIDTH)
        with torch.no_grad(), cut(edges_after(torch.tensor([2]), TIME)):
            _, weights = layer(x, x, x)
        assert weights[0, :3, 2].all()
        assert not weights[0, 3:, 2].any()

    def test_contexts_nest_in_any_order(self, model: nn.Module) -> None:
        """Two cuts cut both, and every observer sees what is left, wherever it stands."""
        tokens = tokens_of()
        one, two = edges_after(torch.tensor([1]), TIME), edges_after(torch.tensor([3]), TIME)
        with torch.no_grad():
            with cut(one | two), observe() as expected:
                both = model(tokens)
            with observe() as outer, cut(one), observe() as middle, cut(two), observe() as inner:
                assert torch.equal(model(tokens), both)
            with observe() as after:
                model(tokens)
        for seen in (outer, middle, inner):
            assert len(seen.patterns) == LAYERS
            assert all(map(torch.equal, seen.patterns, expected.patterns))
        assert not torch.equal(after.patterns[0], expected.patterns[0])

    def test_a_context_ends_inside_another(self) -> None:
        """What is closed sees and cuts no more, while what is around it goes on."""
        model, tokens = Handwritten().eval(), tokens_of()
        with torch.no_grad(), observe() as outer:
            whole = model(tokens)
            with observe() as inner, cut(edges_after(torch.tensor([1]), TIME)):
                assert not torch.equal(model(tokens), whole)
            assert torch.equal(model(tokens), whole)
        assert len(inner.patterns) == LAYERS
        assert len(outer.patterns) == 3 * LAYERS

    def test_one_pattern_for_all_examples_can_be_cut_in_each(self) -> None:
        """Queries and keys without examples of their own are spread over those of the values."""
        q, v = torch.randn(1, 2, TIME, 3), torch.randn(BATCH, 2, TIME, 3)
        edges = edges_after(self.position, TIME)
        with cut(edges), observe() as seen:
            F.scaled_dot_product_attention(q, q, v)
        assert torch.equal(seen.patterns[0] == 0, edges[:, None].expand(-1, 2, -1, -1))

    def test_a_layer_that_is_left_out_may_have_any_shape(self) -> None:
        """Cross-attention stays whole when `where` chooses the other layers."""
        q, k = torch.randn(1, 2, TIME, 3), torch.randn(1, 2, 5, 3)
        with cut(edges_after(torch.tensor([1]), TIME), select((2, 2), layer=0)), observe() as seen:
            F.scaled_dot_product_attention(q, q, q)
            F.scaled_dot_product_attention(q, k, k)
        assert not seen.patterns[0][:, :, 2:, 1].any()
        assert seen.patterns[1].all()


class TestEdges:
    def test_after(self) -> None:
        """One example: position 1 of 4 is hidden from queries 2 and 3, and still sees itself."""
        assert edges_after(torch.tensor([1]), 4).int().tolist() == [
            [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]]
        ]

    def test_after_a_mask(self) -> None:
        """Several keys of one example, each hidden from what follows it."""
        assert edges_after(torch.tensor([[True, False, True, False]]), 4).int().tolist() == [
            [[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0]]
        ]

    def test_at_query(self) -> None:
        """One edge per example."""
        edges = edges_at_query(torch.tensor([3, 2]), torch.tensor([1, 0]), 4)
        assert edges.nonzero().tolist() == [[0, 3, 1], [1, 2, 0]]

    def test_select(self) -> None:
        """All, a layer, a head of every layer, a head of a layer; no head that a layer lacks."""
        assert select((2, 1)).int().tolist() == [[[1, 1], [1, 0]]]
        assert select((2, 1), layer=0).int().tolist() == [[[1, 1], [0, 0]]]
        assert select((2, 1), head=0).int().tolist() == [[[1, 0], [1, 0]]]
        assert select((2, 2), 1, 1).int().tolist() == [[[0, 0], [0, 1]]]


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


class TestErrors:
    edges = torch.zeros(1, TIME, TIME, dtype=torch.bool)

    def test_positions(self) -> None:
        """A position that does not exist is named, with what exists."""
        with pytest.raises(RequestError, match=r"position 8 .* example 1 has 8 \(positions 0 to 7\)"):
            edges_after(torch.tensor([1, 8]), TIME)
        with pytest.raises(RequestError, match="position -1 does not exist"):
            edges_at_query(torch.tensor([-1]), torch.tensor([0]), TIME)
        with pytest.raises(RequestError, match="for 5 positions, but the sequence has 8"):
            edges_after(torch.ones(2, 5, dtype=torch.bool), TIME)

    def test_layers_and_heads(self) -> None:
        """A layer or head that does not exist is named, with what exists."""
        with pytest.raises(RequestError, match=r"layer 2 .* the model has 2 \(layers 0 to 1\)"):
            select((4, 4), layer=2)
        with pytest.raises(RequestError, match=r"head 3 .* layer 1 has 3 \(heads 0 to 2\)"):
            select((4, 3), head=3)
        with pytest.raises(RequestError, match="layer 0 does not exist: the model has none"):
            select((), layer=0)

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            ((4, 4, 4), "`where` is for 3 layers, but the model has 2"),
            ((4,), "layer 1 is beyond the 1 layers"),
            ((5, 5), "among 5 heads, but layer 0 has 4"),
            ((3, 3), "among 3 heads, but layer 0 has 4"),
        ],
    )
    def test_where_that_does_not_fit(self, shape: tuple[int, ...], message: str) -> None:
        """`where` made for another model is refused."""
        with pytest.raises(RequestError, match=message), cut(self.edges, select(shape)):
            Handwritten()(tokens_of())

    def test_where_is_for_one_pass(self) -> None:
        """A second forward pass under `where` is refused, since its layers would be counted on."""
        model, tokens = Handwritten(), tokens_of()
        with pytest.raises(RequestError, match="one forward pass"), cut(self.edges, select((4, 4))):
            _ = model(tokens), model(tokens)

    @pytest.mark.parametrize(("queries", "keys"), [(TIME, 5), (1, TIME), (5, 5)])
    def test_patterns_that_are_not_over_the_sequence(self, queries: int, keys: int) -> None:
        """Cross-attention and caches cannot be cut by token position."""
        q, k = torch.randn(1, 2, queries, 3), torch.randn(1, 2, keys, 3)
        message = f"layer 0 attends from {queries} queries to {keys} keys, but .* from 8 queries to 8 keys"
        with pytest.raises(RequestError, match=message), cut(self.edges):
            F.scaled_dot_product_attention(q, k, k)

    def test_other_numbers_of_examples(self) -> None:
        """Edges of other examples are refused."""
        with (
            pytest.raises(RequestError, match="for 2 examples, but layer 0 has 3"),
            cut(self.edges.repeat(2, 1, 1)),
        ):
            Handwritten()(tokens_of())

    def test_nothing_swapped(self) -> None:
        """A check without a swapped token would prove anything."""
        tokens = tokens_of()
        swapped = tokens.clone()
        swapped[0, 0] = (swapped[0, 0] + 1) % VOCAB
        with pytest.raises(RequestError, match=r"nothing differs in examples \[1, 2\]"):
            check_cut(Handwritten(), tokens, swapped, self.edges)
