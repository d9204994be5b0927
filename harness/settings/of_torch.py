"""torch's settings."""

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from harness.settings.setting import ANY, Setting

WITH = "use it in a `with` statement"
DROP = "leave it out, or put the old value back in a `finally`"
DTYPE = "say dtype=... where tensors are made instead"
DEVICE = "say device=... where tensors are made instead"

MIXED = "several values"
"""Of a setting that torch cannot tell, since it was set in two ways."""

_FLAGS = {
    "backends.cudnn.enabled": True,
    "backends.cudnn.benchmark": False,
    "backends.cudnn.deterministic": False,
    "backends.cudnn.allow_tf32": False,  # ten bits of a mantissa are too few for a leak of exactly 0
    "backends.mkldnn.enabled": True,
    "backends.mkldnn.deterministic": False,
    "backends.cuda.matmul.allow_fp16_reduced_precision_reduction": ANY,
    "backends.cuda.matmul.allow_bf16_reduced_precision_reduction": ANY,
    "backends.opt_einsum.enabled": ANY,
    "backends.opt_einsum.strategy": ANY,
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
    ("_C", "_get_nnpack_enabled", "_set_nnpack_enabled", True),
)
"""A module of torch with a function that tells and one that sets; with what a trial begins."""

_PRECISIONS = (
    *("generic all", "cuda all", "mkldnn all"),
    *(f"{backend} {operation}" for backend in ("cuda", "mkldnn") for operation in ("matmul", "conv", "rnn")),
)
"""torch's newer way to say how exact float32 is, the broader ones first."""


def of_torch(torch: Any) -> Iterator[Setting]:
    """In the order in which they are put back."""
    internal = torch._C
    yield Setting("torch's default dtype", torch.get_default_dtype, torch.set_default_dtype, torch.float32, DTYPE)
    yield Setting("torch's default device", _default_device(torch), torch.set_default_device, None, DEVICE)
    yield Setting("torch's inference mode", torch.is_inference_mode_enabled, _enter_inference(internal), False, WITH)
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
    name = "torch's deterministic algorithms (on, only warns)"
    yield Setting(name, *_determinism(internal), (False, False), DROP)
    yield Setting("torch's anomaly detection (on, checks for NaN)", *_anomalies(torch), ANY, WITH)
    yield Setting("flushing of the smallest numbers to 0", _flushes, torch.set_flush_denormal, False, DROP)
    pop = importlib.import_module("torch.overrides")._pop_mode
    yield Setting("torch's function modes", *_stack(internal._len_torch_function_stack, pop), 0, WITH, implied=True)
    pop = importlib.import_module("torch.utils._python_dispatch")._pop_mode
    yield Setting("torch's dispatch modes", *_stack(internal._len_torch_dispatch_stack, pop), 0, WITH)
    yield Setting("hooks for saved tensors", *_saved_tensor_hooks(internal._autograd), None, WITH)
    yield Setting("torch's threads", torch.get_num_threads, torch.set_num_threads)


def _default_device(torch: Any) -> Callable[[], Any]:
    """The device that was set, and None where none was: `torch.get_default_device()` cannot tell that from the CPU."""
    known = torch._GLOBAL_DEVICE_CONTEXT
    return lambda: getattr(getattr(known, "device_context", None), "device", None)


def _enter_inference(internal: Any) -> Callable[[bool], None]:
    entered: list[Any] = []  # a mode lasts as long as the object that entered it

    def enter(value: bool) -> None:
        mode = internal._InferenceMode(value)
        mode.__enter__()
        entered.append(mode)

    return enter


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


def _determinism(internal: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    def get() -> tuple[bool, bool]:
        return internal._get_deterministic_algorithms(), internal._get_deterministic_algorithms_warn_only()

    def put(value: tuple[bool, bool]) -> None:  # torch.use_deterministic_algorithms imports torch's compiler
        internal._set_deterministic_algorithms(value[0], warn_only=value[1])

    return get, put


def _anomalies(torch: Any) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    def get() -> tuple[bool, bool]:
        return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()

    return get, lambda value: torch.set_anomaly_enabled(*value)


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
