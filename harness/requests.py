"""From what a user gives to one suite: plugins to cross, a file, or the name of a built-in suite."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from types import FunctionType
from typing import Any

from pydantic import ValidationError

from harness.errors import RequestError, shown
from harness.folders import is_file
from harness.registry import default_registry
from harness.sources import content_hash
from harness.suite_files import explain, load_suite
from harness.suites import Request, Suite, Ways, as_list
from harness.targets import give
from harness.vocabulary import CROSSED
from harness.written import parse_value, split_commas

One = str | Request | dict[str, Any] | Callable[..., Any]
"""A plugin as text, as a table (a dictionary with a `name`), or itself: a class or function, or a `functools.partial`
of it with arguments."""
Requests = One | Sequence[One]
"""One or several; a dictionary without a `name` has several by their alias."""


def build_suite(
    models: Requests | None = None,
    tasks: Requests | None = None,
    probes: Requests | None = None,
    *,
    suite: Suite | str | Path | None = None,
    seeds: int | None = None,
    examples: int | None = None,
    baselines: bool = False,
    grid: Mapping[str, Sequence[Any]] | None = None,
    success: float | None = None,
    max_trials: int | None = None,
) -> Suite:
    """One suite from whatever the user gave. Models stand beside a suite's own, in each of its experiments; fields of a
    grid that the user gives take the place of the suite's own.

    Raises:
        RequestError: it is not clear what to measure, or a part of it is wrong.
    """
    if not (suite is None or isinstance(suite, Suite | str | Path)):
        raise RequestError(f'suite is a file or a name, for example suite="recall"; received {shown(suite)}')
    crossed = {"model": models, "task": tasks, "probe": probes}
    named = {f"{kind}s": list(_listed(kind, each)) for kind, each in crossed.items() if each is not None}
    given: dict[str, Any]
    if suite is not None:
        if named:
            if isinstance(suite, str) and (kind := _kind_named(suite)):
                raise RequestError(
                    f"{suite!r} was read as a suite, since no option stands before it; for another {kind}, repeat the "
                    f"option: --{kind} {suite}"
                )
            if words := [kind for kind in named if kind != "models"]:
                raise RequestError(
                    f"a suite says itself what it crosses: leave out the {' and '.join(words)}, or the suite; models "
                    "stand beside its own"
                )
        given = (suite if isinstance(suite, Suite) else find_suite(str(suite))).model_dump()
        given["beside"] = named.get("models", [])
        for each in given["experiments"]:
            each["models"] = [*given["beside"], *each["models"]]
    elif not models:
        raise RequestError("nothing to measure: name a model (--model lstm) or a suite (harness list suites)")
    else:
        given = {"experiments": [named]}
    numbers = {"seeds": seeds, "examples": examples, "success": success, "max_trials": max_trials}
    given |= {key: value for key, value in numbers.items() if value is not None}
    given |= {"baselines": True} if baselines else {}
    if grid is not None:
        given = _with_grid(given, grid)
    if seeds is not None:
        given["experiments"] = [{**each, "seeds": None} for each in given["experiments"]]
    try:
        built = Suite.model_validate(given)
    except ValidationError as error:
        lines = explain(error, Suite).replace("experiment 1, ", "")
        raise RequestError(f"the request is wrong:\n{lines}") from None
    return built if suite is not None else built.model_copy(update={"name": _name(built)})


def check_varied(suite: Suite, training: Ways | None, *, success: float | None, max_trials: int | None) -> None:
    """Refuse what a user says of a grid where there is none, since it would do nothing.

    Args:
        suite: what was asked for.
        training: the user's ways of training.
        success: as the user gave it; several ways of training are judged by it as well.
        max_trials: as the user gave it.

    Raises:
        RequestError: nothing is varied that it could be said of.
    """
    if suite.grid:
        return
    example = "for example --grid lr=1e-4,1e-3,1e-2"
    if max_trials is not None:
        raise RequestError(f"max_trials = {max_trials} is a limit for a grid, and there is none; give one, {example}")
    ways = len(as_list(training or {})) * max(len(as_list(each.training)) for each in suite.experiments)
    if success is not None and ways == 1:
        raise RequestError(
            f"success = {success:g} judges what a grid tries, and nothing is varied here; give a grid, {example}"
        )


def read_grid(texts: Iterable[str]) -> dict[str, list[Any]]:
    """The grid of `lr=1e-4,1e-3,1e-2`, a text for each field; also in brackets, as a suite writes it. A single value
    that is a list itself is written in two pairs of them.

    Raises:
        RequestError: one cannot be read, or two are of one field.
    """
    grid: dict[str, list[Any]] = {}
    example = "for example --grid lr=1e-4,1e-3,1e-2"
    for text in texts:
        name, equals, rest = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise RequestError(f"cannot read --grid {text!r}; write NAME=VALUE,VALUE,..., {example}")
        values = [part.strip() for part in split_commas(rest)]
        if len(values) == 1 and values[0].startswith("[") and values[0].endswith("]"):
            values = [part.strip() for part in split_commas(values[0][1:-1])]
        if "" in values:
            raise RequestError(f"--grid {text!r} has {'no values' if values == [''] else 'an empty value'}; {example}")
        if another := next((value for value in values if re.match(r"[^\W\d]\w*\s*=", value)), ""):
            raise RequestError(f"--grid {text!r} has a second field; repeat the option: --grid {another}")
        if name in grid:
            raise RequestError(f"{name!r} is in two --grid; put all its values into one, {example}")
        grid[name] = [parse_value(value) for value in values]
    return grid


def _with_grid(given: dict[str, Any], grid: Any) -> dict[str, Any]:
    """A suite with the user's grid, which wins over what the suite sets of the same name."""
    if not isinstance(grid, Mapping) or not all(
        isinstance(name, str) and isinstance(each, list | tuple) for name, each in grid.items()
    ):
        raise RequestError(f"grid is a dictionary of lists, for example {{'lr': [1e-4, 1e-3]}}; received {shown(grid)}")

    def without(training: Any) -> Any:
        if isinstance(training, list):
            ways = [without(way) for way in training]
            return [way for place, way in enumerate(ways) if way not in ways[:place]]
        return {name: value for name, value in training.items() if name not in grid}

    experiments = [
        each | {"training": without(each["training"])} if each.get("training") else each
        for each in given["experiments"]
    ]
    return given | {
        "grid": {**given.get("grid", {}), **{name: [*values] for name, values in grid.items()}},
        "training": without(given.get("training", {})),
        "experiments": experiments,
    }


