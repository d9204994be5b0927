"""How requests, values and amounts are written as text, and requests and values read."""

import json
import re
from typing import Any

from harness.errors import RequestError

ALIAS = r"\w[\w.+-]*"
"""What an alias looks like: without `:` and `/`, which tell `name:key=value` and paths from `alias=name`."""

DEEPEST = 50
"""At most this many brackets may stand in one another, so that whatever walks through a value needs no limit."""


def deeper(value: Any, levels: int) -> bool:
    """Whether lists and tables stand in one another more than so many levels deep."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return False
    return levels == 0 or any(deeper(each, levels - 1) for each in value)


def parse_request(text: str) -> dict[str, Any]:
    """Split `alias=name:key=value,key=value` into an alias (if there is one), a name and arguments."""
    pattern = rf"(?:(?P<alias>{ALIAS})=)?(?P<name>.*?)(?::(?P<arguments>\s*[^\W\d]\w*\s*=.*))?"
    match = re.fullmatch(pattern, text.strip(), flags=re.DOTALL)
    if match is None or not match["name"]:
        raise RequestError(f"cannot read {text!r}: write name or name:key=value,key=value, for example gpt:layers=4")
    alias = {"alias": match["alias"]} if match["alias"] else {}
    return {"name": match["name"], "arguments": parse_arguments(match["arguments"] or ""), **alias}


def parse_arguments(text: str) -> dict[str, Any]:
    """Read `key=value,key=value`. Values are JSON where they parse as JSON (`4`, `1e-3`, `true`, `[1,2]`), `none`, or
    plain text; commas inside brackets or quotes belong to the value.

    Raises:
        RequestError: a part without `=`, a key given twice, or brackets that are nested too deep.
    """
    arguments: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in split_commas(text))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key:
            raise RequestError(f"cannot read {part!r} in {text!r}: write key=value,key=value")
        if key in arguments:
            raise RequestError(f"{key!r} is given twice in {text!r}; keep one")
        arguments[key] = parse_value(value)
        if deeper(arguments[key], DEEPEST):
            raise RequestError(f"{key!r} has brackets nested more than {DEEPEST} deep; write it flatter")
    return arguments


def split_commas(text: str) -> list[str]:
    """The parts between commas that stand in no brackets and no quotes."""
    parts, depth, quote, start, escaped = [], 0, "", 0, False
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote and not escaped else quote
            escaped = character == "\\" and not escaped
        elif character in "\"'":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


def parse_value(text: str) -> Any:
    """What `key=value` means by its value."""
    if read_none(text) is None:
        # `position=none` is a word for some plugins and None for others; argument validation settles which
        return text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def read_none(value: Any) -> Any:
    """None for the word `none`, by which it is written where there is only text; anything else as it is."""
    return None if isinstance(value, str) and value.lower() == "none" else value


def format_arguments(arguments: dict[str, Any]) -> str:
    """The inverse of `parse_arguments`."""
    return ",".join(f"{key}={_format_value(value)}" for key, value in arguments.items())


def _format_value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, str) and re.fullmatch(r"[^\s,\"'\[\]{}]+", value) and parse_value(value) == value:
        return value
    return json.dumps(value, separators=(",", ":"), default=str)


def count(n: int | str, word: str) -> str:
    """`1 seed`, `3 seeds`; also of a number that is written already, or of several: `100, 200 steps`."""
    return f"{n if isinstance(n, str) else format(n, ',')} {word}{'' if str(n) == '1' else 's'}"


def size(octets: int) -> str:
    """`1.5 MiB`."""
    for unit, one in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if octets >= one:
            amount = octets / one
            return f"{amount:{'.3g' if amount < 999.5 else '.0f'}} {unit}"
    return f"{octets} B"
