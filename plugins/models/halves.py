"""Sequences of a source and a target: where one ends, and how to compute with each by itself."""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from harness import Interface


def separator_of(interface: Interface) -> int:
    """The token that ends a source.

    Raises:
        ValueError: there is none.
    """
    if interface.separator is None:
        raise ValueError(
            "the model reads a source and then a target, and the interface names no token between them; give "
            "Interface(..., separator=...)"
        )
    return interface.separator


@dataclass(frozen=True)
class Halves:
    """The sources and targets of a batch. A target begins with the separator.

    Sources stand on the left anyway; targets are moved there (`targets_of`) and back (`in_stream`), so that sequences
    with sources of several lengths can be computed together.

    Args:
        starts: the position of each sequence's separator, which is the length of its source.
        time: the length of the sequences.
        source: the length of the longest source.
        target: the length of the longest target.
    """

    starts: Int[Tensor, " batch"]
    time: int
    source: int
    target: int

    @classmethod
    def of(cls, tokens: Int[Tensor, "batch time"], separator: int) -> "Halves":
        """By the first separator of each sequence.

        Raises:
            ValueError: a sequence has none, or begins with it.
        """
        found = tokens == separator
        starts = found.int().argmax(1)
        known = torch.where(found.any(1), starts, -1).tolist()
        if wrong := [row for row, start in enumerate(known) if start < 1]:
            row = wrong[0]
            what = "has no separator" if known[row] < 0 else "has an empty source: it begins with the separator"
            raise ValueError(
                f"sequence {row} of {len(known)} {what} (token {separator}); each is to hold one source token at "
                "least, then the separator, then the target"
            )
        return cls(starts, tokens.shape[1], max(known), tokens.shape[1] - min(known))

    @property
    def ragged(self) -> bool:
        """Whether sources differ in length."""
        return self.source + self.target > self.time

    @cached_property
    def in_source(self) -> Bool[Tensor, "#batch time"]:
        """Which positions hold a source; the same for all sequences where sources are of one length."""
        starts = self.starts if self.ragged else self.starts[:1]
        return torch.arange(self.time, device=starts.device) < starts[:, None]

    @cached_property
    def from_target_to_source(self) -> Bool[Tensor, "#batch 1 time time"]:
        """A mask of attention from all positions to all (query, key): a target looks at the whole source, and a
        position of the source at itself, since it must look somewhere."""
        itself = torch.eye(self.time, dtype=torch.bool, device=self.starts.device)
        return torch.where(self.in_source[:, :, None], itself, self.in_source[:, None])[:, None]

    def turned(self, x: Float[Tensor, "batch source width"]) -> Float[Tensor, "batch source width"]:
        """Each source from its end to its beginning; what is behind a shorter one stays there."""
        if not self.ragged:
            return x.flip(1)
        places = torch.arange(x.shape[1], device=x.device)
        start = self.starts[:, None]
        return _taken(x, torch.where(places < start, start - 1 - places, places))

    def targets_of(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch target width"]:
        """What belongs to the targets, which then begin at position 0; behind a shorter one stands anything."""
        if not self.ragged:
            return x[:, self.source :]
        places = self.starts[:, None] + torch.arange(self.target, device=x.device)
        return _taken(x, places.clamp(max=self.time - 1))

    def in_stream(self, y: Float[Tensor, "batch target width"]) -> Float[Tensor, "batch time width"]:
        """The inverse: what belongs to targets goes where they stand; zeros at sources."""
        if not self.ragged:
            return F.pad(y, (0, 0, self.source, 0))
        places = torch.arange(self.time, device=y.device) - self.starts[:, None]
        return _taken(y, places.clamp(min=0)).masked_fill((places < 0)[..., None], 0.0)


def _taken(x: Float[Tensor, "batch _ width"], places: Int[Tensor, "batch _"]) -> Float[Tensor, "batch _ width"]:
    """The vectors at these places of each sequence."""
    return x.gather(1, places[..., None].expand(-1, -1, x.shape[2]))
