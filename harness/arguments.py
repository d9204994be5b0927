"""Arguments of plugins: which ones a signature takes, and whether those of a request fit."""

import inspect
import warnings
from collections.abc import Callable, Set
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from harness.errors import HarnessError, PluginError, RequestError, did_you_mean, shown
from harness.registry import Entry, plugin_error
from harness.written import parse_value, read_none

SUPPLIED = {
    "model": {"vocab_size", "interface"},
    "task": {"tokenizer"},
    "probe": {"subject"},
    "executor": {"jobs", "limits"},
}
"""Constructor arguments that the harness supplies by name; all others belong to the user."""

RESERVED = {"alias", *(name for name in dir(BaseModel) if name.startswith("model_"))}
"""Names that arguments cannot have: requests need the first for themselves, and pydantic the others."""

MOST_PROBLEMS = 5
"""At most this many wrong arguments of one request are explained."""


def argument_model(entry: Entry, code: Callable[..., Any], supplied: Set[str] = frozenset()) -> type[BaseModel]:
    """A pydantic model of the keyword arguments that a user may set.

    Args:
        entry: the plugin.
        code: its class or function.
        supplied: names of arguments that it is given besides those that all of its kind are (`SUPPLIED`).

    Raises:
        PluginError: the signature is not one that the harness can call, or has types that cannot be imported.
    """
    kind, name = entry.spec.kind, entry.spec.name
    function = code.__init__ if inspect.isclass(code) else code
    try:
        parameters = inspect.signature(code).parameters.values()
        hints = get_type_hints(function, include_extras=True)
    except (TypeError, ValueError, NameError) as error:
        raise plugin_error(
            entry, "reading its arguments", error, "Annotate them with types that can be imported."
        ) from error
    fields: dict[str, Any] = {}
    extra = False
    for parameter in parameters:
        if parameter.name in supplied or parameter.name in SUPPLIED.get(kind, ()):
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = True
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise PluginError(
                f"{kind} {name!r} ({entry.spec.target}) takes {parameter.name!r} by position; the harness passes "
                "arguments by keyword, so make it a keyword argument"
            )
        elif parameter.name.startswith("_") or parameter.name in RESERVED:
            raise PluginError(f"{kind} {name!r}: no argument can be called {parameter.name!r}; rename it")
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            kind_of_value = hints.get(parameter.name, Any)
            if default is None:  # `size: int = None`, as many libraries write it
                kind_of_value = kind_of_value | None
            fields[parameter.name] = (kind_of_value, default)
    config = ConfigDict(
        extra="allow" if extra else "forbid",
        validate_default=True,
        coerce_numbers_to_str=True,
        arbitrary_types_allowed=True,
        protected_namespaces=(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of an argument with the name of a method, such as `copy`
        return create_model(f"{name} arguments", __config__=config, **fields)


def validate_arguments(entry: Entry, model: type[BaseModel], arguments: dict[str, Any]) -> BaseModel:
    """The arguments of a request, as what the signature says, with its defaults.

    Raises:
        RequestError: one is unknown, missing or of the wrong type or range.
        PluginError: a default does not fit.
    """
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        wrong = {problem["loc"][0] for problem in error.errors() if problem["loc"]}
    # the word counts where it fits (`position=none` of a gpt), and means None where it does not
    arguments = {name: read_none(value) if name in wrong else value for name, value in arguments.items()}
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        raise _refused(entry, model, error, arguments) from None


def _refused(entry: Entry, model: type[BaseModel], error: ValidationError, given: dict[str, Any]) -> HarnessError:
    """What was wrong with the request; or with the plugin, if a default of its own does not fit."""
    name, known = entry.spec.name, model.model_fields
    lines: list[str] = []
    kind: type[HarnessError] = RequestError
    for problem in error.errors(include_url=False):
        argument = str(problem["loc"][0]) if problem["loc"] else ""
        message = problem["msg"][0].lower() + problem["msg"][1:]
        if problem["type"] == "extra_forbidden":
            takes = ", ".join(known) or "none"
            lines.append(f"it has no argument {argument!r}.{did_you_mean(argument, known)} Arguments: {takes}.")
        elif problem["type"] == "missing":
            lines.append(f"argument {argument!r} is missing; give {name}:{argument}=...")
        elif argument and argument not in given:
            kind = PluginError
            lines.append(f"its own default {argument!r} = {shown(problem['input'])}: {message}")
        elif problem["type"] == "list_type":
            lines.append(f"argument {argument!r} = {shown(problem['input'])}: {_no_list(argument, problem['input'])}")
        else:
            lines.append(f"argument {argument!r} = {shown(problem['input'])}: {message}")
    lines = [*lines[:MOST_PROBLEMS], f"and {len(lines) - MOST_PROBLEMS} more"] if len(lines) > MOST_PROBLEMS else lines
    return kind(f"{entry.spec.kind} {name!r}: " + "; ".join(lines))


def _no_list(argument: str, given: Any) -> str:
    """Why something is no list, and how to write one."""
    if not isinstance(given, str) or not given.startswith("["):
        return f"a list is expected; write {argument}=[{given}]"
    if not given.endswith("]"):
        return "the bracket is open; write ] at the end"
    wrong = [part for part in given[1:-1].split(",") if isinstance(parse_value(part.strip()), str)]
    shown = ", ".join(repr(part.strip()) for part in wrong if part.strip()[:1] not in ("'", '"')) or repr(given)
    return f"{shown} is no number (text in a list needs double quotes)"
