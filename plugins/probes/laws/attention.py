"""What must be so of attention."""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from harness_plugins.probes.laws.bare import by_the_formula, is_causal, marked, weights_of, width_of
from harness_plugins.probes.laws.general import GENERAL, reads_forward
from torch import Tensor

from harness import Skip
from harness.attention import attention_patterns, check_cut, cut, edges_after, look, observe
from harness.laws import Answer, Case, Known, Law, Laws

DRAWS = 1024
"""Of what is only known in the mean."""


def equals_its_formula(case: Case) -> Answer:
    """Query i gives key j the weight exp(x_i x_j / sqrt(width)) / (the same, summed over the keys that i may see):
    number by number and as a matrix (Vaswani et al., 2017, section 3.2.1)."""
    x = marked(case)
    return case.compare(weights_of(case, x), by_the_formula(case, x))


def weights_sum_to_one(case: Case) -> Answer:
    """The weights of a query sum to 1 over the keys: the mask comes before the softmax, which is over keys and not over
    queries."""
    return case.compare(torch.cat([each.sum(-1).flatten() for each in _weights(case)]), 1.0)


def future_has_no_weight(case: Case) -> Answer:
    """A key after the query gets exactly no weight: its score is -inf before the softmax."""
    reads_forward(case)
    return case.compare(torch.cat([each.triu(1).flatten() for each in _weights(case)]), 0.0, tolerance=0.0)


def _weights(case: Case) -> Sequence[Tensor]:
    """Those of each layer, as far as they can be seen; else those that a bare attention puts into its outputs."""
    found = [] if _is_bare(case) else attention_patterns(case.model, case.tokens)
    square = [each for each in found if each.ndim == 4 and each.shape[-1] == each.shape[-2] == case.tokens.shape[1]]
    return square or [weights_of(case, marked(case))]


def _is_bare(case: Case) -> bool:
    try:
        return bool(width_of(case))
    except Skip:
        return False


