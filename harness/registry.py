"""Finds, isolates and explains plugins. Never imports torch: specs are light, targets are imported on demand."""

import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import metadata, util
from types import ModuleType
from typing import Any, NamedTuple

import pluggy

from harness import hookspecs
from harness.errors import PluginError, RequestError, describe, did_you_mean, place_of_error
from harness.safe import visible
from harness.specs import CONTRACT_VERSION, KINDS, ModelSpec, Spec

GROUP = "harness"
OLDEST_CONTRACT = 1
"""Plugins written for contracts from here up to `CONTRACT_VERSION` work."""

Watch = Callable[[], AbstractContextManager[None]]
"""Makes the context that a plugin's code runs in."""

SPEC_HOOKS = {kind: f"harness_{kind}s" for kind in KINDS}


class Origin(NamedTuple):
    """Which entry point of which distribution something came from."""

    entry_point: str
    distribution: str
    version: str


@dataclass(frozen=True)
class Entry:
    """A plugin that was found."""

    spec: Spec
    origin: Origin

    @property
    def qualified(self) -> str:
        """The name nobody else can have: `distribution:name`."""
        return f"{self.origin.distribution}:{self.spec.name}"

    @property
    def baseline(self) -> bool:
        """Whether it is a model to compare others with."""
        return isinstance(self.spec, ModelSpec) and self.spec.baseline

    def __str__(self) -> str:
        name, version = self.origin.distribution, self.origin.version
        what = f"{self.spec.kind} {self.spec.name!r}"
        return f"{what} ({self.spec.target}, from {name} {version})" if name else repr(self.spec.name)


@dataclass(frozen=True)
class Broken:
    """Something under our entry-point group that cannot be used, and why."""

    origin: Origin
    reason: str
    kind: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.kind} {self.name!r}" if self.name else f"entry point {self.origin.entry_point!r}"
        return f"{what} of {self.origin.distribution} {self.origin.version}: {self.reason}"


