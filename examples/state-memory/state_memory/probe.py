"""What does the model still know? Earlier tokens, read linearly from its last layer."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn

from harness import Condition, Curve, Scalar, Skip, Subject


class StateMemory:
    """How well the token k steps back can be read from the model's last layer at the query, for every k.

    H. Jaeger, "Short term memory in echo state networks", 2001, asks how much of the input k steps ago a linear readout
    recovers, and sums over k. Here the input is a token, so the readout is a classifier (ridge regression on the
    one-hot token), fitted on one half of the sequences and tested on the other. The sequences are the task's, of the
    farthest condition that training covered, drawn for this probe alone. The state is what the last linear layer of the
    model reads; of a model that has none, its outputs.

    It tells apart what `accuracy` cannot: a model that fails since it has forgotten, and one that knows and does not
    use it. A model that has learned what to keep reads high at the cue and low at the noise; before training, memory
    fades evenly.

    Measures:
        readable: (share right - chance) / (1 - chance) at each step back, where chance is the share of the commonest
            token there; NaN where the token is always the same.
        shuffled: the same with the sequences' tokens exchanged at random, which must be about 0: what the method finds
            where there is nothing.
        memory: sum of `readable` over all steps back, in tokens.
        cue: `readable` at the cue, if the task marks one at a fixed distance.

    Args:
        examples: sequences; half of them fit the readout.
        ridge: penalty of the regression, relative to the mean variance of the state.
    """

    stages = ("initial", "trained")

    def __init__(self, *, examples: PositiveInt = 1024, ridge: float = 1e-2) -> None:
        self.examples = examples
        self.ridge = ridge

    def __call__(self, subject: Subject) -> Iterator[Curve | Scalar]:
        if subject.task.interface.input != "tokens":
            raise Skip("the input is real vectors, and what is read back is tokens")
        condition = farthest_inside(subject.task.conditions())
        batch = subject.task.evaluate(condition, self.examples, subject.generator).to(subject.device)
        query = batch.query if batch.query is not None else batch.mask.sum(1) - 1
        steps = list(range(1, int(query.min()) + 1))
        if not steps:
            raise Skip("nothing stands before the query")
        with states_of(subject.model, subject.task.interface.output_size) as seen:
            parts = []
            for piece in subject.chunks(batch):
                outputs = subject.forward(piece)
                parts.append(seen[-1] if seen else outputs)
                seen.clear()
        states = torch.cat(parts)
        rows = torch.arange(len(batch), device=query.device)
        state = states[rows, query].double()
        readout = fit(state, self.ridge)
        order = torch.randperm(len(batch), generator=subject.generator).to(query.device)
        tokens = {step: batch.tokens[rows, query - step] for step in steps}
        values = {
            "readable": [readable(state, tokens[step], readout) for step in steps],
            "shuffled": [readable(state, tokens[step][order], readout) for step in steps],
        }
        for name, shares in values.items():
            yield Curve(
                name=name,
                unit="share above chance",
                x=[float(step) for step in steps],
                y=shares,
                x_label="steps back from the query (tokens)",
                y_label=name,
                headline=name == "readable",
            )
        memory = sum(share for share in values["readable"] if not math.isnan(share))
        yield Scalar(name="memory", unit="tokens", value=memory, headline=True)
        if batch.cue is not None and len(distances := (query - batch.cue).unique()) == 1 and distances[0] > 0:
            yield Scalar(
                name="cue", unit="share above chance", value=values["readable"][int(distances) - 1], headline=True
            )


def farthest_inside(conditions: Sequence[Condition]) -> Condition:
    """The last condition of the first group that training covered, or the first one."""
    inside = [c for c in conditions if c.inside and c.group == conditions[0].group]
    return max(inside, key=lambda condition: condition.x, default=conditions[0])


@contextmanager
def states_of(model: nn.Module, outputs: int) -> Iterator[list[Float[Tensor, "batch time width"]]]:
    """While active, what the model's last linear layer to the outputs reads is listed."""
    seen: list[Tensor] = []
    layers = [m for m in model.modules() if isinstance(m, nn.Linear) and m.out_features == outputs]
    handle = layers[-1].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0])) if layers else None
    try:
        yield seen
    finally:
        if handle is not None:
            handle.remove()


def fit(state: Float[Tensor, "batch width"], ridge: float) -> Float[Tensor, "width half"]:
    """The part of a ridge regression that is the same for every target: (X'X + penalty)^-1 X' of the first half."""
    known = with_one(state[: len(state) // 2])
    penalty = ridge * known.var(0, correction=0).mean().clamp(min=1e-12) * len(known)
    solved: Tensor = torch.linalg.solve(known.T @ known + penalty * torch.eye(known.shape[1]).to(known), known.T)
    return solved


def readable(
    state: Float[Tensor, "batch width"], tokens: Int[Tensor, " batch"], readout: Float[Tensor, "width half"]
) -> float:
    """Share of the second half whose token is read right, above chance; NaN where there is nothing to read."""
    half = len(state) // 2
    values, kinds = tokens.unique(return_inverse=True)
    if len(values) < 2:
        return math.nan
    weights = readout @ nn.functional.one_hot(kinds[:half], len(values)).double()
    answers = (with_one(state[half:]) @ weights).argmax(1)
    chance: float = kinds[half:].bincount().max().item() / len(answers)
    if chance == 1:
        return math.nan
    right: float = (answers == kinds[half:]).double().mean().item()
    return (right - chance) / (1 - chance)


def with_one(state: Float[Tensor, "batch width"]) -> Float[Tensor, "batch width_and_one"]:
    """The state and a constant."""
    return torch.cat([state, torch.ones_like(state[:, :1])], dim=1)
