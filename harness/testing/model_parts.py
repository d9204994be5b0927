"""Checks of what a model is made of, and claims: padding, weights, gradients, saving, precision, devices."""

import re
import tempfile
import warnings
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from harness.attention import observe
from harness.registry import describe, place_of_error
from harness.testing.checks import Check, Failed, NotApplicable
from harness.testing.model_case import STEPS, TIME, ModelCase, loose_tensors
from harness.testing.model_sight import SIGHT
from harness.testing.places import place


def padding(case: ModelCase) -> str:
    """Appends the padding token; only for a model that says which one it ignores."""
    model = case.fresh()
    token = getattr(model, "padding_token", None)
    if token is None:
        raise NotApplicable("it names no padding_token; right padding is invisible to a causal model")
    if not isinstance(token, int) or not 0 <= token < case.interface.input_size:
        raise Failed(f"padding_token = {token!r} is no token id below {case.interface.input_size}")
    inputs = case.inputs() % case.interface.input_size
    inputs = torch.where(inputs == token, (token + 1) % case.interface.input_size, inputs)
    padded = torch.cat([inputs, torch.full((len(inputs), 5), token)], dim=1)
    if case.differ(case.run(model, padded)[:, :TIME], case.run(model, inputs)):
        raise Failed(
            f"it says that token {token} is padding, but appending it changes the outputs before it",
            place(type(model).forward),
        )
    return f"token {token}"


def seeded(case: ModelCase) -> str:
    """Two models from one seed."""
    one, other = case.build().state_dict(), case.build().state_dict()
    different = [name for name, value in one.items() if not torch.equal(value, other[name])]
    if different:
        raise Failed(f"the same seed gives other initial values of {', '.join(different)}", place(case.target.code))
    return f"{len(one)} tensors"


def gradients(case: ModelCase) -> str:
    """A few steps of training; a parameter that starts behind a zero may come later than the others."""
    model = case.build()
    if case.pretrained:
        raise NotApplicable("it comes with its weights, and is never trained")
    if not list(model.parameters()):
        raise NotApplicable("it has no parameters; run it with --training steps=0")
    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    if not trained:
        raise NotApplicable("all its parameters are frozen")
    seen = dict.fromkeys(trained, False)
    for loss in case.training_steps(model):
        if loss != loss or abs(loss) == float("inf"):
            raise Failed(f"the loss is {loss} within {STEPS} steps of training", place(type(model).forward))
        for name, parameter in trained.items():
            if parameter.grad is not None:
                if not torch.isfinite(parameter.grad).all():
                    raise Failed(f"the gradient of {name} is not finite", _owner(model, name))
                seen[name] |= bool(parameter.grad.any())
    if missed := [name for name, reached in seen.items() if not reached]:
        raise Failed(f"no gradient reaches {', '.join(missed)}", _owner(model, missed[0]))
    return f"{len(trained)} parameters"


def _owner(model: nn.Module, parameter: str) -> str:
    module = model.get_submodule(parameter.rpartition(".")[0])
    foreign = type(module).__module__.startswith("torch.")
    return place(type(model).forward if foreign else type(module).forward)


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
        raise Failed(f"after saving and loading, the outputs are others{held}", place(case.target.code))


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
            place(case.target.code),
        )
    count = sum(parameter.numel() for parameter in model.parameters())
    return f"{count} parameters; {_state(model, case)}"


def _leaves(outputs: Tensor) -> list[Tensor]:
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


def _state(model: nn.Module, case: ModelCase) -> str:
    declared = getattr(model, "state_size", None)
    if declared is not None:
        if not isinstance(declared, int) or declared < 1:
            raise Failed(f"state_size = {declared!r}; it is how many numbers it carries from token to token")
        return f"a state of {declared} numbers"
    recurrent = [module for module in model.modules() if isinstance(module, nn.RNNBase)]
    with torch.no_grad(), observe() as seen:
        model(case.inputs())
    if seen.patterns:
        return "its state (keys and values) grows with the length"
    if not recurrent:
        return "state size not known (a model may state it as `state_size`)"
    sizes = [
        r.num_layers * (r.proj_size or r.hidden_size) + (r.num_layers * r.hidden_size if r.mode == "LSTM" else 0)
        for r in recurrent
    ]
    return f"a state of {sum(sizes)} numbers"


