"""Cuts in models that hide the future behind finite numbers."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.attention import check_cut, cut, edges_after, observe

BATCH, TIME, KINDS, WIDTH = 3, 7, 11, 8
MINIMUM = torch.finfo(torch.float32).min


class Strict(nn.Module):
    """Two layers whose queries see only what came before them; the rest is hidden by adding `hidden` to its score.

    The first query sees nothing, so that it is let see itself.
    """

    def __init__(self, hidden: float, multihead: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(KINDS, WIDTH)
        self.layers = nn.ModuleList(nn.MultiheadAttention(WIDTH, 2, batch_first=True) for _ in range(2))
        self.hidden, self.multihead = hidden, multihead

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.embedding(tokens)
        mask = torch.zeros(TIME, TIME, dtype=x.dtype)
        mask[torch.ones(TIME, TIME).triu(0).bool()] = self.hidden
        mask[0, 0] = 0.0
        for layer in self.layers:
            x = x + layer(x, x, x, attn_mask=mask, need_weights=self.multihead)[0]
        return x


def checked(model: nn.Module) -> Any:
    """The cut of position 0, after which query 1 has no other key left."""
    tokens = torch.randint(KINDS, (BATCH, TIME), generator=torch.Generator().manual_seed(0))
    swapped = tokens.clone()
    swapped[:, 0] = (swapped[:, 0] + 1) % KINDS
    return check_cut(model.double().eval(), tokens, swapped, edges_after(torch.zeros(BATCH).long(), TIME))


@pytest.mark.parametrize("multihead", [False, True])
@pytest.mark.parametrize("hidden", [-math.inf, MINIMUM, -1e9, -1e4])
def test_a_query_without_keys_gets_nothing(hidden: float, multihead: bool) -> None:
    """Exactly 0 of the future comes in, whatever number hides it; the rest is as with -inf."""
    check = checked(Strict(hidden, multihead))
    expected = checked(Strict(-math.inf, multihead))
    for name in ("leak", "before", "opened"):
        assert getattr(check, name).tolist() == [0.0] * BATCH, name
    assert torch.allclose(check.effect, expected.effect, rtol=1e-12, atol=0)


def test_a_row_that_was_hidden_before_the_cut_stays_as_it_was() -> None:
    """A query all of whose keys are hidden by the same number sees them alike; a cut of another row changes nothing."""
    q = torch.randn(1, 1, 4, 2, generator=torch.Generator().manual_seed(0))
    mask = torch.full((4, 4), MINIMUM)
    mask[2:] = 0.0
    edges = torch.zeros(1, 4, 4, dtype=torch.bool)
    edges[0, 3, 1] = True
    with observe() as before:
        F.scaled_dot_product_attention(q, q, q, mask)
    with cut(edges), observe() as after:
        F.scaled_dot_product_attention(q, q, q, mask)
    assert torch.equal(before.patterns[0][:, :, :3], after.patterns[0][:, :, :3])
    assert after.patterns[0][0, 0, 0].tolist() == [0.25] * 4


def test_a_cut_that_opens_the_future_is_found() -> None:
    """-100 hides the future from a query that has other keys, and not from one that has lost them."""
    check = checked(Strict(-100.0))
    assert check.leak.tolist() == check.before.tolist() == [0.0] * BATCH
    assert (check.opened > 1e-3).all()


def test_a_model_that_sees_the_future_anyway_is_not_blamed_on_the_cut() -> None:
    """`opened` is about what the cut changes; `before` is about the model."""
    check = checked(Strict(0.0))
    assert check.opened.tolist() == [0.0] * BATCH
