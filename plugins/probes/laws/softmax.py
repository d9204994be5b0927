"""What a softmax over the keys gives for scores that are chosen from outside."""

import math

import torch
from harness_plugins.probes.laws.bare import at_last_query, width_of
from harness_plugins.probes.laws.general import BY_DIFFERENCES, STEP

from harness.laws import Answer, Case, Known, Laws


def small_scores(case: Case) -> Answer:
    """Scores 0, 1, 0 and 2 get the weights .082595, .224515, .082595 and .610296: exp(s) / sum exp(s)."""
    powers = torch.tensor([0.0, 1.0, 0.0, 2.0], dtype=torch.float64).exp()
    return case.compare(at_last_query(case, [0, 1, 0, 2]), powers / powers.sum())


def large_scores(case: Case) -> Answer:
    """Scores 0, 4, 0 and 8 get the weights .000329, .017974, .000329 and .981367: it sharpens as scores grow."""
    powers = torch.tensor([0.0, 4.0, 0.0, 8.0], dtype=torch.float64).exp()
    return case.compare(at_last_query(case, [0, 4, 0, 8]), powers / powers.sum())


def common_shift_is_unseen(case: Case) -> Answer:
    """What all scores have in common changes no weight: softmax(s + c) = softmax(s)."""
    found = at_last_query(case, [100, 101, 100, 102])
    return case.compare(found, at_last_query(case, [0, 1, 0, 2]), tolerance=100 * case.rounding)


def ratio_is_exponential(case: Case) -> Answer:
    """Two weights differ by exp of the difference of their scores, whatever else there is."""
    found = at_last_query(case, [-1, 0.5, 3, 2])
    return case.compare((found[1] / found[0]).log(), 1.5)


def last_query_sums_to_one(case: Case) -> Answer:
    """The weights of a query sum to 1 over its keys."""
    return case.compare(at_last_query(case, [-2, 0.5, 3, 1]).sum(), 1.0)


def huge_scores_stay_finite(case: Case) -> Answer:
    """Of scores 0 and 2000 the second gets weight 1: exp(2000) is no number, so the largest is taken off before."""
    return case.compare(at_last_query(case, [0, 2000]), torch.tensor([0.0, 1.0]))


def hard_at_low_temperature(case: Case) -> Answer:
    """Of scores 0 and 1 divided by tau = .02, the first gets exp(-1/tau) of the other's weight: attention becomes a
    look-up as tau goes to 0."""
    found = at_last_query(case, [0, 50])
    return case.compare((found[0] / found[1]).log(), -50.0)


def largest_weight_nears_one(case: Case) -> Answer:
    """Of n scores divided by tau = 1, .3 and .1, the largest gets the weight 1 / (1 + sum of exp(-gap / tau)), over its
    gaps to the others: no more than (n - 1) exp(-gap / tau) is missing, of the smallest gap."""
    scores = [0.2, -0.4, 0.7, 1.0]
    found, expected = [], []
    for tau in (1.0, 0.3, 0.1):
        found.append(at_last_query(case, [score / tau for score in scores])[-1])
        expected.append(1 / math.fsum(math.exp((score - scores[-1]) / tau) for score in scores))
    return case.compare(torch.stack(found), torch.tensor(expected, dtype=torch.float64))


def jacobian_has_its_norm(case: Case) -> Answer:
    """The Jacobian of the weights p by the scores is diag(p) - p p', so that its Frobenius norm is
    sqrt(S2 - 2 S3 + S2^2), of the sums S2 of p^2 and S3 of p^3. (By finite differences.)"""
    scores = [0.3, -1.0, 0.8, 1.5]
    columns = []
    for key in range(len(scores)):
        plus, minus = ([s + step * (at == key) for at, s in enumerate(scores)] for step in (STEP, -STEP))
        columns.append((at_last_query(case, plus) - at_last_query(case, minus)) / (2 * STEP))
    p = torch.tensor(scores, dtype=torch.float64).softmax(0)
    squares, cubes = p.square().sum(), (p**3).sum()
    expected = (squares - 2 * cubes + squares**2).sqrt()
    return case.compare(torch.stack(columns).norm(), expected, tolerance=BY_DIFFERENCES)


def one_above_equals(case: Case) -> Answer:
    """Beside one score that is 1 above n equal ones, each of these gets p = 1 / (n + e), and p (1 - p) of its gradient:
    .028777 for n = 31. (n is what the width has room for, 31 at most.)"""
    others = min(31, width_of(case) - 2)
    p = 1 / (others + math.e)
    found = at_last_query(case, [0.0] * others + [1.0])[:-1]
    return case.compare(found * (1 - found), p * (1 - p))


class SoftmaxLaws(Laws):
    """The softmax of a bare attention, which gets the scores that it is to weigh.

    For a model of vectors without parameters that gives softmax(x x' / sqrt(width)) x, as `attention_forms` does: on
    task `noise`. Others are skipped.

    Measures:
        broken: how many laws are broken; the verdict names them.
        laws: what came out for each, what must, how far they are apart, and how far they may be.
    """

    laws = (
        small_scores,
        large_scores,
        common_shift_is_unseen,
        ratio_is_exponential,
        last_query_sums_to_one,
        huge_scores_stay_finite,
        hard_at_low_temperature,
        largest_weight_nears_one,
        jacobian_has_its_norm,
        one_above_equals,
    )
    known = (
        Known("attention_forms:form=matrix", "noise:width=36"),
        Known("attention_forms:form=fused", "noise:width=36"),
        Known("attention_forms:form=python", "noise:width=36"),
    )
