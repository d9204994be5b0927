"""The task is what it says, and keeps the harness's rules."""

from collections.abc import Callable

import pytest
import torch
from selective_copying.task import ASK, NOISE, SelectiveCopying

from harness.testing import conformance


@conformance("task", "selective-copying")
def test_conforms(check: Callable[[], None]) -> None:
    check()


def test_the_targets_are_the_symbols_in_order() -> None:
    """Whatever is not noise before the questions is asked for, from left to right."""
    task = SelectiveCopying(symbols=3, train_length=10)
    batch = next(task.train(64, torch.Generator().manual_seed(0)))
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert tokens[10:] == [ASK] * 3
        assert targets == [-100] * 10 + [token for token in tokens[:10] if token != NOISE]


def test_symbols_stand_anywhere() -> None:
    """Every place is used, the first and the last too."""
    task = SelectiveCopying(symbols=2, train_length=6)
    batch = next(task.train(512, torch.Generator().manual_seed(0)))
    shares = (batch.tokens[:, :6] != NOISE).double().mean(0)
    assert shares.tolist() == pytest.approx([1 / 3] * 6, abs=0.09)


def test_too_many_symbols_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit into a length of 16"):
        SelectiveCopying.check_arguments(symbols=20, train_length=32, lengths=[16, 64])
