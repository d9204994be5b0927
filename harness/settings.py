"""Settings that all code of a process shares, and that decide numbers or what other code does: torch's, and a few of
Python's. Read, compared and put back. Never imports torch itself, so that what only plans can use it.

What counts as changed is chosen so that honest plugins are not hit. A trial decides how many threads it takes, so a
`torch.set_num_threads` in a file is put back without a word; so are an entry on `sys.path`, numpy's answer to a
division by zero, and environment variables that had a value. New environment variables stay: libraries set them when
they are imported, and nobody else reads them.
"""

import faulthandler
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

WITH = "use it in a `with` statement"
DROP = "leave it out, or put the old value back in a `finally`"
DTYPE = "say dtype=... where tensors are made instead"
DEVICE = "say device=... where tensors are made instead"
FOLDER = "use absolute paths instead"

ANY = object()
"""As a standard: a trial takes what it finds."""

MIXED = "several values"
"""Of a setting that torch cannot tell, since it was set in two ways."""


@dataclass(frozen=True)
class Setting:
    """Something that is read and set for the whole process, or for this thread."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], object]
    standard: Any = ANY
    """The value with which a trial begins, wherever it runs."""
    fix: str = ""
    """What the author of a plugin can do who left it changed; "" for a setting that is put back without a word."""
    implied: bool = False
    """Whether it follows from others, and is named only where none of them has changed."""


_FLAGS = {
    "backends.cudnn.enabled": True,
    "backends.cudnn.benchmark": False,
    "backends.cudnn.deterministic": False,
    "backends.cudnn.allow_tf32": False,  # ten bits of a mantissa are too few for a leak of exactly 0
    "backends.mkldnn.enabled": True,
    "backends.mkldnn.deterministic": False,
    "backends.cuda.matmul.allow_fp16_reduced_precision_reduction": ANY,
    "backends.cuda.matmul.allow_bf16_reduced_precision_reduction": ANY,
    "utils.deterministic.fill_uninitialized_memory": True,
}
"""Attributes of torch, and with what a trial begins."""

_SWITCHES = (
    ("backends.cuda", "flash_sdp_enabled", "enable_flash_sdp", True),
    ("backends.cuda", "mem_efficient_sdp_enabled", "enable_mem_efficient_sdp", True),
    ("backends.cuda", "math_sdp_enabled", "enable_math_sdp", True),
    ("backends.cuda", "cudnn_sdp_enabled", "enable_cudnn_sdp", True),
    ("backends.cuda", "fp16_bf16_reduction_math_sdp_allowed", "allow_fp16_bf16_reduction_math_sdp", False),
    ("backends.mha", "get_fastpath_enabled", "set_fastpath_enabled", True),
)
"""A module of torch with a function that tells and one that sets; with what a trial begins."""

_PRECISIONS = (
    *("generic all", "cuda all", "mkldnn all"),
    *(f"{backend} {operation}" for backend in ("cuda", "mkldnn") for operation in ("matmul", "conv", "rnn")),
)
"""torch's newer way to say how exact float32 is, the broader ones first."""


@cache
def settings() -> tuple[Setting, ...]:
    """All of them, in the order in which they are put back."""
    return (*_of_torch(importlib.import_module("torch")), *_of_python())


def _of_torch(torch: Any) -> Iterator[Setting]:
    internal = torch._C
    yield Setting("torch's default dtype", torch.get_default_dtype, torch.set_default_dtype, torch.float32, DTYPE)
    yield Setting("torch's default device", _default_device(torch), torch.set_default_device, None, DEVICE)
    entered: list[Any] = []  # a mode lasts as long as the object that entered it

    def infer(value: bool) -> None:
        mode = internal._InferenceMode(value)
        mode.__enter__()
        entered.append(mode)

    yield Setting("torch's inference mode", torch.is_inference_mode_enabled, infer, False, WITH)
    yield Setting("torch's gradient mode", torch.is_grad_enabled, torch.set_grad_enabled, True, WITH)
    for kind in ("cpu", "cuda"):
        yield Setting(f"autocast on {kind}", *_of(torch, "autocast_enabled", kind, "is"), False, WITH)
        yield Setting(f"autocast's dtype on {kind}", *_of(torch, "autocast_dtype", kind, "get"), ANY, WITH)
    yield Setting("torch's autocast blocks", _depth(torch), _leave_blocks(torch), ANY, WITH, implied=True)
    get = _or_mixed(torch.get_float32_matmul_precision)
    yield Setting("torch's float32 matmul precision", get, torch.set_float32_matmul_precision, "highest", DROP)
    for name, standard in _FLAGS.items():
        place, _, attribute = f"torch.{name}".rpartition(".")
        if found := _flag(_within(torch, place), attribute):
            yield Setting(f"torch.{name}", *found, standard, DROP)
    for place, get_name, set_name, standard in _SWITCHES:
        module = _within(torch, f"torch.{place}")
        if hasattr(module, get_name):
            yield Setting(
                f"torch.{place}.{get_name}()", getattr(module, get_name), getattr(module, set_name), standard, DROP
            )
    for name in _PRECISIONS if hasattr(internal, "_get_fp32_precision_getter") else ():
        yield Setting(f"torch's fp32_precision of {name}", *_precision(internal, *name.split()), fix=DROP, implied=True)

    def deterministic() -> tuple[bool, bool]:
        return internal._get_deterministic_algorithms(), internal._get_deterministic_algorithms_warn_only()

    def determine(value: tuple[bool, bool]) -> None:  # torch.use_deterministic_algorithms imports torch's compiler
        internal._set_deterministic_algorithms(value[0], warn_only=value[1])

    yield Setting("torch's deterministic algorithms (on, only warns)", deterministic, determine, (False, False), DROP)

    def anomalies() -> tuple[bool, bool]:
        return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()

    def detect(value: tuple[bool, bool]) -> None:
        torch.set_anomaly_enabled(*value)

    yield Setting("torch's anomaly detection (on, checks for NaN)", anomalies, detect, ANY, WITH)
    yield Setting("flushing of the smallest numbers to 0", _flushes, torch.set_flush_denormal, False, DROP)
    pop = importlib.import_module("torch.overrides")._pop_mode
    yield Setting("torch's function modes", *_stack(internal._len_torch_function_stack, pop), 0, WITH, implied=True)
    pop = importlib.import_module("torch.utils._python_dispatch")._pop_mode
    yield Setting("torch's dispatch modes", *_stack(internal._len_torch_dispatch_stack, pop), 0, WITH)
    yield Setting("hooks for saved tensors", *_saved_tensor_hooks(internal._autograd), None, WITH)
    yield Setting("torch's threads", torch.get_num_threads, torch.set_num_threads)


