"""Attention with capped scores (Gemma 2), which transformers computes by hand, through PyTorch's own function."""

import math
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

NAME = "harness_capped"


def attention_for(config: Any) -> str | None:
    """The implementation to ask transformers for; None for the one it would choose."""
    if getattr(config, "attn_logit_softcapping", None) is None:
        return None
    _register()
    return NAME


@cache
def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, capped_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def capped_attention(
    module: nn.Module,
    query: Float[Tensor, "batch head time d_head"],
    key: Float[Tensor, "batch group time d_head"],
    value: Float[Tensor, "batch group time d_head"],
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[Float[Tensor, "batch time head d_head"], None]:
    """Softmax of `softcap * tanh(scores / softcap)`: the capped scores are handed over as the bias of scores of 0."""
    shared = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if attention_mask is None:
        attention_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attention_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attention_mask, -math.inf)
    else:
        scores = scores + attention_mask
    mixed = F.scaled_dot_product_attention(
        torch.zeros_like(query), torch.zeros_like(key), value, attn_mask=scores, dropout_p=dropout
    )
    return mixed.transpose(1, 2).contiguous(), None
