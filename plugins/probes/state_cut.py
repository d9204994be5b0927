"""Does the answer rely on the state? Go on from another example's state after the cue and see whose answer is given."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from harness_plugins.probes.conditions import curve, examples_used, marks, reference, with_cue_before
from harness_plugins.probes.cuts import Scores
from harness_plugins.probes.edge_cut import second_metric
from harness_plugins.probes.input_swap import asked_at_query, swap_conditions
from harness_plugins.probes.looks import left_out
from harness_plugins.probes.reliance import MATTERS, WORDS, after_cuts, judged, relies, skills
from harness_plugins.probes.states import Looked, Mix, Swap, SwapResult, look, run_swaps
from jaxtyping import Bool, Float, Int
from pydantic import PositiveInt
from torch import Tensor

from harness import Batch, Condition, Curve, Matrix, Scalar, Skip, Subject, Task
from harness.examples import seeded
from harness.recurrence import StateLayer
from harness.statistics import GOOD, WAY, settled

FOLLOWS = "relies on it, the answer follows the state"
RELIES = (
    "with the state of an example with another answer, taken over once the cue is read, the score falls by "
    f"{MATTERS:.0%} {WAY} or more, and at least twice as far as with the state of one with the same answer"
)
STATE_WORDS = {
    **{verdict: words.replace(WORDS["relies on it"], RELIES) for verdict, words in WORDS.items()},
    FOLLOWS: f"{RELIES}; and the other example's answer is given, at least {GOOD:.0%} {WAY}, whatever else still gets "
    "through of the cue",
    "does not rely on it": "with the state of an example with another answer the score falls by less than "
    f"{MATTERS:.0%} {WAY}",
    "any cut hurts as much": "the state of an example with the same answer costs more than half of what that of one "
    "with another answer costs, so that the loss says little about the cue",
    "proven": "once the whole state is another one, swapping the cue changes no later output at all (exchanges of a "
    "part of it leak by nature: by_state)",
    "not proven": "the cue still changes later outputs, past the state: the exchange leaves it another way round",
}
"""What the verdicts here mean."""

COLUMNS = (
    "follows is the score against the answer of the example whose state it is; leak, how far later outputs still move "
    "when the cue is swapped under the exchange (0: nothing comes through but the state); before, how far earlier ones "
    "do (0: no look ahead); effect, the largest change that the exchange makes to the outputs at the query"
)
"""What the columns of `by_state` mean."""

WHOLE, SHAM = "cue", "sham"
"""The exchanges that every condition gets; tables call the first one `whole state`."""


class StateCut:
    """Let every example go on, once its cue is read, from the state of an example with another answer.

    The causal twin of `edge_cut` for models that keep what they know in a state, in the same words. In all recurrent
    layers the state after the cue (of an LSTM hidden and cells) is replaced by that of the partner
    (`Task.partners`) after the partner's cue; everything else, all tokens after the cue included, stays. If the state
    is what carries the answer, the partner's answer is given. Every exchange is put to the test whether the cue still
    gets through another way: swapping it must change later outputs by exactly 0. What leaks (an exchange of a part of
    the state, or a model with another way round, such as attention) proves nothing where the score stays; where the
    answer follows the state, it does so whatever else gets through.

    Made in the conditions where cue and distractors speak for the same answer (`Task.swap_group`), so that a model that
    answers by the distractors keeps its answer. Examples without a cue, or with the cue after the query, are left out;
    so are those whose cue is the query itself, where there are others.

    The control `sham` takes the state of another example with the same answer; all draws are the same for all models.

    Measures:
        untouched, cue_cut, sham_cut: score per condition: as it is, with the state of an example with another answer,
            with that of one with the same answer. Where the cue is the query itself, there is nothing to exchange
            (NaN).
        follows_state: score under the exchange, against the answer of the example whose state it is.
        leak_by_distance: what comes through the exchange of the whole state; 0 proves it.
        by_state: at the farthest condition that training covered, the exchange of the whole state, of one layer, of its
            hidden state or its cells, of chosen cells, of the directions in which the mean states of the answers differ
            (found on other examples), and of all but these: score, second metric, score against the partner's answer,
            leak, before, effect.
        score_after_cut: the score under the exchange at that condition; the verdict says whether the answer relies on
            the state and follows it. No verdict where it does not answer well enough (half of the way from chance to
            perfect), where the cue leaks past and the answer does not follow, or where two standard errors of a score
            would change it (`near the threshold`).
        answer_follows: the score against the answer of the example whose state it is.
        leak: of that exchange; the verdict is `proven` or `not proven`.
        score_after_sham: the score under the sham exchange.
        layers_left_out: how many recurrent layers have no state for each position, if there are any.
        examples_used: examples per condition, where fewer than wanted have a cue before the query.

    Args:
        examples: sequences per condition.
        proofs: sequences on which each exchange is proven.
        layer: exchange parts of this layer alone, counted from 1 or by its name, in `by_state`; of all one by one if
            not said.
        cells: exchange these units alone, counted from 1, too: hidden and cell of each.
    """

    needs: ClassVar = ("cue", "state")

    def __init__(
        self,
        *,
        examples: PositiveInt = 256,
        proofs: PositiveInt = 4,
        layer: PositiveInt | str | None = None,
        cells: list[PositiveInt] | None = None,
    ) -> None:
        self.examples = examples
        self.proofs = proofs
        self.layer = layer
        self.cells = cells

    def __call__(self, subject: Subject) -> Iterator[Scalar | Curve | Matrix]:
        task = subject.task
        used = {condition: with_cue_before(subject, condition, self.examples) for condition in swap_conditions(task)}
        batches = {condition: asked_at_query(batch) for condition, batch in used.items() if batch is not None}
        if not batches:
            raise Skip("no example of the conditions in which cues are swapped marks a cue and a query")
        cuttable = [condition for condition, batch in batches.items() if not torch.equal(*marks(batch))]
        if not cuttable:
            raise Skip("the cue is the query itself in all examples: no state stands between them")
        partners = {condition: draw(subject, batches[condition], condition) for condition in cuttable}
        untouched = {condition: look(subject, batch, marks(batch)[0]) for condition, batch in batches.items()}
        farthest = reference(cuttable)
        outcomes: dict[Condition, dict[str, SwapResult]] = {}
        for condition in cuttable:
            batch, whole = batches[condition], untouched[condition]
            swaps = exchanges(whole, *partners[condition])
            if condition == farthest:
                swaps += self._in_detail(subject, condition, whole, swaps[0])

            def answered(swap: Swap, batch: Batch = batch) -> Batch:
                return asked_at_query(task.with_answers_of(batch, swap.partner))

            generator = seeded("proof", subject.seed, condition)
            outcomes[condition] = run_swaps(subject, batch, whole, swaps, answered, self.proofs, generator)
        yield from by_distance(task, untouched, outcomes)
        whole, found = untouched[farthest], outcomes[farthest]
        yield table(task, whole, found)
        cue, sham = found[WHOLE], found.get(SHAM)
        verdict = judged(subject, whole.scores, lambda: follows(subject, cue, sham))
        abouts = (
            "the score with the state after the cue taken from an example with another answer",
            "the score with the state after the cue taken from another example with the same answer",
        )
        yield from after_cuts(task, cue, sham, verdict, STATE_WORDS, abouts)
        yield Scalar(
            name="answer_follows",
            unit=task.metrics[task.headline].unit,
            value=cue.follows.metrics[task.headline],
            standard_error=cue.follows.errors[task.headline],
            about="the score against the answer of the example whose state it is",
            headline=True,
        )
        yield from left_out(whole.layers)
        yield from examples_used(subject, used, self.examples)

    def _in_detail(self, subject: Subject, condition: Condition, whole: Looked, full: Swap) -> list[Swap]:
        """Each layer, its hidden state, its cells, chosen cells; the answers' directions, and all but these."""
        layers = [layer for layer in whole.layers if not layer.misfit]
        chosen = self._chosen(layers)
        parts: dict[str, dict[str, Mix]] = {}
        for layer in chosen:
            if len(layers) > 1:
                parts[layer.name] = {layer.name: everything}
            if layer.cells is not None:
                parts[f"{layer.name} hidden"] = {layer.name: numbers(hidden(layer))}
                parts[f"{layer.name} cells"] = {layer.name: numbers(~hidden(layer))}
            if self.cells is not None:
                name = f"{layer.name} cell{'s' * (len(self.cells) > 1)} {', '.join(map(str, self.cells))}"
                parts[name] = {layer.name: numbers(self._units(layer))}
        if bases := self._directions(subject, condition, whole):
            parts["answers' directions"] = {name: within(basis) for name, basis in bases.items()}
            parts["all but the answers' directions"] = {name: outside(basis) for name, basis in bases.items()}
        return [replace(full, name=name, mixes=mixes) for name, mixes in parts.items()]

    def _chosen(self, layers: Sequence[StateLayer]) -> list[StateLayer]:
        chosen = [layer for layer in layers if self.layer in (None, layer.layer, layer.name)]
        if not chosen:
            names = ", ".join(layer.name for layer in layers)
            raise Skip(f"state_cut:layer={self.layer}: the model's recurrent layers are {names}")
        return chosen

    def _units(self, layer: StateLayer) -> Bool[Tensor, " width"]:
        """Where the chosen cells are, hidden and cell of each."""
        assert self.cells is not None
        parts = [part.shape[2] for part in (layer.states, layer.cells) if part is not None]
        most = max(parts)
        if max(self.cells) > most:
            raise Skip(f"state_cut:cells={max(self.cells)}: {layer.name} has {most} cells, counted from 1")
        wanted = torch.zeros(most, dtype=torch.bool, device=layer.states.device)
        wanted[torch.tensor(self.cells, device=wanted.device) - 1] = True
        # a projected hidden state has no unit for each cell
        return torch.cat([wanted if size == most else wanted.new_zeros(size) for size in parts])

    def _directions(self, subject: Subject, condition: Condition, whole: Looked) -> dict[str, Float[Tensor, "_ _"]]:
        """For each layer an orthonormal basis of the differences between the answers' mean states after the cue, from
        examples that are not tested; nothing where these fill all of a layer."""
        task = subject.task
        drawn = task.evaluate(condition, self.examples, seeded("directions", subject.seed, condition))
        drawn = drawn.to(subject.device).asked()
        drawn = drawn[drawn.marked]
        if not len(drawn):
            return {}
        answers = task.answers(drawn)
        carried = look(subject, drawn, marks(drawn)[0]).carried
        bases = {name: differences(state, answers) for name, state in carried.items() if name in whole.carried}
        return {} if any(basis.shape[0] == basis.shape[1] for basis in bases.values()) else bases


