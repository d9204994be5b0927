"""Back-propagation through time through at most so many steps, in any model that keeps its state in
`nn.RNNBase`, or offers it.

The sequence is computed in chunks of n steps. States go on from one chunk to the next without their history, so that
outputs are what they were and the gradient to an earlier chunk is exactly 0 (R. J. Williams and J. Peng, "An efficient
gradient-based algorithm for on-line training of recurrent network trajectories", Neural Computation 2, 1990).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from harness.batches import Batch
from harness.contracts import Skip
from harness.errors import PluginError, RequestError
from harness.gradients import InputGradients
from harness.offers import OffersState
from harness.recurrence import recurrent_modules, states_of
from harness.recurrence.nested import mapped

Hidden = Tensor | tuple[Tensor, ...] | None
"""Of all layers of an `nn.RNNBase` after a step; of an LSTM states and cells; None for zeros."""


class Truncated:
    """A model as it is trained with truncated back-propagation. Called like the model itself, which stays as it is.

    Wherever gradients are recorded, every `nn.RNN`, `nn.LSTM` and `nn.GRU` in it runs chunk by chunk, and every module
    that offers its state (`OffersState`) step by step.

    Args:
        model: any model.
        steps: the length of a chunk.
        batches: some of its input; the longest of them is tried out, in evaluation mode.

    Raises:
        PluginError: truncation has no meaning for the model: it has no such module, reads from both ends, packs its
            sequences, or gradient gets past the end of a chunk on another way, for example by attention.
    """

    def __init__(self, model: nn.Module, steps: int, batches: Sequence[Batch]) -> None:
        self.model = model
        self.steps = steps
        self.recurrent = [
            module for module in recurrent_modules(model).values() if not isinstance(module, nn.RNNCellBase)
        ]
        if not self.recurrent:
            raise self._refused(
                "it has no nn.RNN, nn.LSTM or nn.GRU, and offers no state, whose back-propagation could end early"
            )
        if any(getattr(module, "bidirectional", False) for module in self.recurrent):
            raise self._refused("it is bidirectional, and what reads from the end has no earlier chunk to start from")
        longest = max(batches, key=lambda batch: batch.tokens.shape[1])
        was_training = model.training
        model.eval()
        try:
            if any(isinstance(module, OffersState) for module in self.recurrent):
                self._agrees(longest)
            if model not in self.recurrent:  # where it is, there is nothing but the state from one step to the next
                self._try(longest)
        finally:
            model.train(was_training)

    def __call__(self, tokens: Tensor) -> Tensor:
        """The model's outputs (`batch time out`)."""
        with self.in_chunks():
            outputs: Tensor = self.model(tokens)
        return outputs

    def in_chunks(self) -> AbstractContextManager[None]:
        """While active, the model itself computes as it does in training: chunk by chunk."""
        return self._in_chunks(self.steps)

    def _agrees(self, batch: Batch) -> None:
        """Hold steps against one pass: training computes the one, and whoever measures the other."""
        try:
            states_of(self.model, batch.tokens)
        except RequestError as error:
            raise self._refused(str(error)) from error

    def _try(self, batch: Batch) -> None:
        """Look whether any gradient gets past the end of a chunk; in a sequence of one chunk, of a shorter one."""
        time = batch.tokens.shape[1]
        if time < 2:
            return
        steps = min(self.steps, time // 2)
        begins = (time - 1) // steps * steps
        last = torch.full((len(batch),), time - 1, device=batch.tokens.device)
        try:
            with self._in_chunks(steps):
                gradients = InputGradients(self.model, batch, last)
                width = gradients.outputs.shape[-1]  # all alike would miss what is the same in a sum, as in a softmax
                along = gradients.along(torch.linspace(1, 2, width, device=batch.tokens.device).expand(len(batch), -1))
        except Skip as skip:
            raise self._refused(f"whether it cuts all gradient cannot be seen: {skip}") from skip
        if before := along[:, :begins].abs().amax((0, 2)).nonzero().flatten().tolist():
            raise self._refused(
                f"gradient of output {time} gets to input {before[0] + 1}, past the end of a chunk at {begins}, by "
                "something other than nn.RNN, nn.LSTM, nn.GRU and a state that is offered (attention, a convolution, a "
                "state kept by hand)"
            )

    def _refused(self, why: str) -> PluginError:
        name = type(self.model).__name__
        return PluginError(f"truncate={self.steps} has no meaning for {name}: {why}; leave it out (truncate=none)")

    @contextmanager
    def _in_chunks(self, steps: int) -> Iterator[None]:
        """While active, the recurrent modules run chunk by chunk."""
        before = [vars(module).get("forward") for module in self.recurrent]
        for module in self.recurrent:
            run: Callable[..., Any] = self._chunk_by_chunk if isinstance(module, nn.RNNBase) else _step_by_step
            vars(module)["forward"] = partial(run, module, module.forward, steps)
        try:
            yield
        finally:
            for module, forward in zip(self.recurrent, before, strict=True):
                if forward is None:
                    del vars(module)["forward"]
                else:
                    vars(module)["forward"] = forward

    def _chunk_by_chunk(
        self,
        module: nn.RNNBase,
        whole: Callable[..., tuple[Tensor, Hidden]],
        steps: int,
        input: Tensor | PackedSequence,
        hx: Hidden = None,
    ) -> tuple[Tensor, Hidden]:
        """What `whole`, the module's own `forward`, gives for the whole input."""
        if not torch.is_grad_enabled():
            return whole(input, hx)
        if isinstance(input, PackedSequence):
            raise self._refused("it packs its sequences, which then have no steps in common")
        time = input.ndim - 2 if module.batch_first else 0
        outputs: list[Tensor] = []
        for chunk in input.split(steps, time):
            output, hx = whole(chunk, mapped(hx, Tensor.detach) if outputs else hx)
            outputs.append(output)
        return torch.cat(outputs, time), hx


def _step_by_step(module: Any, whole: Callable[..., Tensor], steps: int, inputs: Tensor) -> Tensor:
    """What `whole`, the `forward` of a module that offers its state, gives for the whole input."""
    if not torch.is_grad_enabled():
        return whole(inputs)
    state, outputs = module.initial_state(len(inputs)), []
    for index, x in enumerate(inputs.unbind(1)):
        output, state, _ = module.step(x, mapped(state, Tensor.detach) if index and index % steps == 0 else state)
        outputs.append(output)
    return torch.stack(outputs, 1)
