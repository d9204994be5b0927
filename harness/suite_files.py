"""Suites from files, and what is wrong with one, in words."""

import json
import stat
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from harness.errors import RequestError, did_you_mean, shown
from harness.measurements import Strict
from harness.suites import Claim, Experiment, Suite

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

LARGEST = 2**20
"""Bytes of a suite's file."""


def load_suite(path: Path) -> Suite:
    """Read a suite from a TOML file.

    Raises:
        RequestError: the file cannot be read, is not TOML, or says something a suite does not have.
    """
    what = f"the suite {str(path)!r}"
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device may never end
            raise RequestError(f"{what} is not a file; name a TOML file or a built-in suite")
        if status.st_size > LARGEST:
            raise RequestError(f"{what} has {status.st_size:,} bytes, and {LARGEST:,} are the most; split it")
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"cannot read {what}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RequestError(f"{what} is not UTF-8 (byte {error.start + 1}); save it as UTF-8") from error
    except RecursionError as error:
        raise RequestError(f"{what} has brackets nested too deep; write it flatter") from error
    except ValueError as error:  # beside what TOML says: a number that is too long, a path with a NUL
        raise RequestError(f"{what} is not TOML: {error}") from error
    content.setdefault("name", path.stem)
    try:
        return Suite.model_validate(content)
    except ValidationError as error:
        raise RequestError(f"{what} is wrong:\n{explain(error, Suite)}") from error


def _place(path: Sequence[str | int]) -> str:
    """Where in a suite, in words: `experiment 1, model 2`; what is several counts from 1."""
    words: list[str] = []
    for part in path:
        if isinstance(part, int) and words:
            words[-1] = f"{words[-1].removesuffix('s')} {part + 1}"
        else:
            words.append(str(part))
    return ", ".join(words)


def _plain(problem: "ErrorDetails") -> str:
    """What should be there instead, without the words of pydantic."""
    path = [part for part in problem["loc"] if part not in BRANCHES]
    key, received = str(path[-1]) if path else "", problem["input"]
    tables = {"experiments": "[[experiments]]", "claims": "[[claims]]"}
    if problem["type"] in ("list_type", "model_type"):
        at = next((str(part) for part in problem["loc"] if part in tables), "")
        if at and (key == at or problem["type"] == "model_type"):
            return f"write each as a table under {tables[at]}, with two brackets"
        if key == "training":
            return "a list of such tables"
        if isinstance(received, str | int | float):
            return f"a list is expected: {key} = [{json.dumps(received)}]"
        return "a list is expected, in brackets"
    if problem["type"] == "dict_type":
        example = {"training": "{steps = 200}", "grid": "{lr = [1e-3, 1e-2]}"}.get(key, "{name = value}")
        return f"a table is expected, for example {key} = {example}"
    if problem["type"] == "too_short":
        return "it is empty; give at least one"
    return problem["msg"].removeprefix("Value error, ").replace("Input should", "should")


BRANCHES = ("function-before", "str", "float", "list[float]", "list[str]", "dict[str,any]", "list[dict[str,any]]")
"""What pydantic adds to a place where a value may be of several types."""


def explain(error: ValidationError, model: type[Strict]) -> str:
    """A pydantic error in one line per problem: where, what was received, what would be right."""
    parts: dict[object, type[Strict]] = {"experiments": Experiment, "claims": Claim}
    found: dict[str, list[str]] = {}
    for problem in error.errors(include_url=False):
        where = _place([part for part in problem["loc"] if part not in BRANCHES])
        if problem["type"] == "extra_forbidden":
            key = str(problem["loc"][-1])
            known = parts.get(problem["loc"][0], model) if len(problem["loc"]) > 1 else model
            message = f"unknown key.{did_you_mean(key, known.model_fields)}"
        elif problem["type"] == "missing":
            message = "missing; add it"
        else:
            received = problem["input"]
            named = isinstance(received, dict) and "text" in received
            what = f" (in the claim {shown(received['text'])})" if named else f" (received {shown(received)})"
            message = _plain(problem) + (what if where else "")
        if message not in found.setdefault(where, []):
            found[where].append(message)
    lines = [f"  {where and f'{where}: '}{'; or: '.join(messages)}" for where, messages in found.items()]
    return "\n".join([*lines[:10], f"  and {len(lines) - 10} more"] if len(lines) > 10 else lines)
