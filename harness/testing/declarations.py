"""Checks of how a plugin's code is declared: its arguments, and its advice on training."""

import inspect

from harness.errors import HarnessError, RequestError
from harness.targets import place_of
from harness.testing.case import PluginCase
from harness.testing.checks import Failed, check
from harness.training_settings import merge_training


@check(
    asks="every argument has a type, and a default that fits it",
    means="an argument without a type is not validated: a typing error would be found after hours, or never",
    fix="write `width: int = 64` (or a pydantic type: `width: PositiveInt = 64`) in the signature",
    builds=False,
)
def arguments(case: PluginCase) -> str:
    """As `harness run` reads them."""
    definition = case.definition
    code = definition.code.__init__ if inspect.isclass(definition.code) else definition.code
    hints = getattr(code, "__annotations__", {})
    untyped = [name for name in definition.arguments.model_fields if name not in hints]
    if untyped:
        raise Failed(f"no type is written at {', '.join(map(repr, untyped))}", place_of(code))
    try:
        _ = case.plugin
    except HarnessError as error:
        raise Failed(str(error), place_of(code)) from None
    return ", ".join(definition.arguments.model_fields) or "it takes no arguments"


@check(
    asks="advice on training uses settings that exist",
    means="every run with this plugin would be refused before it starts",
    fix="see the fields of `Training` in the reference; for example recommended_training = {'lr': 3e-3}",
    builds=False,
)
def recommended_training(case: PluginCase) -> str:
    """Names and values, as a plan reads them."""
    advice = case.says.recommended_training
    try:
        merge_training(advice)
    except RequestError as error:
        raise Failed(str(error), case.declared_at) from None
    return ", ".join(f"{name}={value}" for name, value in advice.items()) or "it recommends nothing"
