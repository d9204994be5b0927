"""Which edges to cut, in which layers and heads, and whether a cut does what it says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from harness.attention.replaced import Edges, Where, cut, observe
from harness.errors import RequestError


def edges_after(position: Int[Tensor, " batch"] | Bool[Tensor, "batch time"], length: int) -> Edges:
    """The edges from all later queries to a key: cut everywhere, nothing else can carry the key's content on.

    Args:
        position: the key of each example, or a mask of several keys of each example.
        length: the number of positions.

    Raises:
        RequestError: if a position does not exist.
    """
    keys = _mask(position, length)
    later = torch.ones(length, length, dtype=torch.bool, device=keys.device).tril(-1)
    return keys[:, None, :] & later


def edges_at_query(
    query: Int[Tensor, " batch"],
    position: Int[Tensor, " batch"] | Bool[Tensor, "batch time"],
    length: int,
) -> Edges:
    """The edges from one query to a key: a partial cut, for other queries still carry the key's content on.

    Args:
        query: the query of each example.
        position: the key of each example, or a mask of several keys of each example.
        length: the number of positions.

    Raises:
        RequestError: if a position does not exist.
    """
    return _mask(query, length)[:, :, None] & _mask(position, length)[:, None, :]


def select(shape: Sequence[int], layer: int | None = None, head: int | None = None) -> Where:
    """The `where` of a cut in one layer, in one head of every layer, or in one head of one layer.

    Args:
        shape: heads per layer, from `attention_shape`.
        layer: the only layer to cut; all if not given.
        head: the only head to cut; all if not given.

    Raises:
        RequestError: if the layer or the head does not exist.
    """
    layers = range(len(shape)) if layer is None else [_index("layer", layer, len(shape), "the model")]
    where = torch.zeros(1, len(shape), max(shape, default=0), dtype=torch.bool)
    for each in layers:
        heads = slice(shape[each]) if head is None else _index("head", head, shape[each], f"layer {each}")
        where[0, each, heads] = True
    return where


@dataclass(frozen=True)
class CutCheck:
    """What a cut lets through, per example: largest absolute differences of the outputs, in their unit.

    Args:
        leak: change after the first cut token when the cut tokens are swapped; only exactly 0 proves the cut.
            The cut tokens themselves do not count: they still know what they are.
        before: change before the first cut token in the same comparison; not 0 if the model is not causal.
        opened: change before the last token when that one is swapped under the cut; not 0 if the cut lets a position
            see the future, as it can where a mask leaves masked keys a little weight. 0 where the model sees the
            future without the cut, too.
        effect: change anywhere that the cut itself makes; 0 for a cut without consequence.
    """

    leak: Float[Tensor, " batch"]
    before: Float[Tensor, " batch"]
    opened: Float[Tensor, " batch"]
    effect: Float[Tensor, " batch"]


def check_cut(
    forward: Callable[[Tensor], Tensor],
    tokens: Shaped[Tensor, "batch time *width"],
    swapped: Shaped[Tensor, "batch time *width"],
    edges: Edges,
    where: Where | None = None,
    separator: int | None = None,
) -> CutCheck:
    """Swap the cut tokens and see what comes through, then the last token, in five forward passes.

    Args:
        forward: the model, in evaluation mode; outputs are `batch time out`.
        tokens: its input.
        swapped: the same input with other tokens at the cut keys, and only there.
        edges: the cut.
        where: its layers and heads.
        separator: a token that stays what it is: where it comes last, nothing is opened.

    Raises:
        RequestError: if an example has nothing swapped, and for all the reasons of `cut`.
    """
    changed = tokens != swapped
    changed = changed.flatten(2).any(2) if changed.ndim > 2 else changed
    if not changed.any(1).all():
        same = (~changed.any(1)).nonzero().flatten().tolist()
        raise RequestError(f"to check a cut, swap its token in every example; nothing differs in examples {same}")
    ending = _other_ending(tokens, swapped, changed)
    if separator is not None:
        ending[:, -1] = torch.where(tokens[:, -1] == separator, separator, ending[:, -1])

    def observed(given: Tensor) -> Tensor:
        # Observed, so that all passes compute in the same way and rounding does not pass for an effect.
        with torch.no_grad(), observe():
            return forward(given)

    def under_cut(given: Tensor) -> Tensor:
        with torch.no_grad(), cut(edges, where):
            return forward(given)

    whole, original = observed(tokens), under_cut(tokens)
    swap, end = under_cut(swapped), under_cut(ending)
    begun = changed.cumsum(1) > 0
    last = torch.zeros_like(changed)
    last[:, -1] = True
    saw_future = _largest(whole, observed(ending), ~last) != 0
    return CutCheck(
        leak=_largest(original, swap, begun & ~changed),
        before=_largest(original, swap, ~begun),
        opened=_largest(original, end, ~last).masked_fill(saw_future, 0.0),
        effect=_largest(whole, original, torch.ones_like(changed)),
    )


def _other_ending(
    tokens: Shaped[Tensor, "batch time *width"],
    swapped: Shaped[Tensor, "batch time *width"],
    changed: Bool[Tensor, "batch time"],
) -> Shaped[Tensor, "batch time *width"]:
    """The tokens with another last one: that of the first swapped place, before or after the swap."""
    rows, first = torch.arange(len(tokens), device=tokens.device), changed.int().argmax(1)
    before, after = tokens[rows, first], swapped[rows, first]
    same = before == tokens[:, -1]
    same = same.flatten(1).all(1) if same.ndim > 1 else same
    ending = tokens.clone()
    ending[:, -1] = torch.where(same.reshape(-1, *[1] * (before.ndim - 1)), after, before)
    return ending


def _largest(
    a: Float[Tensor, "batch time out"],
    b: Float[Tensor, "batch time out"],
    positions: Bool[Tensor, "batch time"],
) -> Float[Tensor, " batch"]:
    # Equal infinities are no difference; NaN stays NaN, and so never passes for 0.
    difference = torch.where(a == b, 0.0, (a - b).abs())
    return difference.masked_fill(~positions[:, :, None], 0.0).flatten(1).amax(1)


def _index(what: str, index: int, count: int, owner: str) -> int:
    if 0 <= index < count:
        return index
    known = f"{count} ({what}s 0 to {count - 1})" if count else "none"
    raise RequestError(f"{what} {index} does not exist: {owner} has {known}")


def _mask(position: Int[Tensor, " batch"] | Bool[Tensor, "batch time"], length: int) -> Bool[Tensor, "batch time"]:
    if position.dtype == torch.bool:
        if position.shape[1] != length:
            raise RequestError(f"the mask is for {position.shape[1]} positions, but the sequence has {length}")
        return position
    for example, index in enumerate(position.tolist()):
        _index("position", index, length, f"the sequence of example {example}")
    return torch.arange(length, device=position.device) == position[:, None]
