"""From requests to plugins, for a plan: each is resolved once, and called by its alias."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from harness.errors import PluginError, RequestError
from harness.plugin import BrokenPlugin, Plugin, resolve
from harness.registry import Registry
from harness.suites import Request, Suite, Ways
from harness.targets import find_entry, load_definition
from harness.varying import vary
from harness.vocabulary import CROSSED

AnyPlugin = Plugin | BrokenPlugin


class Resolver:
    """Resolves each request once, however often it is crossed; an alias stands for the request that has it.

    Raises:
        RequestError: an alias is that of two requests, or the name of a plugin; or a request has two.
    """

    def __init__(
        self,
        registry: Registry,
        suite: Suite,
        training: Ways,
        deadly: Mapping[tuple[str, str], str],
        announce: Callable[..., None],
    ) -> None:
        self.registry = registry
        self.deadly = deadly
        self.announce = announce
        self.known: dict[tuple[str, str], AnyPlugin] = {}
        self.aliases: dict[tuple[str, str], Request] = {}
        """By kind and alias."""
        self.called: dict[tuple[str, str], str] = {}
        """Aliases by kind and key: a request that is written differently, or without its alias, is called the same."""
        for kind in CROSSED:
            for request in suite.requests(kind):
                if kind in registry.kinds_of(request.alias):
                    name = request.alias
                    raise RequestError(f"{name!r} is the name of a {kind}; choose another alias for {request.bare}")
                if request.alias:
                    self.aliases.setdefault((kind, request.alias), request)
        self.varied = vary(suite, training, self.meant, self.takes)
        """What the grid makes of each request for a model, by its text."""
        for kind in CROSSED:
            for request in filter(lambda each: each.alias, suite.requests(kind)):
                first = self.aliases[kind, request.alias]
                for one, other in zip(self._variants(kind, request), self._variants(kind, first), strict=False):
                    self._learn(kind, one, other)

    def _variants(self, kind: str, request: Request) -> list[Request]:
        return self.varied[str(request)] if kind == "model" else [request]

    def _learn(self, kind: str, request: Request, first: Request) -> None:
        """Note that a request goes by its alias, as the first request of that alias does."""
        resolved, other = self(kind, request), self(kind, first)
        if other.key != resolved.key:
            both = f"{other.use.label} and {resolved.use.label}"
            raise RequestError(f"{request.alias!r} is the alias of two {kind}s, {both}; choose another for one of them")
        if (alias := self.called.setdefault((kind, resolved.key), request.alias)) != request.alias:
            both = f"{alias} and {request.alias}"
            raise RequestError(f"{kind} {resolved.use.label!r} has two aliases, {both}; keep one")

    def meant(self, kind: str, request: Request) -> Request:
        """The request that has this one for its alias, or itself."""
        return request if request.arguments else self.aliases.get((kind, request.name), request)

    def takes(self, request: Request) -> Collection[str] | None:
        """The arguments that a model has; None where it does not load."""
        entry = find_entry(self.registry, "model", request.name)
        if ("model", request.name) in self.deadly:
            return None
        try:
            with self.asking("model", request.name):
                return load_definition(entry).arguments.model_fields
        except (RequestError, KeyboardInterrupt):
            raise
        except BaseException:  # which resolving it will tell
            return None

    def __call__(self, kind: str, request: Request) -> AnyPlugin:
        request = self.meant(kind, request)
        place = (kind, str(request.bare))
        resolved = self.known.get(place) or self._resolve(kind, request.bare)
        alias = self.called.get((kind, resolved.key), "")
        if resolved.use.alias != alias:
            resolved = replace(resolved, use=resolved.use.model_copy(update={"alias": alias}))
        self.known[place] = resolved
        return resolved

    @contextmanager
    def asking(self, kind: str, name: str) -> Iterator[None]:
        """While a plugin's code runs."""
        self.announce(kind, name)
        try:
            yield
        finally:
            self.announce()

    def _resolve(self, kind: str, request: Request) -> AnyPlugin:
        entry = find_entry(self.registry, kind, request.name)
        try:
            if reason := self.deadly.get((kind, request.name)):
                raise PluginError(reason)
            with self.asking(kind, request.name):
                plugin = resolve(load_definition(entry), request)
                plugin.says.check()
                _ = plugin.pretrained  # asked here, so that a plugin's error is its own
                return plugin
        except (RequestError, KeyboardInterrupt):
            raise
        except BaseException as cause:
            return BrokenPlugin.of(entry, request, cause)
