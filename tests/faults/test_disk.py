"""A disk that is full, and files that are damaged: what is there is right, and the next call measures the rest."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from faults.runs import Asked, Clean, finish, measured, said, unfinished
from harness.store import RunDirectory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a new process for each trial takes seconds")

ROOT = hasattr(os, "getuid") and os.getuid() == 0
SPACE = ["unshare", "--mount", *([] if ROOT else ["--map-root-user"])]
"""Before a command that may mount a small disk, which nobody else sees and which ends with it."""


def small(clean: Clean) -> Asked:
    """A run of four trials."""
    return replace(clean.asked, models=clean.asked.models[:2], seeds=1)


def on_a_small_disk(asked: Asked, folder: Path, kilobytes: int) -> str:
    """Run until the disk is full, keep what is there, give it room, and run again. What it said of the full disk."""
    disk, run = folder / "disk", folder / "disk" / "run"
    disk.mkdir()
    command = shlex.join(asked.command(run))
    steps = [
        f"mount -t tmpfs -o size={kilobytes}k none {shlex.quote(str(disk))}",
        f"{command} 2> {shlex.quote(str(folder / 'said'))}; echo $? > {shlex.quote(str(folder / 'code'))}",
        f"cp -a {shlex.quote(str(run))} {shlex.quote(str(folder / 'full'))}",
        f"mount -o remount,size=64m {shlex.quote(str(disk))}",
        command,
        f"cp -a {shlex.quote(str(run))} {shlex.quote(str(folder / 'run'))}",
    ]
    ended = finish([*SPACE, "sh", "-c", "; ".join(steps)], folder)
    assert ended.code == 0, ended.errors
    assert ended.left == 0
    assert (folder / "code").read_text(encoding="utf-8").strip() == "1"
    return (folder / "said").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def disks() -> None:
    """Whether this machine lets anybody mount one."""
    try:
        subprocess.run([*SPACE, "mount", "-t", "tmpfs", "none", "/mnt"], check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("no disk can be mounted here")


def full(asked: Asked, folder: Path, clean: Clean, kilobytes: int) -> dict[str, int]:
    """What became of a run on a disk that was full."""
    errors = on_a_small_disk(asked, folder, kilobytes)
    assert "No space left on device" in errors
    assert "what was written before is kept" in errors
    assert "Traceback" not in errors
    wanted, before, after = clean.of(asked), measured(folder / "full"), measured(folder / "run")
    return {
        "kilobytes": kilobytes,
        "before": len(before),
        "lost": len(wanted.keys() - after.keys()),
        "different": sum(wanted.get(cell) != text for each in (before, after) for cell, text in each.items()),
        "files": unfinished(folder / "run"),
    }


@pytest.mark.usefixtures("disks")
def test_a_full_disk_ends_the_run_and_the_next_call_goes_on(tmp_path: Path, clean: Callable[[int], Clean]) -> None:
    """In one sentence; nothing is half there."""
    found = full(small(clean(1)), tmp_path, clean(1), 80)
    assert found == {"kilobytes": 80, "before": found["before"], "lost": 0, "different": 0, "files": 0}
    assert found["before"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("disks")
@pytest.mark.parametrize("kilobytes", range(40, 740, 36))
def test_a_disk_is_full_at_any_time(
    tmp_path: Path, clean: Callable[[int], Clean], counted: Callable[..., None], kilobytes: int
) -> None:
    """After few files, or after many."""
    found = full(clean(3).asked, tmp_path, clean(3), kilobytes)
    counted("Full disks", {"kind": "full disk", **found})
    assert (found["lost"], found["different"], found["files"]) == (0, 0, 0)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if path.suffix == ".safetensors" else 0] ^= 1
    path.write_bytes(content)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped": _flip,
    "folder": _folder,
    **({} if ROOT else {"unreadable": lambda path: path.chmod(0)}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_made_anew(tmp_path: Path, clean: Callable[[int], Clean], damage: str) -> None:
    """Every second file of a run, of each kind: the next call gives what the first one gave."""
    before, store = RunDirectory(clean(1).run), RunDirectory(tmp_path / "run")
    shutil.copytree(before.path, store.path)
    for folder in store.folders:
        for path in [each for each in sorted(folder.iterdir()) if each.is_file()][::2]:
            DAMAGES[damage](path)
    assert clean(1).asked.here(store.path).code == 0
    assert [*map(said, store.read_records())] == [*map(said, before.read_records())]
    assert unfinished(store.path) == 0
