"""One hostile plugin in a run: it may fail cells of its own, and changes nothing else."""

import sys
from collections.abc import Callable, Collection
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest

from faults.kinds import GANG, KINDS
from faults.runs import SEEDS, Counts, Ended, beside, innocent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a new process for each trial takes seconds")


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Of so many seeds, what a run says in which nothing happens."""
    return cache(lambda seeds: innocent(tmp_path_factory.mktemp("clean"), seeds))


def check(found: Counts, ended: Ended, allowed: Collection[str] = ()) -> None:
    """Nobody else was hit, and the exit code says what happened."""
    harm = {name: number for name, number in asdict(found).items() if number and name not in (*FINE, *allowed)}
    assert not harm, (found, ended.errors[-2000:])
    assert ended.code == (1 if found.own_failed or found.failed else 0), ended.errors[-2000:]


FINE = ("identical", "own_failed", "own_ok")


def test_a_gang_of_hostile_plugins(tmp_path: Path, clean: Callable[[int], Path]) -> None:
    """All at once, in one run."""
    check(*beside([KINDS[name] for name in GANG], tmp_path, clean(1), jobs=2, seeds=1))


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_alone(
    tmp_path: Path, clean: Callable[[int], Path], counted: Callable[..., None], kind: str, jobs: int
) -> None:
    """In a run of 24 trials."""
    found, ended = beside([KINDS[kind]], tmp_path, clean(SEEDS), jobs=jobs, seeds=SEEDS)
    counted("One hostile plugin in 24 trials", {"kind": kind, "jobs": jobs, **asdict(found)})
    check(found, ended, ["failed"] if KINDS[kind].whole else [])
