"""A model as the checks see it: built anew whenever needed, slightly trained, in double precision where it can be."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.batches import Batch, Interface
from harness.build import WrongKindError, build_model
from harness.capabilities import Capabilities
from harness.isolation import random_state_restored
from harness.offers import OffersFit
from harness.preflight import changed, difference
from harness.subject import OUTPUTS_AT_ONCE
from harness.targets import place_of
from harness.testing.case import PluginCase
from harness.testing.checks import Failed, NotApplicable
from harness.testing.models.precision import EXACT, ROUGH, SINGLE, NarrowResults, in_double

BATCH, TIME = 3, 13
"""Checks use a small batch of an odd length, so that no axis is taken for another one."""

LONGER = (16, 64, 128, 256)
"""Lengths at which behaviour is looked at once more, beside those of a task and the longest that the model takes."""

STEPS, STEP = 3, 1e-2
"""Training steps before behaviour is checked, since weights that start at zero would hide what they do."""


@dataclass
class ModelCase(PluginCase):
    """One model, and how to build and run it.

    Args:
        given: what it is built for, if that was said.
        lengths: of the task it is for, in tokens.
    """

    given: Interface | None = None
    lengths: tuple[int, ...] = ()
    built: type[nn.Module] | None = field(default=None, init=False)

    @property
    def where(self) -> str:
        """File and line of the model's `forward`; of its code, as long as none was built."""
        return place_of(self.built.forward) if self.built else self.declared_at

    @cached_property
    def interface(self) -> Interface:
        """What it is built for: a small vocabulary, unless one was given or it comes with one in its tokenizer; real
        vectors for a model that takes only these."""
        accepts = self.says.accepts
        if self.given is not None and self.given.input in accepts:
            return self.given
        if "tokens" not in accepts and "vectors" in accepts:
            return Interface(5, 5, input="vectors", output="numbers")
        size = self._vocabulary() if self.plugin.pretrained else 11
        return Interface(size, size, separator=size - 1 if self.says.sees == "source" else None)

    def _vocabulary(self) -> int:
        """The number of token ids of a pretrained model, which its tokenizer knows.

        Raises:
            NotApplicable: it offers none.
        """
        tokenizer, reason = None, ""
        try:
            self.plugin.check_tokenizer()
            tokenizer = self.plugin.tokenizer()
        except ValueError as error:
            reason = f" ({error})"
        if tokenizer is None:
            raise NotApplicable(
                f"it is pretrained, and has no tokenizer that says how large its vocabulary is{reason}; from Python, "
                "check_model(..., interface=Interface(size, size)) says it"
            )
        return int(tokenizer.size)

    def build(self, seed: int = 0) -> nn.Module:
        """A new model as the harness would build it, in evaluation mode."""
        try:
            with random_state_restored():
                model = build_model(self.plugin, self.interface, seed=seed)
        except WrongKindError as error:
            raise Failed(str(error), self.declared_at) from None
        self.built = type(model)
        model.eval()
        return model

    def trained(self) -> nn.Module:
        """A new model with the slightly trained weights, in its own precision; or fitted to random data."""
        model = self.build()
        if isinstance(model, OffersFit):
            with random_state_restored():
                model.fit(self._batches())
            model.eval()
            return model
        with torch.no_grad():
            for parameter, trained in zip(model.parameters(), self._trained, strict=True):
                parameter.copy_(trained)
        return model

    def converted(self, model: nn.Module) -> nn.Module:
        """The model, moved to the precision of the checks."""
        return in_double(model) if self.double else model

    def fresh(self) -> nn.Module:
        """A new model with the slightly trained weights, in the precision of the checks."""
        return self.converted(self.trained())

    def inputs(self, batch: int = BATCH, time: int = TIME, seed: int = 0) -> Tensor:
        """Random tokens, or vectors in float32."""
        return self.interface.draw(batch, time, torch.Generator().manual_seed(seed))

    def changed(self, inputs: Tensor, times: slice) -> Tensor:
        """The same inputs with others at these times; a separator stays."""
        return changed(inputs, times=times, separator=self.interface.separator)

    @property
    def shortest(self) -> int:
        """The fewest tokens that say something: one, or one on either side of a separator."""
        return 1 if self.interface.separator is None else 3

    def cast(self, inputs: Tensor) -> Tensor:
        """Inputs in the precision of the checks (tokens stay as they are)."""
        return inputs.double() if self.double and inputs.is_floating_point() else inputs

    def run(self, model: nn.Module, inputs: Tensor, seed: int = 0) -> Tensor:
        """The outputs without gradients; the global random state is seeded, and restored afterwards."""
        with random_state_restored(seed), torch.no_grad():
            outputs: Tensor = model(self.cast(inputs))
        return outputs

    def longer(self, model: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
        """Longer inputs and their outputs, the shortest first; without those that it cannot take, which the check
        `lengths` is for."""
        limit = Capabilities(model).max_length
        ends = [limit] if limit is not None and limit <= 1024 else []
        most = OUTPUTS_AT_ONCE // (2 * self.interface.output_size)
        most = most if limit is None else min(limit, most)
        for length in sorted({*LONGER, *self.lengths, *ends}):
            if self.shortest < length <= most:
                inputs = self.inputs(batch=2, time=length)
                try:
                    outputs = self.run(model, inputs)
                except Exception:
                    continue
                yield inputs, outputs

    @cached_property
    def double(self) -> bool:
        """Whether the model works in float64."""
        with contextlib.suppress(Exception), torch.no_grad():
            inputs = self.inputs()
            outputs: Tensor = in_double(self.build())(inputs.double() if inputs.is_floating_point() else inputs)
            return outputs.dtype == torch.float64
        return False

    @cached_property
    def tolerance(self) -> float:
        """What passes for rounding; see `EXACT`."""
        if not self.double:
            return SINGLE
        model, inputs = in_double(self.build()), self.inputs()
        with NarrowResults() as narrow:
            self.run(model, inputs)
        return ROUGH if narrow.found else EXACT

    def differ(self, a: Tensor, b: Tensor, scale: float | None = None) -> bool:
        """Whether two tensors of one shape differ by more than rounding."""
        return difference(a, b, scale) > self.tolerance

    def chaotic(self, inputs: Tensor) -> bool:
        """Whether weights that differ by rounding give outputs that differ by more than rounding."""
        model, nudged = self.fresh(), self.fresh()
        with random_state_restored(), torch.no_grad():
            for parameter in nudged.parameters():
                if parameter.is_floating_point() or parameter.is_complex():
                    parameter.mul_(1 + 8 * torch.finfo(parameter.dtype).eps * torch.randn_like(parameter))
        return self.differ(self.run(nudged, inputs), self.run(model, inputs))

    @cached_property
    def _trained(self) -> list[Tensor]:
        model = self.build()
        if self.plugin.pretrained:
            return [parameter.detach() for parameter in model.parameters()]
        with contextlib.suppress(Exception):
            for _ in self.training_steps(model):
                pass
            weights = [parameter.detach().clone() for parameter in model.parameters()]
            if all(torch.isfinite(weight).all() for weight in weights):
                return weights
        return [parameter.detach().clone() for parameter in self.build().parameters()]

    def _batches(self) -> Iterator[Batch]:
        """Random data, as training gives it."""
        for step in range(STEPS):
            inputs = self.inputs(batch=8, seed=step)
            yield Batch(inputs, self._targets(inputs.shape[:2], step), torch.ones(inputs.shape[:2], dtype=torch.bool))

    def training_steps(self, model: nn.Module) -> Iterator[float]:
        """A few steps on random data, each weight by its gradient's sign; yields the loss after each backward pass,
        before the update. (What Adam's first steps do; torch's own optimizers take seconds to import.)"""
        model.train()
        with random_state_restored(), torch.enable_grad():
            for step in range(STEPS):
                model.zero_grad(set_to_none=True)
                loss = self.loss(model(self.inputs(batch=8, seed=step)), seed=step)
                if loss.requires_grad:
                    loss.backward()
                yield loss.item()
                with torch.no_grad():
                    for parameter in model.parameters():
                        if parameter.grad is not None:
                            parameter.sub_(STEP * parameter.grad.sgn())  # which complex numbers have, too
        model.eval()

    def loss(self, outputs: Tensor, seed: int = 0) -> Tensor:
        """Cross-entropy (or the squared error) against random targets."""
        targets = self._targets(outputs.shape[:2], seed)
        if self.interface.output == "numbers":
            return F.mse_loss(outputs, targets)
        return F.cross_entropy(outputs.flatten(0, 1).float(), targets.flatten())

    def _targets(self, shape: torch.Size, seed: int) -> Tensor:
        """Random classes, `batch time`; or numbers, `batch time out`."""
        generator = torch.Generator().manual_seed(1000 + seed)
        if self.interface.output == "numbers":
            return torch.randn(*shape, self.interface.output_size, generator=generator)
        return torch.randint(self.interface.output_size, shape, generator=generator)
