"""The built-in tasks."""

from collections.abc import Iterator
from textwrap import shorten
from typing import TYPE_CHECKING

from harness import TaskSpec, hookimpl

if TYPE_CHECKING:
    from harness.schema import Record


@hookimpl
def harness_report_sections(records: "list[Record]") -> Iterator[tuple[str, str]]:
    """What tasks say about their data, and which models were not trained here."""
    notes: dict[str, list[str]] = {}
    for record in records:
        said = ["pretrained, not trained"] * record.pretrained + record.notes
        notes.setdefault(f"{record.model.label} on {record.task.label}", said)
    lines = [f"{trial}\n{_indented(said)}" for trial, said in notes.items() if said]
    if lines:
        yield "Notes", "\n".join(lines)


def _indented(notes: list[str]) -> str:
    return "\n".join(f"  - {shorten(note, 160, placeholder=' ... (all in the record)')}" for note in notes)


@hookimpl
def harness_tasks() -> Iterator[TaskSpec]:
    yield TaskSpec(
        "farm_agreement",
        "harness_plugins.tasks.farm_agreement:FarmAgreement",
        "predict farm sentences; the verb agrees with its subject across k distractor nouns",
    )
    yield TaskSpec(
        "minimal_pairs",
        "harness_plugins.tasks.minimal_pairs:MinimalPairs",
        "prefer the right one of two real sentences, from a local file (BLiMP, a table, Gulordava et al.)",
    )
    yield TaskSpec("noise", "harness_plugins.tasks.noise:Noise", "random vectors, for timing; nothing to learn")
    yield TaskSpec("recall", "harness_plugins.tasks.recall:Recall", "name the key that stood d distractors ago")
