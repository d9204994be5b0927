"""Attention that does not line up with tokens, sums to less than 1, or is asked of examples without marks."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hand_set import Lookup
from harness_plugins.probes.attention_to_subject import AttentionToSubject
from harness_plugins.probes.edge_cut import EdgeCut
from harness_plugins.tasks.recall import VOCABULARY, Recall
from measured import cell, curve, measure, scalar
from torch import Tensor, nn

import harness
from harness import Skip
from harness.measurements import Matrix


class Prefixed(Lookup):
    """Puts a token of its own before every sequence."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(torch.cat([torch.full_like(tokens[:, :1], 8), tokens], 1))[:, 1:]


class Folded(nn.Module):
    """Two heads as if they were examples."""

    def forward(self, tokens: Tensor) -> Tensor:
        x = F.one_hot(tokens, VOCABULARY).float().repeat(2, 1, 1)
        return F.scaled_dot_product_attention(x, x, x, is_causal=True)[: len(tokens)]


class WithMemory(Lookup):
    """Attends to three vectors of its own, too."""

    def forward(self, tokens: Tensor) -> Tensor:
        outputs = super().forward(tokens)
        memory = torch.ones(len(tokens), 1, 3, VOCABULARY)
        return outputs + F.scaled_dot_product_attention(outputs[:, None], memory, memory)[:, 0]


class Offers(nn.Module):
    """Shows a pattern that it computes by hand; half of it looks at the key, the rest at no token."""

    shape: tuple[int, ...] = ()
    """Of the pattern, if it is a wrong one."""

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.zeros(*tokens.shape, VOCABULARY)

    def attention_patterns(self, tokens: Tensor) -> list[Tensor]:
        pattern = torch.zeros(len(tokens), 1, tokens.shape[1], tokens.shape[1])
        pattern[..., 0] = 0.5
        return [torch.ones(self.shape) if self.shape else pattern]


class OffersOtherShape(Offers):
    shape = (64, 4, 4)


@pytest.mark.parametrize(
    ("model", "shape"),
    [(Prefixed, "(64, 2, 5, 5)"), (Folded, "(128, 1, 4, 4)"), (OffersOtherShape, "(64, 4, 4)")],
)
def test_attention_that_does_not_line_up_is_skipped(model: type[nn.Module], shape: str) -> None:
    """Never read with positions that are off by one, or examples that are heads; the reason names layer and shapes."""
    with pytest.raises(Skip) as reason:
        measure(AttentionToSubject(), model())
    assert f"layer 1 has attention of shape {shape}, not (examples, heads, time, time) = (64, " in str(reason.value)


@pytest.mark.parametrize("model", [Prefixed, Folded])
def test_nor_is_it_cut(model: type[nn.Module]) -> None:
    """A model that cannot be cut is skipped, and has not failed."""
    with pytest.raises(Skip, match="layer 1 has attention of shape"):
        measure(EdgeCut(), model())


@pytest.mark.parametrize("distances", [[2, 5], [1, 5]])  # with one distractor, the memory is as long as the sequence
@pytest.mark.parametrize("probe", [AttentionToSubject(), EdgeCut()])
def test_layers_beside_one_that_does_not_line_up_are_measured(probe: Any, distances: list[int]) -> None:
    """And the one that is left out is named, also if its shape fits by chance at one length."""
    found = measure(probe, WithMemory(), Recall(distances=distances))
    left_out = scalar(found, "layers_left_out")
    assert left_out.value == 1
    assert left_out.headline
    assert left_out.verdict is not None
    assert left_out.verdict.startswith("call 2 has attention of shape (64, 1, ")
    heads = found["share_on_cue"] if "share_on_cue" in found else found["by_head"]
    assert isinstance(heads, Matrix)
    assert [row for row in heads.rows if "head" in row] == ["call 1 head 1", "call 1 head 2"]
    assert "layers_left_out" not in measure(probe, Lookup())


def test_attention_to_no_token_is_said() -> None:
    """A sink takes half: the share stays 0.5, and the rest is reported, not normalised away."""
    found = measure(AttentionToSubject(), Offers())
    assert curve(found, "sharpest_share") == [0.5] * 4
    assert cell(found, "share_elsewhere", "layer 1 head 1", "10") == 0.5
    assert "share_elsewhere" not in measure(AttentionToSubject(), Lookup())


class SomeMarks(Recall):
    """The first three quarters of the examples have no cue, and none has one at the longest distance."""

    def evaluate(self, condition: harness.Condition, *arguments: Any) -> harness.Batch:
        batch = super().evaluate(condition, *arguments)
        assert batch.cue is not None
        missing = torch.arange(len(batch)) < (len(batch) if condition.x == 10 else 48)
        return replace(batch, cue=batch.cue.masked_fill(missing, -1))


@pytest.mark.parametrize("probe", [AttentionToSubject(), EdgeCut()])
def test_examples_without_marks_are_left_out(probe: Any) -> None:
    """Conditions without any, too; the rest gives the same shares, and how many were used is said."""
    found = measure(probe, Lookup(), SomeMarks(distances=[2, 5, 10]))
    used = found["examples_used"]
    assert curve(found, "examples_used") == [16, 16, 0]
    assert used.headline
    name = "sharpest_share" if "sharpest_share" in found else "untouched"
    assert curve(found, name) == pytest.approx([1.0, 1.0], abs=1e-5)
    assert "examples_used" not in measure(probe, Lookup())


class CueLast(Recall):
    """Half of the examples mark the key after the query, and of the others one in two as the query."""

    def evaluate(self, *arguments: Any) -> harness.Batch:
        batch = super().evaluate(*arguments)
        assert batch.cue is not None
        assert batch.query is not None
        number = torch.arange(len(batch))
        query = batch.query.where(number % 2 == 0, torch.full_like(batch.query, -1))
        return replace(batch, query=query, cue=batch.cue.where(number % 4 != 0, batch.query))


def test_a_cue_at_or_after_the_query_never_raises() -> None:
    """After it, the example is left out; at it, it is looked at, and there is nothing to cut."""
    assert set(curve(measure(AttentionToSubject(), Lookup(), CueLast()), "examples_used")) == {32}
    found = measure(EdgeCut(), Lookup(), CueLast(), examples=256)
    assert set(curve(found, "examples_used")) == {64}
    assert scalar(found, "score_after_cut").verdict == "relies on it, at chance without"
