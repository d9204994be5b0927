"""What is wrong with a model as a subject: a few forward passes, on what the task really asks, before any training.

A model that reads ahead, remembers the last call or mixes the examples of a batch runs without an error. It gives
numbers, and they mean something else than the tables say. `inspect` says so in sentences, for a run to keep with its
records; `harness check` looks more closely, and names the guilty part.
"""

import copy
from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from harness.batches import Interface
from harness.capabilities import Capabilities
from harness.contracts import SEES
from harness.isolation import random_state_restored, seed_everything
from harness.subject import Subject
from harness.vocabulary import SEEDS_ALIKE

EXAMPLES = 3
"""Examples of a batch, of the shortest and of the longest condition."""

FINE, COARSE = 1e-4, 0.05
"""Largest differences that pass for rounding, relative to the largest output: in float32; with weights or outputs in
fewer bits."""

MASKED = 1e4
"""Outputs of this size stand for minus infinity and set no scale, where others are smaller."""

WAKE = 0.1
"""Standard deviation of what replaces weights that all start at zero, since these would hide what they do."""

ALIKE = (
    f"its {SEEDS_ALIKE}: several seeds are one model, and intervals over seeds leave out what its initial weights do "
    "(does it seed a generator itself, for example with torch.manual_seed?)"
)
KEEPS_STATE = (
    "it keeps state between calls: the same input gives other outputs after another input, so that results depend on "
    "the order of probes and batches"
)
DRAWS = (
    "it draws random numbers in evaluation mode: every score contains noise, and chance passes for the effect of a cut "
    "or a swap"
)
MIXES = (
    "an example's outputs depend on the other examples of its batch: scores change with the batch, and examples are "
    "not independent (does it normalise over the batch, or take the batch's axis for time?)"
)
NOT_CAUSAL = (
    "it is not causal: changing the last {last}of {length} tokens changes outputs before them; scores of tasks that "
    "predict the next token mean nothing, since it can read the answer (a model that is to see all says so: "
    'sees = "all")'
)
PROBABILITIES = (
    "its outputs are probabilities, where logits are expected: its loss stays far above that of what it knows, and "
    "scores that compare outputs are on another scale (return the logarithm, or what is before a softmax)"
)
TOO_SHORT = (
    "it takes {most} tokens at most, and examples within the trained range have up to {longest}: what is longer is not "
    "measured, and training may fail"
)


def inspect(subject: Subject, twin: Callable[[], nn.Module] | None = None) -> list[str]:
    """What is wrong with a model before any training, one sentence each; empty if all is well.

    Neither the model nor any global random state is changed, and whatever the model raises is not raised here: what
    cannot be computed is not looked at. Costs a dozen forward passes of three examples and, with `twin`, one more
    construction.

    Args:
        subject: the model as constructed, with its task and evaluation data.
        twin: constructs the same model as for another seed; None for a model that comes with its weights, of which a
            copy that shares them is then looked at.
    """
    stated = _stated(subject)
    with random_state_restored(device=subject.device):
        samples = _samples(subject)
        other = _constructed(twin, samples[0]) if twin else None
        found = [*stated, *([ALIKE] if other is not None and _alike(subject.model, other) else [])]
        model = _woken(other) if other is not None else _copied(subject.model)
        if model is None:
            return found
        return found + _behaviour(model, samples, subject.task.interface)


def _stated(subject: Subject) -> list[str]:
    """What the model itself says, held against the task."""
    batches = [(condition, subject.batch(condition)) for condition in subject.task.conditions()]
    found = []
    most = Capabilities(subject.model).max_length
    longest = max((batch.tokens.shape[1] for condition, batch in batches if condition.inside), default=0)
    if most is not None and longest > most:
        found.append(TOO_SHORT.format(most=most, longest=longest))
    return found


