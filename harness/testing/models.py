"""What every model should do: the checks of its behaviour, and the list of all checks of a model."""

import torch
from torch import Tensor, nn

from harness.contracts import SEES, Interface, Task, seeded
from harness.preflight import are_probabilities, changed, magnitude, reads_ahead
from harness.registry import describe, place_of_error
from harness.testing.checks import Check, Checker, Failed, NotApplicable, Report
from harness.testing.model_case import TIME, ModelCase
from harness.testing.model_parts import PARTS
from harness.testing.places import Part, guilty_part, place
from harness.testing.plugins import ADVICE, ARGUMENTS, Plugin, as_target


def check_model(model: Plugin, *, interface: Interface | None = None, task: Task | None = None) -> Report:
    """Check a model: a registered name with or without arguments, a file (`./gru.py:GRU`) or a class.

    Args:
        model: what to check.
        interface: what to build it for, if a small vocabulary (or that of its own tokenizer) will not do.
        task: what it is for: its interface, and its lengths beside the usual ones.
    """
    return model_checker(model, interface, task).report()


def model_checker(model: Plugin, interface: Interface | None = None, task: Task | None = None) -> Checker:
    """The checks of a model, ready to run."""
    target, request = as_target("model", model)
    lengths: tuple[int, ...] = ()
    if task is not None:
        interface = interface or task.interface
        batches = (task.evaluate(each, 2, seeded("test", 0, str(each))) for each in task.conditions())
        lengths = tuple(batch.tokens.shape[1] for batch in batches)
    return Checker("model", str(request), MODEL_CHECKS, ModelCase(target, request, interface, lengths))


def shape(case: ModelCase) -> str:
    """Also in training mode, which may take another path."""
    inputs = case.inputs()
    expected = (*inputs.shape[:2], case.interface.output_size)
    for mode in (False, True):
        model = case.build()
        model.train(mode)
        with torch.no_grad():
            outputs = model(inputs)
        when = "training" if mode else "evaluation"
        if not isinstance(outputs, Tensor):
            raise Failed(
                f"in {when} mode it returned a {type(outputs).__name__}; return the logits alone",
                place(type(model).forward),
            )
        if outputs.shape != expected:
            raise Failed(
                f"in {when} mode it returned {tuple(outputs.shape)} where (batch, time, outputs) = {expected} is "
                "expected",
                place(type(model).forward),
            )
        if not outputs.is_floating_point():
            raise Failed(f"it returned {outputs.dtype}; logits are real numbers", place(type(model).forward))
        if not torch.isfinite(outputs).all():
            raise Failed(f"in {when} mode its outputs are not finite before any training", place(type(model).forward))
    return f"{expected}, {outputs.dtype}"


def input_untouched(case: ModelCase) -> None:
    """Compares the tokens before and after."""
    inputs = case.inputs()
    kept = inputs.clone()
    model = case.build()
    case.run(model, inputs)
    if not torch.equal(inputs, kept):
        raise Failed("it wrote into the tokens it was given", place(type(model).forward))


def logits(case: ModelCase) -> None:
    """Whatever the input, probabilities are between 0 and 1 and sum to 1."""
    model = case.fresh()
    if case.interface.output != "classes" or case.interface.output_size < 2:
        raise NotApplicable("it predicts no classes")
    if are_probabilities(case.run(model, case.inputs())):
        raise Failed(
            "its outputs are probabilities: each row sums to 1; return logits (or log-probabilities)",
            place(type(model).forward),
        )


def deterministic(case: ModelCase) -> None:
    """Two models with the same weights, each on its first call, with different global random states."""
    inputs = case.inputs()
    model, twin = case.fresh(), case.fresh()
    if not case.differ(case.run(model, inputs, seed=1), case.run(twin, inputs, seed=2)):
        return
    probe = case.fresh()
    part = guilty_part(probe, lambda: case.run(probe, inputs, 1), lambda: case.run(probe, inputs, 2), _unequal)
    raise Failed(f"it draws random numbers in evaluation mode, in {part.words}", part.where)


def stateless(case: ModelCase) -> None:
    """The same input before and after another one, of another size."""
    inputs, others = case.inputs(), case.inputs(batch=2, time=TIME - 4, seed=1)
    model = case.fresh()
    before = case.run(model, inputs)
    registered = {name: value.clone() for name, value in model.state_dict().items()}
    try:
        between = case.run(model, others)
        after = case.run(model, inputs)
    except Exception as error:
        raise Failed(
            f"it keeps state between calls: a second call, with a batch of another size, raised {describe(error)}",
            place_of_error(error),
        ) from None
    moved = [name for name, value in model.state_dict().items() if _unequal(value, registered[name])]
    if case.differ(before, after) or case.differ(between, case.run(case.fresh(), others)):
        again = case.fresh()
        part = guilty_part(again, lambda: case.run(again, inputs), lambda: case.run(again, inputs), _unequal)
        kept = f" (it changed {', '.join(moved)})" if moved else ""
        raise Failed(
            f"it keeps state between calls: the same input gives other outputs later, from {part.words} on{kept}",
            part.where,
        )
    if moved:
        raise Failed(f"a forward pass in evaluation mode changes {', '.join(moved)}", place(type(model).forward))


