"""How long a model takes and how much memory, measured in a process of its own with a fixed number of threads.

Run as `python -m harness.timing` with an `Order` as JSON on standard input; it prints a `Timings` as JSON.
"""

import ctypes
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from harness.measurements import Strict
from harness.schema import Trial
from harness.targets import is_given

if TYPE_CHECKING:
    from torch import Tensor, nn

START = 600.0
"""Seconds that importing and building the model, and the shortest length, may take beyond all budgets."""
PARENT_DEATH = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


class Order(Strict):
    """What to time."""

    trial: Trial
    """The model, built as constructed; the task says what goes in."""
    lengths: list[int]
    """Sequence lengths in tokens, ascending."""
    batch: int
    """Sequences at once."""
    threads: int
    """torch threads."""
    backward: bool
    """Whether to time forward and backward together, too."""
    budget: float
    """Seconds for each length and direction. A length that would take more for one run is left out."""

    @property
    def patience(self) -> float:
        """Seconds after which nobody waits any more: a run may exceed its budget, and does so by less than this."""
        return START + 4 * self.budget * len(self.lengths) * (2 if self.backward else 1)


class Timings(Strict):
    """Shortest times and largest memory; NaN where a length was left out or the model cannot take it."""

    forward: list[float]
    """Seconds of a forward pass without gradients, per length."""
    both: list[float]
    """Seconds of a forward and a backward pass, per length."""
    forward_bytes: list[float]
    """Peak memory of a forward pass beyond what was in use before it (Linux only)."""
    limit: str | None = None
    """Why the longest lengths have no times, if the model refused them."""


def run_order(order: Order) -> Timings:
    """Time in a new process, so that the thread count is set before torch starts and memory is the model's own.

    Raises:
        Skip: the new process would not find the model.
        RuntimeError: the process failed, with its last lines of output; or gave no answer.
    """
    from harness.contracts import Skip

    for use in (order.trial.model, order.trial.task):
        if is_given(use):
            raise Skip(
                f"{use.label} is known to this process alone, and timing takes another one; ask for it by its file, "
                f"for example './file.py:{use.label}'"
            )
    threads = {name: str(order.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    with TemporaryFile() as given, TemporaryFile() as answer, TemporaryFile() as errors:
        # -P: a `copy.py` in the current folder is not Python's; modules are found where this process finds them
        # files, since a process that the model leaves behind would hold a pipe open
        given.write(order.model_dump_json().encode())
        given.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.timing"],
            stdin=given,
            stdout=answer,
            stderr=errors,
            env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(map(str, sys.path))},
            start_new_session=True,
        )
        try:
            code = process.wait(order.patience)
        except subprocess.TimeoutExpired:
            raise RuntimeError(
                f"the timing process gave no answer in {order.patience:g} s: the model hangs, or one run takes far "
                f"longer than the budget of {order.budget:g} s"
            ) from None
        finally:
            _end(process)
        answer.seek(0)
        errors.seek(0)
        if code:
            last = errors.read().decode(errors="replace").strip().splitlines()[-3:]
            raise RuntimeError("the timing process failed: " + "\n".join(last))
        return Timings.model_validate_json(answer.read())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it, and what is left of its group."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def measure(order: Order) -> Timings:
    """The measurement itself, in this process, with the settings of every trial, which the record's provenance says."""
    import torch

    from harness.isolation import one_trial

    with one_trial(torch.device(order.trial.device), order.threads):
        return _measure(order)


