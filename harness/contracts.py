"""The torch side of the plugin contract: what models, tasks and probes are to each other.

**A model** is an `nn.Module` that maps `tokens: Int[Tensor, "batch time"]` to
`logits: Float[Tensor, "batch time vocab"]`. Its constructor may ask for two things the harness knows, by name:
`vocab_size` (the number of token ids) or `interface` (the whole `Interface`, for models that also take real-valued
input). Every other keyword argument, annotated, is the model's configuration. Optional class attributes:

    accepts = ("tokens",)          # input kinds: "tokens", "vectors"
    recommended_training = {"lr": 3e-3}   # what suits this architecture; suites and users may override
    sees = "past"                  # what an output may depend on: "past" (its own token and earlier ones; every model
                                   # that does not say otherwise), "source" (everything before the separator, and of
                                   # what follows it the past: an encoder with a decoder) or "all" (an encoder); the
                                   # instance may say so, too

a method by which it learns in its own way, in the place of the training loop (see `OffersFit` in harness.offers):

    fit(stream)                    # takes training batches: one for each step, of a finite set one pass at most

and optional static or class methods, called with the resolved arguments before anything is built (tasks may have
`check_arguments` and `files` too):

    check_arguments(**arguments)   # raises ValueError if they do not go together
    files(**arguments)             # paths whose content decides the result; it becomes part of every id
    pretrained(**arguments)        # whether the model comes with its weights; it is then measured and never trained
    tokenizer(**arguments)         # a `harness.offers.Tokenizer` or None; a task may ask for it (`tokenizer`)
    check_tokenizer(**arguments)   # raises ValueError if `tokenizer` would; quick, so that plans can ask

**A task** subclasses `Task`; its constructor may ask for `tokenizer` by name (None where the model has none).

**A probe** is a function `probe(subject, *, argument=...)` or a class whose instances are called with the subject; both
yield measurements (`harness.measurements`). Optional attributes of a probe:

    needs = ("cue",)               # skipped with the reason where a need is not met; see `NEEDS` in harness.needs
    stages = ("initial", "trained")  # when it looks; ("trained",) if not said
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from harness.batches import IGNORE, Batch, Interface
from harness.examples import standard_error

SEES = ("past", "source", "all")
"""What a model may say that its outputs see. One that sees all is not asked to be causal, and skips tasks that ask for
the next token; one that sees a source skips tasks that have none."""


class Skip(Exception):  # noqa: N818 - an outcome, not an error
    """Raised by a probe (or a model) that cannot answer here; the record is `skipped` with this reason."""


@dataclass(frozen=True)
class Condition:
    """One evaluation setting of a task.

    Args:
        x: the condition's place on the task's axis (a distance in tokens, a number of distractors, a length).
        inside: whether training covered it; False means extrapolation.
        group: which of several series it belongs to, for example `opposite` or `same`; "" if there is one series.
    """

    x: float
    inside: bool
    group: str = ""

    def __str__(self) -> str:
        return f"{self.group} {self.x:g}".strip()


@dataclass(frozen=True)
class Metric:
    """How to read a number that a task computes.

    Args:
        unit: `"share"`, `"nats"`, `"bits"`, ...
        chance: the value that guessing gives, if it is known.
        best: the value of a perfect answer, if it is known.
        higher_is_better: which way is good.
    """

    unit: str
    chance: float | None = None
    best: float | None = None
    higher_is_better: bool = True


def token_metrics(answers: int) -> dict[str, Metric]:
    """The metrics of a task that leaves its score to `Task.score`.

    Args:
        answers: how many answers there are to guess among, each as often as the others.
    """
    return {
        "accuracy": Metric("share", chance=1 / answers, best=1.0),
        "exact": Metric("share", best=1.0),
        "loss": Metric("nats", chance=math.log(answers), best=0.0, higher_is_better=False),
    }


class Task:
    """A task: training data, evaluation conditions and a score. Subclass it; the constructor's keyword arguments,
    annotated, are the configuration.

    Data is a pure function of the arguments and the generator that is handed in: never use the global random state.

    Attributes:
        interface: what goes in and what comes out.
        metrics: name to `Metric`, for every name that `summarise` returns; the first one is the task's headline score.
        axis: what `Condition.x` is, with its unit, for tables and charts.
        group_axis: what the groups of conditions are, where they are a second axis (`pairs`); scores are then shown as
            a grid, too. "" where groups are kinds.
        roles: names of the token roles, if the task has them.
        recommended_training: what suits this task, e.g. `{"steps": 1000}`; models, suites and users may override.
        examples: size of a finite training set, so that epochs can be counted; None for an endless stream.
        notes: what a reader of the results must know, for example which items cannot be used; kept in every record.
        swap_group: the group of conditions in which to swap cues and distractors: the one where all that competes with
            the cue agrees with it, so that after a swap it does not. The first group if not said.
        fixed_data: whether evaluation data is the same for every seed (a file); a pretrained model then gets one trial.
    """

    interface: Interface
    metrics: Mapping[str, Metric]
    axis: str = "length (tokens)"
    group_axis: str = ""
    roles: Sequence[str] = ()
    recommended_training: ClassVar[Mapping[str, Any]] = {}
    examples: int | None = None
    notes: Sequence[str] = ()
    swap_group: ClassVar[str | None] = None
    fixed_data: ClassVar[bool] = False

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        """An endless stream of training batches. A finite set starts over, reshuffled. Each pass gives every example
        once, so that 5 epochs are 5 passes: its last batch is smaller where `batch_size` does not divide.

        What it gives may depend on how many batches it gave (a curriculum): training takes one for each step, and goes
        on after an interruption with a new stream whose first batches it skips."""
        raise NotImplementedError

    def validation(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        """Batches for the validation loss, which training must not have seen. A task that draws its data has fresh ones
        in a training stream with another generator; override this where the data is fixed."""
        return self.train(batch_size, generator)

    def conditions(self) -> Sequence[Condition]:
        """The settings to evaluate, in the order of `x` within each group."""
        raise NotImplementedError

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        """`examples` fresh examples of a condition. Its generator is not the one of training or validation."""
        raise NotImplementedError

    def loss(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> Float[Tensor, ""]:
        """Mean loss over the positions that have a target: cross-entropy in nats, or the squared error where the task
        wants numbers, unless overridden."""
        if self.interface.output == "numbers":
            wanted = ~batch.targets.isnan()
            return (outputs - batch.targets)[wanted].square().mean()
        return F.cross_entropy(outputs.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE)

    def score(self, outputs: Float[Tensor, "batch time out"], batch: Batch) -> dict[str, Tensor]:
        """Numbers per example (first axis: the example) from which `summarise` makes the metrics. Unless overridden, of
        a task of classes: `accuracy`, the share of its targets that the model names; `exact`, 1 where it names all;
        `loss`, the mean cross-entropy in nats. NaN where outputs are, or where an example has no target."""
        if self.interface.output != "classes":
            raise NotImplementedError(f"{type(self).__name__} asks for numbers, and does not say how to score them")
        wanted, logits = batch.targets != IGNORE, outputs.float()
        count = wanted.sum(1)
        right = ((logits.argmax(-1) == batch.targets) & wanted).sum(1)
        unknown = (logits.isnan().any(-1) & wanted).any(1) | (count == 0)  # `argmax` would name the first NaN
        losses = F.cross_entropy(logits.transpose(1, 2), batch.targets, ignore_index=IGNORE, reduction="none")
        found = {"accuracy": right / count, "exact": (right == count).float(), "loss": losses.sum(1) / count}
        return {name: values.masked_fill(unknown, math.nan) for name, values in found.items()}

    def summarise(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        """Metrics of a whole condition from the numbers per example: their means, unless overridden."""
        return {name: scores[name].double().mean().item() for name in self.metrics}

    def standard_errors(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        """How much chance there is in each metric, from the examples of one condition: the standard error of what
        `summarise` gives (see `standard_error`); NaN for a metric that is no mean of numbers per example."""
        return {
            name: standard_error(scores[name], share=metric.unit == "share")
            if name in scores and scores[name].ndim == 1
            else math.nan
            for name, metric in self.metrics.items()
        }

    def answers(self, batch: Batch) -> Int[Tensor, " batch"]:
        """What the right answer of each example is, as a number: the same for answers that are alike. The target at the
        query, unless overridden.

        Args:
            batch: examples that all have a cue and a query.

        Raises:
            Skip: answers are real numbers and this is not overridden, or examples cannot take over one another's.
        """
        if batch.query is None:
            raise Skip("the task marks no query, so that answers cannot be compared")
        if self.interface.output == "numbers":
            raise Skip("the task's answers are real numbers, and it does not say which of them count as different")
        return batch.targets[torch.arange(len(batch), device=batch.targets.device), batch.query]

    def partners(self, batch: Batch, generator: torch.Generator) -> Int[Tensor, " batch"]:
        """For each example another one of the batch whose right answer (`answers`) differs, drawn at random: the one to
        swap cues with.

        Args:
            batch: examples that all have a cue and a query.
            generator: what draws.

        Raises:
            Skip: an example has no such partner, or there are no `answers` to compare.
        """
        return different(self.answers(batch), generator)

    def with_answers_of(self, batch: Batch, partner: Int[Tensor, " batch"]) -> Batch:
        """The batch with the answers of each example's partner, whose cue it was given: its target at the query, and
        all of `extra`. Override it where some of `extra` is no answer, but says where something stands, for example."""
        assert batch.query is not None
        rows = torch.arange(len(batch), device=batch.query.device)
        targets = batch.targets.clone()
        targets[rows, batch.query] = batch.targets[partner, batch.query[partner]]
        extra = None if batch.extra is None else {name: value[partner] for name, value in batch.extra.items()}
        return replace(batch, targets=targets, extra=extra)

    def token_names(self, tokens: Shaped[Tensor, " time *width"]) -> list[str]:
        """What people call the tokens of one example, for pages that show them: their ids, unless overridden; vectors
        are counted."""
        return [str(token) for token in (range(1, len(tokens) + 1) if tokens.ndim > 1 else tokens.tolist())]

    @property
    def headline(self) -> str:
        """The name of the score that tables show first."""
        return next(iter(self.metrics))


def different(values: Int[Tensor, " batch"], generator: torch.Generator) -> Int[Tensor, " batch"]:
    """For each entry the index of another one with another value, drawn uniformly.

    Raises:
        Skip: all values are the same.
    """
    known = values.cpu()
    order = known.argsort(stable=True)
    _, place, counts = known.unique(return_inverse=True, return_counts=True)
    if len(counts) < 2:
        raise Skip("all examples have the same right answer, so that nothing can be swapped")
    # sorted by value, an example's own block is left out: draw a place among the others and jump over the block
    first, own = counts.cumsum(0)[place] - counts[place], counts[place]
    drawn = (torch.rand(len(known), generator=generator, dtype=torch.float64) * (len(known) - own)).long()
    return order[torch.where(drawn < first, drawn, drawn + own)].to(values.device)
