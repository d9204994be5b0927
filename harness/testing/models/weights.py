"""Checks of a model's weights: drawn from the seed, trained, saved and counted, all of them."""

import math
import tempfile
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from harness.attention import observe
from harness.recurrence import recurrent_modules, state_size
from harness.testing.checks import Failed, NotApplicable, check
from harness.testing.models.case import STEPS, ModelCase
from harness.testing.models.guilty import own_forward
from harness.testing.untouched import same_values

REGISTER = "make them parameters, buffers (`self.register_buffer`) or submodules (nn.ModuleList for a list)"
"""What to do with tensors that torch does not know."""


@check(
    asks="the same seed builds the same model",
    means="a run cannot be repeated",
    fix="draw initial values from torch's global random state, not from numpy, time or a generator of your own",
    after=("input_untouched",),
)
def seeded(case: ModelCase) -> str:
    """Two models from one seed."""
    one, other = case.build().state_dict(), case.build().state_dict()
    different = [name for name, value in one.items() if not same_values(value, other[name])]
    if different:
        raise Failed(f"the same seed gives other initial values of {', '.join(different)}", case.declared_at)
    return f"{len(one)} tensors"


@check(
    asks="gradients reach every parameter",
    means="part of the model is never trained, though its parameters are counted",
    fix="look for .detach(), .data, argmax, torch.no_grad and modules that forward does not call; freeze what is not "
    "to be trained with requires_grad_(False)",
    after=("stateless",),
)
def gradients(case: ModelCase) -> str:
    """A few steps of training; a parameter that starts behind a zero may come later than the others."""
    model = case.build()
    if case.plugin.pretrained:
        raise NotApplicable("it comes with its weights, and is never trained")
    if case.says.fits:
        raise NotApplicable("it learns in its own way (`fit`), and takes no gradient steps")
    if not list(model.parameters()):
        raise NotApplicable("it has no parameters; run it with --training steps=0")
    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    if not trained:
        raise NotApplicable("all its parameters are frozen")
    reached: set[str] = set()
    for loss in case.training_steps(model):
        if not math.isfinite(loss):
            raise Failed(f"the loss is {loss} within {STEPS} steps of training")
        for name, parameter in trained.items():
            if parameter.grad is None:
                continue
            if not torch.isfinite(parameter.grad).all():
                raise Failed(f"the gradient of {name} is not finite", _forward_around(model, name))
            if parameter.grad.any():
                reached.add(name)
    if missed := [name for name in trained if name not in reached]:
        raise Failed(f"no gradient reaches {', '.join(missed)}", _forward_around(model, missed[0]))
    return f"{len(trained)} parameters"


def _forward_around(model: nn.Module, parameter: str) -> str:
    return own_forward(model, parameter.rpartition(".")[0])


@check(
    asks="a saved and loaded model gives the same outputs",
    means="a resumed run would measure another model than the one that was trained",
    fix=REGISTER,
    after=("stateless",),
)
def state_dict(case: ModelCase) -> None:
    """Saves as the harness keeps checkpoints, and loads into a model built from another seed."""
    model, other, inputs = case.trained(), case.build(seed=1), case.inputs()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        safetensors.torch.save_model(model, str(path))
        safetensors.torch.load_model(other, str(path))
    if case.differ(case.run(case.converted(other), inputs), case.run(case.converted(model), inputs)):
        loose = loose_tensors(model)
        held = f": {', '.join(loose)} {'are' if len(loose) > 1 else 'is'} not registered" if loose else ""
        raise Failed(f"after saving and loading, the outputs are others{held}", case.declared_at)


@check(
    asks="everything that is trained is counted among the parameters",
    means="what is not a parameter is neither trained, nor saved, nor counted, nor moved",
    fix=REGISTER,
    after=("stateless",),
)
def size(case: ModelCase) -> str:
    """Compares the tensors that a loss would train with those that `parameters()` lists."""
    model = case.build()
    known = {id(parameter) for parameter in model.parameters()}
    with torch.enable_grad():
        leaves = _leaves(model(case.inputs()))
    if hidden := [leaf for leaf in leaves if id(leaf) not in known]:
        names = ", ".join(loose_tensors(model)) or f"of shapes {', '.join(str(tuple(leaf.shape)) for leaf in hidden)}"
        raise Failed(
            f"{len(hidden)} trained tensors ({sum(leaf.numel() for leaf in hidden)} numbers) are not among its "
            f"parameters(): {names}",
            case.declared_at,
        )
    count = sum(parameter.numel() for parameter in model.parameters())
    return f"{count} parameters; {_state(case, model)}"


def _leaves(outputs: Tensor) -> list[Tensor]:
    """The tensors from which the outputs were computed, and which a loss would give a gradient."""
    found: list[Tensor] = []
    waiting, seen = [outputs.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(variable := getattr(node, "variable", None), Tensor):
            found.append(variable)
        waiting.extend(following for following, _ in node.next_functions)
    return found


def _state(case: ModelCase, model: nn.Module) -> str:
    """What the model carries from one token to the next."""
    declared = getattr(model, "state_size", None)
    if declared is not None:
        if not isinstance(declared, int) or declared < 1:
            raise Failed(f"state_size = {declared!r}; it is how many numbers it carries from token to token")
        return f"a state of {declared} numbers"
    with torch.no_grad(), observe() as seen:
        model(case.inputs())
    if seen.patterns:
        return "its state (keys and values) grows with the length"
    carried = sum(map(state_size, recurrent_modules(model).values()))
    return f"a state of {carried} numbers" if carried else "state size not known (a model may state it as `state_size`)"


def loose_tensors(model: nn.Module) -> list[str]:
    """Names of tensors that the model holds without having registered them (as `nn.LSTM` has what it lists once
    more)."""
    found: list[str] = []
    known = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    for name, module in model.named_modules():
        prefix = f"{name}." if name else ""
        for key, value in vars(module).items():
            if key not in ("_parameters", "_buffers", "_modules"):
                _collect(f"{prefix}{key}", value, known, found)
    return found


def _collect(name: str, value: Any, known: set[int], found: list[str], depth: int = 0) -> None:
    if isinstance(value, Tensor):
        found.extend([] if id(value) in known else [name])
    elif isinstance(value, nn.Module):
        found.extend(f"{name}.{key}" for key, _ in value.named_parameters())
    elif depth < 3 and isinstance(value, dict | list | tuple):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _collect(f"{name}[{key!r}]", item, known, found, depth + 1)