def _behaviour(model: nn.Module, samples: list[Tensor], interface: Interface) -> list[str]:
    sees, found = Capabilities(model).sees, []
    if sees not in SEES:
        found.append(f"it says sees = {sees!r}, which is none of {', '.join(map(repr, SEES))}; 'past' is assumed")
    first = [_run(model, sample) for sample in samples]
    _run(model, changed(samples[-1], separator=interface.separator))
    again = [_run(model, sample) for sample in samples]
    ran = [(sample, before) for sample, before in zip(samples, first, strict=True) if before is not None]
    if not ran:
        return found
    allowed = rounding(model, ran[0][1])
    if any(_differ(after, before, allowed) for before, after in zip(first, again, strict=True) if before is not None):
        return [*found, KEEPS_STATE]  # what else is wrong cannot be told from this
    if _differ(_run(model, ran[0][0], seed=1), ran[0][1], allowed):
        found.append(DRAWS)
    if _mixes(model, *ran[-1], allowed, interface.separator):
        found.append(MIXES)
    if interface.output == "classes" and all(are_probabilities(before) for _, before in ran):
        found.append(PROBABILITIES)
    if sees != "all":
        for sample, before in ran:
            start = unseen_from(sees, interface, sample)
            kept = interface.separator
            if cut := reads_ahead(lambda tokens: _run(model, tokens), sample, before, allowed, start, kept):
                length = sample.shape[1]
                found.append(NOT_CAUSAL.format(last="" if cut == length - 1 else f"{length - cut} ", length=length))
                break
    return found


def unseen_from(sees: str, interface: Interface, tokens: Tensor) -> int:
    """The first position whose token outputs before it must not see, in any of the sequences: the second one, or that
    after the separator for a model that sees a whole source."""
    return max(1, int(interface.target_starts(tokens).max())) if sees == "source" else 1


