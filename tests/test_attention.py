"""What is seen of a model's attention: every pattern, while outputs and gradients stay as they were."""

import pytest
import torch
import torch.nn.functional as F
from attending import BATCH, HEADS, LAYERS, TIME, VOCAB, WIDTH, Block, Encoder, Handwritten, largest, tokens_of
from attending import model as model  # the fixtures
from attending import seeded as seeded
from torch import Tensor, nn

from harness.attention import attention_patterns, attention_shape, cut, edges_after, observe
from harness.errors import RequestError


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
