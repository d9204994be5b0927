"""What must be so of the ways by which a token knows where it stands."""

import math
from typing import Literal

import torch
from torch import Tensor

from harness import Skip
from harness.attention import attention_patterns
from harness.laws import Answer, Case, Known, Laws

LENGTH = 12


def order_is_seen(case: Case) -> Answer:
    """With positions, the last output changes if x2 and x3 are swapped (1: in every sequence)."""
    _kind(case, "learned", "sinusoidal", "rope", "alibi")
    tokens, swapped = _with_different_second_and_third(case)
    change = (case.run(swapped)[:, -1] - case.run(tokens)[:, -1]).abs().amax(-1)
    return case.compare((change > case.rounding).double(), 1.0, tolerance=0.0)


def _with_different_second_and_third(case: Case) -> tuple[Tensor, Tensor]:
    tokens = case.tokens.clone()
    tokens[:, 2] = torch.where(tokens[:, 1] == tokens[:, 2], case.changed[:, 1], tokens[:, 2])
    swapped = tokens.clone()
    swapped[:, [1, 2]] = tokens[:, [2, 1]]
    return tokens, swapped


def equal_tokens_are_alike_without_positions(case: Case) -> Answer:
    """Without positions, equal tokens get equal weights: query t gives 1/t to each of its keys."""
    _kind(case, "none")
    pattern = _of_equal_tokens(case)
    seen = torch.ones(pattern.shape[-2:], dtype=torch.float64).tril()
    return case.compare(pattern, (seen / seen.sum(-1, keepdim=True)).expand(pattern.shape))


def scores_depend_on_distance_alone(case: Case) -> Answer:
    """Of equal tokens, a score depends on query minus key alone: turned (rope) by position, q_i k_j depends on i - j
    (Su et al., 2021, section 3.2); alibi takes slope (i - j) away."""
    _kind(case, "rope", "alibi")
    scores = _scores(case)
    return case.compare(scores[..., 1:, 1:].tril(), scores[..., :-1, :-1].tril())


def distance_is_seen(case: Case) -> Answer:
    """Of equal tokens, one farther away gets another score (1: in every head)."""
    _kind(case, "rope", "alibi")
    scores = _scores(case)[..., -1, :]
    spread = scores.amax(-1) - scores.amin(-1)
    return case.compare((spread > case.rounding).double(), 1.0, tolerance=0.0)


def slopes_halve(case: Case) -> Answer:
    """Head h of n, a power of two, takes 2^(-8h/n) of a score away for each token of distance (Press et al., 2022)."""
    _kind(case, "alibi")
    scores = _scores(case)[0]
    heads = len(scores)
    if heads & (heads - 1):
        raise Skip(f"{heads} heads are no power of two")
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)
    return case.compare(scores[:, -1, 1:] - scores[:, -1, :-1], slopes[:, None].expand(heads, scores.shape[-1] - 1))