def reads_ahead(
    run: Callable[[Tensor], Tensor | None],
    tokens: Tensor,
    before: Tensor,
    allowed: float,
    start: int = 1,
    separator: int | None = None,
) -> int:
    """A position from which on other tokens change outputs before it: the last one, or else the middle one; 0 if
    neither does.

    Args:
        run: the model's outputs, or None where it fails.
        tokens: an input, `batch time ...`.
        before: its outputs.
        allowed: the difference that passes for rounding.
        start: the first such position that counts.
        separator: a token that stays what it is.
    """
    length, scale = tokens.shape[1], magnitude(before)
    for cut in (length - 1, (start - 1 + length) // 2):
        after = run(changed(tokens, times=slice(cut, None), separator=separator)) if cut >= start else None
        if after is not None and difference(after[:, :cut], before[:, :cut], scale) > allowed:
            return cut
    return 0


def _mixes(model: nn.Module, sample: Tensor, before: Tensor, allowed: float, separator: int | None) -> bool:
    """Other first and other last examples, in a batch of the same shape: rounding, too, is then the same."""
    scale = magnitude(before)
    for rows, kept in ((slice(0, 1), slice(1, None)), (slice(-1, None), slice(0, -1))):
        after = _run(model, changed(sample, rows, separator=separator))
        if after is not None and difference(after[kept], before[kept], scale) > allowed:
            return True
    return False


def _differ(after: Tensor | None, before: Tensor, allowed: float) -> bool:
    return after is None or after.shape != before.shape or difference(after, before) > allowed


def changed(
    tokens: Shaped[Tensor, "batch time *width"],
    rows: slice = slice(None),
    times: slice = slice(None),
    *,
    separator: int | None = None,
) -> Shaped[Tensor, "batch time *width"]:
    """The same input with other tokens, of those that occur in it, in these rows at these times; or other vectors. A
    separator stays where it is, and comes nowhere else."""
    others = tokens.clone()
    if tokens.is_floating_point():
        others[rows, times] += max(1.0, tokens.abs().max().item())
    else:
        known, given = tokens.unique(), tokens[rows, times].contiguous()
        if separator is not None:
            known = known[known != separator]
        found = known[(torch.searchsorted(known, given) + 1) % len(known)]
        others[rows, times] = found if separator is None else torch.where(given == separator, given, found)
    return others


def difference(a: Tensor, b: Tensor, scale: float | None = None) -> float:
    """The largest difference, relative to the magnitude of `b` (or to `scale`), and to the output itself where that is
    larger, as one that stands for minus infinity is. Infinite where only one of them is finite."""
    if not a.numel():
        return 0.0
    size, scale = b.detach().abs(), magnitude(b) if scale is None else scale
    apart = (a.detach() - b.detach()).abs() / size.clamp(min=max(scale, torch.finfo(size.dtype).tiny))
    largest: float = apart.where(a.detach() != b.detach(), 0.0).max().item()
    return largest if largest == largest else float("inf")


def magnitude(outputs: Tensor) -> float:
    """The largest output that does not stand for minus infinity."""
    size = outputs.detach().abs()
    usual = size[size < MASKED]
    return (usual if usual.numel() else size).max().item()


def rounding(model: nn.Module, outputs: Tensor) -> float:
    """What passes for rounding; see `FINE`."""
    kinds = {outputs.dtype, *(parameter.dtype for parameter in model.parameters())}
    return COARSE if any(kind.is_floating_point and torch.finfo(kind).bits < 32 for kind in kinds) else FINE


def are_probabilities(outputs: Float[Tensor, "batch time out"]) -> bool:
    """Whether every row is a distribution: between 0 and 1, with the sum 1."""
    rows = outputs.float()
    sums_to_one = ((rows.sum(-1) - 1).abs() < 1e-2).all()
    return rows.shape[-1] > 1 and bool((rows >= 0).all() and sums_to_one)


def _samples(subject: Subject) -> list[Tensor]:
    """A few examples of the shortest and of the longest condition; of one, if all are of one length."""
    tokens = [subject.batch(condition).tokens for condition in subject.task.conditions()]
    tokens.sort(key=lambda each: each.shape[1])
    ends = tokens[:1] if tokens[0].shape[1] == tokens[-1].shape[1] else [tokens[0], tokens[-1]]
    return [each[: max(2, min(EXAMPLES, subject.chunk_tokens // max(1, each.shape[1])))] for each in ends]


def _run(model: nn.Module, tokens: Tensor, seed: int = 0) -> Tensor | None:
    """The outputs; None where it fails, or gives what cannot be compared. Seeds the global random states."""
    seed_everything("inspection", seed)
    with torch.no_grad():
        try:
            outputs = model(tokens.clone())  # which a model may write into
        except (Exception, SystemExit):
            return None
    if not isinstance(outputs, Tensor) or outputs.ndim != 3 or outputs.shape[:2] != tokens.shape[:2]:
        return None
    return outputs.clone() if outputs.is_floating_point() and torch.isfinite(outputs).all() else None


def _constructed(twin: Callable[[], nn.Module], sample: Tensor) -> nn.Module | None:
    try:
        model = twin()
        model.to(sample.device)
        model.eval()
    except (Exception, SystemExit):
        return None
    if any(is_lazy(parameter) for parameter in model.parameters()):
        _run(model, sample)
        if any(is_lazy(parameter) for parameter in model.parameters()):
            return None
    return model


def _alike(one: nn.Module, other: nn.Module) -> bool:
    """Whether two seeds gave one model, although it has weights that are no constants."""
    if any(is_lazy(parameter) for parameter in one.parameters()):
        return False
    first, second = ({**dict(each.named_parameters()), **dict(each.named_buffers())} for each in (one, other))
    drawn = any(bool((each != each.flatten()[:1]).any()) for each in one.parameters())
    return drawn and first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@torch.no_grad()
def _woken(model: nn.Module) -> nn.Module:
    """The same model with random numbers for weights that start at zero: training would move them."""
    for parameter in model.parameters():
        if parameter.requires_grad and not parameter.any():
            parameter.normal_(std=WAKE)
    return model


def _copied(model: nn.Module) -> nn.Module | None:
    """A copy with the same parameters and its own buffers and attributes; None where it cannot be copied."""
    try:
        own = copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})
        own.eval()
    except Exception:
        return None
    return own
