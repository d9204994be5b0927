"""Attention computed in the open in place of PyTorch's own, so that it can be observed and cut."""

import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FunctionType
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from harness.attention.seen import Seen, calling_module
from harness.errors import RequestError
from harness.offers import OffersAttention

Edges = Bool[Tensor, "#batch query key"]
Where = Bool[Tensor, "#batch layer head"]

MASKED = 5000.0
"""A key whose score is this far below the largest of its row is masked, and no cut of the others brings it back. Masks
add -10,000 (in half precision) to -3e38; scores of trained models lie within hundreds."""


@contextmanager
def observe() -> Iterator[Seen]:
    """Record the pattern of every attention call of this thread (none: the model has no attention to see)."""
    seen = Seen()
    with _mode() as mode:
        mode.observers.append(seen)
        try:
            yield seen
        finally:
            mode.observers.remove(seen)


@contextmanager
def cut(edges: Edges, where: Where | None = None) -> Iterator[None]:
    """Remove edges from attention before the softmax; a query that loses all its keys gets 0. (Also known as attention
    knockout: Geva et al., 2023.)

    Keys that a mask of finite numbers hides (-1e9, `finfo.min`) count as lost: a query that has only these left would
    otherwise attend to them, and so to the future.

    Every example has edges of its own, so many cuts run in one forward pass: repeat the examples. A batch of
    1 in `edges` or `where` stands for every example.

    Args:
        edges: True where a query may not attend to a key.
        where: True for the layers and heads of each example in which that holds (all, if not given). A
            context with `where` is for one forward pass, because layers are counted from its beginning.

    Raises:
        RequestError: if the model makes no attention call, if `where` does not fit its layers and heads, or
            if a layer to be cut does not attend from every position of the sequence to every position.
    """
    active = _Cut(edges, where)
    with _mode() as mode:
        mode.cuts.append(active)
        try:
            yield
        finally:
            mode.cuts.remove(active)
    active.finish()


def attention_shape(model: nn.Module, tokens: Tensor) -> tuple[int, ...]:
    """The number of heads of each layer that can be observed; `()` if the model makes no attention call.

    Args:
        model: any model, in evaluation mode.
        tokens: its input, `batch time` or `batch time width`; one short sequence is enough.
    """
    with torch.no_grad(), observe() as seen:
        model(tokens)
    return tuple(pattern.shape[1] for pattern in seen.patterns)


def look(model: nn.Module, tokens: Tensor) -> Seen:
    """The patterns of one forward pass: as observed, if any can be read token by token; else as the model offers them
    itself, one for each layer; else whatever was observed.

    Args:
        model: any model, in evaluation mode.
        tokens: its input, `batch time` or `batch time width`.
    """
    with torch.no_grad(), observe() as seen:
        model(tokens)
    if isinstance(model, OffersAttention) and all(layer.misfit for layer in seen.layers(tokens)):
        with torch.no_grad():
            offered = list(model.attention_patterns(tokens))
        return Seen(offered, modules=[str(number) for number in range(len(offered))])
    return seen


def attention_patterns(model: nn.Module, tokens: Tensor) -> list[Float[Tensor, "..."]]:
    """The patterns that `look(model, tokens)` saw, one `batch head query key` per layer."""
    return look(model, tokens).patterns


def watched() -> bool:
    """Whether attention is being observed or cut in this thread: what a model that would compute only parts of its
    pattern asks, in order to show the whole of it."""
    return getattr(_thread, "mode", None) is not None


