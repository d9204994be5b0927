"""Checks of what is installed, by name: the work behind `harness check`."""

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

from pydantic import ValidationError

from harness.errors import PluginError, RequestError, describe, did_you_mean
from harness.folders import is_file
from harness.kinds import kind_of
from harness.plugin import resolve
from harness.registry import Entry, Registry
from harness.suites import Request
from harness.targets import Definition, find_entry, load_definition
from harness.testing.checks import check
from harness.testing.kinds import CHECKERS, CHECKS
from harness.testing.results import CheckReport, CheckResult, CheckStatus, Key

Announce = Callable[[Key, str], None]
"""Hears of which plugin which check begins."""


@check(
    asks="the harness finds it and imports it",
    means="it fails every cell that needs it",
    fix="repair what the message names; `harness list` shows the same",
)
def loads(case: object) -> None:
    """Decided before there is a case to look at."""


def check_installed(
    registry: Registry,
    names: Sequence[str] = (),
    kind: str | None = None,
    *,
    done: Collection[Key] = (),
    announce: Announce = lambda key, check: None,
) -> Iterator[tuple[Key, CheckReport]]:
    """The reports of the named plugins, one for each kind that has the name; of all, if none is named.

    Args:
        registry: where plugins are.
        names: requests as for `harness run`, for example `lstm`, `gpt:layers=4` or `./gru.py:GRU`.
        kind: only `model`, `task` or `probe`; for a file it is found out otherwise.
        done: plugins to leave out; a kind "" leaves out whatever has that name.
        announce: hears what begins; of a kind "" while it is not known yet.

    Raises:
        RequestError: there is no such plugin, or it has no such argument, before anything is checked.
    """
    kinds = [kind] if kind else list(CHECKS)
    if not names:
        for each in kinds:
            for entry in registry.all(each):
                if (key := (each, entry.qualified)) not in done:
                    yield key, check_one(registry, *key, announce)
        for broken in registry.broken:
            name = broken.name or f"{broken.origin.distribution} {broken.origin.version}"
            if broken.kind in ("", *kinds) and (key := (broken.kind, name)) not in done:
                yield key, _not_checked(broken.kind or "plugin", name, "failed", str(broken))
        return
    wanted: list[Key] = []
    for name in names:
        if ("", name) in done:
            continue
        request = Request.model_validate(name)
        announce(("", name), loads.name)
        for each in kinds if kind else kinds_of(registry, request.name):
            if (key := (each, name)) not in done:
                announce(key, loads.name)
                _refuse(find_entry(registry, each, request.name), request)
                wanted.append(key)
    for key in wanted:
        yield key, check_one(registry, *key, announce)


def short_name(name: str) -> str:
    """A plugin's name as reports show it."""
    return name.rpartition(":")[2] if not Request.model_validate(name).arguments and not name.count("/") else name


def check_one(registry: Registry, kind: str, name: str, announce: Announce = lambda key, check: None) -> CheckReport:
    """The report of one plugin; one that cannot be imported fails the check `loads`."""
    request, shown = Request.model_validate(name), short_name(name)
    announce((kind, name), loads.name)
    try:
        if reason := why_not_built(load_definition(find_entry(registry, kind, request.name)), request):
            return _not_checked(kind, shown, "not applicable", reason)
        checker = CHECKERS[kind](name)
        checker.announce = partial(announce, (kind, name))
        return CheckReport(kind, shown, checker.report().results)
    except RequestError:
        raise
    except Exception as error:
        return _not_checked(kind, shown, "failed", str(error) if isinstance(error, PluginError) else describe(error))


def _not_checked(kind: str, name: str, status: CheckStatus, reason: str) -> CheckReport:
    return CheckReport(kind, name, (CheckResult(loads, status, reason),))


def _refuse(entry: Entry, request: Request) -> None:
    """Raise `RequestError` for arguments that do not fit; what is wrong with the plugin itself, its report says."""
    try:
        definition = load_definition(entry)
        if request.arguments:
            resolve(definition, request)
    except RequestError:
        raise
    except Exception:
        return


def why_not_built(definition: Definition, request: Request) -> str:
    """Why a plugin cannot be built without (further) arguments, or ""."""
    fields = definition.arguments.model_fields
    missing = [name for name, field in fields.items() if field.is_required() and name not in request.arguments]
    if missing:
        example = f"{request.name}:{','.join(f'{name}=...' for name in missing)}"
        return f"it cannot be built without {', '.join(missing)}; check {example}"
    if not request.arguments:
        try:
            definition.arguments.model_validate({})  # a default that does not fit is a mistake, and found by a check
            resolve(definition, request)
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
        for kind in CHECKS
        if any(name in (entry.spec.name, entry.qualified) for entry in registry.entries[kind].get(short, []))
    ]
    if kinds:
        return kinds
    try:
        entry = find_entry(registry, "model", name)
    except RequestError:
        if ".py" in name or is_file(f"{name.rpartition(':')[0]}.py"):
            raise
    else:
        return [_kind(load_definition(entry).code)]
    known = sorted({entry.spec.name for kind in CHECKS for entry in registry.all(kind)})
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
