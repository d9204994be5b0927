"""What a plugin may say of itself besides doing its work; each default is stated here, and nowhere else."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast


@dataclass(frozen=True)
class Capabilities:
    """The optional attributes and methods of a model, task or probe, as `harness.contracts` documents them.

    Args:
        code: the class or function, or a model that was built; None for code that could not be loaded, of which only
            the defaults are known.
    """

    code: object

    def _say(self, name: str, default: Any) -> Any:
        said = getattr(self.code, name, None)
        return default if said is None else said  # with None a subclass takes back what its base says

    @property
    def accepts(self) -> tuple[str, ...]:
        """Kinds of input that a model takes."""
        return tuple(self._say("accepts", ("tokens",)))

    @property
    def sees(self) -> str:
        """What a model's outputs may depend on; a built model may say something else than its class."""
        return str(self._say("sees", "past"))

    @property
    def max_length(self) -> int | None:
        """The most tokens that a built model takes in one sequence; None for no limit that it states."""
        most = self._say("max_length", None)
        return most if isinstance(most, int) else None

    @property
    def stages(self) -> tuple[str, ...]:
        """When a probe looks."""
        return tuple(self._say("stages", ("trained",)))

    @property
    def needs(self) -> tuple[str, ...]:
        """What a probe needs of model and task."""
        return tuple(self._say("needs", ()))

    @property
    def recommended_training(self) -> Mapping[str, Any]:
        """Training settings that suit a model or a task."""
        return dict(self._say("recommended_training", {}))

    @property
    def fixed_data(self) -> bool:
        """Whether a task's evaluation data is the same for every seed."""
        return bool(self._say("fixed_data", False))

    @property
    def check_arguments(self) -> Callable[..., None]:
        """Raises ValueError if arguments do not go together."""
        return cast(Callable[..., None], self._say("check_arguments", _nothing))

    @property
    def check_tokenizer(self) -> Callable[..., None]:
        """Raises ValueError if a model's tokenizer is missing."""
        return cast(Callable[..., None], self._say("check_tokenizer", _nothing))

    @property
    def fits(self) -> bool:
        """Whether a model learns in its own way, without gradient steps of the harness."""
        return callable(self._say("fit", None))

    def check(self) -> None:
        """Raises whatever is wrong with what is said, before a plan is made of it."""
        _ = self.accepts, self.sees, self.stages, self.needs, self.recommended_training, self.fixed_data, self.fits

    def files(self, **arguments: Any) -> list[Path]:
        """The files whose content decides the result."""
        named: Iterable[Any] = self._say("files", _nothing)(**arguments) or ()
        return [Path(each) for each in named]

    def pretrained(self, **arguments: Any) -> bool:
        """Whether a model comes with its weights."""
        return bool(self._say("pretrained", _nothing)(**arguments))

    def tokenizer(self, **arguments: Any) -> Any:
        """A model's tokenizer; None for a model without one."""
        return self._say("tokenizer", _nothing)(**arguments)


def _nothing(**arguments: Any) -> None:
    return None
