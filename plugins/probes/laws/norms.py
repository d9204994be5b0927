"""What must be so of layer norms."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from harness import Skip
from harness.laws import Answer, Case, Known, Laws, worst


def ramp(case: Case) -> Answer:
    """(1, 2, 3, 4) becomes (-3, -1, 1, 3) / sqrt(5): each number less the mean, divided by the standard deviation of
    all (not of all but one), sqrt(variance + epsilon)."""
    return _over(case, lambda norm, x: (norm(x), _by_the_formula(norm, x)))


def ten_times_the_input(case: Case) -> Answer:
    """An input ten times as large gives the same, up to epsilon: about epsilon / variance of it."""

    def compare(norm: "Norm", x: Tensor) -> tuple[Tensor, Tensor]:
        return norm(10 * x), _by_the_formula(norm, 10 * x)

    return _over(case, compare)


def common_shift_is_unseen(case: Case) -> Answer:
    """What is added to all numbers changes nothing but by rounding: the mean is taken off."""
    return _over(case, lambda norm, x: (norm(x + 7), norm(x)), centred=True, tolerance=1e-10)


def mean_is_zero(case: Case) -> Answer:
    """What comes out has mean 0."""
    return _over(case, lambda norm, x: (norm(x).mean(-1), torch.zeros(len(x))), centred=True)


def variance_is_one(case: Case) -> Answer:
    """What comes out has mean square v / (v + epsilon), of an input with v: 1 but for epsilon."""

    def compare(norm: "Norm", x: Tensor) -> tuple[Tensor, Tensor]:
        v = _spread(norm, x)
        return norm(x).square().mean(-1), (v / (v + norm.epsilon)).squeeze(-1)

    return _over(case, compare)


def constant_is_finite(case: Case) -> Answer:
    """A constant input becomes 0 and not NaN: epsilon is added to its variance."""
    return _over(case, lambda norm, x: (norm(torch.zeros_like(x)), torch.zeros_like(x)))


def positions_do_not_mix(case: Case) -> Answer:
    """A vector gives the same whatever stands beside it: means are over its own numbers, not over the batch."""
    return _over(case, lambda norm, x: (norm(x), torch.cat([norm(each) for each in x.split(1)])))


class Norm:
    """A norm, without its learned weight and bias."""

    def __init__(self, module: Any, width: int) -> None:
        self.module = module
        self.width = width
        self.centred = not type(module).__name__.endswith("RMSNorm")
        said = getattr(module, "eps", getattr(module, "variance_epsilon", 1e-5))
        self.epsilon = torch.finfo(torch.float64).eps if said is None else float(said)

    def __call__(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.module(x)  # type: ignore[no-any-return]


def _norms(case: Case) -> Iterator[Norm]:
    for module in case.model.modules():
        name = type(module).__name__
        weight = getattr(module, "weight", None)
        if name.endswith(("LayerNorm", "RMSNorm")) and isinstance(weight, Tensor) and weight.ndim == 1:
            yield Norm(module, len(weight))


@contextmanager
def _plain(norm: Norm) -> Iterator[None]:
    """While active, its weight is 1 and its bias 0."""
    known = [(getattr(norm.module, name, None), value) for name, value in (("weight", 1.0), ("bias", 0.0))]
    before = [(tensor, tensor.detach().clone(), value) for tensor, value in known if isinstance(tensor, Tensor)]
    with torch.no_grad():
        for tensor, _, value in before:
            tensor.fill_(value)
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, old, _ in before:
                tensor.copy_(old)


def _over(case: Case, compare: Any, *, centred: bool = False, tolerance: float = 1e-12) -> Answer:
    """The answer of the norm that is farthest off."""
    answers = []
    for norm in _norms(case):
        if norm.centred or not centred:
            x = torch.arange(1.0, norm.width + 1, dtype=torch.float64, device=case.device)
            with _plain(norm):
                found, expected = compare(norm, torch.stack([x, x.flip(0) * 0.1, x.roll(1) - 3]))
            answers.append(case.compare(found, expected.to(found), tolerance=tolerance))
    if not answers:
        kind = "layer norm" if centred else "norm"
        raise Skip(f"the model has no {kind}: a module whose class ends in LayerNorm (or RMSNorm), with a weight")
    return worst(answers)


def _spread(norm: Norm, x: Tensor) -> Tensor:
    return x.var(-1, correction=0, keepdim=True) if norm.centred else x.square().mean(-1, keepdim=True)


def _by_the_formula(norm: Norm, x: Tensor) -> Tensor:
    centre = x.mean(-1, keepdim=True) if norm.centred else torch.zeros_like(x[..., :1])
    return (x - centre) / (_spread(norm, x) + norm.epsilon).sqrt()


class NormLaws(Laws):
    """Layer norms (Ba et al., 2016) and root mean square norms (Zhang and Sennrich, 2019) of any model: each module
    whose class ends in LayerNorm or RMSNorm and that has a weight for each feature, with that weight at 1 and its
    bias at 0.

    Measures:
        broken: how many laws are broken; the verdict names them.
        laws: what came out for each, what must, how far they are apart, and how far they may be.
    """

    laws = (
        ramp,
        ten_times_the_input,
        common_shift_is_unseen,
        mean_is_zero,
        variance_is_one,
        constant_is_finite,
        positions_do_not_mix,
    )
    known = (Known("gpt:d_model=4,heads=1", "recall"), Known("gpt:norm=post,d_model=64", "recall"))
