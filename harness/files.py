"""Files that are there as a whole or not at all, whoever dies meanwhile, and what the dead leave behind.

What is written has another name first, `.NAME.HOST.RANDOM.tmp`, and takes its place in one step. The writer keeps it
locked, and the system frees the lock with the process: so what this machine has begun and nobody locks is abandoned. On
file systems without locks nothing is taken for abandoned. Nothing else is asked of a file system than that a rename is
one step.
"""

import hashlib
import os
import platform
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from harness.errors import StoreError

if sys.platform != "win32":
    import fcntl

HOST = hashlib.sha256(platform.node().encode("utf-8", "replace")).hexdigest()[:8]
"""This machine, in temporary names: locks may not reach across a network."""


def read_file(path: Path | str) -> bytes:
    """The content of a file.

    Raises:
        OSError: it cannot be read, or is no file; whoever opens a pipe waits for a writer.
    """
    with opened(path) as file:
        return file.read()


@contextmanager
def opened(path: Path | str) -> Iterator[FileIO]:
    """A file to read; see `read_file`."""
    with open(path, "rb", buffering=0, opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is not a regular file")
        yield file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def sha256(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_stamp(path: Path) -> tuple[int, int] | None:
    """Equal as long as no other file has taken this one's place; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that readers see the old content or the new one, never part of it, even after a power cut. Links
    and pipes in its place are replaced; a folder is set aside.

    Raises:
        StoreError: it cannot be written.
    """
    with _blamed(path), _temporary(path, folder=False) as temporary:
        temporary.write_bytes(content)
        _put(temporary, path)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """`write_atomic` for what others write: gives a temporary file, which takes the place of `path` at the end.

    Raises:
        StoreError: it cannot be written.
    """
    # in a folder of its own, since libraries write to further names beside it, and put another file in its place
    with _blamed(path), _temporary(path, folder=True) as folder:
        temporary = folder / path.name
        temporary.touch()
        mode = stat.S_IMODE(temporary.stat().st_mode)  # what the umask leaves
        yield temporary
        temporary.chmod(mode)
        _put(temporary, path)


@contextmanager
def _blamed(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write {str(path)!r}: {error.strerror or error}; what was written before is kept, and the same "
            "command goes on from there"
        ) from error


@contextmanager
def _temporary(path: Path, folder: bool) -> Iterator[Path]:
    """A temporary file or folder beside `path`, locked; whatever is left of it at the end is deleted."""
    while True:
        handle = None
        temporary = path.with_name(f".{path.name}.{HOST}.{secrets.token_hex(4)}.tmp")
        temporary.mkdir(mode=0o700) if folder else temporary.touch(exist_ok=False)
        with suppress(FileNotFoundError, BlockingIOError):  # taken for abandoned before it was locked
            handle = _lock(temporary)
            if temporary.exists():
                break
        _unlock(handle)
    try:
        yield temporary
    finally:
        with suppress(OSError):
            delete(temporary)
        _unlock(handle)


def _put(temporary: Path, path: Path) -> None:
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    if path.is_dir() and not path.is_symlink():
        set_aside(path)
    temporary.replace(path)


def temporaries(folder: Path) -> list[Path]:
    """What is being written in a folder, or was when its writer died."""
    return sorted(folder.glob(".*.tmp"))


def remove_abandoned(folder: Path) -> None:
    """Remove what writers on this machine had begun when they died."""
    for path in folder.glob(f".*.{HOST}.*.tmp"):
        remove_temporary(path, unsure=False)


def remove_temporary(path: Path, unsure: bool = True) -> bool:
    """Remove a temporary file or folder, unless its writer lives; whether that was done.

    Args:
        path: what to remove.
        unsure: whether to remove it also where no lock can tell.
    """
    handle = None
    try:
        handle = _lock(path)
        if handle is None and not unsure:
            return False
        delete(path)
    except OSError:
        return False
    finally:
        _unlock(handle)
    return True


def delete(path: Path) -> None:
    """Delete a file, a link or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def set_aside(path: Path) -> Path:
    """Give something damaged another name, so that what can be saved of it is not lost; which one."""
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.damaged{'' if number == 1 else number}")):
        number += 1
    path.rename(aside)
    return aside


def _lock(path: Path) -> int | None:
    """A handle that keeps a file or folder locked; None where that is not possible.

    Raises:
        BlockingIOError: another process keeps it.
        FileNotFoundError: it is gone.
    """
    if sys.platform == "win32":
        return None
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return handle


def _unlock(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)
