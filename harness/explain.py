"""What `harness show` says of one plugin."""

import inspect
import json
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from tabulate import tabulate

from harness.plugin import resolve
from harness.registry import default_registry
from harness.requests import find_suite
from harness.suites import Request
from harness.targets import Definition, find_entry, load_definition
from harness.written import count, format_arguments


def describe_plugin(kind: str, name: str, *, as_json: bool = False) -> str:
    """A model, task, probe or executor: summary, arguments, advice, needs, source and documentation.

    Raises:
        RequestError: there is no such plugin, or it refuses the arguments that are written behind its name.
    """
    request = Request.model_validate(name)
    name = request.name
    definition = load_definition(find_entry(default_registry(), kind, name))
    if request.arguments:
        resolve(definition, request)
    entry, code, says = definition.entry, definition.code, definition.says
    arguments = list_arguments(definition)
    facts: dict[str, Any] = {
        "summary": entry.spec.summary,
        "from": f"{entry.origin.distribution} {entry.origin.version}".strip() or "a file",
        "source": entry.spec.target,
    }
    if kind == "model":
        facts["accepts"] = list(says.accepts)
    if kind == "probe":
        facts["needs"] = list(says.needs)
        facts["stages"] = list(says.stages)
    if kind in ("model", "task"):
        facts["training"] = dict(says.recommended_training)
    if as_json:
        return json.dumps({"kind": kind, "name": name, **facts, "arguments": arguments}, indent=1, default=str)
    parts = [f"{kind} {name}: {facts.pop('summary')}".removesuffix(": ")]
    parts.append(
        tabulate([(key, _words(value)) for key, value in facts.items()], tablefmt="plain", disable_numparse=True)
    )
    if arguments:
        table = [(a["name"], a["type"], "(required)" if a["required"] else json.dumps(a["default"])) for a in arguments]
        parts.append(tabulate(table, headers=["argument", "type", "default"], tablefmt="simple", disable_numparse=True))
        parts.append(f"Set them like this: {name}:{arguments[0]['name']}=...")
    if documentation := inspect.cleandoc(code.__doc__ or ""):  # its own, not that of nn.Module
        parts.append(documentation)
    return "\n\n".join(parts)


def describe_suite(name: str) -> str:
    """A suite: what it crosses and which claims it tests."""
    suite = find_suite(name)
    lines = [f"suite {suite.name}: {suite.summary}".removesuffix(": "), count(suite.seeds, "seed")]
    lines += [
        f"{name} {', '.join(format_arguments({'': v})[1:] for v in values)}" for name, values in suite.grid.items()
    ]
    for experiment in suite.experiments:
        crossed = (experiment.models, experiment.tasks, experiment.probes)
        own = "" if experiment.seeds is None else f"  ({count(experiment.seeds, 'seed')})"
        lines.append("  " + "  x  ".join(", ".join(map(str, requests)) for requests in crossed) + own)
    lines += [count(len(suite.claims), "claim")] if suite.claims else []
    lines += [f"  {claim.text} ({claim.source})".removesuffix(" ()") for claim in suite.claims]
    return "\n".join(lines)


def list_arguments(definition: Definition) -> list[dict[str, Any]]:
    """Every argument with `name`, `type` (in words), `required` and `default`."""
    types = definition.arguments.model_json_schema(schema_generator=_Types)["properties"]
    return [
        {
            "name": name,
            "type": _type(types[name]),
            "required": field.is_required(),
            "default": None if field.is_required() else _plain(field.default),
        }
        for name, field in definition.arguments.model_fields.items()
    ]


class _Types(GenerateJsonSchema):
    """Names types that JSON does not know, instead of refusing them."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"non-serializable-default"}  # noqa: RUF012 - pydantic's own

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
        return {"type": getattr(schema.get("cls"), "__name__", "object")}


def _plain(value: Any) -> Any:
    return TypeAdapter(Any).dump_python(value, mode="json", fallback=repr)


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return "one of " + ", ".join(map(str, field["enum"]))
    if "const" in field:
        return f"only {field['const']}"
    if "anyOf" in field:
        return " or ".join(_type(option) for option in field["anyOf"])
    words = {
        "integer": "int",
        "number": "float",
        "string": "text",
        "boolean": "true or false",
        "null": "none",
    }
    kind = words.get(field.get("type", ""), field.get("type", "anything"))
    if kind == "array":
        kind = f"list of {_type(field.get('items', {}))}"
    signs = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}
    bounds = [f"{sign} {field[key]}" for key, sign in signs.items() if key in field]
    return " ".join([kind, ", ".join(bounds)]).strip()


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "the defaults"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "nothing"
    return str(value)
