"""A state that is replaced on the way, so that later steps go on from another one."""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from harness.errors import RequestError


class Replacement:
    """What is to be carried on instead, in which layers, after which position.

    Args:
        states: vectors for each example (or one for all) by the name of the layer.
        after: the position of all examples, or of each.
        where: which numbers are replaced (a mask), or the columns that span the subspace in which they are.
    """

    def __init__(
        self,
        states: Mapping[str, Float[Tensor, "#batch _"]],
        after: int | Int[Tensor, " batch"],
        where: Bool[Tensor, " width"] | Float[Tensor, "width basis"] | None,
    ) -> None:
        self.states = states
        self.after = after
        self.where = where
        self.met: list[str] = []
        self.reached: dict[str, Tensor] = {}

    @property
    def first(self) -> int:
        """The earliest position after which something is replaced."""
        return self.after if isinstance(self.after, int) else int(self.after.min())

    def apply(self, name: str, carried: Float[Tensor, "batch width"], position: int) -> Float[Tensor, "batch width"]:
        """What a layer carries on after a position."""
        if name not in self.met:
            self.met.append(name)
        if name not in self.states:
            return carried
        batch = len(carried)
        chosen = torch.as_tensor(self.after, device=carried.device) == position
        if chosen.ndim and len(chosen) != batch:
            raise RequestError(f"`after` is for {len(chosen)} examples, but there are {batch}")
        chosen = chosen.expand(batch)
        self.reached[name] = self.reached.get(name, torch.zeros_like(chosen)) | chosen
        if not chosen.any():
            return carried
        given = self.states[name].to(carried)
        if given.shape[1] != carried.shape[1] or len(given) not in (1, batch):
            raise RequestError(
                f"{name} carries {carried.shape[1]} numbers for each of {batch} examples, but is given "
                f"{given.shape[1]} for {len(given)}"
            )
        return torch.where(chosen[:, None], self._mixed(name, carried, given.expand_as(carried)), carried)

    def _mixed(self, name: str, carried: Tensor, given: Tensor) -> Tensor:
        if self.where is None:
            return given
        where = self.where.to(carried.device)
        if len(where) != carried.shape[1]:
            raise RequestError(f"`where` is for {len(where)} numbers, but {name} carries {carried.shape[1]}")
        if where.dtype == torch.bool:
            return torch.where(where, given, carried)
        basis: Tensor = torch.linalg.qr(where.to(carried)).Q
        return carried + (given - carried) @ basis @ basis.T

    def finish(self) -> None:
        """Raise if something was not replaced that should have been."""
        if unknown := [name for name in self.states if name not in self.met]:
            known = ", ".join(self.met) or "none: no recurrent module ran"
            raise RequestError(f"nothing was replaced in {', '.join(unknown)}; the layers of the model: {known}")
        for name, reached in self.reached.items():
            if not reached.all():
                missed = (~reached).nonzero().flatten().tolist()
                raise RequestError(
                    f"nothing was replaced in {name} for examples {missed}: there is no position {self.after}"
                )
