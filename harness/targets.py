"""From a request to code: import a target, read its arguments, validate them, fingerprint its source."""

import hashlib
import importlib
import importlib.util
import inspect
import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core import PydanticSerializationError

from harness.capabilities import Capabilities
from harness.errors import HarnessError, PluginError, RequestError, did_you_mean
from harness.folders import module_from_file
from harness.interrupts import import_torch
from harness.kinds import WORDS, kind_of
from harness.registry import Entry, Origin, Registry, describe, plugin_error
from harness.schema import PluginUse
from harness.sources import file_digest, object_digest, source_digest, text_of
from harness.specs import KINDS
from harness.suites import Request, format_arguments, parse_value

SUPPLIED = {
    "model": {"vocab_size", "interface"},
    "task": {"tokenizer"},
    "probe": {"subject"},
    "executor": {"jobs", "limits"},
}
"""Constructor arguments that the harness supplies by name; all others belong to the user."""

RESERVED = {"alias", *(name for name in dir(BaseModel) if name.startswith("model_"))}
"""Names that arguments cannot have: requests need the first for themselves, and pydantic the others."""

PLAIN_DATA = "Arguments must be plain data: numbers, text, lists."

MOST_NAMES = 12
"""So many names of what a module has are shown."""


def find(registry: Registry, kind: str, name: str) -> Entry:
    """The plugin of that name: from the registry, or code that needs no package (`./gru.py:GRU`, `package.module:GRU`).

    Raises:
        RequestError: there is no such plugin, file or module.
    """
    if (kind, name) in _given:
        code = _given[kind, name]
        return Given(KINDS[kind](name, f"{code.__module__}:{code.__qualname__}"), Origin("", "", ""), code)
    place, _, attribute = name.rpartition(":")
    if name.endswith(".py"):
        place, attribute = name, ""
    if place.endswith(".py"):
        if not Path(place).is_file():
            raise RequestError(f"{kind} {name!r}: there is no file {place!r} in {str(Path.cwd())!r}")
        return Entry(KINDS[kind](name, f"{Path(place).resolve()}:{attribute}"), Origin("", "", ""))
    try:
        return registry.find(kind, name)
    except RequestError:
        if Path(f"{place}.py").is_file():
            raise RequestError(f"there is no {kind} {name!r}; if the file is meant, {place}.py:{attribute}") from None
        distributions = {entry.origin.distribution for entry in registry.all(kind)}
        if place and place not in distributions and _importable(place):
            return Entry(KINDS[kind](name, name), Origin("", "", ""))
        if hint := _other_writing(registry, kind, name):
            raise RequestError(f"there is no {kind} {name!r}{hint}") from None
        raise


def _other_writing(registry: Registry, kind: str, name: str) -> str:
    """How to write what a name that nobody has seems to mean; or ""."""
    place, _, attribute = name.rpartition(":")
    known = {entry.spec.name for entry in registry.all(kind)}
    if len(names := [part.strip() for part in name.split(",")]) > 1:
        return "; for several, repeat the option: " + " ".join(f"--{kind} {each}" for each in names if each)
    others = [each for each in ("model", "task", "probe") if name in {e.spec.name for e in registry.all(each)}]
    if others:
        return "".join(f"; there is a {each} of that name: --{each} {name}" for each in others)
    if place in known:
        return f"; to set an argument of {place}, write {place}:{attribute}=VALUE"
    if attribute.isidentifier() and ("." in place or not attribute.islower()):
        top = place.partition(".")[0]
        missing = place if _importable(top) else top
        file = f"./{place.replace('.', '/')}.py:{attribute}"
        return f": no module {missing!r} can be imported from here. A file needs no import: {file}"
    return ""


@dataclass(frozen=True)
class Given(Entry):
    """A class or function that was given as it is, and that only this process has: of a notebook cell or a script."""

    code: type | FunctionType


_given: dict[tuple[str, str], type | FunctionType] = {}
"""By kind and name."""


