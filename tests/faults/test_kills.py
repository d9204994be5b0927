"""Whatever kills a run, and whenever: the next call goes on, and in the end all is as if nothing had happened."""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from faults.runs import Asked, Clean, Running, measured, unfinished

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a new process for each trial takes seconds")

WHOM = ("group", "parent", "worker", "server")
HOW = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def kill(running: Running, whom: str, how: signal.Signals) -> bool:
    """Send a signal; whether there was anybody to get it."""
    found = {"worker": running.workers, "server": running.servers}.get(whom, lambda: [running.process.pid])
    while not (targets := found()) and running.process.poll() is None:
        time.sleep(0.01)
    if running.process.poll() is not None:
        return False
    with suppress(ProcessLookupError):
        (os.killpg if whom == "group" else os.kill)(random.choice(targets), how)
        return True
    return False


def killed(
    asked: Asked, folder: Path, clean: Clean, kills: list[tuple[str, signal.Signals]], longest: float
) -> dict[str, int]:
    """Kill runs one after the other, each in the directory of the last one, until that is complete.

    Args:
        asked: what is run.
        folder: an empty one.
        clean: what the cells should say.
        kills: whom, and by which signal.
        longest: seconds after which a kill comes at the latest.
    """
    wanted = clean.of(asked)
    found = dict.fromkeys(("kills", "survived", "lost", "different", "files", "processes"), 0)
    left = list(kills)
    for number in count():
        if not left:
            break
        place = folder / str(number)
        place.mkdir()
        while True:
            running = Running.start(asked.command(place / "run"), place)
            hit = False
            if left:
                time.sleep(random.uniform(0, longest))
                if hit := kill(running, *left[0]):
                    left.pop(0)
                    found["kills"] += 1
            ended = running.ended()
            assert ended.code is not None, ended.errors
            found["processes"] += ended.left
            if ended.code == 0:
                break
            assert hit, ended.errors
        said = measured(place / "run")
        found["lost"] += len(wanted.keys() - said.keys())
        found["different"] += sum(wanted.get(cell) != each for cell, each in said.items())
        found["files"] += unfinished(place / "run")
    found["survived"] = found["kills"] if not found["lost"] + found["different"] else 0
    return found


def expected(kills: int) -> dict[str, int]:
    """All survived, and nothing else."""
    return {"kills": kills, "survived": kills, "lost": 0, "different": 0, "files": 0, "processes": 0}


def test_killed_at_any_moment_it_goes_on_where_it_was(tmp_path: Path, clean: Callable[[int], Clean]) -> None:
    """The same records in the end, none lost or doubled, and no temporary file."""
    kills = [*zip(WHOM, (*HOW, signal.SIGKILL), strict=True)]
    asked = replace(clean(1).asked, models=clean(1).asked.models[:2])
    assert killed(asked, tmp_path, clean(1), kills, 2.0) == expected(len(kills))


@pytest.mark.slow
@pytest.mark.parametrize("whom", WHOM)
def test_a_hundred_kills(
    tmp_path: Path, clean: Callable[[int], Clean], counted: Callable[..., None], whom: str
) -> None:
    """Of everybody in a run, by every signal."""
    kills = [(whom, random.choice(HOW)) for _ in range(25)]
    found = killed(clean(3).asked, tmp_path, clean(3), kills, 5.0)
    counted("Kills at random moments", {"kind": whom, **found})
    assert found == expected(len(kills))
