"""Does a model hold what it learned when it reads its own outputs? Generation against teacher forcing."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from harness_plugins.probes.conditions import curve, first_group, learned, levels, reference
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor

from harness import IGNORE, Batch, Curve, Metric, Scalar, Skip, Subject
from harness.examples import standard_error
from harness.generation import generate
from harness.statistics import MEANINGS, POOR, WAY, settled

WORDS = {
    **MEANINGS,
    "holds": f"reading its own outputs costs less than {POOR:.0%} {WAY}",
    "drifts": f"reading its own outputs costs at least {POOR:.0%} {WAY}: one mistake leads to others",
}
"""What the verdicts mean."""


@dataclass(frozen=True)
class Steps:
    """Whether each token of the target was right (`example step`): 1 or 0, NaN in examples with outputs that are NaN.

    Args:
        forced: when the model read the right tokens before it.
        own: when it read its own.
    """

    forced: Float[Tensor, "batch step"]
    own: Float[Tensor, "batch step"]


class OwnOutputs:
    """The target written by the model itself, token by token, from the source and the separator on, the likeliest token
    each time; beside the same tokens predicted with the right ones before them (teacher forcing), as in training.

    For tasks with a source and a target (`Interface.separator`) in which each token of the target is the answer at the
    position before it. A difference between the two is exposure bias (Bengio et al., "Scheduled sampling", 2015): with
    teacher forcing a mistake is corrected at once, here it stays in the input. Both are of the same first examples.

    Measures:
        own, forced: the share of right tokens, per condition.
        own_exact, forced_exact: the share of targets that are right from end to end, per condition.
        own_by_step, forced_by_step: the share of right tokens at each step, at the farthest condition that training
            covered.
        gap: `forced` minus `own` at that condition. The verdict says whether the model holds what it learned; there is
            none where it learned less than half of the way from chance to perfect with teacher forcing.

    Args:
        examples: sequences per condition.
    """

    def __init__(self, *, examples: PositiveInt = 128) -> None:
        self.examples = examples

    def __call__(self, subject: Subject) -> Iterator[Curve | Scalar]:
        task = subject.task
        if task.interface.separator is None:
            raise Skip("the task separates no source from a target, so that there is nothing to write")
        if task.interface.input_size != task.interface.output_size:
            raise Skip("the model cannot read what it writes: outputs are of another vocabulary than tokens")
        batches = {each: subject.batch(each)[: self.examples] for each in first_group(task)}
        steps = {each: written(subject, batch) for each, batch in batches.items() if subject.takes(batch)}
        if not steps:
            raise Skip("all examples are longer than the model takes")
        guess = task.metrics[task.headline]
        metric = Metric("share", chance=guess.chance if guess.unit == "share" else None, best=1.0)
        for name, about in (
            ("own", "right tokens, reading its own outputs"),
            ("forced", "right tokens, reading the right ones"),
        ):
            each_right = [getattr(found, name) for found in steps.values()]
            for label, values in (
                (name, [right.mean(1) for right in each_right]),
                (f"{name}_exact", [right.prod(1) for right in each_right]),
            ):
                errors = [standard_error(each, share=True) for each in values]
                words = about if label == name else about.replace("right tokens", "targets without a mistake")
                means = [each.mean().item() for each in values]
                scale = metric if label == name else None
                yield curve(label, "share", task, steps, means, errors, y_label=words, metric=scale)
        farthest = reference(list(steps))
        found = steps[farthest]
        for name, right, about in (
            ("own_by_step", found.own, "reading its own outputs"),
            ("forced_by_step", found.forced, "reading the right ones"),
        ):
            yield Curve(
                name=name,
                unit="share",
                x=[float(step + 1) for step in range(right.shape[1])],
                y=right.mean(0).tolist(),
                standard_errors=[standard_error(each, share=True) for each in right.unbind(1)],
                x_label="step of the target (tokens)",
                y_label=f"right tokens, {about}",
                levels=levels(metric),
            )
        yield _gap(subject, found, metric)


def _gap(subject: Subject, found: Steps, metric: Metric) -> Scalar:
    forced, own = found.forced.mean(1), found.own.mean(1)
    gap, error = (forced - own).mean().item(), standard_error(forced - own, gap=True)
    verdict = None
    if metric.chance is not None:
        mean, scale = forced.mean().item(), 1 / (1 - metric.chance)
        verdict = learned(subject, metric, mean, standard_error(forced, share=True)) or settled(
            lambda lost: "drifts" if lost[0] >= POOR else "holds", [gap * scale], [error * scale]
        )
    return Scalar(
        name="gap",
        unit="share",
        value=gap,
        standard_error=error,
        verdict=verdict,
        meaning=WORDS.get(verdict or ""),
        about="right tokens lost where the model reads its own outputs",
        headline=True,
    )


def written(subject: Subject, batch: Batch) -> Steps:
    """What is right of the target of each example, in both ways.

    Raises:
        Skip: targets are not the tokens that follow, they differ in length, or there are none.
    """
    starts = subject.task.interface.target_starts(batch.tokens)
    wanted = batch.targets != IGNORE
    lengths = wanted.sum(1)
    steps = int(lengths.max())
    if not steps or (lengths != steps).any():
        raise Skip("targets of one condition differ in length" if steps else "there are no targets")
    places = (starts - 1)[:, None] + torch.arange(steps, device=starts.device)
    if int(places.max()) >= batch.tokens.shape[1] or not wanted.gather(1, places).all():
        raise Skip("the targets do not stand in one piece from the separator on")
    answers = batch.targets.gather(1, places)
    if not torch.equal(batch.tokens.gather(1, places[:, 1:]), answers[:, :-1]):
        raise Skip("the targets are not the tokens that follow, so that outputs are not read again")
    forced, own = torch.empty_like(answers), torch.empty_like(answers)
    unknown = torch.zeros(len(batch), 1, dtype=torch.bool, device=answers.device)
    for start in starts.unique().tolist():
        (rows,) = (starts == start).nonzero(as_tuple=True)
        for few in rows.split(max(1, subject.chunk_tokens // batch.tokens.shape[1])):
            outputs = subject.forward(batch[few])[:, start - 1 : start - 1 + steps]
            unknown[few] = outputs.isnan().flatten(1).any(1, keepdim=True)  # of which `argmax` would name the first
            forced[few] = outputs.argmax(-1)
            own[few] = generate(subject.model, batch.tokens[few, :start], steps)
    return Steps(*((each == answers).double().masked_fill(unknown, math.nan) for each in (forced, own)))
