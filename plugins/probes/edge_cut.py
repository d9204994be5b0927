"""Does the model rely on what it looks at? Cut attention edges and see what is left of the answer."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from harness_plugins.probes.conditions import (
    cue_mask,
    curve,
    examples_used,
    first_group,
    marks,
    reference,
    roles_before,
    uniform_share,
    with_cue_before,
)
from harness_plugins.probes.cuts import Cut, CutResult, Scores, Untouched, run_cuts, run_untouched
from harness_plugins.probes.looks import Share, head_shares, left_out, readable, role_shares
from harness_plugins.probes.reliance import disagreements, first_position, reliance
from jaxtyping import Bool
from pydantic import PositiveInt
from torch import Tensor

from harness import Batch, Condition, Curve, Matrix, RequestError, Scalar, Skip, Subject, Task
from harness.attention import Layer, select
from harness.examples import seeded

COLUMNS = (
    "attention is that of the query to what is cut (a mean where several layers and heads are); leak, how far later "
    "outputs still move when the cut tokens are swapped (0: nothing comes through); before, how far earlier ones do "
    "(0: no look ahead); effect, the largest change that the cut makes to the outputs at the query"
)
"""What the columns of `by_role` and `by_head` mean."""


class EdgeCut:
    """Cut the attention from all later queries to a token, in all layers and heads, and score the task again.

    Edges are removed before the softmax, so that nothing of the token can reach a later position: swapping the token
    then changes later outputs by exactly 0. Every cut is put to that test and reports its `leak`; what leaks (a cut in
    one layer or head, or at the query alone; or a model with another way round, such as a recurrence) proves nothing
    about reliance in full. Nor does a cut that opens the future: it leaves a query nothing but keys which the model's
    own mask did not hide for good, so that a later token changes an earlier output.

    Every cut is scored on the examples that have something to cut. Examples without a cue, or with the cue after the
    query, and conditions without any other, are left out; so are examples whose cue is the query itself, where there
    are others.

    Controls: `sham` cuts a random other position, but not the first one, in the same way; it is the same for all
    models. `before` is the change of outputs before the token (0 if the model is causal); `effect`, the largest change
    that the cut makes to the outputs at the query. The first position is cut by itself where it is not the cue, since
    many trained models rest attention there and lose by the cut whatever it holds. Where the cue always stands first,
    its cut cannot but remove that rest, too: the first position is then cut in sequences whose first token has changed
    places with the sham's.

    Heads are named as in `attention_to_subject`; layers that do not attend from token to token stay whole.

    Measures:
        untouched, cue_cut, sham_cut: score per condition: as it is, with the cue cut, with a random other position cut.
            Where the cue is the query itself, there is nothing to cut (NaN).
        leak_by_distance: what comes through the cue's cut; 0 proves it.
        by_role: at the farthest condition that training covered, each role cut in full: the query's attention to it
            (mean over layers and heads), score, second metric, leak, before, effect.
        by_head: the cue cut in one layer, in one head, or for the query alone, beside the attention to it; and the sham
            for the query alone.
        score_after_cut: the score without the cue at that condition; the verdict says whether the model relies on it.
            There is no such verdict where it does not answer well enough (half of the way from chance to perfect),
            where the cut is not proven, or where two standard errors of a score would change it (`near the
            threshold`).
        leak: of that cut; the verdict is `proven` or `not proven`.
        score_after_sham: the score under the sham cut.
        first_position_cut: the score with the first position cut in examples where it is not the cue.
        disagreements: heads that look without effect, or have an effect without looking; the verdict names them.
        layers_left_out: how many layers do not attend from token to token, if there are any; the verdict names them.
        examples_used: examples per condition, where fewer than wanted have a cue before the query.

    Args:
        examples: sequences per condition.
        proofs: sequences on which each cut is proven.
        layer: cut this layer alone, counted from 1 or by its name in `by_head`; all one by one if not said.
        head: cut this head alone, counted from 1, in `by_head`; all one by one if not said.
    """

    needs: ClassVar = ("cue", "attention")

    def __init__(
        self,
        *,
        examples: PositiveInt = 256,
        proofs: PositiveInt = 4,
        layer: PositiveInt | str | None = None,
        head: PositiveInt | None = None,
    ) -> None:
        self.examples = examples
        self.proofs = proofs
        self.layer = layer
        self.head = head

    def __call__(self, subject: Subject) -> Iterator[Scalar | Curve | Matrix]:
        task = subject.task
        used = {condition: with_cue_before(subject, condition, self.examples) for condition in first_group(task)}
        batches = {condition: batch for condition, batch in used.items() if batch is not None}
        untouched = {condition: run_untouched(subject, batch) for condition, batch in batches.items()}
        if not any(whole.looks.layers for whole in untouched.values()):
            raise Skip("the model shows its attention patterns, but computes them by itself, so that none can be cut")
        layers = readable([whole.looks.layers for whole in untouched.values()])
        chosen = self._chosen(layers)
        separator = task.interface.separator
        basic = {c: cue_and_sham(batch, seeded("sham", subject.seed, c), separator) for c, batch in batches.items()}
        cuttable = [condition for condition, cuts in basic.items() if cuts]
        if not cuttable:
            raise Skip("the cue is the query itself in all examples: nothing to cut")
        farthest = reference(cuttable)
        outcomes: dict[Condition, dict[str, CutResult]] = {}
        for condition in cuttable:
            cuts, generator = basic[condition], seeded("proof", subject.seed, condition)
            if condition == farthest:
                cuts = [*cuts, *_in_detail(batches[farthest], task.roles, cuts, chosen)]
            outcomes[condition] = run_cuts(
                subject, batches[condition], untouched[condition], cuts, layers, self.proofs, generator
            )
        yield from by_distance(task, untouched, outcomes)
        batch, whole, found = batches[farthest], untouched[farthest], outcomes[farthest]
        shares = head_shares(whole.looks, layers, cue_mask(batch))
        yield by_role(task, batch, whole, found, layers)
        yield by_head(task, whole, found, shares, chosen)
        yield from reliance(subject, whole, found)
        if "first position" in found:
            yield first_position(subject, whole, found["first position"], moved=False)
        else:
            first = self._first_of_others(subject, batch, layers, basic[farthest])
            yield first_position(subject, whole, first, moved=True)
        heads = {name: shares[name] for layer in layers for name in layer.head_names if name in chosen}
        yield disagreements(subject, whole, found, heads, uniform_share(batch))
        yield from left_out(layers)
        yield from examples_used(subject, used, self.examples)

    def _chosen(self, layers: Sequence[Layer]) -> dict[str, Bool[Tensor, "layer head"]]:
        """Layers and heads to cut one by one, by name."""
        shape = [layer.heads for layer in layers]
        wanted = {str(self.layer), f"layer {self.layer}"}
        indices = [
            index
            for index, layer in enumerate(layers)
            if self.layer is None or wanted & {layer.name, layer.name.partition(" call ")[0]}
        ]
        if not indices:
            names = ", ".join(layer.name for layer in layers)
            raise RequestError(f"edge_cut:layer={self.layer}: the model has {len(shape)} layers: {names}")
        if self.head is not None and self.head > max(shape):
            raise RequestError(
                f"edge_cut:head={self.head}: the model has {max(shape)} heads, counted from 1 to {max(shape)}"
            )
        cuttable = [index for index in indices if not layers[index].misfit]
        if not cuttable:
            raise Skip(layers[indices[0]].misfit)
        chosen = {}
        if self.head is None:
            chosen = {layers[index].name: select(shape, index)[0] for index in cuttable}
        for index in cuttable:
            for head, name in enumerate(layers[index].head_names):
                if self.head in (None, head + 1):
                    chosen[name] = select(shape, index, head)[0]
        return chosen

    def _first_of_others(
        self, subject: Subject, batch: Batch, layers: Sequence[Layer], basic: Sequence[Cut]
    ) -> CutResult | None:
        """The first position cut in sequences whose cue stood there and now stands at the sham's place; None where
        there is no such place."""
        sham = next((each.keys for each in basic if each.name == "sham"), None)
        if sham is None or not sham.any():
            return None
        batch, sham = batch[sham.any(1)], sham[sham.any(1)]
        rows, place = torch.arange(len(batch), device=sham.device), sham.int().argmax(1)
        tokens = batch.tokens.clone()
        tokens[:, 0], tokens[rows, place] = batch.tokens[rows, place], batch.tokens[:, 0]
        moved = replace(batch, tokens=tokens, cue=place)
        first = torch.zeros_like(sham)
        first[:, 0] = True
        whole, generator = run_untouched(subject, moved), seeded("proof", subject.seed, "first position")
        return run_cuts(subject, moved, whole, [Cut("first", first)], layers, self.proofs, generator)["first"]


def _in_detail(
    batch: Batch, roles: Sequence[str], basic: Sequence[Cut], chosen: dict[str, Bool[Tensor, "layer head"]]
) -> list[Cut]:
    """Each role; the first position; the cue in each layer and head; the cue, and the sham, for the query alone."""
    cue = cue_mask(batch)
    first = torch.zeros_like(cue)
    first[:, 0] = True
    first &= ~cue[:, :1]
    return [
        *(Cut(name, mask) for name, mask in roles_before(batch, roles).items()),
        *([Cut("first position", first)] if first.any() else []),
        *(Cut(name, cue, where=where) for name, where in chosen.items()),
        Cut("query alone", cue, query_only=True),
        *(Cut("query alone, sham", each.keys, query_only=True) for each in basic if each.name == "sham"),
    ]


def cue_and_sham(batch: Batch, generator: torch.Generator, separator: int | None = None) -> list[Cut]:
    """The cue, and a random other position before the query where there is one; nothing where the cue is the query.

    Never the first position: most trained models park attention there, and to cut that hurts whatever it holds. Nor the
    separator, which cannot be exchanged to prove the cut.
    """
    cue, query = marks(batch)
    if bool((cue == query).any()):
        return []
    positions = torch.arange(batch.tokens.shape[1], device=cue.device)
    others = (positions > 0) & (positions < query[:, None]) & (positions != cue[:, None])
    if separator is not None:
        others &= batch.tokens != separator
    cuts, has = [Cut("cue", cue_mask(batch))], others.any(1)
    if has.any():
        drawn = others.where(has[:, None], True).double().cpu().multinomial(1, generator=generator).to(cue.device)
        cuts.append(Cut("sham", (positions == drawn) & has[:, None]))
    return cuts


def second_metric(task: Task) -> str | None:
    """A metric that still moves where the score is saturated."""
    return next((name for name in ("log_odds", "loss") if name in task.metrics and name != task.headline), None)


def table(
    name: str,
    task: Task,
    whole: Untouched,
    outcomes: dict[str, CutResult],
    shares: dict[str, Share],
    *,
    row_label: str,
    about: str,
) -> Matrix:
    """Attention and causal effect side by side."""
    metrics = [metric for metric in (task.headline, second_metric(task)) if metric]
    rows = [[math.nan, *(whole.scores.metrics[m] for m in metrics), math.nan, math.nan, 0.0]]
    for key, outcome in outcomes.items():
        share = shares[key].value if key in shares else math.nan
        numbers = [outcome.scores.metrics[m] for m in metrics]
        rows.append([share, *numbers, outcome.leak, outcome.before, outcome.effect])
    return Matrix(
        name=name,
        unit="",
        values=rows,
        rows=["nothing", *outcomes],
        columns=["attention", *metrics, "leak", "before", "effect"],
        row_label=row_label,
        column_label="",
        about=about,
        meaning=COLUMNS,
        headline=True,
    )


def by_role(task: Task, batch: Batch, whole: Untouched, found: dict[str, CutResult], layers: Sequence[Layer]) -> Matrix:
    """The cuts of each role, of the first position and of the sham."""
    masks = {"cue": cue_mask(batch), **roles_before(batch, task.roles)}
    outcomes = {name: found[name] for name in (*masks, "first position", "sham") if name in found}
    shares = role_shares(whole.looks, layers, masks)
    about = "scores when attention to each role is cut"
    return table("by_role", task, whole, outcomes, shares, row_label="cut", about=about)


def by_head(
    task: Task, whole: Untouched, found: dict[str, CutResult], shares: dict[str, Share], chosen: Iterable[str]
) -> Matrix:
    """The cue's cuts in the chosen layers and heads, and those for the query alone."""
    names = (*chosen, "query alone", "query alone, sham")
    outcomes = {name: found[name] for name in names if name in found}
    about = "scores when the cue is cut in one layer or head, or for the query alone"
    return table("by_head", task, whole, outcomes, shares, row_label="cue cut in", about=about)


