"""An evaluation harness for sequence architectures.

Whoever uses the harness or writes for it imports the names below from here, wherever they are defined; what else there
is, such as `harness.attention` for probes, from its own module.

Light: `import harness` imports neither torch nor any plugin; the torch-side names are loaded on first use.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from harness.hookspecs import hookimpl
from harness.specs import ExecutorSpec, ModelSpec, ProbeSpec, SuiteSpec, TaskSpec

if TYPE_CHECKING:
    from harness.api import run
    from harness.batches import IGNORE, Batch, Interface
    from harness.comparing import compare
    from harness.contracts import Condition, Metric, Skip, Task, token_metrics
    from harness.errors import RequestError
    from harness.measurements import Curve, Matrix, Pattern, Scalar
    from harness.results import load
    from harness.subject import Subject

    __version__: str

_LAZY = {
    "run": "harness.api",
    "compare": "harness.comparing",
    "load": "harness.results",
    **dict.fromkeys(("IGNORE", "Batch", "Interface"), "harness.batches"),
    **dict.fromkeys(("Condition", "Metric", "Skip", "Task", "token_metrics"), "harness.contracts"),
    **dict.fromkeys(("Curve", "Matrix", "Pattern", "Scalar"), "harness.measurements"),
    "Subject": "harness.subject",
    "RequestError": "harness.errors",
}

__all__ = [
    "IGNORE",
    "Batch",
    "Condition",
    "Curve",
    "ExecutorSpec",
    "Interface",
    "Matrix",
    "Metric",
    "ModelSpec",
    "Pattern",
    "ProbeSpec",
    "RequestError",
    "Scalar",
    "Skip",
    "Subject",
    "SuiteSpec",
    "Task",
    "TaskSpec",
    "compare",
    "hookimpl",
    "load",
    "run",
    "token_metrics",
]


def __dir__() -> list[str]:
    """All public names, loaded or not."""
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "__version__":  # on demand, since reading it takes longer than all the rest
        globals()[name] = metadata.version("sequence-harness")
        return globals()[name]
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'harness' has no attribute {name!r}")