def draw(
    subject: Subject, batch: Batch, condition: Condition
) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"], Bool[Tensor, " batch"]]:
    """For each example one with another answer; one with the same answer; and whether there is such another one."""
    generator = seeded("states", subject.seed, condition)
    partner = subject.task.partners(batch, generator)
    answers = subject.task.answers(batch)
    same = answers[:, None] == answers
    same.fill_diagonal_(False)
    has = same.any(1)
    drawn = same.where(has[:, None], True).double().cpu().multinomial(1, generator=generator).to(partner.device)
    return partner, drawn.squeeze(1), has


def exchanges(
    whole: Looked, partner: Int[Tensor, " batch"], alike: Int[Tensor, " batch"], has: Bool[Tensor, " batch"]
) -> list[Swap]:
    """Of the whole state: with a partner, and with an example that has the same answer, if any has."""
    mixes = dict.fromkeys(whole.carried, everything)
    full = Swap(WHOLE, partner, torch.ones_like(has), mixes)
    return [full, Swap(SHAM, alike, has, mixes)] if has.any() else [full]


def everything(own: Tensor, other: Tensor) -> Tensor:
    """The partner's state."""
    return other


def numbers(which: Bool[Tensor, " width"]) -> Mix:
    """These numbers of the partner's state."""
    return lambda own, other: torch.where(which, other, own)


