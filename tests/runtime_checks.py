"""Types and shapes are checked in every call while tests run: by beartype, and where a shape is written by jaxtyping,
which takes ten times as long. (Most of what tests call has no shape.)"""

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, as for mypy
_with_shapes = jaxtyping.jaxtyped


def install() -> None:
    """In modules of the harness that are imported from now on; off where `jaxtyping.config` says so."""
    jaxtyping.install_import_hook(["harness", "harness_plugins"], f"{__name__}.check")
    jaxtyping.jaxtyped = _checked  # type: ignore[assignment]  # what the hook puts above each function and class


def _checked(item: Any = None, *, typechecker: Callable[[Any], Any]) -> Any:
    if item is None:
        return partial(_checked, typechecker=typechecker)
    if not inspect.isfunction(item) or any(map(_needs_jaxtyping, item.__annotations__.values())):
        return _with_shapes(item, typechecker=typechecker)
    checked = typechecker(item)

    def called(*args: Any, **kwargs: Any) -> Any:
        return (item if jaxtyping.config.jaxtyping_disable else checked)(*args, **kwargs)

    # an error is looked for in whatever code lies in no installed package, and this is as jaxtyping's own wrapper
    called.__code__ = called.__code__.replace(co_filename=jaxtyping.__file__)
    return wraps(item)(called)


def _needs_jaxtyping(hint: Any) -> bool:
    """Whether it holds a shape, or a name that only type checkers know, which beartype alone does not leave."""
    return isinstance(hint, str) or "jaxtyping." in str(hint)
