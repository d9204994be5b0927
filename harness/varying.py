"""What a suite's grid does to its models: which it varies, and into how many."""

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from harness.errors import RequestError, did_you_mean, shown
from harness.grids import argument_part, cells, clashing, count_cells, training_part
from harness.schema import Training
from harness.suites import Request, Suite, Ways, as_list
from harness.written import format_arguments

Takes = Callable[[Request], Collection[str] | None]
"""The arguments that the model of a request has; None where it does not load."""


def vary(
    suite: Suite, training: Ways, meant: Callable[[str, Request], Request], takes: Takes
) -> dict[str, list[Request]]:
    """The requests that a grid makes of each request for a model, by its text; a model without an argument of the grid
    stays as it is.

    Args:
        suite: with its grid.
        training: what the user sets, which wins over everything else.
        meant: the request that another one means, which may be its alias.
        takes: see there.

    Raises:
        RequestError: a field is neither a training setting nor an argument of any model, it is set elsewhere, too, or
            there are more trials than the suite allows.
    """
    requests = {str(request): meant("model", request) for request in suite.requests("model")}
    if not suite.grid:
        return {text: [request] for text, request in requests.items()}
    if name := clashing(suite.grid, as_list(training)):
        raise RequestError(f"{name!r} is in the grid and in the training settings (--training); keep one")
    asked = argument_part(suite.grid)
    taken = {text: takes(request) for text, request in requests.items()}
    if None not in taken.values():
        _check_names(asked, {text: names or () for text, names in taken.items()}, requests)
    own = {text: {name: values for name, values in asked.items() if name in (taken[text] or ())} for text in requests}
    for text, request in requests.items():
        if name := clashing(own[text], [request.arguments]):
            raise RequestError(f"{name!r} is in the grid and an argument of {text!r}; keep one")
    _check_size(suite, training, {text: count_cells(grid) for text, grid in own.items()})
    return {
        text: [
            Request(name=request.name, arguments=request.arguments | cell, alias=request.alias)
            for cell in cells(own[text])
        ]
        for text, request in requests.items()
    }


def _check_names(
    asked: Mapping[str, list[Any]], taken: Mapping[str, Collection[str]], requests: Mapping[str, Request]
) -> None:
    known = {name for names in taken.values() for name in names}
    for name, values in asked.items():
        if name not in known:
            guess = did_you_mean(name, [*Training.model_fields, *sorted(known)])
            models = "; ".join(f"{text}: {', '.join(names) or 'none'}" for text, names in taken.items())
            raise RequestError(
                f"the grid has {shown(name)}, which is no training setting and no argument of a model here."
                f"{guess or _within(name, values, requests.values())} Settings: {', '.join(Training.model_fields)}. "
                f"Arguments of {models}. Of a task: repeat --task."
            )


def _within(name: str, values: Iterable[Any], requests: Iterable[Request]) -> str:
    """How to vary an argument of a user's code that is itself an argument of a model; "" where there is none."""
    for request in requests:
        for argument, code in request.arguments.items():
            if isinstance(code, str) and ".py:" in code:
                joint = "," if ":" in code.partition(".py:")[2] else ":"
                ways = (
                    format_arguments({"": f"{code}{joint}{name}={format_arguments({'': value})[1:]}"})[1:]
                    for value in values
                )
                grid = shlex.quote(f"{argument}={','.join(ways)}")
                kept = {name: value for name, value in request.arguments.items() if name != argument}
                model = shlex.quote(str(request.model_copy(update={"arguments": kept})))
                return f" An argument of {code!r} is part of its name: --model {model} --grid {grid}."
    return ""


def _check_size(suite: Suite, training: Ways, variants: dict[str, int]) -> None:
    """Refuse a list that was too long by mistake, before anything else is done with it."""
    ways = count_cells(training_part(suite.grid)) * len(as_list(training))
    trials = ways * sum(
        sum(variants[str(request)] for request in each.models)
        * len(each.tasks)
        * len(as_list(each.training))
        * suite.seeds_of(each)
        for each in suite.experiments
    )
    if trials > suite.max_trials:
        lists = ", ".join(f"{len(values):,} of {name}" for name, values in suite.grid.items())
        raise RequestError(
            f"the grid makes {trials:,} trials (values: {lists}), and {suite.max_trials:,} are the most; shorten the "
            f"lists, or say that you mean it: --max-trials {trials}"
        )
