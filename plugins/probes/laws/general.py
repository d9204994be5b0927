"""Laws of any model that maps a sequence to outputs at each position."""

import torch
from torch import Tensor

from harness import Batch, Skip
from harness.capabilities import Capabilities
from harness.gradients import InputGradients
from harness.laws import Answer, Case

STEP = 1e-5
"""Of finite differences: their error is about its square."""
BY_DIFFERENCES = 1e-7
"""How far apart a derivative and a finite difference may be, as a share of the larger one, or of 1."""


def reads_forward(case: Case) -> None:
    """Skip a model that says that its outputs see more than the past."""
    sees = Capabilities(case.model).sees
    if sees != "past":
        raise Skip(f"the model says that its outputs see {'the whole sequence' if sees == 'all' else 'a whole source'}")


def future_is_unseen(case: Case) -> Answer:
    """An output depends on its own position and on earlier ones alone: another last token changes nothing before it."""
    reads_forward(case)
    other = torch.cat([case.tokens[:, :-1], case.changed[:, -1:]], 1)
    return case.compare(case.run(other)[:, :-1] - case.outputs[:, :-1], 0.0, tolerance=0.0)


def prefixes_agree(case: Case) -> Answer:
    """One pass over T tokens gives what T passes over its prefixes give."""
    reads_forward(case)
    last = [case.run(case.tokens[:, : end + 1])[:, -1] for end in range(case.tokens.shape[1])]
    return case.compare(torch.stack(last, 1), case.outputs)


def examples_do_not_mix(case: Case) -> Answer:
    """A sequence gives the same alone as in a batch with another one."""
    alone = torch.cat([case.run(case.tokens[i : i + 1]) for i in range(len(case.tokens))])
    return case.compare(alone, case.outputs)


def gradient_is_the_slope(case: Case) -> Answer:
    """The gradient along a direction is what a small step in it changes, divided by its size: (f(x + h d) - f(x - h d))
    / 2h. The step is in the input vectors; in the weights, of a model of tokens."""
    if case.outputs.dtype != torch.float64:
        raise Skip("the model does not compute in double precision, in which small steps can be told apart")
    weights = _normal(case.outputs)
    analytic, numeric = (_in_input if case.tokens.is_floating_point() else _in_weights)(case, weights)
    return Answer(analytic, numeric, BY_DIFFERENCES * max(1.0, abs(numeric)))


def _in_input(case: Case, weights: Tensor) -> tuple[float, float]:
    direction = _normal(case.tokens)
    vectors = case.tokens + 0.01 * direction.flip(1)  # off the corners of what is not smooth everywhere
    batch = Batch(vectors, vectors, torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device))
    gradient = InputGradients(case.model, batch).along(weights)
    plus, minus = (case.run(vectors + step * direction) for step in (STEP, -STEP))
    slope = ((plus - minus) * weights).sum().item() / (2 * STEP)
    return (gradient * direction).sum().item(), slope


def _in_weights(case: Case, weights: Tensor) -> tuple[float, float]:
    parameters = [each for each in case.model.parameters() if each.requires_grad]
    if not parameters:
        raise Skip("the model has neither weights nor input vectors to differentiate by")
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        total = (case.model(case.tokens) * weights).sum()
        found = torch.autograd.grad(total, parameters, allow_unused=True)
    scale = sum(each.numel() for each in parameters) ** -0.5  # a direction of length 1 or so, in which all curves less
    directions = [scale * _normal(each) for each in parameters]
    pairs = zip(found, directions, strict=True)
    analytic = sum((gradient * direction).sum().item() for gradient, direction in pairs if gradient is not None)
    sums = []
    for step in (STEP, -2 * STEP, STEP):  # there, to the other side, and back
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.add_(step * direction)
        sums.append((case.run(case.tokens) * weights).sum().item())
    return analytic, (sums[0] - sums[1]) / (2 * STEP)


def _normal(like: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(like.shape, dtype=torch.float64, generator=generator).to(like.device)


GENERAL = (future_is_unseen, prefixes_agree, examples_do_not_mix, gradient_is_the_slope)