@dataclass
class Registry:
    """All plugins of all installed distributions."""

    manager: pluggy.PluginManager
    entries: dict[str, dict[str, list[Entry]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    broken: list[Broken] = field(default_factory=list)

    def all(self, kind: str) -> Iterator[Entry]:
        """Every plugin of a kind, by name."""
        for _, entries in sorted(self.entries[kind].items()):
            yield from entries

    def kinds_of(self, name: str) -> list[str]:
        """The kinds in which there is a plugin of that name."""
        return [kind for kind in KINDS if name in self.entries[kind]]

    def as_dict(self, kinds: Iterable[str] = tuple(KINDS)) -> dict[str, list[dict[str, str]]]:
        """Plugins of these kinds and everything that is broken, as plain data."""
        return {
            "plugins": [
                {"kind": kind, "name": entry.spec.name, "summary": entry.spec.summary, "target": entry.spec.target}
                | {"distribution": entry.origin.distribution, "version": entry.origin.version}
                for kind in kinds
                for entry in self.all(kind)
            ],
            "broken": [
                {"kind": item.kind, "name": item.name, "reason": item.reason, **item.origin._asdict()}
                for item in self.broken
            ],
        }

    def notify(self, hook: str, warn: Callable[[str], object] | None = None, /, **what: Any) -> list[Any]:
        """Call a hook of every plugin that has it, and give what they returned or yielded. If one raises, or leaves
        something changed, `warn` gets the message (without `warn` it is a warning), and the others go on."""
        answers: list[Any] = []
        for implementation in getattr(self.manager.hook, hook).get_hookimpls():
            try:
                with _aside():
                    given = implementation.function(*(_copy(what[name]) for name in implementation.argnames))
                    answers += [given] if isinstance(given, str) else given or ()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                message = f"{implementation.plugin_name}: {hook} raised {describe(error)}"
                warn(message) if warn else warnings.warn(visible(message), stacklevel=2)
        return answers

    def find(self, kind: str, name: str) -> Entry:
        """The plugin of that name, or of `distribution:name`.

        Raises:
            RequestError: no such plugin, or several distributions offer it.
        """
        distribution, _, short = name.rpartition(":")
        found = self.entries[kind].get(short if distribution else name, [])
        if distribution:
            found = [entry for entry in found if entry.origin.distribution == distribution]
        if len(found) == 1:
            return found[0]
        if found:
            choices = " or ".join(sorted(entry.qualified for entry in found))
            raise RequestError(f"{len(found)} distributions offer a {kind} {name!r}; say which one: {choices}")
        raise RequestError(self._unknown(kind, name))

    def _unknown(self, kind: str, name: str) -> str:
        for broken in self.broken:
            if broken.kind == kind and broken.name == name.rpartition(":")[2]:
                return f"{broken}"
        known = sorted(self.entries[kind])
        message = (
            f"there is no {kind} {name!r}.{did_you_mean(name, known)} Known {kind}s: {', '.join(known) or 'none'}."
        )
        if broken_entries := [broken for broken in self.broken if not broken.name]:
            message += "\nIt may belong to a plugin that does not load:\n" + "\n".join(f"  {b}" for b in broken_entries)
        return " ".join([message, *map(str, self.notify("harness_unknown", kind=kind, name=name))])


def build_registry(entry_points: Iterable[metadata.EntryPoint] | None = None) -> Registry:
    """Load every entry point of the group `harness`, each on its own, so that a broken one harms nobody else: once
    torch is imported, what it leaves changed is put back. Modules that are imported already were watched then."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    registry = Registry(manager)
    seen = set()
    for point in metadata.entry_points(group=GROUP) if entry_points is None else entry_points:
        origin = Origin(point.name, *_name_and_version(point.dist))
        if (origin, point.value) in seen:  # one distribution can be found twice on sys.path
            continue
        seen.add((origin, point.value))
        watch = partial(_aside, alone=True, known=point.module in sys.modules)
        try:
            with watch():
                module = point.load()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            registry.broken.append(Broken(origin, f"importing {point.value!r} raised {describe(error)}"))
            continue
        _register(registry, module, origin, watch)
    return registry


def _copy(told: Any) -> Any:
    """A copy of a trial or a record, for a plugin to do with as it likes; copies of all records would be too many."""
    return told.model_copy(deep=True) if hasattr(told, "model_copy") else told


@contextmanager
def _aside(*, alone: bool = False, known: bool = False) -> Iterator[None]:
    """Around a plugin's code that is no part of a measurement. What it prints goes to standard error, since standard
    output is for results; and once torch is imported, what it leaves changed is put back, and is an error.

    Args:
        alone: whether it may start no thread.
        known: whether it was watched before, and does nothing new.
    """
    with redirect_stdout(sys.stderr), ExitStack() as stack:
        if "torch" in sys.modules and not known:
            from harness.traces import no_threads, undone

            stack.enter_context(undone())
            stack.enter_context(no_threads() if alone else nullcontext())
        yield


@cache
def _name_and_version(distribution: metadata.Distribution | None) -> tuple[str, str]:
    """Name and version; reading them parses the distribution's metadata, so once is enough."""
    if distribution is None:
        return "", ""
    content = distribution.metadata
    return content["Name"], content["Version"]


_installed: list[tuple[metadata.EntryPoint, ...]] = []
"""What `installed` has found, or was told."""


def installed(told: tuple[metadata.EntryPoint, ...] | None = None) -> tuple[metadata.EntryPoint, ...]:
    """The entry points of plugins, looked up once; or as another process `told` them to this one, since looking takes
    10 milliseconds where a hundred packages are installed, and each trial would."""
    if not _installed:
        _installed.append(tuple(metadata.entry_points(group=GROUP)) if told is None else told)
    return _installed[0]


@cache
def default_registry() -> Registry:
    """The registry of this process."""
    return build_registry(installed())


def _register(registry: Registry, plugin: Any, origin: Origin, watch: Watch) -> None:
    hooks = {name for name in vars(hookspecs) if name.startswith("harness_")}
    for name in dir(plugin) if isinstance(plugin, ModuleType) else ():
        if not name.startswith("harness_") or not callable(getattr(plugin, name)):
            continue
        if name not in hooks:
            reason = (
                f"{name!r} is no hook of the harness.{did_you_mean(name, hooks)} Hooks: {', '.join(sorted(hooks))}."
            )
            registry.broken.append(Broken(origin, reason))
        elif not hasattr(getattr(plugin, name), f"{hookspecs.PROJECT}_impl"):
            registry.broken.append(Broken(origin, f"{name!r} is not marked; put @hookimpl above it"))
    try:
        registry.manager.register(plugin, name=f"{origin.distribution}:{origin.entry_point}")
    except (ValueError, pluggy.PluginValidationError) as error:
        registry.broken.append(Broken(origin, f"its hooks do not fit: {error}"))
        return
    callers = registry.manager.get_hookcallers(plugin) or []
    if not callers:
        registry.broken.append(Broken(origin, "it implements no hook; see harness/hookspecs.py for a complete plugin"))
    for kind, hook in SPEC_HOOKS.items():
        for caller in callers:
            if caller.name == hook:
                for implementation in caller.get_hookimpls():
                    if implementation.plugin is plugin:
                        _collect(registry, kind, implementation.function, origin, watch)


def _collect(registry: Registry, kind: str, hook: Callable[..., Any], origin: Origin, watch: Watch) -> None:
    try:
        with watch():
            specs = list(hook() or ())
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        registry.broken.append(Broken(origin, f"its hook {SPEC_HOOKS[kind]} raised {describe(error)}"))
        return
    for spec in specs:
        if problem := _problem(kind, spec):
            registry.broken.append(Broken(origin, problem, kind, str(getattr(spec, "name", repr(spec)))))
        elif twin := next(
            (e for e in registry.entries[kind][spec.name] if e.origin.distribution == origin.distribution),
            None,
        ):
            reason = f"the same distribution offers it twice ({twin.spec.target} and {spec.target}); rename one"
            registry.broken.append(Broken(origin, reason, kind, spec.name))
        else:
            registry.entries[kind][spec.name].append(Entry(spec, origin))


def _problem(kind: str, spec: object) -> str:
    """What is wrong with a spec, or ""."""
    expected = KINDS[kind].__name__
    if not isinstance(spec, KINDS[kind]):
        return f"its hook {SPEC_HOOKS[kind]} gave {spec!r}, which is no {expected}; yield {expected}(name, target)"
    for name, wanted in (("name", str), ("target", str), ("summary", str), ("contract", int)):
        if not isinstance(value := getattr(spec, name), wanted):
            return f"its {name} is {value!r:.60}, where {'a number' if wanted is int else 'text'} is expected"
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", spec.name):
        return f"the name {spec.name!r} has characters beyond a-z, 0-9, - and _; rename it"
    if not OLDEST_CONTRACT <= spec.contract <= CONTRACT_VERSION:
        side = "the harness" if spec.contract > CONTRACT_VERSION else "the plugin"
        return (
            f"it was written for contract version {spec.contract}, this harness speaks {OLDEST_CONTRACT} to "
            f"{CONTRACT_VERSION}; upgrade {side}"
        )
    module, colon, attribute = spec.target.partition(":")
    if not colon or not attribute:
        return f"its target {spec.target!r} does not have the form 'package.module:Name'"
    try:
        missing = util.find_spec(module) is None
    except Exception as error:
        return f"its target {spec.target!r} cannot be found: {describe(error)}"
    return f"its target {spec.target!r} does not exist: there is no module {module!r}" if missing else ""


def plugin_error(entry: Entry, doing: str, error: BaseException, fix: str) -> PluginError:
    """A `PluginError` that names the plugin, its distribution, where it happened, the cause and the fix."""
    where = f" (at {place})" if (place := place_of_error(error)) else ""
    return PluginError(f"{entry} failed while {doing}: {describe(error).rstrip('.')}{where}. {fix}")