def scores_are_scaled(case: Case) -> Answer:
    """Products q k of vectors of d random numbers have variance d, and are divided by sqrt(width), or the softmax would
    saturate and its gradient be lost. (The variance of the scores, times the width; 3 numbers are not random.)"""
    width = width_of(case)
    x = torch.randn(DRAWS, 3, width, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    x[:, :, :3] = torch.eye(3, dtype=torch.float64)
    weights = case.run(x.to(case.device))[:, -1, :2]
    found = width * (weights[:, 0] / weights[:, 1]).log().square().mean() / 2
    expected = width - 3.0
    return case.compare(found, expected, tolerance=5 * expected * math.sqrt(3 / DRAWS))


def random_vectors_find_themselves(case: Case) -> Answer:
    """Without projections, random vectors attend to themselves most, from 32 numbers on: the product of one with itself
    is about d, with another one about sqrt(d). (The share of queries that do.)"""
    width, length = width_of(case), 6
    if width < 32:
        raise Skip(f"for vectors of 32 numbers or more, not {width}")
    x = torch.randn(DRAWS // 16, length, width, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    x[:, :, :length] = torch.eye(length, dtype=torch.float64)
    looks = case.run(x.to(case.device))[:, :, :length].argmax(-1).cpu()
    return case.compare((looks == torch.arange(length)).double().mean(), 1.0, tolerance=0.02)


def zero_query_averages(case: Case) -> Answer:
    """A query of zeros attends to all keys alike: the first of t tokens gets 1/t."""
    length = 5
    x = torch.zeros(1, length, width_of(case), dtype=torch.float64, device=case.device)
    x[0, 0, 0] = 1.0
    return case.compare(case.run(x)[0, -1, 0], 1 / length)


def example_by_hand(case: Case) -> Answer:
    """Scores 0 and ln 3 give weights 1/4 and 3/4, so that a value of 2 at the first key arrives as 1/2."""
    x = torch.zeros(1, 2, width_of(case), dtype=torch.float64, device=case.device)
    x[0, 0, 0] = 2.0
    x[0, 1, 1] = math.sqrt(math.log(3) * math.sqrt(x.shape[-1]))
    return case.compare(case.run(x)[0, 1, 0], 0.5)


def value_moves_output_by_its_weight(case: Case) -> Answer:
    """If the value at j changes by delta, the output at i changes by a_ij delta, and at no other position's weight."""
    x, key, delta = marked(case), 1, 0.25
    moved = x.clone()
    moved[0, key, -1] += delta  # orthogonal to all others: their scores stay
    change = (case.run(moved) - case.run(x))[0, :, -1]
    later = torch.arange(x.shape[1]) > key  # its own score changes with it
    expected = by_the_formula(case, x)[:, key] * delta
    return case.compare(change.cpu()[later], expected[later])


def order_of_keys_is_unseen(case: Case) -> Answer:
    """Without positions, the last query gives the same if x2 and x3 are swapped: attention is a weighted set."""
    width_of(case)
    swapped = case.tokens.clone()
    swapped[:, [1, 2]] = case.tokens[:, [2, 1]]
    return case.compare(case.run(swapped)[:, -1], case.outputs[:, -1])


def permutes_with_its_input(case: Case) -> Answer:
    """Without a mask, permuted inputs give permuted outputs: P Attention(X) = Attention(P X)."""
    width_of(case)
    if is_causal(case):
        raise Skip("for attention without a mask (sees = 'all')")
    return case.compare(case.run(case.tokens.flip(1)), case.outputs.flip(1))


def cut_leaks_nothing(case: Case) -> Answer:
    """If no query after a token may attend to it, in any layer and head, another token there changes the outputs after
    it by exactly 0."""
    reads_forward(case)
    _readable(case)
    swapped, at = case.tokens.clone(), 1
    swapped[:, at] = case.changed[:, at]
    position = torch.full((len(swapped),), at, device=swapped.device)
    found = check_cut(case.model, case.tokens, swapped, edges_after(position, swapped.shape[1]))
    return case.compare(found.leak, 0.0, tolerance=0.0)


def query_without_keys_is_finite(case: Case) -> Answer:
    """A query that may attend to nothing gets no NaN: its weights are 0, and so is what it reads."""
    _readable(case)
    length = case.tokens.shape[1]
    edges = torch.zeros(1, length, length, dtype=torch.bool, device=case.device)
    edges[:, 2] = True
    with cut(edges):
        outputs = case.run(case.tokens)
    return case.compare(outputs.isfinite().double().mean(), 1.0, tolerance=0.0)


def fused_equals_open(case: Case) -> Answer:
    """A fused kernel gives what scores, mask, softmax and values give one after the other."""
    _readable(case)
    with observe():
        outputs = case.run(case.tokens)
    return case.compare(outputs, case.outputs)


def _readable(case: Case) -> None:
    with torch.no_grad():
        seen = look(case.model, case.tokens)
        with observe() as called:
            case.model(case.tokens)
    if not called.patterns:
        raise Skip("for attention that can be cut: calls of scaled_dot_product_attention")
    if misfits := [layer.misfit for layer in seen.layers(case.tokens) if layer.misfit]:
        raise Skip(misfits[0])


class AttentionLaws(Laws):
    """Is it attention? What holds of any causal model (nothing of the future, prefixes, batches, gradients), of
    attention that can be seen (weights sum to 1, cuts leak nothing), and of a bare attention: a model of vectors
    without parameters that gives softmax(x x' / sqrt(width)) x, as `attention_forms` does on task `noise`.

    A law that does not apply is left out. Everything is computed in double precision, in a copy of the model.

    Measures:
        broken: how many laws are broken; the verdict names them.
        laws: what came out for each, what must, how far they are apart, and how far they may be.
    """

    laws: ClassVar[Sequence[Law]] = (
        equals_its_formula,
        weights_sum_to_one,
        future_has_no_weight,
        scores_are_scaled,
        random_vectors_find_themselves,
        zero_query_averages,
        example_by_hand,
        value_moves_output_by_its_weight,
        order_of_keys_is_unseen,
        permutes_with_its_input,
        cut_leaks_nothing,
        query_without_keys_is_finite,
        fused_equals_open,
        *GENERAL,
    )
    known = (
        *(Known(f"attention_forms:form={form}", "noise") for form in ("python", "double_loop", "row_loop", "matrix")),
        *(Known("attention_forms", f"noise:width={width}") for width in (16, 32, 64, 256, 1024)),
        Known("gpt", "recall"),
        Known("gpt:norm=post,position=alibi", "recall"),
    )
