"""Attention in any model, without its help: seen, and cut, from outside.

Every model that calls `torch.nn.functional.scaled_dot_product_attention`, and every
`nn.MultiheadAttention` or `nn.TransformerEncoder`, can be looked into. While `observe` or `cut` is on, the
call is replaced by the same computation in the open (scores, masks, softmax, dropout, values); otherwise
the fused kernel runs untouched.

    with observe() as seen:
        model(tokens)
    first, *rest = seen.patterns  # one `batch head query key` per call
    names = [layer.name for layer in seen.layers(tokens)]  # "layer 1", or the path of the module that made the call

    with cut(edges_after(position, length)):
        logits = model(tokens)  # no later query can attend to `position`, in any layer or head

Contexts may be nested in any order: an observer sees the pattern that every open cut leaves. To `cut`, a layer
is the ordinal of an attention call since its context was entered, counted from 0.
"""

from harness.attention.edges import CutCheck, check_cut, edges_after, edges_at_query, select
from harness.attention.replaced import attention_patterns, attention_shape, cut, look, observe, watched
from harness.attention.seen import Layer, Seen

__all__ = [
    "CutCheck",
    "Layer",
    "Seen",
    "attention_patterns",
    "attention_shape",
    "check_cut",
    "cut",
    "edges_after",
    "edges_at_query",
    "look",
    "observe",
    "select",
    "watched",
]
