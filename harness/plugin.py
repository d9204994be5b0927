"""A plugin in use: code that was asked for, with all its arguments. `build` and `probing` make something of it."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from harness.arguments import SUPPLIED, validate_arguments
from harness.capabilities import Capabilities
from harness.errors import PluginError, RequestError, describe
from harness.given import object_digest
from harness.kinds import WORDS, kind_of
from harness.registry import Entry, Registry, plugin_error
from harness.schema import Failure, PluginUse
from harness.sources import canonical, content_hash, file_digest, source_digest
from harness.suites import Request
from harness.targets import Definition, Given, find_entry, is_given, load_definition
from harness.written import format_arguments

PLAIN_DATA = "Arguments must be plain data: numbers, text, lists."
_PLAIN = TypeAdapter(dict[str, Any])


@dataclass(frozen=True)
class _InUse:
    use: PluginUse
    """What records keep of it."""

    @cached_property
    def key(self) -> str:
        """Equal exactly if the same code with the same arguments was asked for, wherever its file is."""
        return canonical(_identifying(self.use))


def _identifying(use: PluginUse) -> dict[str, Any]:
    told = use.model_dump(mode="json", exclude={"label", "alias", "parameters", "baseline"})
    if use.file and use.digest:
        del told["name"]
        told["target"] = f"{use.file.name}:{use.target.rpartition(':')[2]}"
    return told


def draws_as(use: PluginUse) -> str:
    """What random generators are named after: what the key is made of, but for the version of the code. So a path that
    is typed differently draws the same, and so does a plugin that was edited: it can be compared with what it was."""
    return canonical({name: value for name, value in _identifying(use).items() if name not in ("version", "digest")})


@dataclass(frozen=True)
class Plugin(_InUse):
    """A plugin that can be used, and everything that is asked of it before it is built."""

    definition: Definition
    arguments: Mapping[str, Any]
    """Every argument as the code takes it; in `use` they are plain data."""
    failure: ClassVar[None] = None

    @property
    def says(self) -> Capabilities:
        """What the code says of itself."""
        return self.definition.says

    @cached_property
    def pretrained(self) -> bool:
        """Whether it is a model that comes with its weights."""
        return self.says.pretrained(**self.arguments)

    @property
    def wants_tokenizer(self) -> bool:
        """Whether it is a task that asks for the model's tokenizer."""
        return "tokenizer" in self.definition.takes

    @cached_property
    def endless(self) -> bool:
        """Whether it is a task without a size. Only an instance knows; one that cannot be built fails in its trial."""
        if self.wants_tokenizer:
            return False
        try:
            return self.construct().examples is None
        except KeyboardInterrupt:
            raise
        except BaseException:
            return False

    def tokenizer(self) -> Any:
        """A model's tokenizer; None for a model without one."""
        return self.says.tokenizer(**self.arguments)

    def check_tokenizer(self) -> None:
        """Raises ValueError if a model's tokenizer is missing."""
        self.says.check_tokenizer(**self.arguments)

    def construct(self, **supplied: Any) -> Any:
        """Call the code with its arguments, and with those of `supplied` that its signature asks for."""
        wanted = {name: value for name, value in supplied.items() if name in self.definition.takes}
        return self.definition.code(**deepcopy(dict(self.arguments)), **wanted)


@dataclass(frozen=True)
class BrokenPlugin(_InUse):
    """A plugin that does not load: every cell that needs it fails. Of what it says only the defaults are known."""

    failure: Failure
    says: ClassVar = Capabilities(None)
    pretrained: ClassVar = False
    wants_tokenizer: ClassVar = False
    endless: ClassVar = False

    @classmethod
    def of(cls, entry: Entry, request: Request, cause: BaseException) -> "BrokenPlugin":
        """The plugin of a request, and why it cannot be used."""
        doing, fix = "being asked what it takes and says of itself", "Correct it there."
        error = cause if isinstance(cause, PluginError) else plugin_error(entry, doing, cause, fix)
        use = PluginUse(
            name=entry.spec.name,
            label=str(request),
            arguments=request.arguments,
            distribution=entry.origin.distribution,
            version=entry.origin.version,
            target=entry.spec.target,
            digest="",
            baseline=entry.baseline,
        )
        return cls(use, Failure(type="PluginError", message=str(error)))


