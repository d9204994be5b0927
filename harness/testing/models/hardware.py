"""Checks that a model runs in mixed precision and on other devices."""

import re
import warnings

import torch

from harness.errors import describe, place_of_error
from harness.targets import place_of
from harness.testing.checks import Failed, check
from harness.testing.models.case import ModelCase
from harness.testing.models.weights import REGISTER, loose_tensors


@check(
    asks="it runs under autocast to bfloat16, forward and backward",
    means="it cannot be trained in mixed precision",
    fix="write no dtype by hand (`.float()`, torch.zeros without dtype) where tensors meet; use x.dtype",
    after=("input_untouched",),
)
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
            raise Failed("its outputs are not finite under autocast to bfloat16")
        if list(model.parameters()):
            case.loss(outputs.float()).backward()
    broken = [n for n, p in model.named_parameters() if p.grad is not None and not torch.isfinite(p.grad).all()]
    if broken:
        raise Failed(f"under autocast to bfloat16 the gradients of {', '.join(broken)} are not finite")
    return f"outputs in {str(outputs.dtype).removeprefix('torch.')}"


@check(
    asks="model.to(device) moves all of it",
    means="it runs on the CPU only",
    fix=f"of tensors kept in `self`: {REGISTER}; of tensors made in forward: device=tokens.device",
    after=("stateless",),
)
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
        message = f"the model and its input are on {device!r}, its outputs on {outputs.device}"
        raise Failed(message, place_of(type(model)))
    return f"moves to {device!r}"
