"""Trials as tasks of Ray (https://docs.ray.io), on the machines of a cluster or on this one.

A task takes its trial along with what another machine lacks (`harness.travel`) and runs it there in a new process that
writes into a temporary folder; what it writes comes back in pieces, as it is written, and the caller keeps it. So
machines need no common file system, and a trial whose machine is gone goes on elsewhere with what has come back.
"""

import os
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import util
from itertools import islice
from typing import Any

from harness_plugins.executors.elsewhere import Event, run_elsewhere

from harness import RequestError, __version__
from harness.errors import HarnessError, PluginError
from harness.executors import Limits, Tell
from harness.executors.children import Child, Say, die_at_once, listen, working
from harness.files import write_atomic
from harness.plan import core_digest
from harness.schema import Record
from harness.store import RunDirectory
from harness.travel import Baggage, Use, came_home, may_have_files, pack, uses
from harness.work import Work

MOVES = 3
"""So often a trial goes on elsewhere after it lost its machine, which is not its fault."""

AT_ONCE = 1000
"""Tasks that are handed to Ray at a time; more would only fill its memory."""

PATIENCE = 30.0
"""Seconds in which a cluster must have answered."""

LONGEST_IMPORT = 600.0
"""Seconds that loading a plugin may take."""

GOODBYE = 5.0
"""Seconds that cancelled trials have to end; then they are killed, at the latest with the run."""

STORE = 200_000_000
"""Bytes of memory in which a Ray of this machine's own keeps what tasks send; more goes to the disk."""


