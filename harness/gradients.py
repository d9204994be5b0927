"""The gradient of any output with respect to the input embeddings of any model."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from harness.contracts import Batch, Skip


def input_embedding(model: nn.Module, tokens: Tensor) -> nn.Module:
    """The module that turns tokens into vectors: what `model.get_input_embeddings()` says, or else the one
    `nn.Embedding` that is given the tokens in a forward pass.

    Raises:
        Skip: there is none, or there are several.
    """
    if callable(getter := getattr(model, "get_input_embeddings", None)):
        found = getter()
        if isinstance(found, nn.Module):
            return found
    readers: list[nn.Module] = []

    def remember(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        read = inputs[0]
        if read.shape == tokens.shape and torch.equal(read, tokens) and module not in readers:
            readers.append(module)

    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    handles = [module.register_forward_pre_hook(remember) for module in embeddings]
    try:
        with torch.no_grad():
            model(tokens)
    finally:
        for handle in handles:
            handle.remove()
    if len(readers) != 1:
        raise Skip(
            f"{len(readers)} of the model's {len(embeddings)} nn.Embedding modules read the tokens, where exactly "
            "one is expected; give the model a method get_input_embeddings()"
        )
    return readers[0]


@contextmanager
def _embedded(module: nn.Module) -> Iterator[list[Tensor]]:
    """While active, the module's output is a leaf that collects gradient; the leaves are listed."""
    leaves: list[Tensor] = []

    def replace(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    handle = module.register_forward_hook(replace)
    try:
        yield leaves
    finally:
        handle.remove()


def input_gradients(
    model: nn.Module, batch: Batch, directions: Float[Tensor, "batch time out"], *, scale: float = 2.0**40
) -> Float[Tensor, "batch time width"]:
    """Gradient of `(model(tokens) * directions).sum()` with respect to each position's input vector, in float64.

    One backward pass; examples do not mix. It is taken at `scale` times its size and divided in float64, so that what a
    recurrent net loses over a hundred steps does not vanish in float32's smallest numbers.

    Args:
        model: used as it is, in evaluation mode too.
        batch: `tokens` (or, for tasks with vector input, the vectors themselves).
        directions: what to differentiate: a weight for every output.
        scale: a power of two.

    Raises:
        Skip: the tokens' embeddings cannot be found.
    """
    # cuDNN's recurrent kernels refuse a backward pass in evaluation mode; the plain kernels do not
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        if batch.tokens.is_floating_point():
            leaf = batch.tokens.detach().requires_grad_()
            outputs = model(leaf)
        else:
            with _embedded(input_embedding(model, batch.tokens)) as leaves:
                outputs = model(batch.tokens)
            (leaf,) = leaves
        if outputs.dtype == torch.float16:
            scale = 1.0  # the larger one is infinite there
        # as a sum, and not by `grad_outputs`, for which torch imports sympy (a second)
        (gradient,) = torch.autograd.grad((outputs * (directions * scale).to(outputs.dtype)).sum(), leaf)
    if gradient.shape[:2] != batch.tokens.shape[:2]:  # time-major models embed the transposed tokens
        gradient = gradient.transpose(0, 1)
    return gradient.double() / scale
