"""From what an author points at (a name, a file, a class) to code that checks can build."""

import inspect
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.errors import HarnessError, RequestError, did_you_mean
from harness.kinds import kind_of
from harness.registry import Entry, Origin, Registry, default_registry
from harness.schema import Training
from harness.specs import KINDS
from harness.suites import Request
from harness.targets import Target, find, load
from harness.testing.checks import Check, Failed
from harness.testing.places import place

Plugin = str | type[Any] | Any
"""A name with or without arguments (`gpt:layers=4`), a file (`./gru.py:GRU`), or the class or function itself."""


def as_target(kind: str, plugin: Plugin) -> tuple[Target, Request]:
    """The code of a plugin and the arguments that were asked for.

    Raises:
        RequestError: there is no such plugin.
        PluginError: it cannot be imported.
    """
    if isinstance(plugin, str):
        request = Request.model_validate(plugin)
        return load(find(default_registry(), kind, request.name)), request
    if not callable(plugin):
        raise RequestError(f"a {kind} is a class or a function, or the name of one; this is {plugin!r:.60}")
    name = getattr(plugin, "__qualname__", type(plugin).__name__)
    spec = KINDS[kind](name, f"{getattr(plugin, '__module__', '')}:{name}")
    return Target(Entry(spec, Origin("", "", "")), plugin), Request(name=name)


def why_not_built(target: Target, request: Request) -> str:
    """Why a plugin cannot be built without (further) arguments, or ""."""
    fields = target.arguments.model_fields
    missing = [name for name, field in fields.items() if field.is_required() and name not in request.arguments]
    if missing:
        example = f"{request.name}:{','.join(f'{name}=...' for name in missing)}"
        return f"it cannot be built without {', '.join(missing)}; check {example}"
    if not request.arguments:
        try:
            target.arguments.model_validate({})  # a default that does not fit is a mistake, and found by a check
            target.resolve(request)
        except ValidationError:
            return ""
        except RequestError as error:
            return str(error)
    return ""


def kinds_of(registry: Registry, name: str) -> list[str]:
    """The kinds in which there is a plugin of that name; for a class or function that needs no package, what it is.

    Raises:
        RequestError: there is none.
    """
    short = name.rpartition(":")[2]
    kinds = [
        kind
        for kind in ("model", "task", "probe")
        if any(name in (entry.spec.name, entry.qualified) for entry in registry.entries[kind].get(short, []))
    ]
    if kinds:
        return kinds
    try:
        entry = find(registry, "model", name)
    except RequestError:
        if ".py" in name or Path(f"{name.rpartition(':')[0]}.py").is_file():
            raise
    else:
        return [_kind(load(entry).code)]
    known = sorted({entry.spec.name for kind in ("model", "task", "probe") for entry in registry.all(kind)})
    broken = "".join(f"\n{item}" for item in registry.broken if not item.name or item.name == short)
    raise RequestError(
        f"there is no model, task or probe {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.{broken}"
    )


def _kind(code: Any) -> str:
    if kind := kind_of(code):
        return kind
    try:
        arguments = set(inspect.signature(code).parameters)
    except (TypeError, ValueError):  # of compiled code; the check `loads` says so
        arguments = set()
    if {"vocab_size", "interface"} & arguments:
        return "model"
    if inspect.isclass(code) and "__call__" not in dir(code):
        raise RequestError(
            f"{code.__name__!r} is neither a torch.nn.Module, nor a harness.Task, nor a probe (a function of a "
            "subject, or a class of objects that are called with one)"
        )
    return "probe"


def check_arguments(case: Any) -> str:
    """Every argument has a type and a default that fits it."""
    target: Target = case.target
    code = target.code.__init__ if inspect.isclass(target.code) else target.code
    hints = getattr(code, "__annotations__", {})
    untyped = [name for name in target.arguments.model_fields if name not in hints]
    if untyped:
        raise Failed(f"no type is written at {', '.join(map(repr, untyped))}", place(code))
    try:
        target.resolve(Request(name=target.entry.spec.name, arguments=case.arguments))
    except HarnessError as error:
        raise Failed(str(error), place(code)) from None
    return ", ".join(target.arguments.model_fields) or "it takes no arguments"


ARGUMENTS = Check(
    name="arguments",
    asks="every argument has a type, and a default that fits it",
    means="an argument without a type is not validated: a typing error would be found after hours, or never",
    fix="write `width: int = 64` (or a pydantic type: `width: PositiveInt = 64`) in the signature",
    run=check_arguments,
    builds=False,
)


def check_advice(case: Any) -> str | None:
    """`recommended_training` holds training settings with values that fit."""
    advice = dict(getattr(case.target.code, "recommended_training", {}))
    where = place(case.target.code)
    for name in advice:
        if name not in Training.model_fields:
            known = Training.model_fields
            raise Failed(
                f"there is no training setting {name!r}.{did_you_mean(name, known)} Settings: {', '.join(known)}",
                where,
            )
    if advice.get("epochs") is not None:
        advice.setdefault("steps", None)
    try:
        Training.model_validate(advice)
    except ValidationError as error:
        problem = error.errors()[0]
        at = ".".join(map(str, problem["loc"]))
        raise Failed(f"recommended_training does not fit: {at} {problem['msg']}", where) from None
    return ", ".join(f"{name}={value}" for name, value in advice.items()) or "it recommends nothing"


ADVICE = Check(
    name="recommended_training",
    asks="advice on training uses settings that exist",
    means="every run with this plugin would be refused before it starts",
    fix="see the fields of `Training` in the reference; for example recommended_training = {'lr': 3e-3}",
    run=check_advice,
    builds=False,
)