def _of_python() -> Iterator[Setting]:
    yield Setting("the current folder", _folder, os.chdir, fix=FOLDER)
    yield Setting("sys.path", lambda: [*sys.path], lambda value: sys.path.__setitem__(slice(None), value))
    yield Setting("environment variables", lambda: {**_variables()}, _put_variables)
    yield Setting("which standard files are open", _open_files, _put_open_files)
    yield Setting("the rights of new files", _umask, os.umask)
    if hasattr(signal, "setitimer"):  # Windows has none
        yield Setting("alarms", _alarms, _put_alarms)
    yield Setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit)
    yield Setting("warnings that are errors", _strict_warnings, _put_strict_warnings)
    numpy: Any = importlib.import_module("numpy")
    yield Setting("numpy's error state", numpy.geterr, lambda value: numpy.seterr(**value))
    for number in (signal.SIGINT, signal.SIGTERM):
        yield Setting(f"the handler of {number.name}", *_handler(number))


@dataclass(frozen=True)
class Settings:
    """The settings at one moment."""

    values: tuple[Any, ...]

    @classmethod
    def now(cls) -> "Settings":
        """As they are."""
        return cls(tuple(setting.get() for setting in settings()))

    def changes(self, now: "Settings | None" = None) -> list[tuple[Setting, Any, Any]]:
        """The settings that are not what they were, except those that are put back without a word: which, before,
        now."""
        pairs = zip(settings(), self.values, (now or Settings.now()).values, strict=True)
        found = [(setting, before, value) for setting, before, value in pairs if setting.fix and value != before]
        return [each for each in found if not each[0].implied] or found

    def put_back(self) -> list[tuple[Setting, Any, Any]]:
        """Every setting gets its old value again. Gives what `changes` found before that."""
        if multiprocessing.parent_process():  # or it may be the user's; nobody can ask whether there is one
            faulthandler.cancel_dump_traceback_later()
        now = Settings.now()
        if now == self:
            return []
        found = self.changes(now)
        for setting, before in zip(settings(), self.values, strict=True):
            if setting.get() != before:
                with suppress(OSError):  # a folder that is gone
                    setting.put(before)
        return found


@contextmanager
def standard_settings(threads: int) -> Iterator[None]:
    """The settings of a trial, whatever the caller has chosen; the caller's come back afterwards."""
    before = Settings.now()
    try:
        for setting in settings():
            wanted = threads if setting.name == "torch's threads" else setting.standard
            if wanted is not ANY and setting.get() != wanted:
                setting.put(wanted)
        yield
    finally:
        before.put_back()


def in_force() -> dict[str, str]:
    """What decides the last digits of results, in words, for a record."""
    wanted = {
        "torch's default dtype": "dtype",
        "torch's float32 matmul precision": "float32_matmul_precision",
        "torch.backends.cudnn.allow_tf32": "cudnn_tf32",
        "torch.backends.cudnn.benchmark": "cudnn_benchmark",
        "torch.backends.mkldnn.enabled": "mkldnn",
        "torch's deterministic algorithms (on, only warns)": "deterministic_algorithms",
    }
    found = {wanted[each.name]: each.get() for each in settings() if each.name in wanted}
    return {name: _word(value[0] if isinstance(value, tuple) else value) for name, value in found.items()}


