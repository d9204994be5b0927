"""Models whose arguments or outputs are wrong: in shape, in what they depend on, or in how they are fitted."""

# The call of a module gives Any.
# mypy: no-warn-return-any

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from wrong_models.base import Base


class Untyped(Base):
    def __init__(self, vocab_size, width=3) -> None:  # type: ignore[no-untyped-def]  # its mistake
        super().__init__(vocab_size)


class WrongDefault(Base):
    def __init__(self, vocab_size: int, width: PositiveInt = -1) -> None:
        super().__init__(vocab_size)


class BadAdvice(Base):
    recommended_training = {"stpes": 100}


class LastOnly(Base):
    def forward(self, tokens: Tensor) -> Any:
        return super().forward(tokens)[:, -1]


class WithState(Base):
    def forward(self, tokens: Tensor) -> Any:
        return super().forward(tokens), None


class NotFinite(Base):
    def forward(self, tokens: Tensor) -> Any:
        return super().forward(tokens) / 0


class Whole(Base):
    def forward(self, tokens: Tensor) -> Any:
        return tokens[..., None].expand(-1, -1, self.head.out_features)


class NoModule:
    def __init__(self, vocab_size: int) -> None:
        pass


class Overwrites(Base):
    def forward(self, tokens: Tensor) -> Any:
        outputs = super().forward(tokens)
        tokens[:, 0] = 0
        return outputs


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return x + 0.01 * torch.randn_like(x)


class Random(Base):
    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.noise = Noise()

    def mix(self, x: Tensor) -> Tensor:
        return self.noise(x)


class DropsAlways(Base):
    def mix(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5)


class RandomOutsideTorch(Base):
    def mix(self, x: Tensor) -> Tensor:
        return x * np.random.rand()


class Remembers(Base):
    """Carries its hidden state from one call to the next."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.state = None

    def mix(self, x: Tensor) -> Tensor:
        states, last = self.rnn(x, self.state)
        self.state = last.detach()[:, :1].repeat(1, x.shape[0], 1) if self.state is None else self.state
        return states


class Counts(Base):
    """Remembers in a buffer, whatever the batch's size."""

    calls: Tensor

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.register_buffer("calls", torch.zeros(()))

    def mix(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


class CountsSilently(Counts):
    def mix(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x


class BatchStatistics(Base):
    """Batch normalisation that never uses running statistics."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(vocab_size)
        self.norm = nn.BatchNorm1d(8, track_running_stats=False)

    def mix(self, x: Tensor) -> Tensor:
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class BatchMean(Base):
    def mix(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class ReturnsNothing(Base):
    """Its `train` and `eval` give back no model, which nobody needs."""

    def train(self, mode: bool = True) -> None:  # type: ignore[override]  # its mistake
        super().train(mode)


class Probabilities(Base):
    def forward(self, tokens: Tensor) -> Any:
        return super().forward(tokens).softmax(-1)


class LogProbabilities(Base):
    def forward(self, tokens: Tensor) -> Any:
        return super().forward(tokens).log_softmax(-1)


class Fitted(nn.Module):
    """It counts answers, without gradient steps."""

    counts: Tensor

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.register_buffer("counts", torch.ones(vocab_size))

    def fit(self, stream: Any) -> None:
        for batch in stream:
            self.counts += torch.bincount(batch.targets[batch.targets >= 0], minlength=len(self.counts))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.counts.log().expand(*tokens.shape, -1)


class FitsNothing(Fitted):
    def fit(self, stream: Any) -> None:
        raise RuntimeError("no such table")


class FitsNan(Fitted):
    def fit(self, stream: Any) -> None:
        self.counts *= float("nan")


class FitsAList(Fitted):
    def fit(self, stream: Any) -> None:
        super().fit(stream[:2])


CAUGHT = [
    (Untyped, "arguments", "no type is written at 'width'"),
    (WrongDefault, "arguments", "'width' = -1: input should be greater than 0"),
    (BadAdvice, "recommended_training", "'stpes'. Did you mean 'steps'"),
    (LastOnly, "shape", "it returned (3, 11) where (batch, time, outputs) = (3, 13, 11) is expected"),
    (WithState, "shape", "returned a tuple; return the logits alone"),
    (NotFinite, "shape", "not finite before any training"),
    (Whole, "shape", "torch.int64"),
    (FitsNothing, "fits", "no such table"),
    (FitsNan, "fits", "NaN"),
    (FitsAList, "fits", "not subscriptable"),
    (NoModule, "shape", "it gave a NoModule, which is no torch.nn.Module"),
    (Overwrites, "input_untouched", "it wrote into the tokens"),
    (Random, "deterministic", "draws random numbers in evaluation mode, in `noise`, a Noise"),
    (DropsAlways, "deterministic", "draws random numbers in evaluation mode, in DropsAlways.forward"),
    (RandomOutsideTorch, "deterministic", "draws random numbers in evaluation mode"),
    (Remembers, "stateless", "it keeps state between calls"),
    (Counts, "stateless", "the same input gives other outputs later, from Counts.forward on (it changed calls)"),
    (CountsSilently, "stateless", "a forward pass in evaluation mode changes calls"),
    (BatchStatistics, "batch_invariant", "(batch statistics?), in `norm`, an nn.BatchNorm1d"),
    (BatchMean, "batch_invariant", "depend on the other examples of its batch"),
    (Probabilities, "logits", "its outputs are probabilities"),
]
