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
        "unseen",
        "harness_plugins.probes.unseen:unseen",
        "share of test answers that a table of counts never had in training after the same context",
    )
    yield ProbeSpec(
        "grad_reach",
        "harness_plugins.probes.grad_reach:GradReach",
        "gradient at the query with respect to the cue, per distance",
    )
    yield ProbeSpec(
        "grad_by_layer",
        "harness_plugins.probes.grad_by_layer:GradByLayer",
        "gradient of the loss at each layer of any stack: vanishes, explodes, even",
    )
    yield ProbeSpec(
        "attention_to_subject",
        "harness_plugins.probes.attention_to_subject:AttentionToSubject",
        "share of attention from the query to the cue and to every role, per layer and head",
    )
    yield ProbeSpec(
        "alignment",
        "harness_plugins.probes.alignment:Alignment",
        "attention from every answer to the source token that holds it: share, exact and within one, per head",
    )
    yield ProbeSpec(
        "edge_cut",
        "harness_plugins.probes.edge_cut:EdgeCut",
        "score after attention to the cue or a role is cut, with proof of the cut and sham controls",
    )
    yield ProbeSpec(
        "own_outputs",
        "harness_plugins.probes.own_outputs:OwnOutputs",
        "targets that the model writes itself, token by token, against teacher forcing",
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
        "state_jacobian",
        "harness_plugins.probes.state_jacobian:StateJacobian",
        "size of the Jacobian of a state by an earlier one, beside the path along the cells alone",
    )
    yield ProbeSpec(
        "gates",
        "harness_plugins.probes.gates:Gates",
        "cells that hold, gates at the cue and elsewhere, and what explains what is written",
    )
    yield ProbeSpec(
        "memory_cell",
        "harness_plugins.probes.memory_cell:MemoryCell",
        "a small recurrent state step by step: noise, drift, fixed points, gradient",
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
    yield ProbeSpec(
        "attention_laws",
        "harness_plugins.probes.laws.attention:AttentionLaws",
        "is it attention: weights that sum to 1, nothing of the future, the formula, cuts that leak nothing",
    )
    yield ProbeSpec(
        "softmax_laws",
        "harness_plugins.probes.laws.softmax:SoftmaxLaws",
        "what a bare attention's softmax makes of scores that are chosen from outside",
    )
    yield ProbeSpec(
        "position_laws",
        "harness_plugins.probes.laws.positions:PositionLaws",
        "sinusoids, turned queries, slopes: do positions give the scores that they must",
    )
    yield ProbeSpec(
        "norm_laws",
        "harness_plugins.probes.laws.norms:NormLaws",
        "what every layer norm of a model makes of known vectors",
    )
    yield ProbeSpec(
        "recurrence_laws",
        "harness_plugins.probes.laws.recurrence:RecurrenceLaws",
        "what goes on from step to step, what gates do with it, and how it depends on the past",
    )
    yield ProbeSpec(
        "language_laws",
        "harness_plugins.probes.laws.languages:LanguageLaws",
        "the entropy of a task's language, in three ways",
    )
    yield ProbeSpec(
        "count_laws",
        "harness_plugins.probes.laws.counts:CountLaws",
        "how many parameters a model must have",
    )


@hookimpl
def harness_report_sections(records: "list[Record]") -> Iterator[tuple[str, str]]:
    from harness_plugins.probes.speed_table import relative_times

    yield from relative_times(records)