def _word(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value).removeprefix("torch.")


def _default_device(torch: Any) -> Callable[[], Any]:
    """The device that was set, and None where none was: `torch.get_default_device()` cannot tell that from the CPU."""
    known = torch._GLOBAL_DEVICE_CONTEXT
    return lambda: getattr(getattr(known, "device_context", None), "device", None)


def _of(torch: Any, name: str, kind: str, verb: str) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    get, put = getattr(torch, f"{verb}_{name}"), getattr(torch, f"set_{name}")
    return lambda: get(kind), lambda value: put(kind, value)


def _depth(torch: Any) -> Callable[[], int]:
    """How many autocast blocks were entered and not left."""

    def depth() -> int:
        torch.autocast_increment_nesting()
        return int(torch.autocast_decrement_nesting())

    return depth


def _leave_blocks(torch: Any) -> Callable[[int], None]:
    def leave(depth: int) -> None:
        torch.autocast_increment_nesting()
        while torch.autocast_decrement_nesting() > depth:
            pass
        torch.clear_autocast_cache()

    return leave


def _flag(module: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]] | None:
    try:
        getattr(module, name)
    except (AttributeError, RuntimeError):
        return None
    return lambda: getattr(module, name), lambda value: setattr(module, name, value)


def _within(torch: Any, path: str) -> Any:
    """`torch.backends.cudnn` by its path; None in a torch without it."""
    found = torch
    for name in path.split(".")[1:]:
        found = getattr(found, name, None)
    return found


def _or_mixed(get: Callable[[], Any]) -> Callable[[], Any]:
    def found() -> Any:
        try:
            return get()
        except RuntimeError:
            return MIXED

    return found


def _precision(internal: Any, backend: str, operation: str) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    get, put = internal._get_fp32_precision_getter, internal._set_fp32_precision_setter
    return lambda: get(backend, operation), lambda value: put(backend, operation, value)


_SMALLEST = [sys.float_info.min]
"""In a list, so that Python does not divide while it compiles."""


def _flushes() -> bool:
    return _SMALLEST[0] / 2 == 0


def _stack(depth: Callable[[], int], pop: Callable[[], object]) -> tuple[Callable[[], int], Callable[[int], None]]:
    """How many modes were entered and not left; leaves those above so many."""

    def leave(wanted: int) -> None:
        while depth() > wanted:
            pop()

    return depth, leave


def _saved_tensor_hooks(autograd: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Those that were entered last and not left; leaves what was entered since."""

    def top() -> Any:
        return autograd._top_saved_tensors_default_hooks(False)

    def leave(wanted: Any) -> None:
        while top() not in (None, wanted):
            autograd._pop_saved_tensors_default_hooks()

    return top, leave


def _folder() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _variables() -> dict[Any, Any]:
    found: dict[Any, Any] = vars(os.environ)["_data"]
    return found  # as Python keeps them: a copy of os.environ itself takes a hundred times as long


def _put_variables(before: dict[Any, Any]) -> None:
    """What had a value has it again; what is new stays."""
    for key, value in before.items():
        if _variables().get(key) != value:
            os.environ[os.environ.decodekey(key)] = os.environ.decodevalue(value)


def _open_files() -> tuple[bool, ...]:
    """Standard input, output and error, and Python's own file for the last."""
    return (*map(_is_open, range(3)), not getattr(sys.stderr, "closed", True))


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _put_open_files(before: tuple[bool, ...]) -> None:
    """What was closed is open again, and leads nowhere: the next file that is opened must not take its place, and with
    it whatever is printed."""
    *numbers, python = before
    for number in (number for number, was_open in enumerate(numbers) if was_open and not _is_open(number)):
        file = os.open(os.devnull, os.O_RDWR)
        if file != number:
            os.dup2(file, number)
            os.close(file)
    if python and getattr(sys.stderr, "closed", True):
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def _umask() -> int:
    os.umask(mask := os.umask(0o077))
    return mask


def _alarms() -> list[bool]:
    """Whether one is set, of each kind: by the clock, and by processor time without and with the system's."""
    return [signal.getitimer(each)[0] > 0 for each in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)]


def _put_alarms(before: list[bool]) -> None:
    """One that was set meanwhile would end the process while another plugin is at work."""
    for each, was_set in zip((signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF), before, strict=True):
        if not was_set:
            signal.setitimer(each, 0)


def _strict_warnings() -> list[Any]:
    return [each for each in warnings.filters if each[0] == "error"]


def _put_strict_warnings(before: list[Any]) -> None:
    """Warnings that became errors are warnings again; libraries may silence what they like."""
    kept: Any = warnings.filters
    kept[:] = [each for each in kept if each[0] != "error" or each in before]
    with warnings.catch_warnings():  # which has Python look at the filters anew
        pass


def _handler(number: signal.Signals) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    def put(handler: Any) -> None:
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(number, handler)

    getsignal = importlib.import_module("_signal").getsignal  # the one in `signal` looks for the handler's name
    return lambda: getsignal(number), put
