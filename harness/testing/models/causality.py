"""Checks of what a model's outputs see of a sequence: what comes before, whatever follows, at any length."""

from typing import NoReturn

import torch
from torch import Tensor, nn

from harness.capabilities import Capabilities
from harness.contracts import SEES
from harness.errors import describe, place_of_error
from harness.preflight import magnitude, reads_ahead, unseen_from
from harness.targets import place_of
from harness.testing.checks import Failed, NotApplicable, check
from harness.testing.models.case import TIME, ModelCase
from harness.testing.models.guilty import Part, guilty_part


@check(
    asks='no output changes when a later token changes, in short and in longer sequences (unless it says sees = "all"; '
    'of the target alone, if it says "source")',
    means="where the next token is to be predicted the model can read the answer: its scores mean nothing",
    fix="mask the future (is_causal=True), shift by the right amount, pad convolutions on the left only, read in "
    "one direction",
    after=("batch_invariant",),
)
def causal(case: ModelCase) -> str:
    """Changes one token at a time, and looks at all outputs before it; then the ends of longer sequences."""
    model = case.fresh()
    sees = _what_it_sees(model)
    _at_every_position(case, model, unseen_from(sees, case.interface, case.inputs()))
    tried, kept = [TIME], case.interface.separator
    for tokens, outputs in case.longer(model):
        start = unseen_from(sees, case.interface, tokens)
        if cut := reads_ahead(lambda given: case.run(model, given), tokens, outputs, case.tolerance, start, kept):
            part = _part_that_reads_ahead(case, tokens, cut, None)
            raise Failed(
                f"it sees ahead in longer sequences, in {part.words}: changing the tokens from {cut} on, of "
                f"{tokens.shape[1]}, changes outputs before them, but not at {' or '.join(map(str, tried))} tokens",
                part.where,
            )
        tried.append(tokens.shape[1])
    return f"exact to {case.tolerance:g} of the largest output, at {', '.join(map(str, tried))} tokens"


def _at_every_position(case: ModelCase, model: nn.Module, start: int) -> None:
    """Fails with the token that changes the earliest output, as seen from it."""
    inputs = case.inputs()
    before = case.run(model, inputs)
    scale = magnitude(before)
    ahead, example = 0, (0, 0)
    for position in range(start, TIME):
        after = case.run(model, case.changed(inputs, slice(position, position + 1)))
        differing = (e for e in range(position) if case.differ(after[:, e], before[:, e], scale))
        earlier = next(differing, position)
        if position - earlier > ahead:
            ahead, example = position - earlier, (position, earlier)
    if ahead:
        position, earlier = example
        part = _part_that_reads_ahead(case, inputs, position, position + 1)
        reach = "1 token ahead" if ahead == 1 else f"{ahead} tokens ahead"
        reach = "the whole sequence to its end" if ahead == TIME - 1 else reach
        raise Failed(
            f"it sees {reach}, in {part.words}: changing token {position} changes the output at position {earlier}",
            part.where,
        )


def _what_it_sees(model: nn.Module) -> str:
    """What it says, if that leaves something to check."""
    sees = Capabilities(model).sees
    if sees not in SEES:
        raise Failed(f"sees = {sees!r}; it is one of {', '.join(map(repr, SEES))}", place_of(type(model)))
    if sees == "all":
        raise NotApplicable('it says sees = "all": its outputs may depend on every token')
    return sees


def _part_that_reads_ahead(case: ModelCase, inputs: Tensor, start: int, end: int | None) -> Part:
    length = inputs.shape[1]

    def differs(a: Tensor, b: Tensor) -> bool:
        axis = next((i for i in (1, a.ndim - 1, 0) if a.shape[i] == length), None)
        if a.shape != b.shape or axis is None or not (a.is_floating_point() or a.is_complex()):
            return False
        return case.differ(a.narrow(axis, 0, start), b.narrow(axis, 0, start))

    return guilty_part(case, inputs, case.changed(inputs, slice(start, end)), differs)


