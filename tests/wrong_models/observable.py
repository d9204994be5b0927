"""Models that probes cannot look into, or see something else in than what the model does."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.testing.toys import Attending
from wrong_models.base import Base


class TwoEmbeddings(Base):
    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.second = nn.Embedding(vocab_size, 8)

    def forward(self, tokens: Tensor) -> Any:
        return self.head(self.embedding(tokens) + self.second(tokens))


class HiddenAttention(Base):
    def mix(self, x: Tensor) -> Tensor:
        scores = x @ x.mT
        earlier = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril()
        return scores.masked_fill(~earlier, -torch.inf).softmax(-1) @ x


class WrongPatterns(Base):
    def attention_patterns(self, tokens: Tensor) -> list[Tensor]:
        return [torch.ones(len(tokens), 1, tokens.shape[1], tokens.shape[1])]


class RightPatterns(HiddenAttention):
    def attention_patterns(self, tokens: Tensor) -> list[Tensor]:
        x = self.embedding(tokens)
        earlier = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return [(x @ x.mT).masked_fill(~earlier, -torch.inf).softmax(-1)[:, None]]


class Sinks(RightPatterns):
    """A quarter of its attention goes to no token."""

    def attention_patterns(self, tokens: Tensor) -> list[Tensor]:
        return [0.75 * pattern for pattern in super().attention_patterns(tokens)]


class Summing(Base):
    """Adds up its tokens, and offers the sum as its state."""

    def initial_state(self, batch_size: int) -> Tensor:
        return self.head.weight.new_zeros(batch_size, 8)

    def step(self, x: Tensor, state: Tensor) -> Any:
        state = state + self.embedding(x)
        return self.head(state), state, {}

    def mix(self, x: Tensor) -> Tensor:
        return x.cumsum(1)


class StepsOtherwise(Summing):
    """Its sum has an end, of which `forward` knows nothing."""

    def initial_state(self, batch_size: int) -> Any:
        return super().initial_state(batch_size), torch.zeros(batch_size, dtype=torch.long)

    def step(self, x: Tensor, state: Any) -> Any:
        total, count = state
        logits, total, gates = super().step(x, total)
        return logits + (count[:, None] >= 4), (total, count + 1), gates


class ForgetsWhereItWas(Base):
    """Its cache is no cache: what follows is read as if it stood at the beginning."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.places = nn.Parameter(torch.randn(300, vocab_size))

    def forward(self, tokens: Tensor) -> Tensor:
        outputs: Tensor = super().forward(tokens) + self.places[: tokens.shape[1]]
        return outputs

    def go_on(self, tokens: Tensor, cache: Any) -> Any:
        return self(tokens), None


class MixedState(Summing):
    """A part of its state, not heard in its outputs, is a mean over the batch."""

    def initial_state(self, batch_size: int) -> Any:
        return super().initial_state(batch_size), super().initial_state(batch_size)

    def step(self, x: Tensor, state: Any) -> Any:
        logits, total, gates = super().step(x, state[0])
        return logits, (total, total.mean(0).expand_as(total)), gates


class Registers(Attending):
    """A second kind of attention, to vectors of its own."""

    def forward(self, tokens: Tensor) -> Any:
        outputs = super().forward(tokens)
        memory = torch.ones(len(tokens), 1, 3, outputs.shape[2], dtype=outputs.dtype)
        return outputs + F.scaled_dot_product_attention(outputs[:, None], memory, memory)[:, 0]


CAUGHT = [
    (TwoEmbeddings, "embedding", "2 tables of vectors are read with the tokens"),
    (HiddenAttention, "attention", "a softmax over time x time that the attention probes cannot see"),
    (WrongPatterns, "attention", "do not sum to 1"),
    (StepsOtherwise, "state", "its outputs differ from its own by up to 1, from step 4 of 13 on"),
    (ForgetsWhereItWas, "cache", "its outputs in pieces are not those of one pass"),
    (MixedState, "state", "the state of layer 1 mixes examples: that of example 0 alone"),
]
