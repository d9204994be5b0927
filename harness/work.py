"""A trial on its way to whatever runs it. Light, so that what hands trials out needs no torch."""

import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from harness.plan import Planned


@dataclass(frozen=True)
class Work:
    """A trial to run, with all that another process needs to know. Plain data: it can be pickled."""

    planned: Planned
    """The trial, and those of its cells that are left to measure."""
    out: Path
    """The run directory, perhaps relative to the working directory of the run."""
    threads: int = 1
    """torch threads."""
    revision: str | None = None
    """Of the user's code, as git says."""
    dirty: bool | None = None
    """Whether that has uncommitted changes."""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When the run began, later than whatever its directory holds already (`RunDirectory.begin`)."""


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Revision of the folder and whether it has uncommitted changes; None, None where git does not answer."""
    try:
        revision, status = (
            subprocess.run(["git", *command], cwd=folder, capture_output=True, timeout=10, check=True).stdout
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.SubprocessError):
        return None, None
    return revision.decode().strip(), bool(status.strip())
