"""Attention is cut exactly where asked, what still leaks is told, and what cannot be cut is refused."""

# The call of a module gives Any.
# mypy: no-warn-return-any

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attending import (
    BATCH,
    HEADS,
    INF,
    LAYERS,
    TIME,
    VOCAB,
    WIDTH,
    Block,
    Encoder,
    Handwritten,
    largest,
    swap,
    tokens_of,
)
from attending import model as model  # the fixtures
from attending import seeded as seeded
from torch import Tensor, nn

from harness.attention import CutCheck, attention_shape, check_cut, cut, edges_after, edges_at_query, observe, select
from harness.errors import RequestError


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
