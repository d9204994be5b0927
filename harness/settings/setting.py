"""What a setting is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ANY = object()
"""As a standard: a trial takes what it finds."""


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
