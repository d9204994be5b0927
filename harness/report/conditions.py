"""Under which conditions a model was trained and evaluated, and where models differ in them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.schema import AMOUNT, Record, Training
from harness.written import format_arguments

SETTINGS = (*Training.model_fields, "examples", "device")
"""The names of all settings, in the order in which they are told."""


def settings(record: Record) -> dict[str, Any]:
    """Every training setting, the examples per condition and the device."""
    return record.training.model_dump() | {"examples": record.examples, "device": record.device}


def conditions(record: Record) -> dict[str, Any]:
    """Those of the settings that had a say in what was measured: no training setting where nothing was trained, and no
    interval of validation where nothing depends on it."""
    found = settings(record)
    training = record.training
    if record.trained and record.trained.fitted:
        return {name: found[name] for name in (*AMOUNT, "examples", "device")}
    if not trained(record):
        keep = {"examples", "device"} | ({"steps"} if record.stage == "trained" and not record.pretrained else set())
        return {name: found[name] for name in found if name in keep}
    return found if training.patience is not None else found | {"validate_every": None}


def trained(record: Record) -> bool:
    """Whether the model was trained before it was measured, as far as the settings say."""
    return record.stage == "trained" and not record.pretrained and record.training.steps != 0


def differing(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """The settings whose values differ among those that have them."""
    found = list(found)
    given = {name: [each[name] for each in found if name in each] for name in SETTINGS}
    return [name for name, values in given.items() if any(value != values[0] for value in values)]


def written(value: Any) -> str:
    """A setting's value as a user would type it."""
    return f"{value:g}" if isinstance(value, float) else format_arguments({"": value})[1:]


def examples_used(records: Sequence[Record]) -> dict[str, int]:
    """Probes that look at fewer examples than the others, by their argument `examples`; by label."""
    asked = {r.probe.label: (r.probe.arguments.get("examples"), r.examples) for r in records}
    return {label: own for label, (own, whole) in asked.items() if isinstance(own, int) and own < whole}