def batch_invariant(case: ModelCase) -> None:
    """Each row alone against the row in its batch."""
    inputs = case.inputs()
    model = case.fresh()
    together = case.run(model, inputs)
    for row in range(len(inputs)):
        alone = case.run(model, inputs[row : row + 1])
        if case.differ(together[row : row + 1], alone, magnitude(together)):
            part = _mixing_part(case, inputs, row)
            raise Failed(
                f"an example's outputs depend on the other examples of its batch (batch statistics?), in {part.words}",
                part.where,
            )


def _mixing_part(case: ModelCase, inputs: Tensor, row: int) -> Part:
    def differs(a: Tensor, b: Tensor) -> bool:
        comparable = a.ndim == b.ndim and len(a) == len(inputs) and len(b) == 1 and a.is_floating_point()
        return comparable and a[row].shape == b[0].shape and case.differ(a[row], b[0])

    model, alone = case.fresh(), inputs[row : row + 1]
    return guilty_part(model, lambda: case.run(model, inputs), lambda: case.run(model, alone), differs)


def causal(case: ModelCase) -> str:
    """Changes one token at a time, and looks at all outputs before it; then the ends of longer sequences."""
    inputs, model = case.inputs(), case.fresh()
    _sees_the_past_only(model)
    before = case.run(model, inputs)
    scale = magnitude(before)
    ahead, example = 0, (0, 0)
    for position in range(1, TIME):
        after = case.run(model, changed(inputs, times=slice(position, position + 1)))
        for earlier in range(position):
            if case.differ(after[:, earlier], before[:, earlier], scale):
                if position - earlier > ahead:
                    ahead, example = position - earlier, (position, earlier)
                break
    if ahead:
        position, earlier = example
        part = _part_that_reads_ahead(case, inputs, position, position + 1)
        reach = "1 token ahead" if ahead == 1 else f"{ahead} tokens ahead"
        reach = "the whole sequence to its end" if ahead == TIME - 1 else reach
        raise Failed(
            f"it sees {reach}, in {part.words}: changing token {position} changes the output at position {earlier}",
            part.where,
        )
    tried = [TIME]
    for tokens, outputs in case.longer(model):
        if cut := reads_ahead(lambda given: case.run(model, given), tokens, outputs, case.tolerance):
            part = _part_that_reads_ahead(case, tokens, cut, None)
            raise Failed(
                f"it sees ahead in longer sequences, in {part.words}: changing the tokens from {cut} on, of "
                f"{tokens.shape[1]}, changes outputs before them, but not at {' or '.join(map(str, tried))} tokens",
                part.where,
            )
        tried.append(tokens.shape[1])
    return f"exact to {case.tolerance:g} of the largest output, at {', '.join(map(str, tried))} tokens"


def _sees_the_past_only(model: nn.Module) -> None:
    sees = getattr(model, "sees", "past")
    if sees not in SEES:
        raise Failed(f"sees = {sees!r}; it is one of {', '.join(map(repr, SEES))}", place(type(model)))
    if sees == "all":
        raise NotApplicable('it says sees = "all": its outputs may depend on every token')


def _part_that_reads_ahead(case: ModelCase, inputs: Tensor, start: int, end: int | None) -> Part:
    length = inputs.shape[1]

    def differs(a: Tensor, b: Tensor) -> bool:
        axis = next((i for i in (1, a.ndim - 1, 0) if a.shape[i] == length), None)
        if a.shape != b.shape or axis is None or not (a.is_floating_point() or a.is_complex()):
            return False
        return case.differ(a.narrow(axis, 0, start), b.narrow(axis, 0, start))

    model, others = case.fresh(), changed(inputs, times=slice(start, end))
    return guilty_part(model, lambda: case.run(model, inputs), lambda: case.run(model, others), differs)


def prefixes(case: ModelCase) -> str:
    """Every prefix of a short sequence, and some of the longest, alone against the same positions of the whole."""
    model = case.fresh()
    _sees_the_past_only(model)
    short = case.inputs()
    longer = list(case.longer(model))
    wholes = [(short, case.run(model, short), list(range(1, TIME)))]
    if longer:
        inputs, whole = longer[-1]
        wholes.append((inputs, whole, [TIME, *(each.shape[1] for each, _ in longer[:-1]), inputs.shape[1] - 1]))
    for inputs, whole, starts in wholes:
        for length in starts:
            part = case.run(model, inputs[:, :length])
            if case.differ(part, whole[:, :length], magnitude(whole)):
                if case.chaotic(inputs):
                    raise NotApplicable(f"over {inputs.shape[1]} tokens rounding grows until nothing can be compared")
                raise Failed(
                    f"the outputs for the first {length} of {inputs.shape[1]} tokens are others than those for these "
                    f"{length} alone: they depend on the length of the sequence",
                    place(type(model).forward),
                )
    return f"of {' and '.join(str(inputs.shape[1]) for inputs, _, _ in wholes)} tokens"


