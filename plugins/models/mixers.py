"""What a backbone is filled with: from how a mixer is written to its code, its arguments and the files it is in."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from harness import RequestError
from harness.arguments import validate_arguments
from harness.capabilities import Capabilities
from harness.errors import HarnessError, did_you_mean
from harness.registry import Entry, Registry, default_registry
from harness.sources import source_files
from harness.specs import Spec
from harness.suites import Request
from harness.targets import Definition, find_entry, load_definition

WIDTHS = ("width", "d_model", "hidden_size", "dim")
"""What the constructor of a mixer calls the number of features: here `width`, elsewhere one of the others."""


@dataclass(frozen=True)
class MixerSpec(Spec):
    """A mixer, named by whoever asks for a backbone; its class takes the width and its own arguments by keyword."""

    kind: ClassVar[str] = "mixer"


@dataclass(frozen=True)
class Mixer:
    """A mixer in use.

    Args:
        code: its class.
        arguments: its own arguments, all of them.
        definition: where it was found; None for one that came as a class.
        width: what its constructor calls the number of features.
    """

    code: type[nn.Module]
    arguments: Mapping[str, Any]
    definition: Definition | None = None
    width: str = "width"

    def build(self, width: int) -> nn.Module:
        """A new one, from the global random state."""
        return self.code(**{self.width: width}, **self.arguments)

    def check(self, width: int) -> None:
        """Raises ValueError if its arguments do not go together, or with this width."""
        try:
            Capabilities(self.code).check_arguments(**{self.width: width}, **self.arguments)
        except ValueError as error:
            if self.definition is None:
                raise
            raise ValueError(f"mixer {self.definition.entry.spec.name!r}: {error}") from None

    @cached_property
    def files(self) -> list[Path]:
        """Those in which its code is, of which it was found by name: its module's, and all that this imports from the
        same folder or package; and those that it names by its arguments, as plugins do (`files`)."""
        code = [] if self.definition is None else source_files(self.definition.module)
        return [*code, *Capabilities(self.code).files(**self.arguments)]


def find_mixer(text: str) -> Mixer:
    """The mixer that a user has written, as a model is written: `delta_net:key=8`, `./my.py:Mixer:keys=8` or
    `package.module:Mixer`. A name is that of a model made of one (`model_of`).

    Raises:
        RequestError: there is none, or it does not take its arguments.
        PluginError: its code does not load.
    """
    request = Request.model_validate(text)
    registry = default_registry()
    try:
        found = find_entry(registry, "model", request.name)
    except RequestError:
        if not request.name.isidentifier() or request.name in {broken.name for broken in registry.broken}:
            raise
        raise RequestError(f"there is no mixer {request.name!r}.{_alternatives(registry, request.name)}") from None
    entry = Entry(MixerSpec(found.spec.name, found.spec.target), found.origin)
    definition = load_definition(entry)
    code = getattr(definition.code, "mixer", definition.code)
    if found.origin.distribution and code is definition.code:
        raise RequestError(
            f"mixer {text!r}: the model {request.name!r} is not made of one that could be taken from it."
            f"{_alternatives(registry)}"
        )
    width = next((name for name in WIDTHS if name in Definition(entry, code).takes), None)
    if not (isinstance(code, type) and issubclass(code, nn.Module) and width):
        raise RequestError(
            f"mixer {text!r}: a mixer is an nn.Module whose constructor takes the number of features as `width` (or "
            f"`d_model`, `hidden_size`, `dim`), and {request.name!r} is none"
        )
    if width in request.arguments:
        raise RequestError(f"mixer {text!r}: its {width!r} is the width of the backbone; write d_model=... behind it")
    definition = Definition(entry, code, frozenset({width}))
    values = validate_arguments(entry, definition.arguments, request.arguments)
    arguments = {name: getattr(values, name) for name in definition.arguments.model_fields}
    return Mixer(code, arguments | (values.model_extra or {}), definition, width)


def _alternatives(registry: Registry, word: str = "") -> str:
    """What can be asked for instead of a word that is no mixer."""
    known = []
    for entry in registry.all("model"):
        with suppress(HarnessError):  # of a model that does not load
            if hasattr(load_definition(entry).code, "mixer"):
                known.append(entry.spec.name)
    return f"{did_you_mean(word, known)} Mixers: {', '.join(sorted(known))}; or one of yours: ./my.py:Mixer."
