"""Checks of a model's outputs: what they are, and that nothing but the example's own input decides them."""

from typing import NoReturn

import torch
from torch import Tensor

from harness.errors import describe, place_of_error
from harness.preflight import are_probabilities, magnitude
from harness.testing.checks import Failed, NotApplicable, check
from harness.testing.models.case import TIME, ModelCase
from harness.testing.models.guilty import guilty_part
from harness.testing.untouched import same_values


@check(
    asks="tokens (batch, time) give finite logits (batch, time, outputs)",
    means="nothing can be trained or measured",
    fix="repair what it raises; return one tensor with a row of logits for every input position (a mixer in a "
    "backbone: one of the shape that it is given)",
)
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
            raise Failed(f"in {when} mode it returned a {type(outputs).__name__}; return the logits alone")
        if outputs.shape != expected:
            raise Failed(
                f"in {when} mode it returned {tuple(outputs.shape)} where (batch, time, outputs) = {expected} is "
                "expected"
            )
        if not outputs.is_floating_point():
            raise Failed(f"it returned {outputs.dtype}; logits are real numbers")
        if not torch.isfinite(outputs).all():
            raise Failed(f"in {when} mode its outputs are not finite before any training")
    return f"{expected}, {outputs.dtype}"


@check(
    asks="a forward pass does not write into its input",
    means="the task's targets and all later probes would see other data than the model was given",
    fix="replace in-place operations on the tokens (`tokens[...] = `, `add_`) by new tensors",
    after=("shape",),
)
def input_untouched(case: ModelCase) -> None:
    """Compares the tokens before and after."""
    inputs = case.inputs()
    kept = inputs.clone()
    case.run(case.build(), inputs)
    if not torch.equal(inputs, kept):
        raise Failed("it wrote into the tokens it was given")


@check(
    asks="if it learns in its own way (`fit`), it does so from batches, and its outputs are numbers afterwards",
    means="its training fails, and nothing is measured after it",
    fix="let `fit(self, stream)` go through an iterator of `harness.Batch`, and keep what it learns in parameters and "
    "buffers",
    after=("input_untouched",),
)
def fits(case: ModelCase) -> None:
    """A few batches of random data."""
    if not case.says.fits:
        raise NotApplicable("it is trained by gradient steps")
    if torch.isnan(case.run(case.trained(), case.inputs())).any():
        raise Failed("after `fit` its outputs are NaN")


@check(
    asks="its outputs for classes are logits, not probabilities",
    means="the loss applies a softmax to probabilities: it stays far above that of what the model knows",
    fix="return what goes into the softmax; log_softmax will do as well",
    after=("fits",),
)
def logits(case: ModelCase) -> None:
    """Whatever the input, probabilities are between 0 and 1 and sum to 1."""
    model = case.fresh()
    if case.interface.output != "classes" or case.interface.output_size < 2:
        raise NotApplicable("it predicts no classes")
    if are_probabilities(case.run(model, case.inputs())):
        raise Failed("its outputs are probabilities: each row sums to 1; return logits (or log-probabilities)")


@check(
    asks="in evaluation mode the same input gives the same outputs",
    means="every measurement contains noise that no seed controls; chance passes for the effect of a cut or a swap",
    fix="draw random numbers only `if self.training`: nn.Dropout does, F.dropout(x, p, self.training) does if told",
    after=("fits",),
)
def deterministic(case: ModelCase) -> None:
    """Two models with the same weights, each on its first call, with different global random states."""
    inputs = case.inputs()
    if case.differ(case.run(case.fresh(), inputs, seed=1), case.run(case.fresh(), inputs, seed=2)):
        part = guilty_part(case, inputs, inputs, _other_values, seeds=(1, 2))
        raise Failed(f"it draws random numbers in evaluation mode, in {part.words}", part.where)


@check(
    asks="a call leaves nothing behind that changes the next one",
    means="results depend on the order of probes and batches; nothing is comparable or repeatable",
    fix="start every forward pass from the initial state; keep no hidden state in `self`",
    after=("deterministic",),
)
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
    moved = [name for name, value in model.state_dict().items() if _other_values(value, registered[name])]
    if case.differ(before, after) or case.differ(between, case.run(case.fresh(), others)):
        part = guilty_part(case, inputs, inputs, _other_values)
        kept = f" (it changed {', '.join(moved)})" if moved else ""
        raise Failed(
            f"it keeps state between calls: the same input gives other outputs later, from {part.words} on{kept}",
            part.where,
        )
    if moved:
        raise Failed(f"a forward pass in evaluation mode changes {', '.join(moved)}")


def _other_values(a: Tensor, b: Tensor) -> bool:
    return not same_values(a, b)


@check(
    asks="an example's outputs do not depend on the rest of its batch",
    means="scores depend on the batch size, and examples are not independent: every interval is wrong",
    fix="normalise over features (nn.LayerNorm, nn.RMSNorm) rather than over the batch",
    after=("deterministic", "stateless"),
)
def batch_invariant(case: ModelCase) -> None:
    """Each row alone against the row in its batch."""
    inputs, model = case.inputs(), case.fresh()
    together = case.run(model, inputs)
    for row, alone in enumerate(inputs.split(1)):
        if case.differ(together[row : row + 1], case.run(model, alone), magnitude(together)):
            _fail_as_mixing(case, inputs, row)


def _fail_as_mixing(case: ModelCase, inputs: Tensor, row: int) -> NoReturn:
    def differs(a: Tensor, b: Tensor) -> bool:
        comparable = a.ndim == b.ndim and len(a) == len(inputs) and len(b) == 1 and a.is_floating_point()
        return comparable and a[row].shape == b[0].shape and case.differ(a[row], b[0])

    part = guilty_part(case, inputs, inputs[row : row + 1], differs)
    raise Failed(
        f"an example's outputs depend on the other examples of its batch (batch statistics?), in {part.words}",
        part.where,
    )
