"""What produced a record: versions, machine, revision."""

import platform
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import torch

from harness import __version__
from harness.plan import core_digest
from harness.schema import Provenance


def provenance(
    device_name: str,
    threads: int,
    revision: str | None,
    dirty: bool | None,
    settings: dict[str, str] | None = None,
    started: datetime | None = None,
) -> Provenance:
    """What is running, where and when."""
    device = torch.device(device_name)
    return Provenance(
        harness=__version__,
        core=core_digest(),
        python=platform.python_version(),
        torch=torch.__version__,
        platform=f"{platform.system()} {platform.machine()}",
        host=platform.node(),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else _processor(),
        threads=threads,
        settings=settings or {},
        revision=revision,
        dirty=dirty,
        finished=datetime.now(UTC),
        started=started,
    )


@cache
def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
