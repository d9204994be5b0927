"""Optional abilities that only the checks read: what a model or task may say about itself, to be held to it."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from harness.batches import Batch


class OffersPadding(Protocol):
    """A model that ignores padding: appending this token id changes none of its earlier outputs.

    A causal model cannot see what is appended, and needs no such claim.
    """

    padding_token: int


class OffersStateSize(Protocol):
    """A model that can say how many numbers it carries from one token to the next."""

    state_size: int


@runtime_checkable
class OffersPerfection(Protocol):
    """A task in which several answers count as right, so that certainty of the target is not the best there is."""

    def perfect(self, batch: Batch) -> Float[Tensor, "batch time out"]:
        """Outputs that deserve the best score."""
        ...


class OffersFixedData(Protocol):
    """A task whose data is the same for every seed, since it is a given set (`fixed_data = True`)."""

    fixed_data: bool
