"""Files are there as a whole or not at all, with the rights a user wants, and nothing of the dead stays."""

import errno
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.errors import StoreError
from harness.files import HOST, read_file, remove_abandoned, remove_temporary, replacing, set_aside, write_atomic
from harness.store import RunDirectory

posix = pytest.mark.skipif(sys.platform == "win32", reason="no locks, pipes and umask")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@posix
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o002])
def test_the_umask_decides_who_may_read(tmp_path: Path, umask: int) -> None:
    """Also where a library puts a file of its own, with rights of its own, in the place of the temporary one."""
    before = os.umask(umask)
    try:
        write_atomic(tmp_path / "one", b"1")
        with replacing(tmp_path / "two") as temporary:
            other = temporary.with_name(".tmpAbCdEf")
            other.write_bytes(b"2")
            other.chmod(0o600)
            other.replace(temporary)
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("one", "two")] == [0o666 & ~umask] * 2
    assert names(tmp_path) == ["one", "two"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("step", ["open", "write_bytes", "fsync", "chmod", "replace", "mkdir"])
def test_a_full_disk_damages_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int) -> None:
    """At whatever step it is noticed: one sentence, the old content, and no rest of the new one."""
    path = tmp_path / "file.json"
    write_atomic(path, b"old")

    def fails(*args: Any, **more: Any) -> Any:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        owner: Any = os if step == "fsync" else Path
        patch.setattr(owner, step, fails)
        with pytest.raises(StoreError, match=f"{os.strerror(code)}; what was written before is kept"):  # noqa: PT012
            if step in ("chmod", "mkdir"):
                with replacing(path) as temporary, open(temporary, "wb") as file:  # noqa: PTH123
                    file.write(b"new")
            else:
                write_atomic(path, b"new")
    assert read_file(path) == b"old"
    assert names(tmp_path) == ["file.json"]


@posix
@pytest.mark.parametrize("kind", ["pipe", "dangling link", "looping link", "link to a folder", "link to a file"])
def test_what_is_no_file_is_replaced(tmp_path: Path, kind: str) -> None:
    """By a file; what a link leads to stays as it is."""
    path = tmp_path / "file.json"
    elsewhere = tmp_path / "elsewhere"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "looping link":
        path.symlink_to(path)
    else:
        path.symlink_to(elsewhere)
        if kind == "link to a folder":
            elsewhere.mkdir()
        elif kind == "link to a file":
            elsewhere.write_bytes(b"other")
    write_atomic(path, b"new")
    assert not path.is_symlink()
    assert read_file(path) == b"new"
    assert not elsewhere.is_file() or elsewhere.read_bytes() == b"other"


def test_a_folder_in_the_way_is_set_aside(tmp_path: Path) -> None:
    """With what is in it; a second one too."""
    path = tmp_path / "file.json"
    for number in range(2):
        path.unlink(missing_ok=True)
        path.mkdir()
        (path / "mine.txt").write_text(str(number), encoding="utf-8")
        write_atomic(path, b"new")
        assert read_file(path) == b"new"
    assert names(tmp_path) == ["file.json", "file.json.damaged", "file.json.damaged2"]
    assert (tmp_path / "file.json.damaged2" / "mine.txt").read_text(encoding="utf-8") == "1"
    assert set_aside(path).name == "file.json.damaged3"


@posix
def test_reading_waits_for_nobody(tmp_path: Path) -> None:
    """A pipe, a device, a folder and links to nowhere are no files."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "loop", "dangling", "zero", "."):
        with pytest.raises(OSError, match=r"not a regular file|No such file|Too many|Is a directory"):
            read_file(tmp_path / name)


def _killed_while_writing(path: str, kind: str) -> None:
    if kind == "file":
        Path.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign,assignment]
        write_atomic(Path(path), b"new")
    with replacing(Path(path)) as temporary:
        temporary.with_name(".tmpAbCdEf").write_bytes(b"of a library")
        os.kill(os.getpid(), signal.SIGKILL)


def _writing(path: str, writes: Any, go_on: Any) -> None:
    with replacing(Path(path)) as temporary:
        temporary.write_bytes(b"new")
        writes.set()
        go_on.wait(60)


@posix
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_writer_left_is_removed_by_the_next_run(tmp_path: Path, kind: str) -> None:
    """At once, however young it is."""
    store = RunDirectory(tmp_path)
    store.create()
    process = multiprocessing.get_context("fork").Process(
        target=_killed_while_writing, args=[str(store.records / "file.json"), kind]
    )
    process.start()
    process.join()
    (left,) = names(store.records)
    assert left.startswith(".file.json.")
    store.create()
    assert names(store.records) == []


@posix
def test_what_is_being_written_stays(tmp_path: Path) -> None:
    """However old it is: its writer lives."""
    context = multiprocessing.get_context("fork")
    writes, go_on = context.Event(), context.Event()
    process = context.Process(target=_writing, args=[str(tmp_path / "file.json"), writes, go_on])
    process.start()
    assert writes.wait(60)
    (temporary,) = tmp_path.iterdir()
    os.utime(temporary, (0, 0))
    remove_abandoned(tmp_path)
    assert not remove_temporary(temporary)
    go_on.set()
    process.join()
    assert process.exitcode == 0
    assert names(tmp_path) == ["file.json"]


def test_what_other_machines_and_versions_write_is_left_alone(tmp_path: Path) -> None:
    """Nobody here can know whether their writers live; so is what a user calls his own."""
    left = [".file.json.0a1b2c3d.12345678.tmp", ".file.json.xyz.tmp", f"mine.{HOST}.1.tmp"]
    for name in left:
        (tmp_path / name).touch()
    remove_abandoned(tmp_path)
    assert names(tmp_path) == sorted(left)


@posix
def test_without_locks_files_are_written_and_nothing_counts_as_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on network file systems that have none."""

    def fails(*args: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", fails)
    abandoned = tmp_path / f".file.json.{HOST}.12345678.tmp"
    abandoned.touch()
    remove_abandoned(tmp_path)
    write_atomic(tmp_path / "file.json", b"new")
    assert names(tmp_path) == [abandoned.name, "file.json"]
    assert remove_temporary(abandoned)  # asked for by name


def _write_and_clean(folder: str, number: int) -> None:
    for _ in range(30):
        write_atomic(Path(folder) / "file.json", bytes([number]) * 10_000)
        with replacing(Path(folder) / "other") as temporary:
            temporary.write_bytes(bytes([number]) * 10_000)
        remove_abandoned(Path(folder))


@posix
def test_writers_and_cleaners_do_not_disturb_one_another(tmp_path: Path) -> None:
    """Several processes write the same files and clean up all the time: none fails, nothing is torn."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_write_and_clean, args=[str(tmp_path), number]) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert names(tmp_path) == ["file.json", "other"]
    for name in ("file.json", "other"):
        content = (tmp_path / name).read_bytes()
        assert len(content) == 10_000
        assert len(set(content)) == 1
