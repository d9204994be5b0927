"""One hostile plugin in a run: it may fail cells of its own, and changes nothing else."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from faults.kinds import KINDS, TELLING, Fault
from faults.runs import Clean, Counts, Ended, beside

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a new process for each trial takes seconds")

FINE = ("identical", "own_failed", "own_ok")


def check(fault: Fault, found: Counts, ended: Ended) -> None:
    """Nobody else was hit, and the exit code says what happened."""
    fine = (*FINE, "failed") if fault.whole else FINE
    harm = {name: number for name, number in asdict(found).items() if number and name not in fine}
    assert not harm, (found, ended.errors[-2000:])
    assert ended.code == (1 if found.own_failed or found.failed else 0), ended.errors[-2000:]


@pytest.mark.parametrize("kind", TELLING)
def test_the_most_telling_kinds_of_fault(tmp_path: Path, clean: Callable[[int], Clean], kind: str) -> None:
    """In a small run."""
    check(KINDS[kind], *beside(KINDS[kind], tmp_path, clean(1), jobs=1, small=True))


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_alone(
    tmp_path: Path, clean: Callable[[int], Clean], counted: Callable[..., None], kind: str, jobs: int
) -> None:
    """In a run of 24 trials."""
    found, ended = beside(KINDS[kind], tmp_path, clean(3), jobs=jobs)
    counted("One hostile plugin in 24 trials", {"kind": kind, "jobs": jobs, **asdict(found)})
    check(KINDS[kind], found, ended)