def within(basis: Float[Tensor, "width _"]) -> Mix:
    """The partner's state in the directions of the basis, one's own in all others."""
    return lambda own, other: own + (other - own) @ basis @ basis.T


def outside(basis: Float[Tensor, "width _"]) -> Mix:
    """One's own state in the directions of the basis, the partner's in all others."""
    return lambda own, other: within(basis)(other, own)


def hidden(layer: StateLayer) -> Bool[Tensor, " width"]:
    """Which of the carried numbers are no cells."""
    width = layer.carried.shape[2]
    return torch.arange(width, device=layer.states.device) < layer.states.shape[2]


def differences(states: Float[Tensor, "batch width"], answers: Int[Tensor, " batch"]) -> Float[Tensor, "width _"]:
    """An orthonormal basis of the differences between the mean states of the answers."""
    means = torch.stack([states[answers == answer].mean(0) for answer in answers.unique()]).double()
    _, sizes, directions = torch.linalg.svd(means - means.mean(0), full_matrices=False)
    basis: Tensor = directions[sizes > 1e-6 * sizes.max()].T.to(states.dtype)
    return basis


def follows(subject: Subject, cue: SwapResult, sham: SwapResult | None) -> str:
    """Whether the answer relies on the state, and follows it."""
    verdict = relies(subject, cue, sham)
    if verdict.startswith("relies on it"):
        (value,), (error,) = skills(subject, cue.follows)
        if settled(lambda values: "yes" if values[0] >= GOOD else "no", [value], [error]) == "yes":
            return FOLLOWS
    return cue.unproven or verdict


