"""Every error the harness raises on purpose, and how errors of others are told. Messages say what was wrong, what was
received and how to fix it."""

import os
import re
import reprlib
from collections.abc import Iterable
from pathlib import Path

LONGEST_MESSAGE = 1800
"""Characters of a message: one screen, whatever a user gave."""

CORE = f"{Path(__file__).parent}{os.sep}"
STDLIB = f"{Path(os.__file__).parent}{os.sep}"
LIBRARIES = re.compile(
    r"-packages[\\/](torch|numpy|jaxtyping|beartype|pydantic|safetensors|transformers|tokenizers)[\\/]"
)
"""Libraries in which errors surface that plugins have made."""

ONE_LINE = 300
"""Characters of an error's message in one line."""


class HarnessError(Exception):
    """Base of all errors below; the command line prints its message without a traceback.

    Args:
        message: of any length; what is too long for one screen loses its middle.
    """

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class RequestError(HarnessError):
    """The request was wrong: a name, an argument, a suite, a folder. Exit code 2; nothing was trained."""


class PluginError(HarnessError):
    """A plugin is broken. Names the plugin, its distribution, the cause and the fix."""


class StoreError(HarnessError):
    """The run directory can no longer be written: a full disk, a folder that is gone. The run ends; what is on disk
    stays."""


class DivergedError(HarnessError):
    """Training produced a loss that is not finite."""


class ReturnedError(ValueError):
    """What some code returned is wrong, which other code notices.

    Args:
        message: what is wrong.
        place: file and line of the code that returned it; "" if that is not known.
    """

    def __init__(self, message: str, place: str) -> None:
        super().__init__(message)
        self.place = place


def shortened(message: str) -> str:
    """A message on one screen: over-long words lose their middle, and then the whole of it does."""
    message = re.sub(r"\S{500,}", lambda word: f"{word[0][:200]}[...]{word[0][-100:]}", message)
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 500]} [...] {message[-490:]}"


_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxother = 80


def shown(value: object) -> str:
    """What a user gave, as a message shows it: on one line and short, however long, deep or large it is."""
    try:
        return " ".join(_SHORT.repr(value).split())
    except Exception:  # Python does not write numbers of more than 4300 digits; nobody knows about others' objects
        return f"<{type(value).__name__}>"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?`, with a blank before it, if something similar is known; else ""."""
    import difflib  # here, since it is for whoever mistypes

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def said(error: BaseException) -> str:
    """What an exception says, even if it cannot: `str` of it may raise whatever a plugin's `__str__` does."""
    try:
        return "".join([str(error), ""])  # a plain str, whatever subclass of it `__str__` gave
    except KeyboardInterrupt:
        raise
    except BaseException as another:
        return f"it cannot say what happened: its own text raises {type(another).__name__}"


def describe(error: BaseException) -> str:
    """An exception in one line: of pydantic's, what is wrong in which field; of others, how the message begins."""
    from pydantic import ValidationError  # here, since `harness list` needs none of pydantic, and starts sooner

    if isinstance(error, ValidationError):
        problems = [(".".join(map(str, p["loc"])), p["msg"], p["input"]) for p in error.errors(include_url=False)]
        message = "; ".join(
            f"{where or error.title}: {what} (received {shown(got):.40})" for where, what, got in problems
        )
    else:
        message = said(error)
    message = " ".join(message.split())
    message = message if len(message) <= ONE_LINE else f"{message[:ONE_LINE]} ..."
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def place_of_error(error: BaseException) -> str:
    """File and line of the innermost frame that belongs neither to the harness, nor to Python, nor to a library that
    plugins use; or "". An error that knows better where it was made says so itself."""
    if isinstance(error, ReturnedError):
        return error.place
    import traceback

    frames = reversed(traceback.extract_tb(error.__traceback__))
    return place_among((frame.filename, frame.lineno or 0) for frame in frames)


def place_among(frames: Iterable[tuple[str, int]]) -> str:
    """The same, from files and lines, the innermost first."""
    for file, line in frames:
        python = file.startswith(STDLIB) and "-packages" not in file
        if not (python or file.startswith((CORE, "<")) or LIBRARIES.search(file)):
            return f"{short_path(Path(file))}:{line}"
    return ""


def short_path(path: Path) -> Path:
    """Relative to the working directory, for what lies in it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
