"""Every law of attention and of the softmax catches what breaks it, and holds of what does not."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from harness_plugins.probes.laws.attention import AttentionLaws
from harness_plugins.probes.laws.softmax import SoftmaxLaws
from harness_plugins.tasks.noise import Noise
from law_cases import Bare, put, subject
from torch import Tensor

import harness
from harness.laws import Laws


def scores(x: Tensor, scale: float | None = None) -> Tensor:
    return x @ x.mT * (x.shape[-1] ** -0.5 if scale is None else scale)


def masked(s: Tensor) -> Tensor:
    return s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -math.inf)


def distance(s: Tensor) -> Tensor:
    at = torch.arange(s.shape[-1], dtype=s.dtype)
    return (at[:, None] - at).abs()


def unstable(s: Tensor) -> Tensor:
    return s.exp() / s.exp().sum(-1, keepdim=True)


def with_one_more(s: Tensor) -> Tensor:
    """The softmax with 1 added to its sum."""
    return s.exp() / (1 + s.exp().sum(-1, keepdim=True))


def squares(s: Tensor) -> Tensor:
    known = s.masked_fill(s == -math.inf, 0.0).square()
    return known / known.sum(-1, keepdim=True)


def kernel(x: Tensor, dropout: float = 0.0) -> Tensor:
    heads = x[:, None]
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True, dropout_p=dropout)[:, 0]


def honest(x: Tensor) -> Tensor:
    return masked(scores(x)).softmax(-1) @ x


ATTENTION: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "no sqrt(d)": (
        lambda x: masked(scores(x, 1.0)).softmax(-1) @ x,
        "equals_its_formula scores_are_scaled example_by_hand small_scores large_scores jacobian_has_its_norm",
    ),
    "softmax over queries": (
        lambda x: (
            scores(x).mT.masked_fill(torch.ones(x.shape[1], x.shape[1]).tril(-1) > 0, -math.inf).softmax(-1).mT @ x
        ),
        "equals_its_formula weights_sum_to_one zero_query_averages",
    ),
    "mask after the softmax": (
        lambda x: scores(x).softmax(-1).tril() @ x,
        "equals_its_formula weights_sum_to_one future_is_unseen prefixes_agree",
    ),
    "mask by multiplication": (lambda x: scores(x).tril().softmax(-1) @ x, "future_has_no_weight future_is_unseen"),
    "no mask": (lambda x: scores(x).softmax(-1) @ x, "future_has_no_weight future_is_unseen prefixes_agree"),
    "values one place off": (
        lambda x: masked(scores(x)).softmax(-1) @ x.roll(1, 1),
        "equals_its_formula value_moves_output_by_its_weight example_by_hand",
    ),
    "own token left out": (
        lambda x: (
            masked(scores(x) - 30 * torch.eye(x.shape[1])).softmax(-1) @ x  # where there is another
        ),
        "equals_its_formula zero_query_averages random_vectors_find_themselves",
    ),
    "near keys preferred": (
        lambda x: masked(scores(x) - distance(scores(x))).softmax(-1) @ x,
        "order_of_keys_is_unseen zero_query_averages equals_its_formula",
    ),
    "averages over the batch": (lambda x: honest(x - x.mean(0)), "examples_do_not_mix"),
    "divided by the length": (lambda x: honest(x) / x.shape[1], "prefixes_agree"),
    "scores without gradient": (lambda x: masked(scores(x)).softmax(-1).detach() @ x, "gradient_is_the_slope"),
    "a way around the attention": (lambda x: kernel(x) + x.cumsum(1), "cut_leaks_nothing"),
    "divided by its own size": (
        lambda x: kernel(x) / kernel(x).norm(dim=-1, keepdim=True),
        "query_without_keys_is_finite",
    ),
    "dropout left on": (lambda x: kernel(x, 0.5), "fused_equals_open"),
    "base 2": (
        lambda x: masked(scores(x) * math.log(2)).softmax(-1) @ x,
        "small_scores large_scores ratio_is_exponential hard_at_low_temperature one_above_equals "
        "largest_weight_nears_one jacobian_has_its_norm",
    ),
    "largest score not taken off": (lambda x: unstable(masked(scores(x))) @ x, "huge_scores_stay_finite"),
    "one more in the sum": (lambda x: with_one_more(masked(scores(x))) @ x, "last_query_sums_to_one small_scores"),
    "squares for exponentials": (lambda x: squares(masked(scores(x))) @ x, "common_shift_is_unseen"),
}


def broken_pairs() -> Iterator[tuple[type[Laws], str, str]]:
    for mutant, (_, laws) in ATTENTION.items():
        for law in laws.split():
            for probe in (AttentionLaws, SoftmaxLaws):
                if any(getattr(each, "__name__", "") == law for each in probe.laws):
                    yield probe, law, mutant


@pytest.mark.parametrize(("probe", "law", "mutant"), [*broken_pairs()])
def test_wrong_attention_is_caught(probe: type[Laws], law: str, mutant: str) -> None:
    assert put(probe, law, subject(Bare(ATTENTION[mutant][0]), Noise())).broken


def test_attention_that_depends_on_place_does_not_permute() -> None:
    def near(x: Tensor) -> Tensor:
        at = torch.arange(x.shape[1], dtype=x.dtype)
        return (scores(x) + at).softmax(-1) @ x

    law = "permutes_with_its_input"
    assert put(AttentionLaws, law, subject(Bare(near, sees="all"), Noise())).broken
    assert not put(AttentionLaws, law, subject(Bare(lambda x: scores(x).softmax(-1) @ x, sees="all"), Noise())).broken


@pytest.mark.parametrize("probe", [AttentionLaws(), SoftmaxLaws()])
def test_an_attention_of_ones_own_is_put_to_the_same_laws(probe: Laws) -> None:
    judged = probe.judged(subject(Bare(honest), Noise()))
    assert not [each.name for each in judged if each.broken]
    assert sum(each.answer is not None for each in judged) >= 8


BROKEN = """
from torch import nn


class Attention(nn.Module):
    accepts = ("vectors",)

    def __init__(self) -> None:
        super().__init__()

    def forward(self, vectors):
        scores = vectors @ vectors.mT / vectors.shape[-1] ** 0.5
        return scores.softmax(-1).tril() @ vectors
"""


def test_a_mask_after_the_softmax_in_a_file_is_named(tmp_path: Path) -> None:
    """What a plugin author sees of a broken attention."""
    file = tmp_path / "broken.py"
    file.write_text(BROKEN, encoding="utf-8")
    results = harness.run(
        models=[f"{file}:Attention"], tasks=["noise"], probes=["attention_laws"], seeds=1, out=tmp_path / "run"
    )
    (record,) = results.records
    scalar = next(each for each in record.measurements if isinstance(each, harness.Scalar))
    assert scalar.value > 0
    assert scalar.verdict is not None
    assert scalar.verdict.startswith("breaks: ")
    assert "weights sum to one" in scalar.verdict
    assert "the mask comes before the softmax" in (scalar.meaning or "")