def resolve(definition: Definition, request: Request) -> Plugin:
    """The plugin with a request's arguments, validated, and the defaults of all others.

    Raises:
        RequestError: an argument is unknown, missing or of the wrong type or range, or they do not go together.
        PluginError: a default does not fit, or an argument is no plain data.
    """
    entry = definition.entry
    kind, asked, name = kind_of(definition.code), entry.spec.kind, entry.spec.name
    if kind not in ("", asked) and not entry.origin.distribution:
        raise RequestError(f"{name!r} is {WORDS[kind]}, which is no {asked}; give it as a {kind}: --{kind} {name}")
    values = _validate(definition, request.arguments)
    try:
        plain = values.model_dump(mode="json")
    except PydanticSerializationError as error:
        raise _unreadable(entry, error) from error
    arguments = _keywords(values)
    defaults = _defaults(definition)
    different = {name: value for name, value in plain.items() if name not in defaults or value != defaults[name]}
    use = PluginUse(
        name=name,
        label=f"{name}:{format_arguments(different)}" if different else name,
        arguments=plain,
        distribution=entry.origin.distribution,
        version=entry.origin.version,
        target=entry.spec.target,
        digest=_digest(definition, arguments),
        baseline=entry.baseline,
    )
    return Plugin(use, definition, arguments)


def planned(registry: Registry, kind: str, use: PluginUse) -> Plugin:
    """The plugin that a plan speaks of.

    Raises:
        PluginError: its code, or a file that its arguments name, is not what it was when the plan was made.
    """
    definition = load_definition(
        find_entry(registry, kind, f"{use.distribution}:{use.name}" if use.distribution else use.name)
    )
    arguments = _keywords(_validate(definition, use.arguments))
    if _digest(definition, arguments) != use.digest:
        fix = "run it again"
        if is_given(use):  # and this process has run nothing else meanwhile
            fix = "what it uses and changes itself, such as a cache, has to be made inside of it"
        raise PluginError(f"{kind} {use.label!r} ({use.target}) has changed since this run was planned; {fix}")
    return Plugin(use, definition, arguments)


def _validate(definition: Definition, arguments: dict[str, Any]) -> BaseModel:
    """Each argument for itself, and then all of them together."""
    entry = definition.entry
    try:
        values = validate_arguments(entry, definition.arguments, arguments)
    except RequestError as error:
        if "width" in arguments or not _built_by_width(definition):
            raise
        raise RequestError(f"{error} (a mixer? --model backbone:mixer={entry.spec.name})") from None
    try:
        definition.says.check_arguments(**_keywords(values))
    except ValueError as error:
        message = describe(error) if isinstance(error, ValidationError) else str(error)
        raise RequestError(f"{entry.spec.kind} {entry.spec.name!r}: {message}") from None
    return values


def _built_by_width(definition: Definition) -> bool:
    """Whether it is given for a model, in a file, and is built as a mixer of a backbone is."""
    entry, width = definition.entry, definition.arguments.model_fields.get("width")
    own = entry.spec.kind == "model" and not entry.origin.distribution
    return own and width is not None and width.is_required() and definition.takes.isdisjoint(SUPPLIED["model"])


def _keywords(values: BaseModel) -> dict[str, Any]:
    return {name: getattr(values, name) for name in type(values).model_fields} | (values.model_extra or {})


def _defaults(definition: Definition) -> dict[str, Any]:
    """The default values of the arguments, as plain data."""
    defaults = {name: field.default for name, field in definition.arguments.model_fields.items()}
    plain: dict[str, Any] = _PLAIN.dump_python(defaults, mode="json", fallback=repr)
    return plain


def _digest(definition: Definition, arguments: dict[str, Any]) -> str:
    """Digest of the plugin's source, and of the content of the files that its arguments name."""
    entry = definition.entry
    digest = object_digest(entry.code) if isinstance(entry, Given) else source_digest(definition.module)
    content = [file_digest(path) for path in definition.says.files(**arguments)]
    return content_hash("\n".join([digest, *content])) if content else digest


def _unreadable(entry: Entry, cause: Exception) -> PluginError:
    return plugin_error(entry, "reading its arguments", cause, PLAIN_DATA)
