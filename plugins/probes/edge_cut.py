"""Does the model rely on what it looks at? Cut attention edges and see what is left of the answer."""

import math
from collections.abc import Container, Iterator, Sequence
from typing import ClassVar

import torch
from harness_plugins.probes.conditions import (
    cue_mask,
    first_group,
    marked,
    reference,
    roles_before,
    skill,
    uniform_share,
)
from harness_plugins.probes.cuts import Cut, Outcome, Untouched, run_cuts, run_untouched
from jaxtyping import Bool
from pydantic import PositiveInt
from torch import Tensor

from harness import Batch, Condition, Curve, Matrix, Scalar, Skip, Subject, Task
from harness.attention import attention_shape, select
from harness.errors import RequestError

LOOKS = 0.3
"""A head looks at the cue if this share of its attention, and at least twice the uniform share, goes there."""

MATTERS = 0.25
"""A cut matters if it takes this share of the way from a perfect score to chance."""


class EdgeCut:
    """Cut the attention from all later queries to a token, in all layers and heads, and score the task again.

    Edges are removed before the softmax, so that nothing of the token can reach a later position: swapping the token
    then changes later outputs by exactly 0. Every cut is put to that test and reports its `leak`; what leaks (a cut in
    one layer or head, or at the query alone; or a model with another way round, such as a recurrence) proves nothing
    about reliance in full.

    Controls: `sham` cuts a random other position, but not the first one, in the same way. `before` is the change of
    outputs before the token (0 if the model is causal); `effect`, the largest change that the cut makes to the outputs
    at the query.

    Measures:
        untouched, cue_cut, sham_cut: score per condition: as it is, with the cue cut, with a random other position cut.
            Where the cue is the query itself, there is nothing to cut (NaN).
        leak_by_distance: what comes through the cue's cut; 0 proves it.
        by_role: at the farthest condition that training covered, each role cut in full: the query's attention to it
            (mean over layers and heads), score, second metric, leak, before, effect.
        by_head: the cue cut in one layer, in one head, or for the query alone, beside the attention to it; and the sham
            for the query alone.
        score_after_cut: the score without the cue at that condition; the verdict says whether the model relies on it.
        leak: of that cut; the verdict is `proven` or `not proven`.
        score_after_sham: the score under the sham cut.
        disagreements: heads that look without effect, or have an effect without looking; the verdict names them.

    Args:
        examples: sequences per condition.
        proofs: sequences on which each cut is proven.
        layer: cut this layer alone, counted from 1, in `by_head`; all one by one if not said.
        head: cut this head alone, counted from 1, in `by_head`; all one by one if not said.
    """

    needs: ClassVar = ("cue", "attention")

    def __init__(
        self,
        *,
        examples: PositiveInt = 256,
        proofs: PositiveInt = 4,
        layer: PositiveInt | None = None,
        head: PositiveInt | None = None,
    ) -> None:
        self.examples = examples
        self.proofs = proofs
        self.layer = layer
        self.head = head

    def __call__(self, subject: Subject) -> Iterator[Scalar | Curve | Matrix]:
        conditions = first_group(subject.task)
        farthest = reference(conditions)
        shape = attention_shape(subject.model, subject.batch(farthest).tokens[:1])
        if not shape:
            raise Skip("the model shows its attention patterns, but computes them by itself, so that none can be cut")
        chosen = self._chosen(shape)
        untouched: dict[Condition, Untouched] = {}
        outcomes: dict[Condition, dict[str, Outcome]] = {}
        for condition in conditions:
            batch = self._batch(subject, condition)
            untouched[condition] = run_untouched(subject, batch)
            cuts = _cue_and_sham(batch, subject.generator)
            if cuts and condition == farthest:
                cuts += _in_detail(batch, subject.task.roles, cuts, chosen)
            if cuts:
                outcomes[condition] = run_cuts(subject, batch, untouched[condition], cuts, shape, self.proofs)
        if farthest not in outcomes:
            raise Skip(f"at {farthest}, the farthest trained condition, the cue is the query itself: nothing to cut")
        task = subject.task
        yield from by_distance(task, conditions, untouched, outcomes)
        batch, whole, found = self._batch(subject, farthest), untouched[farthest], outcomes[farthest]
        masks = {"cue": cue_mask(batch), **roles_before(batch, task.roles)}
        yield table(
            "by_role",
            task,
            whole,
            {name: found[name] for name in (*masks, "sham") if name in found},
            looks(whole, masks),
            "cut",
        )
        names = {name: found[name] for name in found if name.startswith(("layer", "query"))}
        shares = head_shares(whole, masks["cue"], names)
        yield table("by_head", task, whole, names, shares, "cue cut in")
        yield from verdicts(task, whole, found, shares, uniform_share(batch))

    def _batch(self, subject: Subject, condition: Condition) -> Batch:
        return subject.batch(condition)[: self.examples]

    def _chosen(self, shape: Sequence[int]) -> dict[str, Bool[Tensor, "layer head"]]:
        """Layers and heads to cut one by one, by name."""
        for what, given, known in (("layer", self.layer, len(shape)), ("head", self.head, max(shape))):
            if given is not None and given > known:
                raise RequestError(f"edge_cut:{what}={given}: the model has {known} {what}s, counted from 1 to {known}")
        layers = [index for index in range(len(shape)) if self.layer in (None, index + 1)]
        whole = {f"layer {layer + 1}": select(shape, layer)[0] for layer in layers}
        single = {
            f"layer {layer + 1} head {head + 1}": select(shape, layer, head)[0]
            for layer in layers
            for head in range(shape[layer])
            if self.head in (None, head + 1)
        }
        return {**(whole if self.head is None else {}), **single}


