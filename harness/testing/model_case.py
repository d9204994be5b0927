"""A model as the checks see it: built anew whenever needed, slightly trained, in double precision where it can be."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from harness.contracts import Interface
from harness.suites import Request
from harness.targets import Target
from harness.testing.checks import Failed, random_state_restored
from harness.testing.places import place

EXACT, ROUGH, SINGLE = 1e-9, 1e-5, 1e-4
"""Largest differences that pass for rounding, relative to the largest output: in float64; in float64 with steps in
lower precision inside the model; in float32."""

BATCH, TIME = 3, 13
"""Checks use a small batch of an odd length, so that no axis is taken for another one."""

STEPS, STEP = 3, 1e-2
"""Training steps before behaviour is checked, since weights that start at zero would hide what they do."""


@dataclass
class ModelCase:
    """One model with its arguments, and how to build and run it.

    Args:
        target: its code.
        request: the arguments.
        interface: what it is built for; a small vocabulary, or real vectors for a model that takes only these.
    """

    target: Target
    request: Request
    interface: Interface = field(default_factory=lambda: Interface(11, 11))

    def __post_init__(self) -> None:
        accepts = getattr(self.target.code, "accepts", ("tokens",))
        if self.interface.input not in accepts and "vectors" in accepts:
            self.interface = Interface(5, 5, input="vectors", output="numbers")

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that were asked for."""
        return self.request.arguments

    def build(self, seed: int = 0) -> nn.Module:
        """A new model as the harness would build it, in evaluation mode."""
        with random_state_restored(seed):
            model = self.target.build(self.arguments, vocab_size=self.interface.input_size, interface=self.interface)
        if not isinstance(model, nn.Module):
            raise Failed(f"it gave a {type(model).__name__}, which is no torch.nn.Module", place(self.target.code))
        return model.eval()

    def inputs(self, batch: int = BATCH, time: int = TIME, seed: int = 0) -> Tensor:
        """Random tokens, or vectors in float32."""
        generator = torch.Generator().manual_seed(seed)
        if self.interface.input == "vectors":
            return torch.randn(batch, time, self.interface.input_size, generator=generator)
        return torch.randint(self.interface.input_size, (batch, time), generator=generator)

    def fresh(self) -> nn.Module:
        """A new model with the slightly trained weights, in the precision of the checks."""
        model = self.build()
        with torch.no_grad():
            for parameter, trained in zip(model.parameters(), self._trained, strict=True):
                parameter.copy_(trained)
        return model.double() if self.double else model

    def run(self, model: nn.Module, inputs: Tensor, seed: int = 0) -> Tensor:
        """The outputs without gradients; the global random state is seeded, and restored afterwards."""
        with random_state_restored(seed), torch.no_grad():
            outputs: Tensor = model(self.cast(inputs))
        return outputs

    def cast(self, inputs: Tensor) -> Tensor:
        """Inputs in the precision of the checks (tokens stay as they are)."""
        return inputs.double() if self.double and inputs.is_floating_point() else inputs

    def changed(self, inputs: Tensor, position: int) -> Tensor:
        """The inputs with another token (or vector) at a position."""
        changed = inputs.clone()
        if inputs.is_floating_point():
            changed[:, position] += 1.0
        else:
            changed[:, position] = (changed[:, position] + 1) % self.interface.input_size
        return changed

    @cached_property
    def double(self) -> bool:
        """Whether the model works in float64."""
        with contextlib.suppress(Exception), torch.no_grad():
            inputs = self.inputs()
            outputs: Tensor = self.build().double()(inputs.double() if inputs.is_floating_point() else inputs)
            return outputs.dtype == torch.float64
        return False

    @cached_property
    def tolerance(self) -> float:
        """What passes for rounding; see `EXACT`."""
        if not self.double:
            return SINGLE
        model, inputs = self.build().double(), self.inputs()
        with _Precision() as precision:
            self.run(model, inputs.double() if inputs.is_floating_point() else inputs)
        return ROUGH if precision.narrow else EXACT

    def differ(self, a: Tensor, b: Tensor, scale: float | None = None) -> bool:
        """Whether two tensors of one shape differ by more than rounding."""
        return self.difference(a, b, scale) > self.tolerance

    def difference(self, a: Tensor, b: Tensor, scale: float | None = None) -> float:
        """Largest difference, relative to the largest value; infinite where only one of them is finite."""
        if not a.numel():
            return 0.0
        scale = scale or max(b.detach().abs().max().item(), 1e-300)
        largest = (a.detach() - b.detach()).abs().max().item()
        return largest / scale if largest == largest else float("inf")

    @cached_property
    def _trained(self) -> list[Tensor]:
        model = self.build()
        with contextlib.suppress(Exception):
            for _ in self.training_steps(model):
                pass
            weights = [parameter.detach().clone() for parameter in model.parameters()]
            if all(torch.isfinite(weight).all() for weight in weights):
                return weights
        return [parameter.detach().clone() for parameter in self.build().parameters()]

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
                            parameter.sub_(STEP * parameter.grad.sign())
        model.eval()

    def loss(self, outputs: Tensor, seed: int = 0) -> Tensor:
        """Cross-entropy (or the squared error) against random targets."""
        generator = torch.Generator().manual_seed(1000 + seed)
        if self.interface.output == "numbers":
            return F.mse_loss(outputs, torch.randn(outputs.shape, generator=generator))
        targets = torch.randint(self.interface.output_size, outputs.shape[:2], generator=generator)
        return F.cross_entropy(outputs.flatten(0, 1).float(), targets.flatten())


class _Precision(TorchFunctionMode):
    """Notices results in less than float64."""

    narrow = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for item in result if isinstance(result, tuple) else (result,):
            self.narrow |= isinstance(item, Tensor) and item.is_floating_point() and item.dtype != torch.float64
        return result


def loose_tensors(model: nn.Module) -> list[str]:
    """Names of tensors that the model holds without having registered them."""
    found: list[str] = []
    for name, module in model.named_modules():
        prefix = f"{name}." if name else ""
        for key, value in vars(module).items():
            if key not in ("_parameters", "_buffers", "_modules"):
                _collect(f"{prefix}{key}", value, found)
    return found


def _collect(name: str, value: Any, found: list[str], depth: int = 0) -> None:
    if isinstance(value, Tensor):
        found.append(name)
    elif isinstance(value, nn.Module):
        found.extend(f"{name}.{key}" for key, _ in value.named_parameters())
    elif depth < 3 and isinstance(value, dict):
        for key, item in value.items():
            _collect(f"{name}[{key!r}]", item, found, depth + 1)
    elif depth < 3 and isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _collect(f"{name}[{index}]", item, found, depth + 1)
