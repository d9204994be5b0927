"""From a request to code: import a target, read its arguments, validate them, fingerprint its source."""

import hashlib
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from harness.errors import PluginError, RequestError, did_you_mean
from harness.registry import Entry, Origin, Registry, plugin_error
from harness.schema import PluginUse
from harness.sources import FILE_PREFIX, file_digest, source_digest
from harness.specs import KINDS
from harness.suites import Request, format_arguments

SUPPLIED = {"model": {"vocab_size", "interface"}, "task": {"tokenizer"}, "probe": {"subject"}}
"""Constructor arguments that the harness supplies by name; all others belong to the user."""


def find(registry: Registry, kind: str, name: str) -> Entry:
    """The plugin of that name: from the registry, or code that needs no package (`./gru.py:GRU`, `package.module:GRU`).

    Raises:
        RequestError: there is no such plugin, file or module.
    """
    place, _, attribute = name.rpartition(":")
    if place.endswith(".py"):
        if not Path(place).is_file():
            raise RequestError(f"{kind} {name!r}: there is no file {place!r} in {str(Path.cwd())!r}")
        return Entry(KINDS[kind](name, f"{Path(place).resolve()}:{attribute}"), Origin("", "", ""))
    try:
        return registry.find(kind, name)
    except RequestError:
        distributions = {entry.origin.distribution for entry in registry.all(kind)}
        if not place or place in distributions or not _importable(place):
            raise
        return Entry(KINDS[kind](name, name), Origin("", "", ""))


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


@dataclass(frozen=True)
class Target:
    """A plugin's code, imported, with its arguments understood."""

    entry: Entry
    code: Callable[..., Any]

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """A pydantic model of the keyword arguments a user may set."""
        return _argument_model(self.entry, self.code)

    def resolve(self, request: Request) -> PluginUse:
        """Validate a request's arguments and fill in the defaults.

        Raises:
            RequestError: an argument is unknown, missing or of the wrong type or range, or they do not go together.
        """
        values = self._validated(request.arguments)
        defaults = {name: field.default for name, field in self.arguments.model_fields.items()}
        resolved = values.model_dump(mode="json")
        plain = TypeAdapter(dict[str, Any]).dump_python(defaults, mode="json", fallback=repr)
        different = {name: value for name, value in resolved.items() if name not in plain or value != plain[name]}
        name = self.entry.spec.name
        return PluginUse(
            name=name,
            label=f"{name}:{format_arguments(different)}" if different else name,
            arguments=resolved,
            distribution=self.entry.origin.distribution,
            version=self.entry.origin.version,
            target=self.entry.spec.target,
            digest=self._digest(values),
        )

    def _digest(self, values: BaseModel) -> str:
        """Of the plugin's source, and of the content of the files that its arguments name."""
        digest = source_digest(self.module)
        if files := getattr(self.code, "files", None):
            content = [file_digest(Path(path)) for path in files(**_keywords(values))]
            digest = content_hash("\n".join([digest, *content])) if content else digest
        return digest

    @property
    def module(self) -> ModuleType:
        """The module the code was loaded from."""
        return _module_of(self.entry)

    def build(self, arguments: dict[str, Any], **supplied: Any) -> Any:
        """Construct a model or task (or a probe class) from resolved arguments."""
        keywords = _keywords(self._validated(arguments))
        return self.code(**keywords, **{name: value for name, value in supplied.items() if self.wants(name)})

    def wants(self, supplied: str) -> bool:
        """Whether the code asks for this argument, which the harness supplies."""
        return supplied in inspect.signature(self.code).parameters

    def _validated(self, arguments: dict[str, Any]) -> BaseModel:
        try:
            values = self.arguments.model_validate(arguments)
        except ValidationError as first:
            # on the command line `none` is how None is written; it counts where the word itself does not fit
            words = {p["loc"][0] for p in first.errors() if p["input"] == "none"}
            try:
                values = self.arguments.model_validate({k: None if k in words else v for k, v in arguments.items()})
            except ValidationError as error:
                raise RequestError(self._explain(error)) from None
        if check := getattr(self.code, "check_arguments", None):
            try:
                check(**_keywords(values))
            except ValueError as error:
                raise RequestError(f"{self.entry.spec.kind} {self.entry.spec.name!r}: {error}") from None
        return values

    def _explain(self, error: ValidationError) -> str:
        kind, name = self.entry.spec.kind, self.entry.spec.name
        known = self.arguments.model_fields
        lines = []
        for problem in error.errors(include_url=False):
            argument = str(problem["loc"][0]) if problem["loc"] else ""
            if problem["type"] == "extra_forbidden":
                takes = ", ".join(known) or "none"
                lines.append(f"it has no argument {argument!r}.{did_you_mean(argument, known)} Arguments: {takes}.")
            elif problem["type"] == "missing":
                lines.append(f"argument {argument!r} is missing; give {name}:{argument}=...")
            else:
                message = problem["msg"][0].lower() + problem["msg"][1:]
                lines.append(f"argument {argument!r} = {problem['input']!r}: {message}")
        return f"{kind} {name!r}: " + "; ".join(lines)


