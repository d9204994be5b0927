"""The gradient of any output with respect to the input vectors of any model."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from harness.batches import Batch
from harness.contracts import Skip


class InputGradients:
    """One forward pass of a model, to be differentiated with respect to its input vectors in any number of directions.

    The input vectors are what the model looks up for its tokens, before anything else is done to them: in an
    `nn.Embedding`, by `F.embedding`, as `table[tokens]`, or in the module that its `get_input_embeddings()` returns. If
    it looks them up twice, both uses count. For tasks with vector input they are that input.

    The model is used as it is, in evaluation mode too; examples do not mix. Gradients of this kind are also called
    saliency (Simonyan et al., 2014; for words, Li et al., 2016).

    Args:
        model: the model, from tokens to `batch time out`.
        batch: its input.
        at: the position of each example whose outputs are differentiated; all positions if not given.

    Attributes:
        outputs: all of the model's outputs, without their graph.
        smallest: a size below this may have become 0 in the model's arithmetic.

    Raises:
        Skip: the input vectors cannot be found, or the outputs carry no gradient.
    """

    outputs: Float[Tensor, "batch time out"]
    smallest: float

    def __init__(self, model: nn.Module, batch: Batch, at: Int[Tensor, " batch"] | None = None) -> None:
        # cuDNN's recurrent kernels refuse a backward pass in evaluation mode; the plain kernels do not
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            outputs, self._leaf = _on_vectors(model, batch.tokens)
            if not outputs.requires_grad:
                raise Skip("the model's outputs carry no gradient: it computes under torch.no_grad(), or detaches them")
            self._chosen = outputs if at is None else outputs[torch.arange(len(at), device=at.device), at]
        self.outputs = outputs.detach()
        used = {outputs.dtype, self._leaf.dtype, *(parameter.dtype for parameter in model.parameters())}
        self._scales = scales(used)
        self.smallest = max(_narrowest(used).tiny / self._scales[0], torch.finfo(torch.float64).tiny)

    def along(self, directions: Float[Tensor, "batch *time out"]) -> Float[Tensor, "batch time width"]:
        """Gradient of `(outputs * directions).sum()` with respect to each position's input vector, in float64.

        One backward pass, taken at a large power of two of its size and divided in float64: what a recurrent net loses
        over a hundred steps does not vanish in float32's smallest numbers. Where that overflows it is repeated with
        smaller ones, so that what grows over a hundred steps is kept too.

        Args:
            directions: what to differentiate, a weight for every output at all positions (`batch time out`), or at
                those in `at` (`batch out`).

        Returns:
            For every position, in units of the outputs (nats, for logits) per unit of the input vectors. 0 where the
            outputs do not depend on it, NaN or infinite where the model's arithmetic is.
        """
        weights = directions.to(self._chosen.dtype)
        gradient = self._backward(weights, self._scales[0])
        for scale in self._scales[1:]:
            lost = ~gradient.isfinite()
            if not lost.any():
                break
            gradient = torch.where(lost, self._backward(weights, scale), gradient)
        return gradient

    def _backward(self, weights: Tensor, scale: float) -> Float[Tensor, "batch time width"]:
        with torch.enable_grad():
            # as a sum, and not by `grad_outputs`, for which torch imports sympy (a second)
            total = (self._chosen * (weights * scale)).sum()
        (gradient,) = torch.autograd.grad(total, self._leaf, retain_graph=True, materialize_grads=True)
        return gradient.double() / scale


def scales(used: Iterable[torch.dtype]) -> list[float]:
    """Multiples of a number at which to differentiate it, from large to small: at the first, what is small does not
    vanish; where that overflows, the next will do. They are powers of two, which cost no precision.

    Args:
        used: the precisions that it is computed in.
    """
    exponent = math.frexp(_narrowest(used).max)[1]  # 128 for float32 and bfloat16, 16 for float16
    return [2.0 ** (exponent * quarters // 4) for quarters in (3, 1, -1, -3)]


def _narrowest(used: Iterable[torch.dtype]) -> torch.finfo:
    return min((torch.finfo(dtype) for dtype in used if dtype.is_floating_point), key=lambda info: info.max)


def input_gradients(
    model: nn.Module, batch: Batch, directions: Float[Tensor, "batch time out"]
) -> Float[Tensor, "batch time width"]:
    """Gradient of `(model(tokens) * directions).sum()` with respect to each position's input vector, in float64.

    `InputGradients` says what the input vectors are, and takes many directions after one forward pass.

    Args:
        model: the model, from tokens to `batch time out`.
        batch: its input.
        directions: a weight for every output at every position.

    Raises:
        Skip: the input vectors cannot be found, or the outputs carry no gradient.
    """
    return InputGradients(model, batch).along(directions)


def _on_vectors(model: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The model's outputs, and a leaf of zeros (`batch time width`) that was added to its input vectors."""
    if tokens.is_floating_point():
        leaf = torch.zeros_like(tokens, requires_grad=True)
        return model(tokens + leaf), leaf
    vectors = _Vectors(tokens)
    if min(tokens.shape) > 1 and torch.equal(tokens.flatten(), tokens.T.flatten()):
        # read forwards and across it is the same: another batch tells which of the two the model does
        telling = _Vectors(_telling(tokens))
        with torch.no_grad(), _watched(model, telling):
            model(telling.tokens)
        vectors.time_major = telling.time_major
    with _watched(model, vectors) as reader:
        outputs: Tensor = model(tokens)
    return outputs, vectors.found(reader)


