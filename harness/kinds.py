"""Which kind of plugin a class or function must be, by how it is written."""

import inspect
from collections.abc import Callable
from typing import Any

BASES = {"torch.nn.modules.module.Module": "model", "harness.contracts.Task": "task"}
"""By name, so that nothing is imported to find out."""

WORDS = {"model": "a torch.nn.Module", "task": "a harness.Task", "probe": "a function of a subject"}
"""By kind, how a message describes it."""


def kind_of(code: Callable[..., Any]) -> str:
    """`model`, `task` or `probe` if nothing else can be meant; else ""."""
    if inspect.isclass(code):
        bases = (f"{base.__module__}.{base.__qualname__}" for base in code.__mro__)
        return next((BASES[base] for base in bases if base in BASES), "")
    try:
        subject = inspect.signature(code).parameters.get("subject")
    except (TypeError, ValueError):  # of compiled code
        return ""
    return "probe" if subject is not None and subject.default is subject.empty else ""