class _Cut:
    """An open cut; counts the calls it meets."""

    def __init__(self, edges: Edges, where: Where | None) -> None:
        self.edges = edges
        self.where = where
        self.calls = 0

    def apply(self, scores: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query key"]:
        layer, self.calls = self.calls, self.calls + 1
        removed = self.edges[:, None].to(scores.device)
        if self.where is not None:
            chosen = self._heads(self.where, layer, scores.shape[1])
            if not chosen.any():
                return scores
            removed = removed & chosen[:, :, None, None].to(scores.device)
        queries, keys = scores.shape[2:]
        if queries != keys or removed.shape[2:] != scores.shape[2:]:
            raise RequestError(
                f"layer {layer} attends from {queries} queries to {keys} keys, but the edges to cut are from "
                f"{removed.shape[2]} queries to {removed.shape[3]} keys. What is not time x time "
                "(cross-attention, a key/value cache, added positions) cannot be cut by token position: give "
                "the model the whole sequence at once, or leave this layer out with `where`"
            )
        if len(removed) not in (1, len(scores)):
            raise RequestError(f"the cut is for {len(removed)} examples, but layer {layer} has {len(scores)}")
        kept = scores.masked_fill(removed, -math.inf)
        nothing_left = kept.amax(-1, keepdim=True) < scores.amax(-1, keepdim=True) - MASKED
        return kept.masked_fill(nothing_left, -math.inf)

    @staticmethod
    def _heads(where: Where, layer: int, heads: int) -> Bool[Tensor, "#batch _"]:
        layers, known = where.shape[1:]
        if layer >= layers:
            raise RequestError(
                f"layer {layer} is beyond the {layers} layers of `where`: it needs every layer of the model, "
                "and is for one forward pass"
            )
        chosen = where[:, layer]
        if known < heads or chosen[:, heads:].any():
            raise RequestError(f"`where` chooses among {known} heads, but layer {layer} has {heads} heads")
        return chosen[:, :heads]

    def finish(self) -> None:
        if not self.calls:
            raise RequestError(
                "nothing was cut: the model made no call of scaled_dot_product_attention or "
                "multi_head_attention_forward"
            )
        if self.where is not None and self.calls != self.where.shape[1]:
            raise RequestError(f"`where` is for {self.where.shape[1]} layers, but the model has {self.calls}")


class _Mode(TorchFunctionMode):
    """Stands in for PyTorch's attention in one thread. Open contexts share it, so their order is immaterial.

    That it is on already keeps `nn.MultiheadAttention` and `nn.TransformerEncoder` off their C++ fast paths.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cuts: list[_Cut] = []
        self.observers: list[Seen] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _ATTENTION:
            return self.attend(*args, **(kwargs or {}))
        if func is F.multi_head_attention_forward:
            return self.multi_head(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """`scaled_dot_product_attention` as its documentation writes it out."""
        device, dtype = query.device, query.dtype
        autocast = torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)
        if autocast:
            dtype = torch.get_autocast_dtype(device.type)
        # Half precision is computed in float32, as PyTorch's own reference kernel does.
        wide = torch.promote_types(dtype, torch.float32)
        with torch.autocast(device.type, enabled=False) if autocast else nullcontext():
            query, key, value = (each.to(dtype).to(wide) for each in (query, key, value))
            if enable_gqa:
                key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
                value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
            scores = (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ key.mT
            if is_causal:
                earlier = torch.ones(scores.shape[-2:], dtype=torch.bool, device=device).tril()
                scores = scores.masked_fill(~earlier, -math.inf)
            if attn_mask is not None:
                if hasattr(attn_mask, "_materialize"):  # torch.nn.attention.bias.CausalBias holds no data
                    attn_mask = attn_mask._materialize(device)
                if attn_mask.dtype == torch.bool:
                    scores = scores.masked_fill(~attn_mask, -math.inf)
                else:
                    scores = scores + attn_mask.to(wide)
            # numpy's, since torch's own imports sympy for it (a second)
            batch = numpy.broadcast_shapes(scores.shape[:-2], value.shape[:-2])
            weights = self.weigh(scores.expand(*batch, *scores.shape[-2:]))
            if dropout_p > 0.0:
                weights = F.dropout(weights, dropout_p)
            return (weights @ value).to(dtype)

    def multi_head(self, *args: Any, **kwargs: Any) -> Any:
        """`multi_head_attention_forward`, in a copy that uses `attend`, or our softmax if it returns weights.

        A mode is off inside its own handler, and to replace names in `torch.nn.functional` would reach other
        threads.
        """
        heads: int = args[4]

        def softmax(scores: Tensor, dim: int) -> Tensor:
            return self.weigh(scores.unflatten(0, (-1, heads))).flatten(0, 1)

        original = F.multi_head_attention_forward
        scope = {
            **original.__globals__,
            "has_torch_function": lambda _: False,
            "scaled_dot_product_attention": self.attend,
            "softmax": softmax,
        }
        return FunctionType(original.__code__, scope, argdefs=original.__defaults__)(*args, **kwargs)

    def weigh(self, scores: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
        """Cut, softmax over the keys, record."""
        shape = scores.shape
        batch = shape[0] if len(shape) > 2 else 1
        scores = scores.reshape(batch, math.prod(shape[1:-2]), *shape[-2:])
        for each in self.cuts:
            scores = each.apply(scores)
        # Filled before and after: a softmax over nothing is NaN, in its value and in its gradient.
        empty = (scores == -math.inf).all(-1, keepdim=True)
        pattern = torch.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)
        module = calling_module() if self.observers else ""
        for observer in self.observers:
            observer.modules.append(module)
            observer.patterns.append(pattern.to(torch.promote_types(pattern.dtype, torch.float32)))
        return pattern.reshape(shape)


_ATTENTION = frozenset(
    {
        F.scaled_dot_product_attention,
        torch.ops.aten.scaled_dot_product_attention,
        torch.ops.aten.scaled_dot_product_attention.default,
    }
)
_thread = threading.local()


@contextmanager
def _mode() -> Iterator[_Mode]:
    """This thread's mode: the one that is on, or a new one."""
    if (current := getattr(_thread, "mode", None)) is not None:
        yield current
        return
    # A compiled model is run as it was written, so that it can be seen. Only Dynamo can have compiled one.
    eager = torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
    _thread.mode = _Mode()
    try:
        with eager, _thread.mode:
            yield _thread.mode
    finally:
        _thread.mode = None