def lengths(case: ModelCase) -> str:
    """Shorter and longer than anything seen, up to the limit that the model states."""
    model = case.build()
    limit = getattr(model, "max_length", None)
    if limit is not None and not isinstance(limit, int):
        raise Failed(f"max_length = {limit!r}; it is a number of tokens, or None for no limit", place(type(model)))
    wanted = [length for length in (1, 2, TIME, 4 * TIME + 1, 257) if limit is None or length <= limit]
    if limit is not None and limit <= 1024:
        wanted.append(limit)
    for length in wanted:
        try:
            outputs = case.run(case.build(), case.inputs(batch=2, time=length))
        except Exception as error:
            says = "it states no max_length" if limit is None else f"it states max_length = {limit}"
            raise Failed(f"{says}, but {length} tokens raise {describe(error)}", place_of_error(error)) from None
        if outputs.shape[1] != length or not torch.isfinite(outputs).all():
            raise Failed(
                f"{length} tokens give {outputs.shape[1]} positions, or outputs that are not finite",
                place(type(model).forward),
            )
    tried = ", ".join(map(str, sorted(set(wanted))))
    return f"{tried} tokens; " + ("no limit" if limit is None else f"limit {limit}")


def _unequal(a: Tensor, b: Tensor) -> bool:
    return a.shape != b.shape or not torch.equal(a, b)


SETTLED = ("deterministic", "stateless")

MODEL_CHECKS: tuple[Check, ...] = (
    ARGUMENTS,
    ADVICE,
    Check(
        "shape",
        asks="tokens (batch, time) give finite logits (batch, time, outputs)",
        means="nothing can be trained or measured",
        fix="return one tensor with a row of logits for every input position",
        run=shape,
    ),
    Check(
        "input_untouched",
        asks="a forward pass does not write into its input",
        means="the task's targets and all later probes would see other data than the model was given",
        fix="replace in-place operations on the tokens (`tokens[...] = `, `add_`) by new tensors",
        run=input_untouched,
        after=("shape",),
    ),
    Check(
        "logits",
        asks="its outputs for classes are logits, not probabilities",
        means="the loss applies a softmax to probabilities: it stays far above that of what the model knows",
        fix="return what goes into the softmax; log_softmax will do as well",
        run=logits,
        after=("input_untouched",),
    ),
    Check(
        "deterministic",
        asks="in evaluation mode the same input gives the same outputs",
        means="every measurement contains noise that no seed controls; chance passes for the effect of a cut or a swap",
        fix="draw random numbers only `if self.training`: nn.Dropout does, F.dropout(x, p, self.training) does if told",
        run=deterministic,
        after=("input_untouched",),
    ),
    Check(
        "stateless",
        asks="a call leaves nothing behind that changes the next one",
        means="results depend on the order of probes and batches; nothing is comparable or repeatable",
        fix="start every forward pass from the initial state; keep no hidden state in `self`",
        run=stateless,
        after=("deterministic",),
    ),
    Check(
        "batch_invariant",
        asks="an example's outputs do not depend on the rest of its batch",
        means="scores depend on the batch size, and examples are not independent: every interval is wrong",
        fix="normalise over features (nn.LayerNorm, nn.RMSNorm) rather than over the batch",
        run=batch_invariant,
        after=SETTLED,
    ),
    Check(
        "causal",
        asks="no output changes when a later token changes, in short and in longer sequences (unless it says "
        'sees = "all")',
        means="where the next token is to be predicted the model can read the answer: its scores mean nothing",
        fix="mask the future (is_causal=True), shift by the right amount, pad convolutions on the left only, read in "
        "one direction",
        run=causal,
        after=("batch_invariant",),
    ),
    Check(
        "prefixes",
        asks="one pass over a sequence equals passes over its prefixes",
        means="scores at a position change with what comes after it in the batch; results by length are not comparable",
        fix="let nothing depend on `tokens.shape[1]`: count positions from the start, normalise over features",
        run=prefixes,
        after=("causal",),
    ),
    Check(
        "lengths",
        asks="it runs at other lengths than it was trained on, or states its limit",
        means="extrapolation cannot be measured: a crash is not told from a limit",
        fix="set `self.max_length` to the longest sequence it takes (None: no limit)",
        run=lengths,
        after=("input_untouched",),
    ),
    *PARTS,
)
"""All checks of a model, in the order of the report."""