def _in_detail(
    batch: Batch, roles: Sequence[str], basic: Sequence[Cut], chosen: dict[str, Bool[Tensor, "layer head"]]
) -> list[Cut]:
    """Each role; the cue in each layer and head; the cue, and the sham, for the query alone."""
    cue = cue_mask(batch)
    return [
        *(Cut(name, mask) for name, mask in roles_before(batch, roles).items()),
        *(Cut(name, cue, where=where) for name, where in chosen.items()),
        Cut("query alone", cue, query_only=True),
        *(Cut("query alone, sham", each.keys, query_only=True) for each in basic if each.name == "sham"),
    ]


def _cue_is_query(batch: Batch) -> bool:
    cue, query = marked(batch)
    return bool((cue == query).any())


def _cue_and_sham(batch: Batch, generator: torch.Generator) -> list[Cut]:
    """The cue, and a random other position before the query; nothing where the cue is the query itself.

    Never the first position: most trained models park attention there, and to cut that hurts whatever it holds.
    """
    if _cue_is_query(batch):
        return []
    cue, query = marked(batch)
    positions = torch.arange(batch.tokens.shape[1], device=cue.device)
    others = (positions > 0) & (positions < query[:, None]) & (positions != cue[:, None])
    cuts = [Cut("cue", cue_mask(batch))]
    if others.any(1).all():
        drawn = others.double().cpu().multinomial(1, generator=generator).to(cue.device)
        cuts.append(Cut("sham", positions == drawn))
    return cuts


def looks(whole: Untouched, masks: dict[str, Bool[Tensor, "batch time"]]) -> dict[str, float]:
    """The query's attention to each set of tokens, averaged over layers and heads."""
    layers = [layer.mean(1) for layer in whole.looks]
    mean = torch.stack(layers).mean(0)
    return {name: (mean * mask).sum(1).mean().item() for name, mask in masks.items()}


def head_shares(whole: Untouched, cue: Bool[Tensor, "batch time"], names: Container[str]) -> dict[str, float]:
    """The attention to the cue of every head and, averaged over heads, of every layer."""
    shares = {}
    for index, layer in enumerate(whole.looks, 1):
        each = (layer * cue[:, None]).sum(2).mean(0)
        shares[f"layer {index}"] = each.mean().item()
        shares |= {f"layer {index} head {head}": share for head, share in enumerate(each.tolist(), 1)}
    return {name: share for name, share in shares.items() if name in names}


def second_metric(task: Task) -> str | None:
    """A metric that still moves where the score is saturated."""
    return next((name for name in ("log_odds", "loss") if name in task.metrics and name != task.headline), None)