def _listed(kind: str, requests: Requests) -> Iterator[Any]:
    """One request may be given without a list around it."""
    given: dict[str, Any] = {}
    if isinstance(requests, dict) and "name" not in requests:
        for alias, request in requests.items():
            if alias == "":
                raise RequestError(f"the alias of {kind} {shown(request)} is empty; give a word, or leave it out")
            yield _called(alias, _named(kind, request, given))
    elif isinstance(requests, Iterable) and not isinstance(requests, str | dict | Request):
        yield from (_named(kind, request, given) for request in requests)
    else:
        yield _named(kind, requests, given)


def _called(alias: Any, request: Any) -> Any:
    try:
        return {**dict(Request.model_validate(request)), "alias": alias}
    except ValidationError:
        return request  # which the suite refuses, and says where


def _named(kind: str, request: Any, given: dict[str, Any]) -> Any:
    """A request by name also for code that is given itself.

    Raises:
        RequestError: it is an object that was made from a class; or two of one name are given.
    """
    code, arguments = (request.func, request.keywords) if isinstance(request, partial) else (request, {})
    if isinstance(code, type | FunctionType) and not (isinstance(request, partial) and request.args):
        name = give(default_registry(), kind, code)
        if given.setdefault(name, code) is not code:
            raise RequestError(f"two {kind}s are called {name!r}; give one of them another name")
        return {"name": name, "arguments": arguments}
    if isinstance(request, str | dict | Request | int | float | None):
        return request
    what = getattr(code, "__name__", type(code).__name__)
    raise RequestError(
        f"{kind} {what!r} is given as an object; give the class, and arguments by name with "
        f"functools.partial({what}, argument=...)"
    )


def _kind_named(name: str) -> str:
    """Of a word that is no suite: the kind that has a plugin of that name; or ""."""
    kinds = default_registry().kinds_of(name.partition(":")[0])
    return "" if is_file(name) or "suite" in kinds else next((kind for kind in CROSSED if kind in kinds), "")


def find_suite(name: str) -> Suite:
    """A suite from a file, or a built-in one by name.

    Raises:
        RequestError: there is no such file or name, or the file is wrong.
    """
    file, ending, code = name.partition(".py")
    if ending and (not code or code.startswith(":")):
        path = file if file.startswith(("/", ".")) else f"./{file}"
        raise RequestError(f"{name!r} is Python, not a suite; if a model is in it: --model {path}.py{code or ':NAME'}")
    if name.endswith(".toml") or is_file(name):
        return load_suite(Path(name))
    registry = default_registry()
    try:
        entry = registry.find("suite", name)
    except RequestError as error:
        kinds = registry.kinds_of(name.partition(":")[0])
        hints = (f" There is a {kind} of that name: give it with --{kind} {name}." for kind in kinds if kind in CROSSED)
        raise RequestError(f"{error}{''.join(hints)}") from None
    package, _, file = entry.spec.target.partition(":")
    return load_suite(Path(str(files(package) / file)))


def _name(suite: Suite) -> str:
    """A folder name that says which models face which tasks; other probes find the models trained there."""
    (experiment,) = suite.experiments
    words = (Path(request.name).name for request in (*experiment.models, *experiment.tasks))
    text = "+".join(dict.fromkeys("".join(c if c.isalnum() or c in "._-" else "-" for c in word) for word in words))
    return text if len(text) <= 60 else f"{text[:50].rstrip('+')}+{content_hash(text)[:6]}"


def default_out(suite: Suite) -> Path:
    """Where a run goes if the user does not say; the same request finds its records again."""
    return Path("runs") / suite.name
