"""Is the answer still in the state? A linear read-out of the state at the query, beside what the model answers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from harness_plugins.probes.conditions import curve, first_group, marks, reference, skill_error, told
from harness_plugins.probes.looks import left_out
from harness_plugins.probes.read_out import cross_predicted
from harness_plugins.probes.reliance import NEAR_CHANCE
from harness_plugins.probes.states import Carried, Looked, look
from jaxtyping import Int
from pydantic import PositiveInt
from torch import Tensor

from harness import Batch, Condition, Curve, Matrix, Scalar, Skip, Subject, Task
from harness.examples import seeded, standard_error
from harness.statistics import GOOD, MEANINGS, POOR, WAY, settled

IN = "in the state"
UNUSED = "in the state, not used"
WORDS = {
    **MEANINGS,
    IN: f"a linear read-out of the state at the query finds the answer, at least {GOOD:.0%} {WAY}, in examples that it "
    "was not fitted to",
    UNUSED: f"so it does, at least {GOOD:.0%} {WAY}, but the model answers within {NEAR_CHANCE:.0%} {WAY} of chance, "
    "or worse",
    "partly in the state": f"a linear read-out finds the answer, but less than {GOOD:.0%} {WAY}",
    "not in the state": f"a linear read-out finds less than {POOR:.0%} {WAY}: the answer is not there, or in no form "
    "that a linear read-out can use",
    "not proven": f"fitted to shuffled answers, the read-out still finds {POOR:.0%} {WAY} or more: it measures "
    "something else",
}
"""What the verdicts mean."""


@dataclass(frozen=True)
class Found:
    """What read-outs reached in one condition, on distinct sequences.

    Args:
        parts: accuracy by the name of what is read; the first one is the whole state.
        error: standard error of that of the whole state.
        shuffled: accuracy of the whole state's read-out that was fitted to shuffled answers.
        shuffled_error: its standard error.
        chance: share of the most frequent answer.
        sequences: how many distinct ones there were.
    """

    parts: Mapping[str, float]
    error: float
    shuffled: float
    shuffled_error: float
    chance: float
    sequences: int

    @property
    def whole(self) -> float:
        """The accuracy of the whole state's read-out."""
        return next(iter(self.parts.values()))


class StateDecode:
    """Fit a linear read-out to the state at the query, and see how often it finds the right answer (`Task.answers`).

    The read-out is a linear discriminant (R. A. Fisher, 1936) whose covariance is shrunk as far as the number of
    examples asks for (O. Ledoit and M. Wolf, "A well-conditioned estimator for large-dimensional covariance matrices",
    2004): closed form, nothing to tune. It is fitted to one half of the examples and tested on the other one, and the
    other way round. Each sequence counts once, however often it was drawn, so that none is in both halves.

    The control is a read-out that is fitted to shuffled answers. What can be read need not be used: whether the model
    uses it, `state_cut` tells. A read-out that finds the answer where the model is at chance finds what is in the state
    and not used; one at chance itself says that no linear read-out of the model could do better.

    Measures:
        decoded: accuracy of the read-out of the whole state (all recurrent layers; of an LSTM hidden and cells), per
            condition. NaN where an answer has a single sequence.
        decoded_shuffled: the same, fitted to shuffled answers.
        answered: the task's score in the same conditions.
        by_part: read-outs of each layer, of its hidden state and of its cells alone, per condition.
        in_state: the accuracy at the farthest condition that training covered; the verdict says whether the answer is
            in the state, and whether it is there without being used.
        in_state_beyond: the same at the farthest condition, where that lies beyond training.
        layers_left_out: how many recurrent layers have no state for each position, if there are any.
        sequences: distinct ones per condition.

    Args:
        examples: sequences per condition.
    """

    needs: ClassVar = ("cue", "state")

    def __init__(self, *, examples: PositiveInt = 512) -> None:
        self.examples = examples

    def __call__(self, subject: Subject) -> Iterator[Scalar | Curve | Matrix]:
        task = subject.task
        used = {condition: subject.marked(condition, self.examples) for condition in first_group(task)}
        batches = {condition: batch for condition, batch in used.items() if batch is not None}
        answers = {condition: task.answers(batch) for condition, batch in batches.items()}
        looked = {condition: look(subject, batch, marks(batch)[1]) for condition, batch in batches.items()}
        found = {
            condition: read(batch, answers[condition], looked[condition], seeded("read-out", subject.seed, condition))
            for condition, batch in batches.items()
        }
        yield from _by_distance(task, looked, found)
        conditions = list(found)
        names = list(found[conditions[0]].parts)
        yield Matrix(
            name="by_part",
            unit="share",
            values=[[found[condition].parts[name] for condition in conditions] for name in names],
            rows=names,
            columns=[f"{condition.x:g}" for condition in conditions],
            row_label="state",
            column_label=task.axis,
            about="how often a linear read-out of it finds the answer",
            headline=True,
        )
        near, far = reference(conditions), conditions[-1]
        yield _scalar(subject, "in_state", near, looked[near], found[near])
        if not far.inside:
            yield _scalar(subject, "in_state_beyond", far, looked[far], found[far])
        yield from left_out(looked[near].layers)
        counts = [float(found[condition].sequences) for condition in conditions]
        yield curve("sequences", "sequences", task, found, counts, y_label="distinct sequences", headline=False)