def table(
    name: str, task: Task, whole: Untouched, outcomes: dict[str, Outcome], shares: dict[str, float], row_label: str
) -> Matrix:
    """Attention and causal effect side by side."""
    metrics = [metric for metric in (task.headline, second_metric(task)) if metric]
    rows = [[math.nan, *(whole.metrics[m] for m in metrics), math.nan, math.nan, 0.0]]
    for key, outcome in outcomes.items():
        numbers = [outcome.metrics[m] for m in metrics]
        rows.append([shares.get(key, math.nan), *numbers, outcome.leak, outcome.before, outcome.effect])
    return Matrix(
        name=name,
        unit="",
        values=rows,
        rows=["nothing", *outcomes],
        columns=["attention", *metrics, "leak", "before", "effect"],
        row_label=row_label,
        column_label="",
        headline=True,
    )


def by_distance(
    task: Task,
    conditions: Sequence[Condition],
    untouched: dict[Condition, Untouched],
    outcomes: dict[Condition, dict[str, Outcome]],
) -> Iterator[Curve]:
    """Score as it is and under the two full cuts, and the leak of the cue's cut, per condition."""
    score = task.headline

    def under(cut: str) -> list[float]:
        found = [outcomes.get(condition, {}).get(cut) for condition in conditions]
        return [outcome.metrics[score] if outcome else math.nan for outcome in found]

    leaks = [outcomes[c]["cue"].leak if c in outcomes else math.nan for c in conditions]
    unit = task.metrics[score].unit
    for name, values, of, headline in (
        ("untouched", [untouched[condition].metrics[score] for condition in conditions], unit, True),
        ("cue_cut", under("cue"), unit, True),
        ("sham_cut", under("sham"), unit, True),
        ("leak_by_distance", leaks, "outputs", False),
    ):
        yield Curve(
            name=name,
            unit=of,
            x=[condition.x for condition in conditions],
            y=values,
            x_label=task.axis,
            y_label=name.replace("_", " "),
            inside=[condition.inside for condition in conditions],
            headline=headline,
        )


def verdicts(
    task: Task, whole: Untouched, outcomes: dict[str, Outcome], shares: dict[str, float], uniform: float
) -> Iterator[Scalar]:
    """What the cuts say in words."""
    metric = task.metrics[task.headline]

    def reached(metrics: dict[str, float]) -> float:
        return skill(metric, metrics[task.headline])

    before, cue = reached(whole.metrics), outcomes["cue"]
    sham = outcomes.get("sham")
    lost = before - reached(cue.metrics)
    verdict: str | None = None
    if math.isnan(before):
        pass  # a metric without a scale from chance to perfect has numbers and no verdict
    elif before < 0.5:
        verdict = "has not learned"
    elif cue.leak != 0:
        verdict = "not proven: the cut leaks"
    elif lost < MATTERS:
        verdict = "does not rely on it"
    elif sham and before - reached(sham.metrics) > lost / 2:
        verdict = "any cut hurts as much"
    else:
        left = reached(cue.metrics)
        verdict = "relies on it" + (", below chance without" if left < -0.2 else ", at chance without" * (left < 0.2))
    value = cue.metrics[task.headline]
    yield Scalar(name="score_after_cut", unit=metric.unit, value=value, verdict=verdict, headline=True)
    proven = "proven" if cue.leak == 0 else "not proven"
    yield Scalar(name="leak", unit="outputs", value=cue.leak, verdict=proven, headline=True)
    if sham:
        yield Scalar(name="score_after_sham", unit=metric.unit, value=sham.metrics[task.headline], headline=True)
    named = []
    for name, share in shares.items():
        if "head" not in name or not before >= 0.5:
            continue
        effect = before - reached(outcomes[name].metrics)
        if share >= max(LOOKS, 2 * uniform) and effect < MATTERS:
            named.append(f"{name} looks there, the answer does not depend on it alone")
        elif share < LOOKS and effect >= MATTERS:
            named.append(f"{name} hardly looks there, yet the answer depends on it")
    yield Scalar(name="disagreements", unit="heads", value=len(named), verdict="; ".join(named) or None)
