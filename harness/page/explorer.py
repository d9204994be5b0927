"""What the attention explorer of a page shows: patterns of single examples, with the effect of cutting each head."""

import json
from typing import Any

from harness.charts.heads import cut_heads
from harness.charts.pattern import sharpest
from harness.charts.view import View
from harness.measurements import Pattern
from harness.schema import Record

MOST_BYTES = 3_000_000
"""Of the data; what does not fit is left out, and the page says how much."""


def explorer(view: View) -> tuple[str, int]:
    """The data as JSON that may stand in a script element, and how many patterns were left out."""
    falls = _falls(view)
    kept: list[str] = []
    size = left_out = 0
    for group in view.of("attention_to_subject"):
        for row in group.measured:
            for record in row.ok:
                for pattern in (m for m in record.measurements if isinstance(m, Pattern)):
                    effects = falls.get((row.label, group.task, record.seed, record.stage), {})
                    text = json.dumps(_one(pattern, row.label, group.task, record, effects), separators=(",", ":"))
                    if size + len(text) > MOST_BYTES:
                        left_out += 1
                    else:
                        size += len(text)
                        kept.append(text)
    # no text can end the element, or begin a comment in it
    return f"[{','.join(kept)}]".replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"), left_out


def _one(pattern: Pattern, model: str, task: str, record: Record, effects: dict[str, float]) -> dict[str, Any]:
    example = pattern.name.partition("_")[2] or "1"
    return {
        "model": model,
        "task": task,
        "seed": record.seed,
        "example": f"{example}{' (at initialisation)' if record.stage == 'initial' else ''}",
        "tokens": pattern.tokens,
        "heads": pattern.heads,
        "weights": pattern.weights,
        "cue": pattern.cue,
        "query": pattern.query,
        "first": sharpest(pattern),
        "effects": effects,
    }


def _falls(view: View) -> dict[tuple[str, str, int, str], dict[str, float]]:
    """By how much the score falls when a head's look at the cue is cut."""
    return {
        (row.label, group.task, record.seed, record.stage): {
            name: round(fall, 4) for name, (_, fall) in cut_heads(record).items()
        }
        for group in view.of("edge_cut")
        for row in group.measured
        for record in row.ok
    }
