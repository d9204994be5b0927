"""The built-in probes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness import ProbeSpec, hookimpl

if TYPE_CHECKING:
    from harness.schema import Record


@hookimpl
def harness_probes() -> Iterator[ProbeSpec]:
    yield ProbeSpec(
        "accuracy",
        "harness_plugins.probes.accuracy:accuracy",
        "score, loss and bits per condition, and the kind of failure",
    )
    yield ProbeSpec(
        "grad_reach",
        "harness_plugins.probes.grad_reach:GradReach",
        "gradient at the query with respect to the cue, per distance",
    )
    yield ProbeSpec(
        "attention_to_subject",
        "harness_plugins.probes.attention_to_subject:AttentionToSubject",
        "share of attention from the query to the cue and to every role, per layer and head",
    )
    yield ProbeSpec(
        "edge_cut",
        "harness_plugins.probes.edge_cut:EdgeCut",
        "score after attention to the cue or a role is cut, with proof of the cut and sham controls",
    )
    yield ProbeSpec(
        "state_cut",
        "harness_plugins.probes.state_cut:StateCut",
        "does the answer follow the recurrent state, exchanged after the cue; with proof of the cut and sham controls",
    )
    yield ProbeSpec(
        "state_decode",
        "harness_plugins.probes.state_decode:StateDecode",
        "how well a linear read-out finds the answer in the recurrent state at the query, used or not",
    )
    yield ProbeSpec(
        "padding",
        "harness_plugins.probes.padding:Padding",
        "score after steps of padding, read where the task asks and after the padding",
    )
    yield ProbeSpec(
        "position_extrapolation",
        "harness_plugins.probes.position_extrapolation:PositionExtrapolation",
        "score at every length, inside and beyond the trained range, and where it ends",
    )
    yield ProbeSpec(
        "input_swap",
        "harness_plugins.probes.input_swap:input_swap",
        "does the answer follow when the cue, or the distractors, are swapped in the input",
    )
    yield ProbeSpec(
        "ledger",
        "harness_plugins.probes.ledger:LedgerProbe",
        "parameters, operations and memory by part, counted from outside, beside measured time",
    )
    yield ProbeSpec(
        "speed", "harness_plugins.probes.speed:Speed", "time and peak memory against the length of the sequence"
    )
    yield ProbeSpec(
        "thread_scaling", "harness_plugins.probes.speed:ThreadScaling", "how much faster more threads make a model"
    )


@hookimpl
def harness_report_sections(records: "list[Record]") -> Iterator[tuple[str, str]]:
    from harness_plugins.probes.speed_table import relative_times

    yield from relative_times(records)