def read(batch: Batch, answers: Int[Tensor, " batch"], looked: Looked, generator: torch.Generator) -> Found:
    """What read-outs of the states at the query reach, on sequences that they were not fitted to."""
    rows = distinct(batch)
    labels = answers[rows].unique(return_inverse=True)[1].cpu()
    places = torch.randperm(len(rows), generator=generator)
    order = places[labels[places].argsort(stable=True)]  # each answer in turn falls into both halves
    half = torch.zeros(len(rows), dtype=torch.bool)
    half[order[::2]] = True
    shuffled = labels[torch.randperm(len(rows), generator=generator)]
    counts = labels.bincount()
    if len(counts) < 2:
        raise Skip("all examples have the same right answer, so that there is nothing to find")

    def right(states: Tensor, given: Tensor = labels) -> Tensor:
        if int(counts.min()) < 2:
            return torch.full((len(rows),), math.nan, dtype=torch.float64)
        hits: Tensor = cross_predicted(states[rows].double().cpu(), given, half) == labels
        return hits.double()

    parts = {name: right(states) for name, states in _parts(looked).items()}
    whole = next(iter(parts.values()))
    control = right(torch.cat([*looked.carried.values()], 1), shuffled)
    return Found(
        parts={name: values.mean().item() for name, values in parts.items()},
        error=standard_error(whole, share=True),
        shuffled=control.mean().item(),
        shuffled_error=standard_error(control, share=True),
        chance=(counts.max() / counts.sum()).item(),
        sequences=len(rows),
    )


def distinct(batch: Batch) -> Int[Tensor, " sequences"]:
    """The first example of each sequence up to its query."""
    _, query = marks(batch)
    positions = torch.arange(batch.tokens.shape[1], device=query.device)
    read = (positions <= query[:, None]).reshape(*batch.tokens.shape[:2], *[1] * (batch.tokens.ndim - 2))
    sequences = torch.cat([(batch.tokens * read).flatten(1), query[:, None].to(batch.tokens)], 1)
    _, which = sequences.unique(dim=0, return_inverse=True)
    rows = torch.arange(len(batch), device=query.device)
    first = torch.full((int(which.max()) + 1,), len(batch), device=query.device)
    found: Tensor = first.scatter_reduce(0, which, rows, "amin")
    return found


def _parts(looked: Looked) -> Carried:
    """The whole state; each layer, where there are several; and the hidden state and the cells of each."""
    parts = {"whole state": torch.cat([*looked.carried.values()], 1)}
    for layer in looked.layers:
        if layer.misfit:
            continue
        state = looked.carried[layer.name]
        if len(looked.carried) > 1:
            parts[layer.name] = state
        if layer.cells is not None:
            hidden = layer.states.shape[2]
            parts[f"{layer.name} hidden"], parts[f"{layer.name} cells"] = state[:, :hidden], state[:, hidden:]
    return parts


def _by_distance(task: Task, looked: Mapping[Condition, Looked], found: Mapping[Condition, Found]) -> Iterator[Curve]:
    for name, y_label, values, errors in (
        ("decoded", "how often a read-out of the state finds the answer", *_pairs(found, "whole", "error")),
        ("decoded_shuffled", "the same, fitted to shuffled answers", *_pairs(found, "shuffled", "shuffled_error")),
    ):
        chances = {each.chance for each in found.values()}
        yield curve(name, "share", task, found, values, errors, y_label=y_label).model_copy(
            update={"levels": {"chance": max(chances), "best": 1.0}}
        )
    metric = task.metrics[task.headline]
    values = [each.scores.metrics[task.headline] for each in looked.values()]
    errors = [each.scores.errors[task.headline] for each in looked.values()]
    yield curve("answered", metric.unit, task, found, values, errors, y_label="the model's own score", metric=metric)


def _pairs(found: Mapping[Condition, Found], value: str, error: str) -> tuple[Sequence[float], Sequence[float]]:
    return [getattr(each, value) for each in found.values()], [getattr(each, error) for each in found.values()]


def _scalar(subject: Subject, name: str, condition: Condition, looked: Looked, found: Found) -> Scalar:
    verdict = judged(subject, looked, found)
    return Scalar(
        name=name,
        unit="share",
        value=found.whole,
        verdict=verdict,
        meaning=WORDS[verdict] if verdict else None,
        about=f"how often a linear read-out of the state finds the answer, {subject.task.axis} = {condition.x:g}",
        standard_error=found.error,
        headline=True,
    )


def judged(subject: Subject, looked: Looked, found: Found) -> str | None:
    """Whether the answer is in the state, and whether the model is at chance all the same; None without a number."""
    if math.isnan(found.whole):
        return None
    way = 1 - found.chance

    def in_state(values: Sequence[float]) -> str:
        read, shuffled = values
        if shuffled >= POOR:
            return "not proven"
        return IN if read >= GOOD else "not in the state" if read < POOR else "partly in the state"

    values = [(accuracy - found.chance) / way for accuracy in (found.whole, found.shuffled)]
    verdict: str = settled(in_state, values, [found.error / way, found.shuffled_error / way])
    score = subject.task.headline
    metric = subject.task.metrics[score]
    answered, error = told(metric, looked.scores.metrics[score]), skill_error(metric, looked.scores.errors[score])
    unused = settled(lambda values: "yes" if values[0] < NEAR_CHANCE else "", [answered], [error]) == "yes"
    return UNUSED if verdict == IN and unused else verdict
