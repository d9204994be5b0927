"""What padding does to a model that reads it: the score after steps of nothing have been appended."""

from collections.abc import Iterator
from typing import Annotated

import torch
from harness_plugins.probes.conditions import first_group, levels, reference, told
from jaxtyping import Shaped
from pydantic import Field, PositiveInt
from torch import Tensor

from harness import Batch, Curve, Scalar, Skip, Subject
from harness.capabilities import Capabilities
from harness.statistics import POOR, WAY

MEANINGS = {
    "polluted": f"read after the padding, the answer is worse than without any by {POOR:.0%} {WAY} or more",
    "not polluted": f"read after the padding, the answer is worse than without any by less than {POOR:.0%} {WAY}",
}


class Padding:
    """Append padding to every example, and read the answer in two places: where the task asks for it, as from a packed
    sequence or a gathered last state, which in a causal model has not seen what is appended; and after the padding, as
    from the last state of a padded batch.

    Looks at the farthest condition that training covered. Vectors are padded with zeros; tokens with the one that the
    task's own mask hides, or else with the model's `padding_token`.

    Measures:
        score_gathered: score by steps of padding, read where the task asks for the answer.
        score_padded: the same, read after the padding; NaN where the model does not take that length.
        worst_padded: the worst of these; the verdict says whether the state is polluted.

    Args:
        steps: how many are appended.
        examples: sequences at most.
    """

    def __init__(
        self,
        *,
        steps: Annotated[list[PositiveInt], Field(min_length=1)] = [1, 2, 5, 10, 20, 50, 100],  # noqa: B006
        examples: PositiveInt = 256,
    ) -> None:
        self.steps = [0, *sorted(set(steps))]
        self.examples = examples

    def __call__(self, subject: Subject) -> Iterator[Curve | Scalar]:
        task = subject.task
        batch = subject.batch(reference(first_group(task)))[: self.examples].asked()
        if batch.query is None:
            raise Skip("the task marks no query: it does not say where the answer is read")
        batch = batch[batch.query >= 0]
        if not len(batch):
            raise Skip("no example marks a query: nothing says where the answer is read")
        nothing = _nothing(subject, batch)
        metric = task.metrics[task.headline]
        gathered, padded = [], []
        for steps in self.steps:
            at_query, at_end = _scores(subject, batch, nothing, steps)
            gathered.append(at_query)
            padded.append(at_end)
        for name, place, values in (
            ("score_gathered", "read where the task asks", gathered),
            ("score_padded", "read after the padding", padded),
        ):
            yield Curve(
                name=name,
                unit=metric.unit,
                x=[float(steps) for steps in self.steps],
                y=values,
                x_label="padding appended (steps)",
                y_label=f"{task.headline}, {place}",
                levels=levels(metric),
                headline=True,
            )
        taken = [value for value in padded[1:] if value == value]
        worst = (min if metric.higher_is_better else max)(taken, default=float("nan"))
        lost = told(metric, gathered[0]) - told(metric, worst)
        verdict = None if lost != lost else "polluted" if lost >= POOR else "not polluted"
        yield Scalar(
            name="worst_padded",
            unit=metric.unit,
            value=worst,
            verdict=verdict,
            meaning=MEANINGS.get(verdict or ""),
            about="the worst score when the answer is read after padding",
            headline=True,
        )


def _nothing(subject: Subject, batch: Batch) -> Shaped[Tensor, "*width"]:
    """One step of padding.

    Raises:
        Skip: there is no token for it.
    """
    if subject.task.interface.input == "vectors":
        return torch.zeros_like(batch.tokens[0, 0])
    if not batch.mask.all():
        return batch.tokens[~batch.mask][0]
    token = getattr(subject.model, "padding_token", None)
    if not isinstance(token, int):
        raise Skip("no padding token is known: the task pads nothing here, and the model names no padding_token")
    return torch.tensor(token, device=batch.tokens.device, dtype=batch.tokens.dtype)


def _scores(subject: Subject, batch: Batch, nothing: Tensor, steps: int) -> tuple[float, float]:
    """The task's score read at the query and at the end; NaN for a length that the model does not take."""
    task = subject.task
    tokens = torch.cat([batch.tokens, nothing.expand(len(batch), steps, *nothing.shape)], 1)
    most = Capabilities(subject.model).max_length
    if most is not None and tokens.shape[1] > most:
        return float("nan"), float("nan")
    found: list[tuple[dict[str, Tensor], dict[str, Tensor]]] = []
    length = batch.tokens.shape[1]
    size = max(1, subject.chunk_tokens // tokens.shape[1])
    for piece, given in zip(batch.split(size), tokens.split(size), strict=True):
        assert piece.query is not None
        with torch.no_grad():
            outputs: Tensor = subject.model(given)
        moved, rows = outputs[:, :length].clone(), torch.arange(len(piece), device=outputs.device)
        moved[rows, piece.query] = outputs[:, -1]
        with torch.no_grad():
            found.append((task.score(outputs[:, :length], piece), task.score(moved, piece)))
    at_query, at_end = (
        {name: torch.cat([each[place][name] for each in found]) for name in found[0][0]} for place in (0, 1)
    )
    return task.summarise(at_query)[task.headline], task.summarise(at_end)[task.headline]
