"""Checks of what is installed, by name: the work behind `harness check`."""

from collections.abc import Iterator, Sequence

from harness.errors import PluginError, RequestError
from harness.registry import Broken, Entry, Registry, describe
from harness.suites import Request
from harness.targets import find, load
from harness.testing.checks import Check, CheckResult, Report
from harness.testing.fixtures import CHECKERS, CHECKS
from harness.testing.plugins import kinds_of, why_not_built

LOADS = Check(
    "loads",
    asks="the harness finds it and imports it",
    means="it fails every cell that needs it",
    fix="repair what the message names; `harness list` shows the same",
    run=lambda case: None,
)


def check_installed(registry: Registry, names: Sequence[str] = (), kind: str | None = None) -> Iterator[Report]:
    """The reports of the named plugins, one for each kind that has the name; of all, if none is named.

    Args:
        registry: where plugins are.
        names: requests as for `harness run`, for example `lstm`, `gpt:layers=4` or `./gru.py:GRU`.
        kind: only `model`, `task` or `probe`; for a file it is found out otherwise.

    Raises:
        RequestError: there is no such plugin, or it has no such argument, before anything is checked.
    """
    kinds = [kind] if kind else list(CHECKS)
    if not names:
        for each in kinds:
            for entry in registry.all(each):
                yield check_one(registry, each, entry.qualified)
        for broken in registry.broken:
            if broken.kind in ("", *kinds):
                yield _broken(broken)
        return
    wanted: list[tuple[str, str]] = []
    for name in names:
        request = Request.model_validate(name)
        for each in kinds if kind else kinds_of(registry, request.name):
            _refuse(find(registry, each, request.name), request)
            wanted.append((each, name))
    for each, name in wanted:
        yield check_one(registry, each, name)


def check_one(registry: Registry, kind: str, name: str) -> Report:
    """The report of one plugin; one that cannot be imported fails the check `loads`."""
    request = Request.model_validate(name)
    shown = name.rpartition(":")[2] if not request.arguments and not name.count("/") else name
    try:
        target = load(find(registry, kind, request.name))
        reason = why_not_built(target, request)
    except RequestError:
        raise
    except Exception as error:
        message = str(error) if isinstance(error, PluginError) else describe(error)
        return Report(kind, shown, (CheckResult(LOADS, "failed", message),))
    if reason:
        return Report(kind, shown, (CheckResult(LOADS, "not applicable", reason),))
    try:
        report = CHECKERS[kind](name).report()
    except Exception as error:
        return Report(kind, shown, (CheckResult(LOADS, "failed", describe(error)),))
    return Report(kind, shown, report.results)


def _refuse(entry: Entry, request: Request) -> None:
    """Raise `RequestError` for arguments that do not fit; what is wrong with the plugin itself, its report says."""
    try:
        target = load(entry)
        if request.arguments:
            target.resolve(request)
    except RequestError:
        raise
    except Exception:
        return


def _broken(broken: Broken) -> Report:
    name = broken.name or f"{broken.origin.distribution} {broken.origin.version}"
    return Report(broken.kind or "plugin", name, (CheckResult(LOADS, "failed", str(broken)),))