def give(registry: Registry, kind: str, code: type | FunctionType) -> str:
    """The name by which `find` finds a class or function from now on: where it can be imported from, or its own, for
    which another one of the name, from an earlier run of a notebook cell, is forgotten.

    Raises:
        RequestError: its text cannot be found, or a plugin has its name.
    """
    path = f"{code.__module__}:{code.__qualname__}"
    found = getattr(sys.modules.get(code.__module__), code.__qualname__, None) is code
    if found and code.__module__ != "__main__" and _importable(code.__module__):
        return path
    name = code.__name__
    if name == "<lambda>":
        raise RequestError(f"a {kind} needs a name for tables to show: write it with def instead of lambda")
    if name in {entry.spec.name for entry in registry.all(kind)}:
        raise RequestError(f"there is a {kind} {name!r} already; give yours another name")
    if not text_of(code):
        raise RequestError(
            f"the text of {kind} {name!r} cannot be found, so that a change of it would go unnoticed; write it into a "
            f"file, and ask for ./file.py:{name}"
        )
    _given[kind, name] = code
    return name


def only_here(kind: str, name: str) -> bool:
    """Whether a plugin was given as it is, so that only this process has it."""
    return (kind, name) in _given


def is_given(use: PluginUse) -> bool:
    """Whether only this process has the code."""
    return not use.distribution and any(use.name == name for _, name in _given)


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
    except Exception:  # the package around it is there, and raises
        return True


@dataclass(frozen=True)
class Target:
    """A plugin's code, imported, with its arguments understood."""

    entry: Entry
    code: Callable[..., Any]

    @property
    def says(self) -> Capabilities:
        """What the code says of itself."""
        return Capabilities(self.code)

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """A pydantic model of the keyword arguments a user may set."""
        return _argument_model(self.entry, self.code)

    def resolve(self, request: Request) -> PluginUse:
        """Validate a request's arguments and fill in the defaults.

        Raises:
            RequestError: an argument is unknown, missing or of the wrong type or range, or they do not go together.
            PluginError: a default does not fit, or an argument is no plain data.
        """
        kind, asked, name = kind_of(self.code), self.entry.spec.kind, self.entry.spec.name
        if kind not in ("", asked) and not self.entry.origin.distribution:
            raise RequestError(f"{name!r} is {WORDS[kind]}, which is no {asked}; give it as a {kind}: --{kind} {name}")
        values = self._validated(request.arguments)
        defaults = {name: field.default for name, field in self.arguments.model_fields.items()}
        try:
            resolved = values.model_dump(mode="json")
        except PydanticSerializationError as error:
            raise plugin_error(self.entry, "reading its arguments", error, PLAIN_DATA) from error
        plain = TypeAdapter(dict[str, Any]).dump_python(defaults, mode="json", fallback=repr)
        different = {name: value for name, value in resolved.items() if name not in plain or value != plain[name]}
        return PluginUse(
            name=name,
            label=f"{name}:{format_arguments(different)}" if different else name,
            arguments=resolved,
            distribution=self.entry.origin.distribution,
            version=self.entry.origin.version,
            target=self.entry.spec.target,
            digest=self._digest(values),
        )

    def files(self, arguments: dict[str, Any]) -> list[Path]:
        """The files that resolved arguments name, and whose content decides the result."""
        return self.says.files(**_keywords(self._validated(arguments)))

    def _digest(self, values: BaseModel) -> str:
        """Of the plugin's source, and of the content of the files that its arguments name."""
        entry = self.entry
        digest = object_digest(entry.code) if isinstance(entry, Given) else source_digest(self.module)
        content = [file_digest(path) for path in self.says.files(**_keywords(values))]
        return content_hash("\n".join([digest, *content])) if content else digest

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
                raise self._refused(error, arguments) from None
        try:
            self.says.check_arguments(**_keywords(values))
        except ValueError as error:
            message = describe(error) if isinstance(error, ValidationError) else str(error)
            raise RequestError(f"{self.entry.spec.kind} {self.entry.spec.name!r}: {message}") from None
        return values

    def _refused(self, error: ValidationError, given: dict[str, Any]) -> HarnessError:
        """What was wrong with the request; or with the plugin, if a default of its own does not fit."""
        name, known = self.entry.spec.name, self.arguments.model_fields
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
                lines.append(f"its own default {argument!r} = {problem['input']!r}: {message}")
            elif problem["type"] == "list_type":
                lines.append(f"argument {argument!r} = {problem['input']!r}: {_no_list(argument, problem['input'])}")
            else:
                lines.append(f"argument {argument!r} = {problem['input']!r}: {message}")
        return kind(f"{self.entry.spec.kind} {name!r}: " + "; ".join(lines))


