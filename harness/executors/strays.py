"""What a process has started, and how it ends: also what made itself independent of it (Linux alone has the means)."""

import ctypes
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux's prctl."""

ROUNDS = 200
"""Looks for processes that are left, a little later each time, before the rest is left alone (2 seconds or more)."""


def keep_orphans() -> None:
    """From now on this process is the parent of whatever its descendants leave behind, wherever they hide it (a session
    of its own, a second fork): nothing is lost sight of."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def end_descendants(process: int, spare: Collection[int] = ()) -> None:
    """Kill what descends from a process that keeps orphans, but for these of its children and what descends from them.

    What another user's identity protects, and what waits inside the kernel for ever, stays.
    """
    if sys.platform != "linux":
        return
    for _ in range(ROUNDS):
        found = descendants(process, spare)
        if not found:
            return
        for each in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        time.sleep(0.01)  # their orphans become children of the process


def end_group(leader: int) -> None:
    """Kill a process and its process group."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(leader, signal.SIGKILL)
            return
    except (ProcessLookupError, PermissionError):  # it has not become a leader yet
        pass
    with suppress(ProcessLookupError):
        os.kill(leader, getattr(signal, "SIGKILL", signal.SIGTERM))


def descendants(process: int, spare: Collection[int] = ()) -> list[int]:
    """What lives and descends from a process (on Linux), but for these of its children and what descends from them."""
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):  # noqa: PTH208 - for each trial, and a Path for each process costs as much again
        if name.isdigit():
            with suppress(OSError, ValueError):
                # 12 (a name, perhaps with brackets) S 1 ...
                state, parent, *_ = _read(f"/proc/{name}/stat").rpartition(b") ")[2].split(maxsplit=2)
                if state not in (b"Z", b"X"):  # dead already
                    children[int(parent)].append(int(name))
    found: list[int] = []
    ahead = [child for child in children[process] if child not in spare]
    while ahead:
        found += ahead
        ahead = [child for each in ahead for child in children[each]]
    return found


def lives(process: int) -> bool:
    """Whether there is such a process (on Linux), and it has not ended."""
    try:
        return _read(f"/proc/{process}/stat").rpartition(b") ")[2][:1] not in (b"Z", b"X")
    except OSError:
        return False


def _read(path: str) -> bytes:
    """What a short file begins with."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 1024)
    finally:
        os.close(file)
