"""From the name of an executor to an executor, with whatever the user says of it."""

import math
from dataclasses import fields
from typing import Any

from pydantic import ValidationError

from harness.arguments import validate_arguments
from harness.errors import HarnessError, PluginError, RequestError, describe, shown
from harness.executors import Executor, Limits
from harness.registry import Registry, plugin_error
from harness.suites import Request, Suite
from harness.targets import find_entry, load_definition, only_here
from harness.vocabulary import CROSSED

DEFAULT_EXECUTOR = "processes"
"""Where trials run, if nobody says."""

MOST_MEMORY = 2**32
"""GiB: a limit is handed to the system as a number of bytes with 63 bits."""


def choose(
    registry: Registry, asked: str | None, suite: Suite, jobs: int | None, limits: Limits, default_jobs: int = 1
) -> Executor:
    """The executor of that name; if none is said, the one that can run the suite.

    Args:
        registry: where executors are.
        asked: `NAME` or `NAME:ARGUMENT=VALUE,...`.
        suite: what is to run.
        jobs: trials at a time, if the user says so.
        limits: of each trial.
        default_jobs: trials at a time, if nobody says.

    Raises:
        RequestError: there is no such executor, or it lacks what was asked for; or other processes lack the code.
        PluginError: the executor is broken.
    """
    given = _given(suite)
    request = _request(asked or ("local" if given and jobs in (None, 1) else DEFAULT_EXECUTOR))
    entry = find_entry(registry, "executor", request.name)
    definition = load_definition(entry)
    name = entry.spec.name
    if jobs not in (None, 1) and "jobs" not in definition.takes:
        raise RequestError(
            f"executor {name!r} runs one trial at a time; received jobs={shown(jobs)}: leave it out, or say 1"
        )
    set_ = [field.name for field in fields(Limits) if getattr(limits, field.name) != field.default]
    if set_ and "limits" not in definition.takes:
        raise RequestError(
            f"executor {name!r} cannot limit {' or '.join(set_)}: leave it out (where a suite sets it, say inf or, for "
            f"retries, 0), or use {DEFAULT_EXECUTOR}"
        )
    arguments = dict(validate_arguments(entry, definition.arguments, request.arguments))
    supplied: dict[str, Any] = {"jobs": jobs or default_jobs, "limits": limits}
    arguments |= {each: value for each, value in supplied.items() if each in definition.takes}
    try:
        executor: Any = definition.code(**arguments)
    except HarnessError:
        raise
    except ValueError as error:
        raise RequestError(f"executor {name!r}: {error}") from error
    except Exception as error:
        raise plugin_error(entry, "being constructed", error, "Another one: harness list executors") from error
    if not callable(executor):
        raise PluginError(f"{entry} gave a {type(executor).__name__}; an executor is called with trials")
    if given and not getattr(executor, "here", False):
        raise RequestError(
            f"{given} is known to this process alone, and other processes would not find it: run it here, with jobs=1 "
            f"and executor='local', or ask for it by its file, for example './file.py:{given}'"
        )
    return executor  # type: ignore[no-any-return]


def limits_of(
    suite: Suite, timeout: float | None = None, retries: int | None = None, memory: float | None = None
) -> Limits:
    """The limits of a suite, and those that win over them; infinity is no limit.

    Raises:
        RequestError: one of them makes no sense.
    """
    for name, value, unit in (("timeout", timeout, "seconds"), ("memory", memory, "GiB")):
        if not (value is None or (isinstance(value, int | float) and value > 0)):
            raise RequestError(f"{name} is a number of {unit} above 0, or inf for no limit; received {shown(value)}")
    if not (retries is None or (isinstance(retries, int) and retries >= 0)):
        raise RequestError(f"retries is a number of attempts, 0 or more; received {shown(retries)}")
    limits = Limits(
        _finite(suite.timeout if timeout is None else timeout),
        suite.retries if retries is None else retries,
        _finite(suite.memory if memory is None else memory),
    )
    if limits.memory is not None and limits.memory > MOST_MEMORY:
        raise RequestError(
            f"memory is a number of GiB up to {MOST_MEMORY}, or inf for no limit; received {shown(limits.memory)}"
        )
    return limits


def _finite(limit: float | None) -> float | None:
    return None if limit == math.inf else limit


def _request(text: str) -> Request:
    try:
        request = Request.model_validate(text)
    except ValidationError as error:
        raise RequestError(f"executor {text!r}: {describe(error)}; write NAME or NAME:ARGUMENT=VALUE,...") from None
    if request.alias:
        raise RequestError(f"an executor needs no alias; write {str(request.bare)!r}")
    return request


def _given(suite: Suite) -> str:
    """The name of code that only this process has, or ""."""
    named = ((kind, each.name) for kind in CROSSED for each in suite.requests(kind))
    return next((name for kind, name in named if only_here(kind, name)), "")