def _no_list(argument: str, given: Any) -> str:
    """Why something is no list, and how to write one."""
    if not isinstance(given, str) or not given.startswith("["):
        return f"a list is expected; write {argument}=[{given}]"
    if not given.endswith("]"):
        return "the bracket is open; write ] at the end"
    wrong = [part for part in given[1:-1].split(",") if isinstance(parse_value(part.strip()), str)]
    shown = ", ".join(repr(part.strip()) for part in wrong if part.strip()[:1] not in ("'", '"')) or repr(given)
    return f"{shown} is no number (text in a list needs double quotes)"


def _keywords(values: BaseModel) -> dict[str, Any]:
    return {name: getattr(values, name) for name in type(values).model_fields} | (values.model_extra or {})


_targets: dict[Entry, Target] = {}
"""As they were last loaded."""


def load(entry: Entry) -> Target:
    """Import a plugin's code.

    Raises:
        RequestError: somebody asked for a file or module without the name of a class or function that is in it.
        PluginError: the module raises on import; or a package's own target is no class or function.
    """
    if isinstance(entry, Given):
        return Target(entry, entry.code)
    place, _, attribute = entry.spec.target.rpartition(":")
    if entry.spec.kind != "executor":
        import_torch()  # which the plugin imports
    try:
        module = _module_of(entry)
        code = getattr(module, attribute, None)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        fix = f"Try: python -c 'import {place}'" if not place.endswith(".py") else f"Try: python {place}"
        raise plugin_error(entry, "being imported", error, fix) from error
    if not callable(code):
        raise (PluginError if entry.origin.distribution else RequestError)(_explain_target(entry, module, code))
    known = _targets.get(entry)
    if known is None or known.code is not code:  # first loaded, or loaded anew
        known = _targets[entry] = Target(entry, code)
    return known


def _explain_target(entry: Entry, module: ModuleType, found: Any) -> str:
    """What is wrong with a target that is no class or function, and what could be meant."""
    place, _, attribute = entry.spec.target.rpartition(":")
    offered = {name: code for name, code in vars(module).items() if not name.startswith("_") and callable(code)}
    own = [name for name, code in offered.items() if str(code.__module__).startswith(module.__name__)]
    names = own or list(offered)
    if not attribute:
        problem = f"say what in the file is meant, for example {entry.spec.name.rstrip(':')}:{(*names, 'Name')[0]}."
    elif attribute in vars(module):
        problem = f"{attribute!r} in {place!r} is a {type(found).__name__}, not a class or function."
    else:
        problem = f"there is no {attribute!r} in {place!r}.{did_you_mean(attribute, offered)}"
    shown = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
    return f"{entry}: {problem} It has: {shown or 'no class or function'}."


def load_use(registry: Registry, kind: str, use: PluginUse) -> Target:
    """The code of a plugin that a plan or a record speaks of."""
    return load(find(registry, kind, f"{use.distribution}:{use.name}" if use.distribution else use.name))


def _module_of(entry: Entry) -> ModuleType:
    place = entry.spec.target.rpartition(":")[0]
    return module_from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)


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
        elif parameter.name.startswith("_") or parameter.name in RESERVED:
            raise PluginError(f"{kind} {name!r}: no argument can be called {parameter.name!r}; rename it")
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of an argument with the name of a method, such as `copy`
        return create_model(f"{name} arguments", __config__=config, **fields)


def canonical(value: Any) -> str:
    """JSON that is equal exactly when the value is."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def content_hash(text: str) -> str:
    """Sixteen hexadecimal digits that stand for the text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
