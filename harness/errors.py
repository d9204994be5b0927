"""Every error the harness raises on purpose. Messages say what was wrong, what was received and how to fix it."""

import difflib
from collections.abc import Iterable


class HarnessError(Exception):
    """Base of all errors below; the command line prints its message without a traceback."""


class RequestError(HarnessError):
    """The request was wrong: a name, an argument, a suite, a folder. Exit code 2; nothing was trained."""


class PluginError(HarnessError):
    """A plugin is broken. Names the plugin, its distribution, the cause and the fix."""


class StoreError(HarnessError):
    """The run directory can no longer be written: a full disk, a folder that is gone. The run ends; what is on disk
    stays."""


class DivergedError(HarnessError):
    """Training produced a loss that is not finite."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` if something similar is known, else ``."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def said(error: BaseException) -> str:
    """What an exception says, even if it cannot: `str` of it may raise whatever a plugin's `__str__` does."""
    try:
        return "".join([str(error), ""])  # a text of Python's own, also where it was a subclass with ideas
    except KeyboardInterrupt:
        raise
    except BaseException as another:
        return f"it cannot say what happened: its own text raises {type(another).__name__}"


def shown(value: object) -> str:
    """`repr`, or for values that have none what they are."""
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__} without a repr>"