def _measure(order: Order) -> Timings:
    from harness.build import TrialPlugins
    from harness.registry import default_registry

    trial = order.trial
    plugins = TrialPlugins(default_registry(), trial)
    interface = plugins.build_task().interface
    model = plugins.build_model(interface)
    forwards: list[float] = []
    boths: list[float] = []
    memories: list[float] = []
    limits: dict[str, str] = {}
    for length in order.lengths:
        with _refusal(limits, "forward", f"at {length} tokens"):
            inputs = interface.draw(order.batch, length, device=trial.device)
            if interface.input == "vectors":
                inputs.requires_grad_(order.backward)
            forward = partial(_forward, model, inputs)
            if "forward" not in limits and affordable(forwards, order, length):
                model.eval()
                if not memories:
                    forward()
                memories.append(peak_memory(forward, trial.device))
                forwards.append(shortest(forward, order.budget))
        with _refusal(limits, "backward", f"backward at {length} tokens"):
            if order.backward and not limits and affordable(boths, order, length):
                model.train()
                boths.append(shortest(partial(_both, model, inputs), order.budget))

    def padded(values: list[float]) -> list[float]:
        return values[: len(order.lengths)] + [math.nan] * (len(order.lengths) - len(values))

    return Timings(
        forward=padded(forwards),
        both=padded(boths),
        forward_bytes=padded(memories),
        limit="; ".join(limits.values()) or None,
    )


@contextmanager
def _refusal(limits: dict[str, str], direction: str, where: str) -> Iterator[None]:
    """What the model does not take is written down; that memory ran out says nothing of the model, and is raised."""
    import torch

    from harness.errors import describe

    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, IndexError, ValueError) as error:
        limits[direction] = f"{where}: {describe(error)}"


def _forward(model: "nn.Module", inputs: "Tensor") -> None:
    """A pass without gradients, to its end."""
    import torch

    with torch.inference_mode():
        model(inputs)
    _finish(inputs)


def _both(model: "nn.Module", inputs: "Tensor") -> None:
    """A pass forward and backward, to its end."""
    outputs: Tensor = model(inputs)
    if not outputs.requires_grad:
        raise ValueError("the model's outputs carry no gradient")
    outputs.sum().backward()
    _finish(inputs)


def _finish(inputs: "Tensor") -> None:
    """Wait for an accelerator."""
    if inputs.device.type != "cpu":
        import torch

        torch.cuda.synchronize()


def affordable(times: list[float], order: Order, length: int) -> bool:
    """Whether one run at this length fits the budget, if time grows with the square of the length; once a length is
    left out, all longer ones are."""
    index = order.lengths.index(length)
    if len(times) < index:
        return False
    return index == 0 or times[-1] * (length / order.lengths[index - 1]) ** 2 <= order.budget


def shortest(run: Callable[[], None], budget: float, repeats: int = 9, enough: float = 0.5) -> float:
    """Shortest of at least `repeats` runs and `enough` seconds, as far as the budget goes; the first run (which warms
    up) is left out if there are more. What else the machine does lengthens most runs, and rarely all of them."""
    times: list[float] = []
    started = time.perf_counter()
    # once in any case: the machine may stop this process for longer than the budget
    while not times or ((gone := time.perf_counter() - started) < budget and (len(times) < repeats or gone < enough)):
        before = time.perf_counter()
        run()
        times.append(time.perf_counter() - before)
    return min(times[1:] or times)


def peak_memory(run: Callable[[], object], device: str = "cpu") -> float:
    """Bytes of memory at the peak of a run beyond what was in use before; NaN where there is no Linux to ask.

    Run once before: what a first pass loads (kernels, thread pools) is not the model's.
    """
    if device != "cpu":
        import torch

        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return float(torch.cuda.max_memory_allocated() - before)
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    try:
        _give_back()
        reset.write_text("5", encoding="utf-8")  # the kernel forgets the old peak
        before = _kilobytes(status, "VmRSS")
        run()
        return max(0, _kilobytes(status, "VmHWM") - before) * 1024.0
    except OSError:
        run()
        return math.nan


def _give_back() -> None:
    """Hand freed memory to the kernel: the allocator keeps it, and a run that takes it again would seem to need none
    of it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)


def _kilobytes(status: Path, field: str) -> int:
    return next(
        int(line.split()[1]) for line in status.read_text(encoding="utf-8").splitlines() if line.startswith(field)
    )


if __name__ == "__main__":
    if sys.platform == "linux":  # where the run is killed, nobody waits for this
        ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGKILL, 0, 0, 0)
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)  # what plugins print goes aside
        answer.write(measure(Order.model_validate_json(sys.stdin.buffer.read())).model_dump_json().encode())
