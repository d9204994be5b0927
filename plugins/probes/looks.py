"""Attention at the query, in the layers whose patterns can be read token by token."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from harness_plugins.probes.conditions import marks
from jaxtyping import Bool, Float
from torch import Tensor

from harness import Batch, Scalar, Skip
from harness.attention import Layer, Seen
from harness.examples import standard_error
from harness.recurrence import StateLayer


@dataclass(frozen=True)
class Looks:
    """Where the query of each example looks.

    Args:
        layers: every attention call of the model.
        rows: for each of them the weights at the query (`batch head key`); None where the call has a misfit.
    """

    layers: Sequence[Layer]
    rows: Sequence[Float[Tensor, "batch _ key"] | None]

    def of(self, layers: Sequence[Layer]) -> list[Float[Tensor, "batch _ key"]]:
        """The weights in those of the layers that can be read."""
        return [row for layer, row in zip(layers, self.rows, strict=True) if not layer.misfit and row is not None]


def look_at_query(seen: Seen, batch: Batch) -> Looks:
    """The rows of one forward pass over a batch that marks its queries."""
    _, query = marks(batch)
    examples = torch.arange(len(batch), device=query.device)
    layers = seen.layers(batch.tokens)
    rows = [
        None if layer.misfit else pattern[examples, :, query]
        for layer, pattern in zip(layers, seen.patterns, strict=True)
    ]
    return Looks(layers, rows)


def joined(parts: Sequence[Looks]) -> Looks:
    """The looks of several batches as those of one."""
    layers = agreed([part.layers for part in parts])
    rows = [
        None if layer.misfit else torch.cat([row for row in each if row is not None])
        for layer, each in zip(layers, zip(*(part.rows for part in parts), strict=True), strict=True)
    ]
    return Looks(layers, rows)


def agreed(passes: Sequence[Sequence[Layer]]) -> list[Layer]:
    """The layers of several forward passes, each with the first misfit that it has in any of them.

    Raises:
        Skip: the passes make different calls.
    """
    names = [[layer.name for layer in layers] for layers in passes]
    if other := next((each for each in names if each != names[0]), None):
        if all(layer.misfit for layers in passes for layer in layers):
            raise Skip(
                f"the model attends step by step ({len(names[0])} calls in one pass, {len(other)} in another), and in "
                f"none of them from every position to every position, so that no edge can be cut: {passes[0][0].misfit}"
            )
        raise Skip(
            f"the model attends in different layers in different passes: {len(names[0])} calls, last "
            f"{names[0][-1:]}, and {len(other)}, last {other[-1:]}"
        )
    return [
        replace(same[0], misfit=next((layer.misfit for layer in same if layer.misfit), ""))
        for same in zip(*passes, strict=True)
    ]


def readable(passes: Sequence[Sequence[Layer]]) -> list[Layer]:
    """The layers of several forward passes, if any can be read token by token in all of them.

    Raises:
        Skip: there is none; the reason names the first one and its shape.
    """
    layers = agreed(passes)
    if not layers:
        raise Skip("the model shows no attention")
    if all(layer.misfit for layer in layers):
        raise Skip(f"no layer attends from token to token, so that none can be read: {layers[0].misfit}")
    return layers


def left_out(layers: Sequence[Layer | StateLayer]) -> Iterator[Scalar]:
    """The layers that cannot be read, if there are any beside those that can."""
    reasons = [layer.misfit for layer in layers if layer.misfit]
    if reasons:
        value, verdict = float(len(reasons)), "; ".join(reasons)
        yield Scalar(name="layers_left_out", unit="layers", value=value, verdict=verdict, headline=True)


@dataclass(frozen=True)
class Share:
    """A share of attention, with its standard error over the examples."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Float[Tensor, " batch"]) -> "Share":
        """The mean over examples."""
        return cls(values.mean().item(), standard_error(values))


def role_shares(
    looks: Looks, layers: Sequence[Layer], masks: Mapping[str, Bool[Tensor, "batch time"]]
) -> dict[str, Share]:
    """The query's attention to each set of tokens, averaged over layers and heads."""
    mean = torch.stack([row.mean(1) for row in looks.of(layers)]).mean(0)
    return {name: Share.of((mean * mask).sum(1)) for name, mask in masks.items()}


def head_shares(looks: Looks, layers: Sequence[Layer], cue: Bool[Tensor, "batch time"]) -> dict[str, Share]:
    """The attention to the cue of every head and, averaged over heads, of every layer."""
    shares = {}
    for layer, row in zip([layer for layer in layers if not layer.misfit], looks.of(layers), strict=True):
        each = (row * cue[:, None]).sum(2)
        shares[layer.name] = Share.of(each.mean(1))
        shares |= {name: Share.of(each[:, head]) for head, name in enumerate(layer.head_names)}
    return shares