def first_position_is_all_cosines(case: Case) -> Answer:
    """Position 0 is (0, 1, 0, 1, ...): sin 0 and cos 0."""
    vectors = _sinusoids(case)
    return case.compare(vectors[0], torch.tensor([0.0, 1.0]).repeat(vectors.shape[1] // 2))


def second_position_turns_by_one(case: Case) -> Answer:
    """Position 1 begins with (sin 1, cos 1): the fastest pair turns by 1 for each position."""
    return case.compare(_sinusoids(case)[1, :2], torch.tensor([math.sin(1), math.cos(1)], dtype=torch.float64))


def products_depend_on_distance_alone(case: Case) -> Answer:
    """PE[p] PE[p + k] is the sum of cos(k w) over the frequencies w = 10000^(-2i/d), for every p: 15.313649 for d = 32
    and k = 1."""
    vectors = _sinusoids(case)
    products = vectors @ vectors.T
    distances = torch.arange(LENGTH, dtype=torch.float64)
    expected = torch.cos((distances[:, None] - distances)[..., None] * _frequencies(vectors.shape[1])).sum(-1)
    return case.compare(products, expected)


def all_positions_are_equally_long(case: Case) -> Answer:
    """PE[p] PE[p] = d / 2: sin^2 + cos^2 for each pair."""
    vectors = _sinusoids(case)
    return case.compare(vectors.square().sum(1), vectors.shape[1] / 2)


def a_step_is_a_rotation(case: Case) -> Answer:
    """PE[p + k] = R(k) PE[p]: every pair turns by k w, whatever p is, so that a linear map can look k tokens back."""
    vectors, k = _sinusoids(case), 3
    pairs = torch.view_as_complex(vectors.flip(1).unflatten(1, (-1, 2)).contiguous()).flip(1)  # cos + i sin
    turn = torch.polar(torch.ones(pairs.shape[1], dtype=torch.float64), k * _frequencies(vectors.shape[1]))
    return case.compare(torch.view_as_real(pairs[:-k] * turn), torch.view_as_real(pairs[k:]))


def _frequencies(width: int) -> Tensor:
    return 10_000.0 ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)


def _sinusoids(case: Case) -> Tensor:
    _kind(case, "sinusoidal")
    offered = getattr(case.model, "position_vectors", None)
    if not callable(offered):
        raise Skip("the model does not offer the vectors of its positions: position_vectors(length)")
    with torch.no_grad():
        vectors: Tensor = offered(LENGTH)
    if vectors.shape[1] % 2:
        raise Skip("for an even number of features")
    return vectors.detach().double().cpu()


def _kind(case: Case, *kinds: str) -> str:
    said = case.expected.get("position") or getattr(case.model, "position", None)
    if said not in kinds:
        raise Skip(
            f"for positions that are {' or '.join(kinds)}; the model's attribute `position` is {said!r}"
            if said
            else "the model has no attribute `position`; say which positions it has, for example position=rope"
        )
    return str(said)


def _of_equal_tokens(case: Case) -> Tensor:
    """The weights of the first layer, where all tokens are the same: `batch head query key`."""
    equal = case.tokens[:1, :1].expand(1, case.tokens.shape[1], *case.tokens.shape[2:]).clone()
    patterns = attention_patterns(case.model, equal)
    if not patterns:
        raise Skip("the model's attention cannot be seen")
    return patterns[0].double().cpu()


def _scores(case: Case) -> Tensor:
    """Scores of equal tokens, less that of the query with itself; 0 for keys after it."""
    logs = _of_equal_tokens(case).log()
    return (logs - logs.diagonal(dim1=-2, dim2=-1)[..., None]).tril()


class PositionLaws(Laws):
    """Positions, of any model that says which ones it has in an attribute `position`: `learned`, `sinusoidal`, `none`,
    `rope` or `alibi`, as `gpt` does. Sinusoids are seen where the model offers a method `position_vectors(length)`,
    scores where attention can be seen.

    Measures:
        broken: how many laws are broken; the verdict names them.
        laws: what came out for each, what must, how far they are apart, and how far they may be.

    Args:
        position: which positions the model has, if it does not say so.
    """

    laws = (
        order_is_seen,
        equal_tokens_are_alike_without_positions,
        scores_depend_on_distance_alone,
        distance_is_seen,
        slopes_halve,
        first_position_is_all_cosines,
        second_position_turns_by_one,
        products_depend_on_distance_alone,
        all_positions_are_equally_long,
        a_step_is_a_rotation,
    )
    known = (
        *(Known(f"gpt:position={kind}", "recall") for kind in ("learned", "sinusoidal", "none", "rope", "alibi")),
        Known("gpt:position=alibi,heads=8", "recall"),
    )

    def __init__(self, *, position: Literal["learned", "sinusoidal", "none", "rope", "alibi"] | None = None) -> None:
        self.expected = {"position": position}
