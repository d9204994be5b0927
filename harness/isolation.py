"""A trial's own settings and random states, whatever was set and drawn before, and is drawn by its plugins."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy
import torch

from harness.examples import seeded
from harness.settings import standard_settings
from harness.traces import kept


@contextmanager
def one_trial(device: torch.device, threads: int) -> Iterator[None]:
    """Settings and random states of the trial's own, to which its plugins are held; the caller's come back
    afterwards."""
    with _random_states(device), standard_settings(threads), kept():
        yield


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
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)
    random.seed(number)
    numpy.random.seed(number % 2**32)