def autocast(case: ModelCase) -> str:
    """Forward and backward; without oneDNN, whose bfloat16 kernels some processors lack."""
    model, inputs = case.build(), case.inputs()
    model.train()
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")  # torch warns of its own flag
        plain = torch.backends.mkldnn.flags(enabled=False)
        with plain, torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = model(inputs)
        if not torch.isfinite(outputs).all():
            raise Failed("its outputs are not finite under autocast to bfloat16", place(type(model).forward))
        if list(model.parameters()):
            case.loss(outputs.float()).backward()
    broken = [n for n, p in model.named_parameters() if p.grad is not None and not torch.isfinite(p.grad).all()]
    if broken:
        raise Failed(f"under autocast to bfloat16 the gradients of {', '.join(broken)} are not finite")
    return f"outputs in {str(outputs.dtype).removeprefix('torch.')}"


def devices(case: ModelCase) -> str:
    """On a GPU if there is one; else on torch's `meta` device, which refuses tensors that were left behind."""
    device = "cuda" if torch.cuda.is_available() else "meta"
    model = case.build()
    case.run(model, case.inputs())  # what is made in the first call may be left behind too
    try:
        with torch.no_grad():
            outputs = model.to(device)(case.inputs().to(device))
    except Exception as error:
        loose = loose_tensors(model)
        if device == "cuda" or loose or re.search(r"expected device|same device|on device|numpy", str(error)):
            held = f"; not registered: {', '.join(loose)}" if loose else ""
            raise Failed(f"on the device {device!r} it raises {describe(error)}{held}", place_of_error(error)) from None
        return f"no tensor is left behind; the test on {device!r} does not suit it ({describe(error)})"
    if outputs.device.type != device:
        raise Failed(f"the model and its input are on {device!r}, its outputs on {outputs.device}", place(type(model)))
    return f"moves to {device!r}"


REGISTER = "make them parameters, buffers (`self.register_buffer`) or submodules (nn.ModuleList for a list)"

PARTS: tuple[Check, ...] = (
    Check(
        "padding",
        asks="appending its `padding_token` changes no earlier output (where a model names one)",
        means="the same sentence has other scores in a batch with longer ones",
        fix="mask the padding token everywhere, or do not name one",
        run=padding,
        after=("batch_invariant",),
    ),
    Check(
        "seeded",
        asks="the same seed builds the same model",
        means="a run cannot be repeated",
        fix="draw initial values from torch's global random state, not from numpy, time or a generator of your own",
        run=seeded,
        after=("input_untouched",),
    ),
    Check(
        "gradients",
        asks="gradients reach every parameter",
        means="part of the model is never trained, though its parameters are counted",
        fix="look for .detach(), .data, argmax, torch.no_grad and modules that forward does not call; freeze what is "
        "not to be trained with requires_grad_(False)",
        run=gradients,
        after=("stateless",),
    ),
    Check(
        "state_dict",
        asks="a saved and loaded model gives the same outputs",
        means="a resumed run would measure another model than the one that was trained",
        fix=REGISTER,
        run=state_dict,
        after=("stateless",),
    ),
    Check(
        "size",
        asks="everything that is trained is counted among the parameters",
        means="what is not a parameter is neither trained, nor saved, nor counted, nor moved",
        fix=REGISTER,
        run=size,
        after=("stateless",),
    ),
    *SIGHT,
    Check(
        "autocast",
        asks="it runs under autocast to bfloat16, forward and backward",
        means="it cannot be trained in mixed precision",
        fix="write no dtype by hand (`.float()`, torch.zeros without dtype) where tensors meet; use x.dtype",
        run=autocast,
        after=("input_untouched",),
    ),
    Check(
        "devices",
        asks="model.to(device) moves all of it",
        means="it runs on the CPU only",
        fix=f"of tensors kept in `self`: {REGISTER}; of tensors made in forward: device=tokens.device",
        run=devices,
        after=("stateless",),
    ),
)
"""What a model is made of."""
