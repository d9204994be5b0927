"""Does gradient reach the token that matters? Its size there, distance by distance."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from harness_plugins.probes.conditions import curve, examples_used, first_group, marks, unit_of
from harness_plugins.probes.directions import all_directions, examples_at_once, loss_direction
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor

from harness import Batch, Condition, Curve, Matrix, Scalar, Skip, Subject
from harness.examples import standard_error
from harness.gradients import InputGradients
from harness.statistics import falls_below, fit_decay, located
from harness.truncation import Truncated

LAWS = {
    "exponential": "the size falls by a constant factor per token (per_step_factor); this fit leaves at most half of "
    "the error of a power law",
    "polynomial": "the size falls as a power of the distance (decay_exponent); this fit leaves at most half of the "
    "error of a constant factor",
    "flat": "the largest size is less than twice the smallest",
    "grows": "the size rises with the distance, to at least twice its first value",
    "cut off": "from there on the gradient is exactly 0, so that training learns nothing from the cue; whether the "
    "answer follows it all the same is what input_swap tells",
    "no clear law": "neither a constant factor per token nor a power of the distance fits much better than the other",
    "not enough to say": "fewer than 4 distances with a gradient; measure more",
    "no number": "the gradient or the outputs are not finite there",
}
"""What the verdicts about the decay mean."""

BELOW = "where the size falls below 1% of that at the nearest place; nothing was measured in between"
ABOVE = "the size is still above 1% of that at the nearest place, also at the farthest one that was measured"

STEPS_BACK = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class GradReach:
    """How much the answer at the query moves with the embedding of the cue, and of every token before the query.

    The size of a gradient is the Frobenius norm of the Jacobian of the logits at the query, less their mean, with
    respect to one token's embedding: how far the logits move for a small change of that embedding, in all directions of
    both. It has the units of the logits and of the embedding, so that models are compared by its ratio to the query's
    own, `reach`: this is the same for a model whose logits or embeddings are so many times as large, or whose
    vocabulary is in another order. (With more than 32 classes it is estimated from 16 random directions for each
    example, to 18 % or better; a task that wants numbers has them for logits, with their mean.)

    It says what a small change of the cue does to the answer, that is, whether gradient arrives. It does not say that
    the model uses the cue rightly, nor that it can learn to: gradient may arrive and point nowhere useful, and a gate
    or an attention that is saturated passes information without any.

    Every distance gets sequences of its own and backward passes of its own. A single pass over the longest sequence,
    read at several steps back, gives the same curve for most recurrent nets and a wrong one for attention, whose share
    per token depends on the length; it is the last row of `gradient_by_steps_back`.

    Examples without a cue and a query are left out. A task that marks none is read at the first token and the last one.

    Measures:
        reach: size at the cue relative to the query's own token (how much of the gradient survives the way), means over
            examples; NaN where the query's own is 0, and `query_gradient` says so.
        cue_gradient: size at the cue.
        along_loss: length of the gradient at the cue of the logits along the task's loss alone, a unit vector in the
            direction in which the loss changes fastest: what training would do first. NaN where an example's loss has
            no gradient at the query, even in float64; `without_loss_gradient` counts them.
        reach_in_training: `reach` as training has it, where it is truncated (`truncate`): exactly 0 from a cue in an
            earlier chunk than the query.
        query_gradient: size at the query's own token, at the condition where it is smallest.
        per_step_factor: factor per token of an exponential fit to `reach`; the verdict says whether the decay is
            exponential, polynomial (exponent in `decay_exponent`) or flat, or where it is cut off
            (`harness.statistics.fit_decay`).
        below_1_percent: the first measured place where `reach` is below 1 % of the nearest one's, infinite if it
            is nowhere; the verdict says between which measured places that happens.
        gradient_by_steps_back: per distance, the size d steps back relative to the query's own token.
        examples_used: examples with a cue and a query, where some have none.

    Args:
        examples: sequences per distance.
    """

    stages: ClassVar = ("initial", "trained")

    def __init__(self, *, examples: PositiveInt = 64) -> None:
        self.examples = examples

    def __call__(self, subject: Subject) -> Iterator[Curve | Scalar | Matrix]:
        (cue, own), batches = read_at(subject, self.examples)
        found = {condition: sizes(subject, batch) for condition, batch in batches.items()}
        places, each = [condition.x for condition in found], list(found.values())
        task = subject.task
        logits = "logits" if task.interface.output == "classes" else "outputs"
        cue_gradient = curve(
            "cue_gradient",
            f"{logits} per {'embedding' if task.interface.input == 'tokens' else 'input'}",
            task,
            found,
            [size.at_cue.mean().item() for size in each],
            [standard_error(size.at_cue) for size in each],
            y_label=f"gradient at {cue}",
            headline=False,
            scale="log",
        )

        def relative(name: str, label: str, of: list[Sizes]) -> Curve:
            ratios = [size.reach() for size in of]
            return cue_gradient.model_copy(
                update={
                    "name": name,
                    "unit": "ratio",
                    "y": [ratio for ratio, _ in ratios],
                    "standard_errors": [error for _, error in ratios],
                    "y_label": label,
                    "headline": True,
                }
            )

        yield relative("reach", f"gradient at {cue} / at {own}", each)
        yield cue_gradient
        yield cue_gradient.model_copy(
            update={
                "name": "along_loss",
                "y": [size.along_loss.mean().item() for size in each],
                "standard_errors": [standard_error(size.along_loss) for size in each],
                "y_label": f"gradient along the loss at {cue}",
            }
        )
        if (chunks := truncated(subject, batches)) is not None:
            with chunks.in_chunks():
                inside = [sizes(subject, batch) for batch in batches.values()]
            label = f"gradient at {cue} / at {own}, truncated after {chunks.steps} steps"
            yield relative("reach_in_training", label, inside)
        if without := sum(int(size.along_loss.isnan().sum()) for size in each):
            yield Scalar(name="without_loss_gradient", unit="examples", value=without)
        yield from examples_used(subject, batches, self.examples)
        yield query_gradient(each, cue_gradient.unit, own)
        yield from decay(places, each, unit_of(task.axis))
        yield by_steps_back(found, task.axis)


@dataclass(frozen=True)
class Sizes:
    """Sizes of gradients under one condition, as `GradReach` describes them.

    Args:
        at_cue: at the cue.
        at_query: at the query's own token.
        back: mean over examples at each number of `STEPS_BACK`; NaN where no sequence reaches so far.
        along_loss: at the cue, along the loss; NaN for an example whose loss has no gradient.
        steps: tokens from the cue to the query, mean over examples.
        smallest: a size below this may have become 0.
    """

    at_cue: Float[Tensor, " batch"]
    at_query: Float[Tensor, " batch"]
    back: list[float]
    along_loss: Float[Tensor, " batch"]
    steps: float
    smallest: float

    def reach(self) -> tuple[float, float]:
        """The ratio of the means at the cue and at the query, and its standard error (to first order)."""
        own = self.at_query.mean().item()
        if own == 0:
            return math.nan, math.nan
        ratio = self.at_cue.mean().item() / own
        return ratio, standard_error(self.at_cue - ratio * self.at_query) / own


def read_at(subject: Subject, examples: int) -> tuple[tuple[str, str], dict[Condition, Batch]]:
    """What the marks are called, and the marked examples of every condition that has some.

    Raises:
        Skip: the task has marks, and no example has both.
    """
    conditions = first_group(subject.task)
    batches = {condition: subject.batch(condition).asked() for condition in conditions}
    batches = {condition: batch for condition, batch in batches.items() if subject.takes(batch)}
    if not batches:
        raise Skip(f"all examples are longer than the {subject.model.max_length} tokens that the model takes")
    if all(batch.cue is None or batch.query is None for batch in batches.values()):
        firsts = {condition: _first_and_last(batch[:examples]) for condition, batch in batches.items()}
        return ("the first token", "the last token"), firsts
    found = {condition: batch for condition in conditions if (batch := subject.marked(condition, examples)) is not None}
    if not found:
        raise Skip("no example has a cue and a query that is not before it")
    return ("the cue", "the query's own token"), found


def truncated(subject: Subject, batches: dict[Condition, Batch]) -> Truncated | None:
    """The model as it is trained, if back-propagation is truncated in it."""
    steps = None if subject.trial is None else subject.trial.training.truncate
    return None if steps is None else Truncated(subject.model, steps, list(batches.values()))


def _first_and_last(batch: Batch) -> Batch:
    last = batch.mask.sum(dim=1) - 1
    return replace(batch, cue=torch.zeros_like(last), query=last)


def sizes(subject: Subject, batch: Batch) -> Sizes:
    """Measure one condition; a sequence with an output that is no number, padding aside, has no size (NaN)."""
    everywhere, along_loss, smallest = [], [], 0.0
    for chunk in subject.chunks(batch):
        for piece in chunk.split(examples_at_once(subject.task.interface.output_size)):
            cue, query = marks(piece)
            gradients = InputGradients(subject.model, piece, at=query)
            factor, directions = all_directions(subject.task, len(piece), subject.generator)
            total = torch.zeros_like(piece.mask, dtype=torch.float64)
            for direction in directions:
                total = total.hypot(_length(gradients.along(direction.to(query.device))))
            outputs = gradients.outputs
            broken = ((outputs.isnan() | (outputs == math.inf)).any(-1) & piece.mask).any(1)
            everywhere.append((total * math.sqrt(factor)).masked_fill(broken[:, None], math.nan))
            direction = loss_direction(subject.task, outputs, piece)
            missing = direction.isnan().any(-1) | broken
            along = _length(gradients.along(direction.masked_fill(missing[:, None], 0.0)))
            rows = torch.arange(len(piece), device=query.device)
            along_loss.append(along[rows, cue].masked_fill(missing, math.nan))
            smallest = max(smallest, gradients.smallest)
    size = torch.cat(everywhere)
    cue, query = marks(batch)
    rows = torch.arange(len(batch), device=query.device)
    own = size[rows, query]
    back = []
    for steps in STEPS_BACK:
        reached = (query >= steps).nonzero().squeeze(1)
        back.append(size[reached, query[reached] - steps].mean().item() if len(reached) else math.nan)
    distance = (query - cue).double().mean().item()
    return Sizes(size[rows, cue], own, back, torch.cat(along_loss), distance, smallest)


def _length(vectors: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time"]:
    """Euclidean, also of what is too small or too large to be squared in float64."""
    peak = vectors.abs().amax(-1, keepdim=True)
    peak = peak.where(peak > 0, 1.0)
    length: Tensor = (vectors / peak).norm(dim=-1) * peak.squeeze(-1)
    return length


def query_gradient(each: Sequence[Sizes], unit: str, place: str) -> Scalar:
    """The smallest size at the query's own token, NaN if there is one; what it means where it is 0."""
    smallest = min((size.at_query.mean().item() for size in each), key=lambda mean: (not math.isnan(mean), mean))
    ignored = smallest == 0
    verdict = f"no reach: the answer has no gradient at {place}" if ignored else None
    return Scalar(name="query_gradient", unit=unit, value=smallest, verdict=verdict, headline=ignored)