class Ray:
    """Trials run as tasks of Ray: `ray` starts it on this machine, `ray:address=auto` joins the cluster of which this
    machine is a part.

    The packages of the plugins, and the same version of the harness, must be installed on all machines. `--jobs` counts
    where no address is given; a cluster runs as many trials at a time as it has room for. `--memory` is also what a
    trial asks of a machine.

    Args:
        address: of a cluster: `auto`, or the `host:port` of its head; none for a Ray of the run's own.
        num_cpus: cores that a trial takes, perhaps a part of one.
        num_gpus: GPUs that it takes, perhaps a part of one.
    """

    def __init__(
        self, jobs: int, limits: Limits, address: str | None = None, num_cpus: float = 1, num_gpus: float = 0
    ) -> None:
        for name, value, least in (("num_cpus", num_cpus, 0.01), ("num_gpus", num_gpus, 0)):
            if not least <= value < float("inf"):
                raise ValueError(f"{name} is a number from {least:g} on; received {value:g}")
        if address and address.startswith("ray://"):
            raise ValueError(
                f"{address} is for Ray's client, through which no records can be streamed; start the harness on a "
                "machine of the cluster, with address=auto"
            )
        if util.find_spec("ray") is None:
            raise RequestError("executor 'ray' needs the package ray: pip install 'sequence-harness[ray]'")
        self.jobs = jobs
        self.limits = limits
        self.address = address
        self.elsewhere = address is not None
        self.resources = {"CPU": num_cpus, "GPU": num_gpus, "memory": int((limits.memory or 0) * 2**30)}

    def __call__(self, works: Sequence[Work], tell: Tell) -> Iterator[Record]:
        """Run the trials; records come as soon as they are there."""
        devices = {work.planned.trial.device for work in works}
        if numbered := devices - {"cpu", "cuda"}:
            raise RequestError(f"Ray chooses the GPU of a trial; received {min(numbered)!r}: say --device cuda")
        if "cuda" in devices and not self.resources["GPU"]:
            raise RequestError("trials on cuda need GPUs; say how many each takes: --executor ray:num_gpus=1")
        baggage = _packed(works)
        with _connected(self.address, min(self.jobs, len(works)) * self.resources["CPU"]) as ray:
            self._check_room(ray)
            yield from _Run(ray, self, [*works], tell, ray.put(baggage)).records()

    def _check_room(self, ray: Any) -> None:
        """Ray would wait for ever, and say nothing, for a machine that is large enough."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if any(all(node.get(name, 0) >= amount for name, amount in self.resources.items()) for node in nodes):
            return
        asked = ", ".join(f"{amount:g} {name}" for name, amount in self.resources.items() if amount)
        most = ", ".join(f"{max(n.get(name, 0) for n in nodes):g} {name}" for name, n in self.resources.items() if n)
        message = f"no machine has what a trial takes ({asked}; the most there is: {most})"
        if self.address is None:
            raise RequestError(f"{message}; ask for less")
        warnings.warn(f"{message}; waiting for one that joins the cluster", stacklevel=2)


@dataclass
class _Run:
    """Trials on their way."""

    ray: Any
    executor: Ray
    works: list[Work]
    """With the cells that are left to measure."""
    tell: Tell
    baggage: Any
    running: dict[Any, int] = field(default_factory=dict)
    """Indices of trials, by the streams of their tasks."""
    lost: dict[int, int] = field(default_factory=dict)
    """How often a trial has lost its machine."""

    def records(self) -> Iterator[Record]:
        waiting = iter(range(len(self.works)))
        try:
            self._start(islice(waiting, AT_ONCE))
            while self.running:
                # with a timeout, so that an interrupt gets its turn
                ready, _ = self.ray.wait([*self.running], num_returns=1, timeout=0.2)
                for stream in ready:
                    yield from self._next(stream)
                self._start(islice(waiting, AT_ONCE - len(self.running)))
        finally:
            self._cancel()

    def _cancel(self) -> None:
        """End what runs, and leave it the time to take its temporary folders away."""
        for stream in self.running:
            self.ray.cancel(stream)
        deadline = time.monotonic() + GOODBYE
        while self.running and time.monotonic() < deadline:
            for stream in self.ray.wait([*self.running], num_returns=1, timeout=0.2)[0]:
                try:
                    self.ray.get(next(stream))
                except (StopIteration, self.ray.exceptions.RayError):
                    del self.running[stream]

    @cached_property
    def _task(self) -> Any:
        options = self.executor.resources
        return self.ray.remote(run_elsewhere).options(
            num_cpus=options["CPU"],
            num_gpus=options["GPU"],
            memory=options["memory"] or None,
            max_retries=0,  # a new attempt is ours: it begins with what has come back
            num_returns="streaming",
        )

    def _start(self, indices: Iterable[int]) -> None:
        for index in indices:
            work = self.works[index]
            stream = self._task.remote(work, _trained(work), self.baggage, self.executor.limits, core_digest())
            self.running[stream] = index

    def _next(self, stream: Any) -> Iterator[Record]:
        """What a task says next, or what becomes of its trial if it says no more."""
        index = self.running[stream]
        work = self.works[index]
        try:
            event: Event = self.ray.get(next(stream))
        except StopIteration:
            del self.running[stream]
            yield from self._end(index, RuntimeError("its task ended early"))
        except self.ray.exceptions.RayError as error:
            del self.running[stream]
            if self._goes_on(index, error):
                self._start([index])
            else:
                yield from self._end(index, _cause(error))
        else:
            if isinstance(event, float):
                self.tell(index, event)
            elif isinstance(event, str):
                yield self._keep(index, Record.model_validate_json(event))
            else:
                _keep_files(work, event)

    def _keep(self, index: int, record: Record) -> Record:
        planned = self.works[index].planned
        cells = {cell.id: cell for cell in planned.cells}
        record = came_home(record, cells.pop(record.id))
        RunDirectory(self.works[index].out).write_record(record)
        self.works[index] = replace(self.works[index], planned=replace(planned, cells=[*cells.values()]))
        return record

    def _goes_on(self, index: int, error: Exception) -> bool:
        """Whether a trial has lost its machine, or its place there, and may have another one."""
        exceptions = self.ray.exceptions
        if isinstance(error, exceptions.RayTaskError | exceptions.TaskCancelledError):
            return False  # its own code raised
        self.lost[index] = self.lost.get(index, 0) + 1
        retries = self.executor.limits.retries
        most = retries if isinstance(error, exceptions.OutOfMemoryError) else max(retries, MOVES)
        return self.lost[index] <= most

    def _end(self, index: int, error: BaseException) -> Iterator[Record]:
        """Each cell gets a record."""
        work = self.works[index]
        if work.planned.cells:
            from harness.blame import failure
            from harness.runner import failed_records

            yield from failed_records(work, work.planned.cells, failure(error))
        self.tell(index, 1.0)


def _cause(error: BaseException) -> BaseException:
    """What is wrong, for a reader who knows nothing of Ray."""
    cause: BaseException = getattr(error, "cause", None) or error
    if isinstance(cause, HarnessError):
        return cause
    if "No module named 'harness" in str(error):
        return PluginError(
            f"a machine of the cluster has no harness; run there: pip install sequence-harness=={__version__}"
        )
    first = next(filter(None, str(error).splitlines()), "")
    return RuntimeError(f"the trial lost its Ray task, and there was no attempt left (--retries): {first}")


def _trained(work: Work) -> dict[str, bytes]:
    """What the run directory has of a trial that was trained before, or in part."""
    trial = work.planned.trial.id
    names = (f"trials/{trial}.json", f"checkpoints/{trial}.safetensors", f"checkpoints/{trial}.partial")
    return {name: (work.out / name).read_bytes() for name in names if (work.out / name).is_file()}


def _keep_files(work: Work, files: dict[str, bytes]) -> None:
    """Write what came home; a training that is finished is no longer needed in part."""
    for place, content in files.items():
        write_atomic(work.out / place, content)
    if f"trials/{work.planned.trial.id}.json" in files:
        RunDirectory(work.out).partial(work.planned.trial.id).unlink(missing_ok=True)


def _packed(works: Sequence[Work]) -> Baggage:
    """What the trials take along; plugins are loaded in a process of their own to find out. Trials of one that ends it,
    or hangs, go without, and say what is wrong."""
    plugins = [(kind, use) for kind, use in uses(works) if may_have_files(use)]
    while plugins:
        with working(_pack, plugins) as child:
            found = _heard(child)
        if isinstance(found, Baggage):
            return found
        del plugins[found]
    return Baggage()


def _heard(child: Child) -> Baggage | int:
    """What was packed; or the place of the plugin at which the process ended, or hung."""
    packing, sign = None, time.monotonic()
    while True:
        listen([child], 1.0)
        code = child.exitcode
        for what, *more in child.heard():
            sign = time.monotonic()
            if what == "packed":
                baggage: Baggage = more[0]
                return baggage
            if what == "packing":
                packing = int(more[0])
        if code is not None or time.monotonic() - sign > LONGEST_IMPORT:
            if packing is None:
                raise HarnessError(die_at_once(code or 0))
            return packing


def _pack(say: Say, plugins: list[Use]) -> None:
    """In the new process."""
    say("packed", pack(plugins, lambda place: say("packing", place)))


@contextmanager
def _connected(address: str | None, cpus: float) -> Iterator[Any]:
    """Ray, connected to a cluster or to one of this machine's own, which ends with the run.

    Raises:
        RequestError: there is no cluster at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    if ray.is_initialized():  # by whoever calls the harness as a library
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "CRITICAL"}
    try:
        if address is None:
            own = {"address": "local", "num_cpus": max(1, int(cpus)), "include_dashboard": False}
            ray.init(**own, **quiet, object_store_memory=STORE, _temp_dir=_ray_folder())
        else:
            _answers(address)
            _in_time(lambda: ray.init(address=address, **quiet), address)
        yield ray
    finally:
        ray.shutdown()


