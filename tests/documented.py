"""What the docstrings of the public contract leave unsaid."""

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import harness
from harness import attention, generation, gradients, hookspecs, measurements, offers, schema, statistics
from harness.needs import NEEDS
from harness.testing.kinds import CHECKS

CLASSES: tuple[type, ...] = (
    harness.Interface,
    harness.Batch,
    harness.Condition,
    harness.Metric,
    harness.Task,
    harness.Subject,
    harness.Skip,
    harness.ModelSpec,
    harness.TaskSpec,
    harness.ProbeSpec,
    harness.SuiteSpec,
    harness.ExecutorSpec,
)
RESULTS = (measurements.Scalar, measurements.Curve, measurements.Matrix, schema.Training)
DOORS = (attention, generation, gradients, statistics)
"""Modules for probes, also of outsiders."""


def hooks() -> dict[str, Any]:
    """Every hook by name."""
    return {name: hook for name, hook in vars(hookspecs).items() if name.startswith("harness_")}


def protocols() -> list[type]:
    """The optional abilities that a plugin may offer."""
    found = [item for item in vars(offers).values() if inspect.isclass(item) and item.__module__ == offers.__name__]
    return [item for item in found if getattr(item, "_is_protocol", False)]


def functions(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public functions of a module, and the public methods of its classes."""
    for name, item in vars(module).items():
        if name.startswith("_") or not getattr(item, "__module__", "").startswith(module.__name__):
            continue
        if inspect.isfunction(item):
            yield name, item
        elif inspect.isclass(item):
            yield from ((f"{name}.{method}", value) for method, value in methods(item))


def undocumented() -> list[str]:
    """Everything of the contract that no docstring explains."""
    missing = [f"hook {name}" for name, hook in hooks().items() if not hook.__doc__]
    for item in (*CLASSES, *protocols()):
        if not item.__doc__ or item.__doc__.startswith(f"{item.__name__}("):
            missing.append(item.__name__)
        if not getattr(item, "_is_protocol", False):  # of these the docstring is about the one attribute
            documented = described(item)
            missing += [f"{item.__name__}.{name}" for name in attributes(item) if name not in documented]
        missing += [f"{item.__name__}.{name}()" for name, method in methods(item) if not _text(method)]
    for result in RESULTS:
        fields: dict[str, Any] = result.model_fields
        missing += [f"{result.__name__}.{n}" for n, f in fields.items() if n != "kind" and not f.description]
    for name, function in (each for door in DOORS for each in functions(door)):
        text = _text(function)
        missing += [f"{name}({each})" for each in arguments(function) if not re.search(rf"\b{each}\b", text)]
        missing += [] if text else [f"{name}()"]
    missing += [f"need {name}" for name, need in NEEDS.items() if not need.__doc__]
    return missing + [
        f"check {check.name}" for checks in CHECKS.values() for check in checks if not (check.asks and check.means)
    ]


def arguments(function: Any) -> list[str]:
    """The names of what a function or method takes; none of a property."""
    return [] if isinstance(function, property) else [n for n in inspect.signature(function).parameters if n != "self"]


def attributes(item: type) -> set[str]:
    """The public attributes that a class annotates."""
    names = (name for base in ours(item) for name in vars(base).get("__annotations__", {}))
    return {name for name in names if not name.startswith("_") and name != "kind"}


def described(item: type) -> set[str]:
    """The entries under `Args:` and `Attributes:` of a class and its bases."""
    texts = (inspect.cleandoc(base.__doc__ or "") for base in ours(item))
    return {name for text in texts for name in re.findall(r"^    (\w+): .", text, re.MULTILINE)}


def ours(item: type) -> list[type]:
    """A class and those of its bases that are the harness's own."""
    return [base for base in item.__mro__ if base.__module__.startswith("harness")]


def methods(item: type) -> Iterator[tuple[str, Any]]:
    """The public methods that a class defines itself."""
    for name, value in vars(item).items():
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            yield name, value


def _text(method: Any) -> str:
    return inspect.getdoc(method.fget if isinstance(method, property) else method) or ""