def decay(places: Sequence[float], each: Sequence[Sizes], unit: str) -> Iterator[Scalar]:
    """What `reach` does along the distance, in numbers and words; NaN if a place has no number. Where the query's own
    gradient is 0, so that there is no reach, it is the gradient at the cue."""
    own = [size.at_query.mean().item() for size in each]
    scale = own if all(own) else [1.0] * len(own)
    sizes = [size.at_cue.mean().item() / unit for size, unit in zip(each, scale, strict=True)]
    smallest = max(size.smallest / unit for size, unit in zip(each, scale, strict=True))
    fit = fit_decay([size.steps for size in each], sizes, smallest=smallest)
    below = falls_below(places, sizes, 0.01)
    factor, exponent, law, where = fit.factor, fit.exponent, str(fit.verdict), located(places, sizes, below)
    if fit.zero_from is not None:
        law = f"cut off {located(places, sizes, places[fit.zero_from])}"
    if broken := [f"{place:g}" for place, size in zip(places, sizes, strict=True) if not math.isfinite(size)]:
        factor, exponent, below = math.nan, math.nan, math.nan
        law = where = f"no number at {', '.join(broken)}"
    meaning = LAWS.get(law.partition(" between")[0].partition(" at ")[0])
    yield Scalar(
        name="per_step_factor", unit="ratio per token", value=factor, verdict=law, meaning=meaning, headline=True
    )
    yield Scalar(name="decay_exponent", unit="", value=exponent)
    meaning = ABOVE if below == math.inf else None if math.isnan(below) else BELOW
    yield Scalar(name="below_1_percent", unit=unit, value=below, verdict=where, meaning=meaning, headline=True)


def by_steps_back(found: dict[Condition, Sizes], axis: str) -> Matrix:
    """Sizes d steps back, relative to the query's own."""
    used = [i for i in range(len(STEPS_BACK)) if any(not math.isnan(size.back[i]) for size in found.values())]
    return Matrix(
        name="gradient_by_steps_back",
        unit="ratio",
        values=[[size.back[i] / (size.back[0] or math.nan) for i in used] for size in found.values()],
        rows=[str(condition) for condition in found],
        columns=[str(STEPS_BACK[i]) for i in used],
        row_label=axis,
        column_label="steps back",
    )