def _answers(address: str) -> None:
    """Whether there is something at `host:port`: Ray itself would try for minutes.

    Raises:
        RequestError: there is not.
    """
    host, colon, port = address.rpartition(":")
    if not colon:
        return  # `auto`, which Ray finds out at once
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE / 3).close()
    except (OSError, ValueError, OverflowError) as error:
        raise _no_cluster(address, error) from None


def _in_time(connect: Callable[[], object], address: str) -> None:
    """Connect, or say in bounded time that there is no cluster."""
    problems: list[BaseException | None] = [TimeoutError(f"no answer within {PATIENCE:g} seconds")]

    def run() -> None:
        try:
            connect()
            problems[0] = None
        except BaseException as error:  # Ray raises SystemExit, too
            problems[0] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if problems[0] is not None:
        raise _no_cluster(address, problems[0])


def _no_cluster(address: str, error: BaseException) -> RequestError:
    why = " ".join(str(error).split())
    return RequestError(
        f"there is no Ray cluster at {address!r} that this machine is a part of: {why}. Start one with `ray start "
        "--head`, and say its address, or none for a Ray of this machine's own (--executor ray)"
    )


def _ray_folder() -> str | None:
    """Ray keeps sockets in the temporary folder, and their addresses have room for 107 bytes."""
    return "/tmp/ray" if len(os.fsencode(tempfile.gettempdir())) > 40 else None
