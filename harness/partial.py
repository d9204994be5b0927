"""Trainings that take long, kept on the way in a file of the run directory."""

import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from harness.errors import StoreError
from harness.files import replacing

EVERY = 60.0
"""Seconds of training before it is kept for the first time, and between two times."""

SHARE = 0.05
"""The largest share of the time that keeping takes: what takes long to write is written less often."""

State = dict[str, Any]
"""Tensors, numbers and texts, in lists, tuples and dictionaries. (`harness.inventory` says which.)"""


@runtime_checkable
class Keeper(Protocol):
    """Where a training is kept on the way, and when."""

    def load(self) -> State | None:
        """What was kept, if it is there and whole. Asked once, when training begins."""
        ...

    def due(self) -> bool:
        """Whether it is time to keep it; asked after each step."""
        ...

    def save(self, state: State) -> None:
        """Keep this instead of what was kept before."""
        ...


class Partial:
    """A `Keeper` in a file of `torch.save`, with nothing in it that runs code when it is read.

    Args:
        path: the file.
        trial: the trial's id, which covers all code and settings.
        clock: seconds since any moment.
    """

    def __init__(self, path: Path, trial: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.origin = {"trial": trial, "torch": str(torch.__version__)}  # another torch may compute other last digits
        self.clock = clock
        self.next = clock() + EVERY

    def load(self) -> State | None:
        """What was kept, unless the file is absent, damaged, or of another trial or another version of torch."""
        self.next = self.clock() + EVERY
        try:
            if not self.path.is_file():
                return None
            with zipfile.ZipFile(self.path) as archive:
                if archive.testzip() is not None:  # torch itself does not look at the checksums
                    return None
            content = torch.load(self.path, weights_only=True)
            state: State = content["state"]
            return state if content["origin"] == self.origin else None
        except Exception:  # whatever a damaged file makes of those who read it
            return None

    def due(self) -> bool:
        return self.clock() >= self.next

    def save(self, state: State) -> None:
        """Write the file anew. Where that fails (a full disk), training goes on: a disk that stays full shows when the
        checkpoint is written."""
        began = self.clock()
        with suppress(StoreError), replacing(self.path) as temporary:
            try:
                torch.save({"origin": self.origin, "state": state}, temporary)
            except RuntimeError as error:  # torch's own for a file that cannot be written
                raise OSError(str(error)) from error
        ended = self.clock()
        self.next = ended + max(EVERY, (ended - began) / SHARE)

    def remove(self) -> None:
        """Delete the file: the training is finished, or cannot go on from there."""
        with suppress(OSError):
            self.path.unlink()