def _telling(tokens: Int[Tensor, "batch time"]) -> Int[Tensor, "two time"]:
    """Two sequences of one token each, which differ."""
    low, high = (int(token) for token in tokens.aminmax())
    if low == high:
        high = 0 if low else 1
    return torch.tensor([[low], [high]], device=tokens.device, dtype=tokens.dtype).repeat(1, tokens.shape[1])


class _Vectors:
    """Adds one leaf of zeros to the vectors of the tokens, wherever a model makes them; its gradient is theirs.

    Added and not put in their place, so that the model may change them in place, and make them twice.
    """

    def __init__(self, tokens: Int[Tensor, "batch time"]) -> None:
        self.tokens = tokens
        self.leaf: Float[Tensor, "batch time width"] | None = None
        self.time_major: bool | None = None
        self.tables: list[Tensor] = []

    def found(self, reader: str) -> Float[Tensor, "batch time width"]:
        """The leaf, once the model has run.

        Raises:
            Skip: the vectors were not made where they were looked for, or in two places.
        """
        advice = "a method get_input_embeddings() that returns the module which turns all tokens into vectors at once"
        if self.leaf is None:
            raise Skip(f"the model's input vectors were not found: {reader}; give the model {advice}")
        count = len({(table.data_ptr(), table.shape) for table in self.tables})
        if count > 1:
            raise Skip(f"{count} tables of vectors are read with the tokens, where one is expected; give it {advice}")
        return self.leaf

    def plus_leaf(self, indices: object, vectors: object) -> Tensor | None:
        """What a look-up gave, with the leaf added; None if it is not the look-up of all tokens, one vector for each.

        Tokens are recognised by their content, in any shape: as they are, or with time before batch.
        """
        count = self.tokens.numel()
        if not (
            isinstance(indices, Tensor)
            and isinstance(vectors, Tensor)
            and indices.dtype in (torch.int64, torch.int32)
            and vectors.is_floating_point()
            and indices.numel() == vectors.shape[:-1].numel() == count
            and vectors.ndim > 1
        ):
            return None
        flat = indices.flatten().to(self.tokens)
        forwards, across = torch.equal(flat, self.tokens.flatten()), torch.equal(flat, self.tokens.T.flatten())
        if not forwards and not across:
            return None
        if forwards != across:
            self.time_major = across
        with torch.enable_grad():  # also where the model looks up without gradients
            if self.leaf is None:
                leaf = torch.zeros(*self.tokens.shape, vectors.shape[-1], dtype=vectors.dtype, device=vectors.device)
                self.leaf = leaf.requires_grad_()
            ordered = self.leaf.transpose(0, 1) if self.time_major else self.leaf
            return vectors + ordered.reshape(vectors.shape)


@contextmanager
def _watched(model: nn.Module, vectors: _Vectors) -> Iterator[str]:
    """While active, the leaf is added where the model makes its input vectors. Gives what to say if it does not."""
    module = _named_by(model)
    if module is None:
        with _LookUps(vectors):
            yield "it looks all tokens up at once neither by nn.Embedding or F.embedding nor as table[tokens]"
        return

    def add(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: object) -> Tensor | None:
        for given in (*args, *kwargs.values()):
            one_hot = isinstance(given, Tensor) and given.is_floating_point() and given.ndim > 1
            changed = vectors.plus_leaf(given.argmax(-1) if one_hot else given, output)
            if changed is not None:
                return changed
        return None

    handle = module.register_forward_hook(add, with_kwargs=True)
    try:
        yield f"{type(module).__name__}, which get_input_embeddings() returned, is not called with all tokens at once"
    finally:
        handle.remove()


def _named_by(model: nn.Module) -> nn.Module | None:
    """What `model.get_input_embeddings()` returns, if the model has it.

    Raises:
        Skip: it is no module.
    """
    getter = getattr(model, "get_input_embeddings", None)
    named = getter() if callable(getter) else None
    if named is not None and not isinstance(named, nn.Module):
        raise Skip(
            f"get_input_embeddings() returned a {type(named).__name__}; it should return the module that turns tokens "
            "into vectors"
        )
    return named


_LOOK_UPS: dict[Any, Callable[..., tuple[Any, Any]]] = {
    F.embedding: lambda input, weight, *_, **__: (weight, input),
    F.embedding_bag: lambda input, weight, *_, **__: (weight, input),
    torch.embedding: lambda weight, indices, *_, **__: (weight, indices),
    torch.index_select: lambda input, dim, index, **_: (input, index),
    Tensor.index_select: lambda table, dim, index: (table, index),
    Tensor.__getitem__: lambda table, index: (table, index[0] if isinstance(index, tuple) and index else index),
}
"""Function to its table and its indices, given its arguments."""


class _LookUps(TorchFunctionMode):
    """Adds the leaf to every look-up of the tokens."""

    def __init__(self, vectors: _Vectors) -> None:
        super().__init__()
        self.vectors = vectors

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func not in _LOOK_UPS:
            return result
        table, indices = _LOOK_UPS[func](*args, **kwargs)
        changed = self.vectors.plus_leaf(indices, result) if table.ndim == 2 else None
        if changed is None:
            return result
        self.vectors.tables.append(table)
        return changed