def by_distance(
    task: Task, untouched: dict[Condition, Untouched], outcomes: dict[Condition, dict[str, CutResult]]
) -> Iterator[Curve]:
    """Score as it is and under the two full cuts, and the leak of the cue's cut, per condition."""
    conditions = list(untouched)
    none = Scores({task.headline: math.nan}, {task.headline: math.nan})

    def under(cut: str) -> list[Scores]:
        found = [outcomes.get(condition, {}).get(cut) for condition in conditions]
        return [outcome.scores if outcome else none for outcome in found]

    whole = [each.scores for each in untouched.values()]
    for name, y_label, scores in (
        ("untouched", "score without a cut", whole),
        ("cue_cut", "score with all attention to the cue cut", under("cue")),
        ("sham_cut", "score with a random other position cut instead", under("sham")),
    ):
        values = [each.metrics[task.headline] for each in scores]
        errors = [each.errors[task.headline] for each in scores]
        metric = task.metrics[task.headline]
        yield curve(name, metric.unit, task, conditions, values, errors, y_label=y_label, metric=metric)
    leaks = [outcomes[c]["cue"].leak if c in outcomes else math.nan for c in conditions]
    y_label = "leak through the cue's cut"
    yield curve("leak_by_distance", "outputs", task, conditions, leaks, y_label=y_label, headline=False)