def by_distance(
    task: Task, untouched: dict[Condition, Looked], outcomes: dict[Condition, dict[str, SwapResult]]
) -> Iterator[Curve]:
    """Score as it is and under the exchanges, and the leak, per condition."""
    score = task.headline
    none = Scores({score: math.nan}, {score: math.nan})
    full = [outcomes[condition][WHOLE] if condition in outcomes else None for condition in untouched]
    shams = [outcomes.get(condition, {}).get(SHAM) for condition in untouched]
    for name, y_label, scores in (
        ("untouched", "score without an exchange", [whole.scores for whole in untouched.values()]),
        (
            "cue_cut",
            "score with the state of another answer after the cue",
            [each.scores if each else none for each in full],
        ),
        (
            "sham_cut",
            "score with another state of the same answer instead",
            [each.scores if each else none for each in shams],
        ),
        (
            "follows_state",
            "score against the answer whose state it is",
            [each.follows if each else none for each in full],
        ),
    ):
        values, errors = [each.metrics[score] for each in scores], [each.errors[score] for each in scores]
        metric = task.metrics[score]
        yield curve(name, metric.unit, task, untouched, values, errors, y_label=y_label, metric=metric)
    leaks = [each.leak if each else math.nan for each in full]
    y_label = "leak through the exchange"
    yield curve("leak_by_distance", "outputs", task, untouched, leaks, y_label=y_label, headline=False)


def table(task: Task, whole: Looked, outcomes: dict[str, SwapResult]) -> Matrix:
    """Every exchange beside what it does."""
    metrics = [metric for metric in (task.headline, second_metric(task)) if metric]
    order = [WHOLE, *(name for name in outcomes if name not in (WHOLE, SHAM)), *([SHAM] if SHAM in outcomes else [])]
    rows = [[*(whole.scores.metrics[metric] for metric in metrics), math.nan, math.nan, math.nan, 0.0]]
    for outcome in (outcomes[name] for name in order):
        scores = [outcome.scores.metrics[metric] for metric in metrics]
        rows.append([*scores, outcome.follows.metrics[task.headline], outcome.leak, outcome.before, outcome.effect])
    return Matrix(
        name="by_state",
        unit="",
        values=rows,
        rows=["nothing", "whole state", *order[1:]],
        columns=[*metrics, "follows", "leak", "before", "effect"],
        row_label="exchanged",
        column_label="",
        about="scores when the state after the cue is that of an example with another answer",
        meaning=COLUMNS,
        headline=True,
    )
