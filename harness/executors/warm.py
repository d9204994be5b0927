"""What the server that processes are forked from has done before: it has imported this module, and nothing else does.

It has imported what every trial needs and used nothing, so that a fork is safe, ready within milliseconds, and shares
its memory. Nothing of anybody else is in it: other plugins are imported by each trial anew.
"""

# ruff: noqa: E402
import gc

gc.disable()  # there is no garbage in what is imported, and to look for it takes a fifth of the time

import atexit
import contextlib
import importlib
import os
import shutil
import signal
import time
import warnings
from importlib import metadata
from typing import Any

import harness.executors.planning
import harness.executors.processes
import harness.runner  # noqa: F401 - what trials need
from harness.errors import HarnessError
from harness.executors.start import OURS, RUN, SOCKETS
from harness.executors.strays import end_descendants, keep_orphans
from harness.provenance import provenance
from harness.registry import build_registry
from harness.sources import source_digest
from harness.targets import load_definition
from harness.vocabulary import CROSSED

LATER = ("multiprocessing.popen_forkserver", "numpy.random", "numpy.ctypeslib", "torch.profiler._cupti_monitor")
"""What each process would import as soon as it starts or asks numpy or torch for something, where there is such."""


def _leave(*given: Any) -> None:
    """At once: Python ignores, with a message, what is raised while it forks."""
    _clean(wait=0.0)
    os._exit(0)


def _clean(wait: float = 1.0) -> None:
    """End what was forked, and remove what a run that was killed has left; it may take so many seconds to be gone."""
    if os.getpid() != _server:
        return
    end_descendants(_server)
    deadline = time.monotonic() + wait
    while (alive := os.getppid() == _run) and time.monotonic() < deadline:
        time.sleep(0.01)
    if not alive and (folder := os.environ.get(SOCKETS)):
        shutil.rmtree(folder, ignore_errors=True)


def _import_built_in() -> None:
    """Their modules, and the digests of what was imported: from here on an edit is noticed."""
    points = [point for point in metadata.entry_points(group="harness") if point.dist and point.dist.name == OURS]
    registry = build_registry(points)
    for kind in CROSSED:
        for entry in registry.all(kind):
            with contextlib.suppress(HarnessError):  # whoever asks for it is told
                definition = load_definition(entry)
                source_digest(definition.module)
                _ = definition.arguments


for _name in LATER:
    with contextlib.suppress(ImportError):
        importlib.import_module(_name)
provenance("cpu", 1, None, None)  # the processor, the versions and the digest of the core are found once
_import_built_in()
keep_orphans()
_server, _run = os.getpid(), int(os.environ.get(RUN, 0))
atexit.register(_clean)
for _name in ("SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, _name), _leave)
warnings.filterwarnings("ignore", "forkserver: waitpid returned")  # of orphans
gc.freeze()  # a collection in a fork copies no page of these
gc.enable()
