"""Training settings from several sources: the defaults, what plugins recommend, what a suite and its user say."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from harness.errors import RequestError
from harness.schema import Training, unknown_setting
from harness.suite_files import explain
from harness.written import read_none


def merge_training(*layers: Mapping[str, Any]) -> Training:
    """The defaults with what each layer sets; later ones win.

    Raises:
        RequestError: there is no such setting, or its value does not fit.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for name in layer:
            if name not in Training.model_fields:
                raise RequestError(unknown_setting(name))
        values = {name: read_none(value) for name, value in layer.items()}
        if values.get("steps") is not None and "epochs" not in values:
            values["epochs"] = None
        if values.get("epochs") is not None and "steps" not in values:
            values["steps"] = None
        merged |= values
    try:
        return Training.model_validate(merged)
    except ValidationError as error:
        raise RequestError(f"the training settings are wrong:\n{explain(error, Training)}") from None
