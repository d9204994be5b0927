"""The content of values that code uses: what counts in its fingerprint."""

import copyreg
import hashlib
import io
import pickle
import re
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

from harness.errors import STDLIB

Code = type | FunctionType


class Content(pickle.Pickler):
    """The content of a value, the same in every process: as pickle has it, but for code, which `refer` gets, for sets,
    which have no order, and for what pickle cannot tell, or tells by where in memory it is."""

    def __init__(self, refer: Callable[[Any], None], *, cyclic: bool = False) -> None:
        self.digest = hashlib.sha256()
        self.refer = refer
        super().__init__(SimpleNamespace(write=self.digest.update), protocol=4)
        self.fast = not cyclic  # or it would depend on which equal parts are the same object

    def of(self, value: object) -> str:
        """Sixteen hexadecimal digits that stand for it."""
        try:
            self.dump(value)
        except ValueError:
            if not self.fast:
                raise
            return Content(self.refer, cyclic=True).of(value)
        return self.digest.hexdigest()[:16]

    def persistent_id(self, value: Any) -> Any:
        """What stands for a part of it; None where pickle knows."""
        if type(value) is str and not self.fast:
            return repr(value)  # a new object: which equal ones are the same depends on the process
        if isinstance(value, Code | ModuleType):
            self.refer(value)
            return f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', value.__name__)}"
        if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType | type | None):
            return f"{value.__qualname__}"
        if isinstance(value, set | frozenset):
            return sorted(Content(self.refer).of(each) for each in value)
        if isinstance(value, MappingProxyType):
            return "proxy", dict(value)
        if isinstance(value, io.TextIOBase) and hasattr(value, "name"):  # text in memory has none
            return "stream", str(value.name)
        if (function := cached(value)) is not None:
            return type(value).__qualname__, function
        torch: Any = sys.modules.get("torch")
        return _of_torch(value, torch) if torch is not None else None

    def reducer_override(self, value: Any) -> Any:
        """As pickle takes it apart; what comes from a library and cannot be stands as it is written."""
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            return reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:
            text = repr(value)
            if not _from_library(type(value)) or re.search(r"\b(object|function|method)\b.* at 0x", text):
                raise
            return str, (re.sub(" at 0x[0-9a-fA-F]+", "", text),)


def _of_torch(value: Any, torch: Any) -> Any:
    """What stands for an object of torch that pickle does not know."""
    if isinstance(value, torch.Tensor):
        if value.is_meta:
            return "meta", str(value.dtype), tuple(value.shape)
        if value.layout != torch.strided:
            sparse = value.detach().to_sparse_coo().coalesce()
            return str(value.layout), tuple(value.shape), sparse.indices(), sparse.values()
        data = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
        return str(data.dtype), tuple(data.shape), data.reshape(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(value, torch.jit.ScriptFunction):
        return "script", value._torchdynamo_inline
    if isinstance(value, torch.jit.ScriptModule):
        made = value._concrete_type
        kept = {name: value._c.getattr(name) for name in made.get_attributes()}
        return made.py_class, kept, made.get_constants(), dict(value.named_children()), value.state_dict()
    if isinstance(value, torch.nn.Module) and "parametrizations" in value._modules:  # of a class made for it alone
        kept = {k: [*v.values()] if k.endswith("_hooks") else v for k, v in vars(value).items()}  # numbered by process
        return type(value).__bases__[0], kept
    if isinstance(value, torch._ops.OperatorBase | torch._ops.OpOverloadPacket):
        return "operator", str(value)
    if isinstance(value, torch.library.CustomOpDef):
        return str(value), value._init_fn, value._setup_context_fn, value._backward_fn
    return None


def cached(value: Any) -> FunctionType | None:
    """The function inside of a cache, or of whatever else a library has made of it; None for other values."""
    function = getattr(value, "__wrapped__", None) if _from_library(type(value)) else None
    return function if isinstance(function, FunctionType) and not isinstance(value, FunctionType) else None


def _from_library(kind: type) -> bool:
    """Whether a class is not the user's."""
    module = sys.modules.get(kind.__module__)
    return module is not None and kind.__module__ != "__main__" and not owned(module)


def owned(module: ModuleType) -> bool:
    """Whether a module is the user's: not Python's, not ours, not installed."""
    file = getattr(module, "__file__", None) or ""
    ours = module.__name__.partition(".")[0] == __package__
    return file.endswith(".py") and not ours and "-packages" not in file and not file.startswith(STDLIB)
