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

a method by which it learns in its own way, in the place of the training loop (see `OffersFit` in harness.fitting):

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
yield measurements (`harness.schema`). Optional attributes of a probe:

    needs = ("cue",)               # skipped with the reason where a need is not met; see `NEEDS` in harness.needs
    stages = ("initial", "trained")  # when it looks; ("trained",) if not said
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from harness.examples import seeded, standard_error

IGNORE = -100
"""The target of a position without loss (the default `ignore_index` of `cross_entropy`)."""

SEES = ("past", "source", "all")
"""What a model may say that its outputs see. One that sees all is not asked to be causal, and skips tasks that ask for
the next token; one that sees a source skips tasks that have none."""


class Skip(Exception):  # noqa: N818 - an outcome, not an error
    """Raised by a probe (or a model) that cannot answer here; the record is `skipped` with this reason."""


@dataclass(frozen=True)
class Interface:
    """What a task feeds a model and what it wants back.

    Args:
        input_size: the number of token ids, or the width of the input vectors.
        output_size: the number of classes, or of real outputs, per position.
        input: `"tokens"` (integers, `batch time`) or `"vectors"` (reals, `batch time width`).
        output: `"classes"` (logits) or `"numbers"`.
        separator: the token that ends the source and begins the target, for tasks that have both (copying,
            translation): every sequence has it once, after one source token at least. None for all others.
    """

    input_size: int
    output_size: int
    input: Literal["tokens", "vectors"] = "tokens"
    output: Literal["classes", "numbers"] = "classes"
    separator: int | None = None

    @property
    def least(self) -> int:
        """The fewest tokens of a sequence: one, or two where one of them is the separator."""
        return 1 if self.separator is None else 2

    def draw(
        self, batch: int, time: int, generator: torch.Generator | None = None, device: torch.device | str = "cpu"
    ) -> Int[Tensor, "batch time"] | Float[Tensor, "batch time width"]:
        """Random input of that shape: tokens drawn uniformly, with the separator in the middle where there is one;
        normal numbers.

        Raises:
            ValueError: no time for a source before the separator.
        """
        if self.input == "vectors":
            return torch.randn(batch, time, self.input_size, generator=generator, device=device)
        if time < self.least:
            raise ValueError(f"time = {time}, and a source has one token at least before its separator; give 2 or more")
        tokens = torch.randint(self.input_size, (batch, time), generator=generator, device=device)
        if self.separator is not None:
            tokens = torch.where(tokens == self.separator, self.others(tokens, 1), tokens)
            tokens[:, time // 2] = self.separator
        return tokens

    def others(self, tokens: Int[Tensor, "*shape"], by: int | Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Other token ids, `by` further on (from 1 to one less than there are ids besides the separator): never the
        separator; a separator becomes an ordinary token."""
        if self.separator is None:
            return (tokens + by) % self.input_size
        found = (tokens - (tokens > self.separator).long() + by) % (self.input_size - 1)
        return found + (found >= self.separator).long()

    def target_starts(self, tokens: Shaped[Tensor, "batch time *width"]) -> Int[Tensor, " batch"]:
        """The first position after the separator in each sequence; 0 where there is none, as in vectors."""
        if self.separator is None or self.input == "vectors":
            return torch.zeros(len(tokens), dtype=torch.long, device=tokens.device)
        found = tokens == self.separator
        return torch.where(found.any(1), found.int().argmax(1) + 1, 0)


@dataclass(frozen=True)
class Batch:
    """Sequences with everything that is known about them; every tensor's first axis is the example.

    Args:
        tokens: token ids, right-padded; a task with vector input puts its reals (`batch time width`) here.
        targets: the class to predict at each position, `IGNORE` where there is no loss; or real targets, NaN where
            there is none.
        mask: True where a position is real, False where it is padding.
        cue: position that holds the information needed at the query (key; subject), if the task has one; -1 for an
            example without it.
        query: position at which the answer is predicted (`?`; the token before the verb), if there is one; -1 for an
            example without it.
        source: where an example asks more than once: for each position that has a target the position that holds what
            is needed there (the value of a pair, the source token to copy); -1 for none, and where there is no target.
            A task that gives it need give no cue and query: `asked` makes them of it.
        roles: what each token is in its sentence, an index into `Task.roles`; -1 for none.
        extra: further per-example tensors that the task's own score needs.
    """

    tokens: Int[Tensor, "batch time"] | Float[Tensor, "batch time width"]
    targets: Int[Tensor, "batch time"] | Float[Tensor, "batch time out"]
    mask: Bool[Tensor, "batch time"]
    cue: Int[Tensor, " batch"] | None = None
    query: Int[Tensor, " batch"] | None = None
    roles: Int[Tensor, "batch time"] | None = None
    extra: Mapping[str, Tensor] | None = None
    source: Int[Tensor, "batch time"] | None = None

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def _map(self, change: Any) -> "Batch":
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        extra = values.pop("extra")
        changed: dict[str, Any] = {name: None if value is None else change(value) for name, value in values.items()}
        return Batch(**changed, extra=None if extra is None else {k: change(v) for k, v in extra.items()})

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return self._map(lambda tensor: tensor.to(device))

    def copy(self) -> "Batch":
        """The same batch in tensors of its own."""
        return self._map(torch.clone)

    def __getitem__(self, rows: slice | Tensor) -> "Batch":
        """The chosen examples: a slice, an index tensor or a boolean mask."""
        return self._map(lambda tensor: tensor[rows])

    @property
    def marked(self) -> Bool[Tensor, " batch"]:
        """Whether an example has a cue and a query not before it."""
        if self.cue is None or self.query is None:
            return torch.zeros(len(self), dtype=torch.bool, device=self.tokens.device)
        return (self.cue >= 0) & (self.cue <= self.query)

    def asked(self) -> "Batch":
        """The same examples, each with one of its questions: a cue, a query, and a target at the query alone. Which one
        is drawn, always the same, so that a batch covers all and its examples stay independent. A batch that marks its
        cue and query, or has no `source`, is given back as it is."""
        if self.source is None or self.cue is not None or self.query is not None:
            return self
        has = self.source >= 0
        drawn = torch.rand(has.shape, generator=seeded("which question"), dtype=torch.float64).to(has.device)
        query = torch.where(has, drawn, -1.0).argmax(1)
        some, rows = has.any(1), torch.arange(len(self), device=has.device)
        here = torch.arange(has.shape[1], device=has.device) == query[:, None]
        none = math.nan if self.targets.is_floating_point() else IGNORE
        kept = here if self.targets.ndim == 2 else here[..., None]
        return replace(
            self,
            targets=torch.where(kept, self.targets, none),
            cue=torch.where(some, self.source[rows, query], -1),
            query=torch.where(some, query, -1),
            source=torch.where(here, self.source, -1),
        )

    def split(self, size: int) -> Iterator["Batch"]:
        """Consecutive batches of at most `size` examples."""
        for start in range(0, len(self), size):
            yield self[start : start + size]

    def with_tokens(self, tokens: Tensor) -> "Batch":
        """The same batch with other tokens of the same shape, for interventions on the input."""
        return replace(self, tokens=tokens)


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
