"""What a request or a claim means: whether a plugin in use, or what was measured, is what it speaks of.

One answer for the plan, which refuses a claim about what it does not cross, and for whoever reads records, where
plugins need not be installed: so everything is told from the texts.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from harness.errors import RequestError
from harness.schema import PluginUse, Training
from harness.suites import Request, Selection
from harness.vocabulary import Stage
from harness.written import format_arguments, parse_request, read_none

T = TypeVar("T")

_READERS: dict[type, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind, config=ConfigDict(coerce_numbers_to_str=True)) for kind in (bool, int, float, str)
}


def means(
    selection: Selection,
    model: PluginUse,
    task: PluginUse,
    probe: PluginUse,
    stage: Stage,
    varied: Collection[str] = (),
) -> bool:
    """Whether a selection speaks of a cell, however its model was trained.

    Args:
        selection: of a claim.
        model: of the cell.
        task: of the cell.
        probe: of the cell.
        stage: of the cell.
        varied: the arguments of models that a grid varies.
    """
    return (
        stage == selection.stage
        and matches(selection.probe, probe)
        and means_model(selection, model, varied)
        and matches(selection.task, task)
    )


def means_model(selection: Selection, model: PluginUse, varied: Collection[str]) -> bool:
    """Whether a selection speaks of a model; one of the best cell of all that a grid makes of the model, as far as it
    names no value itself."""
    asked = selection.model
    if asked is None or not selection.best:
        return matches(asked, model)
    return matches(asked, model) or matches(asked, without(model, {*varied} - asked.arguments.keys()))


def without_baselines(found: Iterable[T], model: Callable[[T], PluginUse]) -> list[T]:
    """The items that belong to no baseline; all of them if there are baselines alone.

    Args:
        found: anything that is of models.
        model: which one each of it is of.
    """
    found = list(found)
    return [each for each in found if not model(each).baseline] or found


def trained_so(selection: Selection, training: Training) -> bool:
    """Whether a selection speaks of a model that was trained like this."""
    return all(_same(value, getattr(training, name)) for name, value in selection.training.items())


def varied_so(cell: Mapping[str, Any], model: PluginUse, training: Training) -> bool:
    """Whether a model was made and trained as a cell of a grid says."""
    known = model.arguments | dict(training)
    return all(name in known and _same(value, known[name]) for name, value in cell.items())


def matches(request: Request | None, use: PluginUse) -> bool:
    """Whether a request names this use of a plugin; None names any.

    It is the use's alias; or the names agree (the request's may be qualified by the distribution, or be another path of
    the same file), every argument of the request has that value, and nothing that the request does not mention differs
    from its default.
    """
    if request is None or (use.alias == request.name and not request.arguments):
        return True
    if request.name != use.name and not (_qualifies(request.name, use) or _leads_to(request.name, use)):
        return False
    differing = label_arguments(use.label)
    return differing.keys() <= request.arguments.keys() and all(
        any(name in known and _same(value, known[name]) for known in (use.arguments, differing))
        for name, value in request.arguments.items()
    )


def without(use: PluginUse, names: Collection[str]) -> PluginUse:
    """A model as it was asked for, without the arguments that a grid has given it: the same for all its variants."""
    kept = {name: value for name, value in label_arguments(use.label).items() if name not in names}
    return use.model_copy(
        update={
            "label": f"{use.name}:{format_arguments(kept)}" if kept else use.name,
            "arguments": {name: value for name, value in use.arguments.items() if name not in names},
        }
    )


def _qualifies(name: str, use: PluginUse) -> bool:
    """Whether it is the name with the distribution before it, which may be written in several ways."""
    distribution, _, name = name.rpartition(":")
    return name == use.name and bool(distribution) and _normal(distribution) == _normal(use.distribution)


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _leads_to(name: str, use: PluginUse) -> bool:
    """Whether it is another path of the file that the code is in."""
    place, _, attribute = name.rpartition(":")
    if use.file is None or not place.endswith(".py") or attribute != use.target.rpartition(":")[2]:
        return False
    return Path(place).resolve() == use.file


@lru_cache(maxsize=4096)
def label_arguments(label: str) -> dict[str, Any]:
    """The arguments in a label: those that differ from their defaults."""
    with suppress(RequestError):  # of a label that nobody could have typed
        arguments: dict[str, Any] = parse_request(label)["arguments"]
        return arguments
    return {}


def _same(asked: Any, known: Any) -> bool:
    """Whether a value that was asked for is this one, once it is read as one of its type: as arguments are read."""
    if known is None:
        return read_none(asked) is None
    if isinstance(known, list | tuple):
        return isinstance(asked, list | tuple) and len(asked) == len(known) and all(map(_same, asked, known))
    if reader := _READERS.get(type(known)):
        try:
            return bool(reader.validate_python(asked) == known)
        except ValidationError:
            return False
    return bool(asked == known)
