"""What a model has learned, in a file: everything that is in its `state_dict()`, and nothing else."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from harness.blame import accused
from harness.schema import PluginUse
from harness.traces import listed


def write(model: nn.Module, use: PluginUse, path: Path) -> None:
    """Write a model's parameters and buffers.

    Args:
        model: what has learned.
        use: whose fault it is if something there cannot be written.
        path: of a file, which may be there.

    Raises:
        OSError: the file cannot be written.
        PluginError: it keeps something that is no tensor, or tensors that overlap.
    """
    try:
        safetensors.torch.save_model(model, str(path))
    except safetensors.SafetensorError as error:
        code = re.search(r"\(os error (\d+)\)", str(error))
        raise (OSError(int(code[1]), str(error)) if code else OSError(str(error))) from error
    except OSError:
        raise
    except Exception as error:
        odd = [key for key, each in model.state_dict().items() if not isinstance(each, Tensor)]
        why = TypeError(f"{listed(odd)} of its state_dict() is no tensor; make one of it") if odd else error
        raise accused(use, "being written to its checkpoint", why) from error


def load(model: nn.Module, path: Path) -> None:
    """Bring a new model to where the one was that was written; leaves it in training mode, since in the other one some
    merge or cache weights.

    Raises:
        safetensors.SafetensorError, RuntimeError, OSError: the file is damaged or gone, or of another model, which may
            be changed in part.
    """
    model.train()
    with safetensors.safe_open(path, framework="pt") as file:
        make_room(model, file.keys(), file.get_tensor)
    safetensors.torch.load_model(model, path)


def make_room(model: nn.Module, names: Iterable[str], value: Callable[[str], Tensor]) -> None:
    """For buffers that are to be loaded, where the model has none yet or some of another shape: it makes them in use,
    or makes them larger, as it does with a table of positions for the longest sequence until now.

    Args:
        model: as it is.
        names: of all that will be loaded.
        value: gives what will be loaded by a name; asked for buffers only.
    """
    device = next((each.device for each in (*model.parameters(), *model.buffers())), None)
    modules = dict(model.named_modules(remove_duplicate=False))
    for called in names:
        path, _, name = called.rpartition(".")
        buffers = modules[path]._buffers if path in modules else {}
        if name in buffers:
            now, wanted = buffers[name], value(called)
            if now is None or now.shape != wanted.shape:
                buffers[name] = torch.empty_like(wanted, device=device)
