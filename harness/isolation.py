"""What a trial and its plugins must leave as they found it: threads, random states, the model that others measure."""

import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy
import torch
from torch import nn

from harness.examples import seeded


@contextmanager
def one_trial(device: torch.device, threads: int) -> Iterator[None]:
    """Fixed threads and random states of the trial's own; the caller's come back afterwards."""
    before, tf32 = torch.get_num_threads(), torch.backends.cudnn.allow_tf32
    with _random_states(device):
        torch.set_num_threads(threads)
        torch.backends.cudnn.allow_tf32 = False  # ten bits of a mantissa are too few for a leak of exactly 0
        try:
            yield
        finally:
            torch.set_num_threads(before)
            torch.backends.cudnn.allow_tf32 = tf32


@contextmanager
def random_state_restored(seed: int = 0, device: torch.device | None = None) -> Iterator[None]:
    """Seed the global random states of torch, numpy and Python; the caller's come back afterwards."""
    with _random_states(device):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed notes the stack for each kind of device: slow
        if device is not None and device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        numpy.random.seed(seed)
        random.seed(seed)
        yield


@contextmanager
def _random_states(device: torch.device | None) -> Iterator[None]:
    """Whatever is drawn or seeded meanwhile, the global random states of torch, numpy and Python come back."""
    states = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(devices=[device] if device is not None and device.type == "cuda" else []):
        try:
            yield
        finally:
            random.setstate(states[0])
            numpy.random.set_state(states[1])


def seed_everything(what: str, seed: int) -> None:
    """Whatever a plugin draws from a global random state depends on the trial alone."""
    number = seeded(what, seed).initial_seed()
    torch.manual_seed(number)
    random.seed(number)
    numpy.random.seed(number % 2**32)


def fingerprint(model: nn.Module) -> dict[str, int]:
    """A checksum of each parameter and buffer: a copy would take the memory of a second model."""
    tensors = model.state_dict().items()
    return {name: zlib.crc32(each.cpu().contiguous().unsqueeze(-1).view(torch.uint8).numpy()) for name, each in tensors}


def changed(before: dict[str, int], model: nn.Module) -> list[str]:
    """The names of parameters and buffers that are not what they were."""
    return sorted({name for name, _ in before.items() ^ fingerprint(model).items()})