def _keywords(values: BaseModel) -> dict[str, Any]:
    return {name: getattr(values, name) for name in type(values).model_fields} | (values.model_extra or {})


_targets: dict[Entry, Target] = {}


def load(entry: Entry) -> Target:
    """Import a plugin's code.

    Raises:
        PluginError: the module raises on import, or has no such name, or that is not callable.
    """
    if entry not in _targets:
        place, _, attribute = entry.spec.target.rpartition(":")
        try:
            code = getattr(_module_of(entry), attribute)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except AttributeError as error:
            names = [name for name in dir(_module_of(entry)) if not name.startswith("_")]
            fix = f"Correct the target.{did_you_mean(attribute, names)}"
            raise plugin_error(entry, f"loading {attribute!r} from {place!r}", error, fix) from error
        except BaseException as error:
            fix = f"Try: python -c 'import {place}'" if not place.endswith(".py") else f"Try: python {place}"
            raise plugin_error(entry, "being imported", error, fix) from error
        if not callable(code):
            raise PluginError(
                f"{entry.spec.kind} {entry.spec.name!r}: its target {entry.spec.target!r} is a "
                f"{type(code).__name__}, not a class or function"
            )
        _targets[entry] = Target(entry, code)
    return _targets[entry]


def load_use(registry: Registry, kind: str, use: PluginUse) -> Target:
    """The code of a plugin that a plan or a record speaks of."""
    return load(find(registry, kind, f"{use.distribution}:{use.name}" if use.distribution else use.name))


def _module_of(entry: Entry) -> ModuleType:
    place = entry.spec.target.rpartition(":")[0]
    if not place.endswith(".py"):
        return importlib.import_module(place)
    name = f"{FILE_PREFIX}{hashlib.sha256(place.encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, place)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and pickling look modules up by name
        folder = str(Path(place).parent)
        before = set(sys.modules)
        sys.path.insert(0, folder)  # as if it were run as a script, so that it can import its neighbours
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        finally:
            sys.path.remove(folder)
            # the module keeps its neighbours; the next file may have others of the same names
            for each in set(sys.modules) - before - {name}:
                if str(Path(getattr(sys.modules[each], "__file__", None) or "/").parent).startswith(folder):
                    del sys.modules[each]
    return sys.modules[name]


def _argument_model(entry: Entry, code: Callable[..., Any]) -> type[BaseModel]:
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
        if parameter.name in SUPPLIED[kind]:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = True
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise PluginError(
                f"{kind} {name!r} ({entry.spec.target}) takes {parameter.name!r} by position; the harness passes "
                "arguments by keyword, so make it a keyword argument"
            )
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints.get(parameter.name, Any), default)
    config = ConfigDict(
        extra="allow" if extra else "forbid",
        validate_default=True,
        coerce_numbers_to_str=True,
        arbitrary_types_allowed=True,
        protected_namespaces=(),
    )
    return create_model(f"{name} arguments", __config__=config, **fields)


def canonical(value: Any) -> str:
    """JSON that is equal exactly when the value is."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def content_hash(text: str) -> str:
    """Sixteen hexadecimal digits that stand for the text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