@check(
    asks="one pass over a sequence equals passes over its prefixes",
    means="scores at a position change with what comes after it in the batch; results by length are not comparable",
    fix="let nothing depend on `tokens.shape[1]`: count positions from the start, normalise over features",
    after=("causal",),
)
def prefixes(case: ModelCase) -> str:
    """Every prefix of a short sequence, and some of the longest, alone against the same positions of the whole."""
    model = case.fresh()
    sees = _what_it_sees(model)
    short = case.inputs()
    longer = list(case.longer(model))
    wholes = [(short, case.run(model, short), list(range(unseen_from(sees, case.interface, short), TIME)))]
    if longer:
        inputs, whole = longer[-1]
        start = unseen_from(sees, case.interface, inputs)
        starts = [TIME, *(each.shape[1] for each, _ in longer[:-1]), inputs.shape[1] - 1]
        wholes.append((inputs, whole, [length for length in starts if length >= start]))
    for inputs, whole, starts in wholes:
        for length in starts:
            if case.differ(case.run(model, inputs[:, :length]), whole[:, :length], magnitude(whole)):
                _fail_as_another_length(case, inputs, length)
    return f"of {' and '.join(str(inputs.shape[1]) for inputs, _, _ in wholes)} tokens"


def _fail_as_another_length(case: ModelCase, inputs: Tensor, length: int) -> NoReturn:
    whole = inputs.shape[1]
    if case.chaotic(inputs):
        raise NotApplicable(f"over {whole} tokens rounding grows until nothing can be compared")
    raise Failed(
        f"the outputs for the first {length} of {whole} tokens are others than those for these {length} alone: they "
        "depend on the length of the sequence"
    )


@check(
    asks="it runs at other lengths than it was trained on, or states its limit",
    means="extrapolation cannot be measured: a crash is not told from a limit",
    fix="set `self.max_length` to the longest sequence it takes (None: no limit)",
    after=("input_untouched",),
)
def lengths(case: ModelCase) -> str:
    """Shorter and longer than anything seen, up to the limit that the model states."""
    model = case.build()
    limit = getattr(model, "max_length", None)
    if limit is not None and not isinstance(limit, int):
        raise Failed(f"max_length = {limit!r}; it is a number of tokens, or None for no limit", place_of(type(model)))
    tried_always = (1, 2, TIME, 4 * TIME + 1, 257)
    wanted = [each for each in tried_always if each >= case.shortest and (limit is None or each <= limit)]
    if limit is not None and limit <= 1024:
        wanted.append(limit)
    for length in wanted:
        try:
            outputs = case.run(case.build(), case.inputs(batch=2, time=length))
        except Exception as error:
            says = "it states no max_length" if limit is None else f"it states max_length = {limit}"
            raise Failed(f"{says}, but {length} tokens raise {describe(error)}", place_of_error(error)) from None
        if outputs.shape[1] != length or not torch.isfinite(outputs).all():
            raise Failed(f"{length} tokens give {outputs.shape[1]} positions, or outputs that are not finite")
    tried = ", ".join(map(str, sorted(set(wanted))))
    return f"{tried} tokens; " + ("no limit" if limit is None else f"limit {limit}")


@check(
    asks="appending its `padding_token` changes no earlier output (where a model names one)",
    means="the same sentence has other scores in a batch with longer ones",
    fix="mask the padding token everywhere, or do not name one",
    after=("batch_invariant",),
)
def padding(case: ModelCase) -> str:
    """Appends the padding token; only for a model that says which one it ignores."""
    model, size = case.fresh(), case.interface.input_size
    token = getattr(model, "padding_token", None)
    if token is None:
        raise NotApplicable("it names no padding_token; right padding is invisible to a causal model")
    if not isinstance(token, int) or not 0 <= token < size:
        raise Failed(f"padding_token = {token!r} is no token id below {size}")
    inputs = case.inputs()
    inputs = torch.where(inputs == token, (token + 1) % size, inputs)
    padded = torch.cat([inputs, torch.full((len(inputs), 5), token)], dim=1)
    if case.differ(case.run(model, padded)[:, :TIME], case.run(model, inputs)):
        raise Failed(f"it says that token {token} is padding, but appending it changes the outputs before it")
    return f"token {token}"
