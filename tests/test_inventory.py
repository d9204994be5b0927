"""All that decides the rest of a training is found, wherever a plugin keeps it; or the training starts over."""

import itertools
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy
import pytest
import torch
from harness_plugins.models.gpt import GPT
from harness_plugins.tasks.recall import Recall
from interrupted import MODELS, WORDS, Kept, Killed, fit, fit_with_breaks
from odd_models.kept import Anneals, Counter, Counts, Freezes, Global, Peculiar, Shares
from odd_models.lost import Averages, Closure, Hooks, Learns, Swaps, remembering
from torch import nn

from harness import Batch, Task
from harness.inventory import CannotGoOnError


@pytest.mark.parametrize(("model", "task"), [(Peculiar, Recall), (MODELS["gru"], Counts)])
def test_what_a_plugin_keeps_beside_its_parameters_goes_on_too(model: Any, task: Any) -> None:
    keeper = Kept(every=2)
    whole = fit(model, task)
    assert fit_with_breaks(keeper, model, task, ends=15) == whole
    assert keeper.content


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        (Anneals, True),
        (Freezes, True),
        (Shares, True),
        (Counter, True),
        (Global, True),
        (Averages, False),
        (Hooks, False),
        (Swaps, False),
        (Closure, False),
        (Learns, False),
    ],
)
def test_what_decides_the_rest_of_a_training_is_found_wherever_it_is(
    model: Any, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In modules of PyTorch's, in several places at once, in classes and modules; what cannot be written down is not
    half kept."""

    def anew() -> nn.Module:
        """As in a new process."""
        monkeypatch.setattr(Counter, "counted", [0.0])
        monkeypatch.setattr(sys.modules[Global.__module__], "COUNTED", 0.0)
        return model()  # type: ignore[no-any-return]

    whole, keeper = fit(anew, Recall), Kept(every=4, ends=13)
    with suppress(Killed):  # at what cannot be kept, nobody looks a second time
        fit(anew, Recall, keeper)
    assert fit(anew, Recall, Kept.holding(keeper.content)) == whole
    assert bool(keeper.content) == kept


@pytest.mark.parametrize(
    "model",
    [
        remembering(lambda: random.Random(1), lambda memory: memory.random()),
        remembering(lambda: numpy.zeros(3), lambda memory: numpy.add(memory, 1, out=memory)),
        remembering(lambda: [torch.Generator()], lambda memory: torch.rand(1, generator=memory[0])),
        remembering(lambda: itertools.cycle([1, 2]).__iter__(), next),
        remembering(lambda: (n for n in range(10_000)), next),
    ],
)
def test_what_cannot_be_written_down_is_not_kept(model: Callable[[], nn.Module]) -> None:
    """Half a state would give other numbers: such a training starts over. One look at it is enough."""
    keeper = Kept(every=5)
    fit(model, Recall, keeper)
    assert not keeper.content
    assert keeper.asked == 5


class GlobalStream(Recall):
    """Shuffles with a global random state, which is not allowed."""

    def __init__(self, draw: Callable[[], int]) -> None:
        super().__init__()
        self.draw = draw

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        kept = list(itertools.islice(super().train(batch_size, generator), 10))
        while True:
            yield kept[self.draw()]


def test_a_stream_that_draws_from_a_global_state() -> None:
    """Nothing else draws from numpy's: training goes on, bit for bit. The model draws from torch's, too, so that the
    stream gives other batches when those that were taken are skipped: that is found out."""

    def of_numpy() -> Task:
        return GlobalStream(lambda: int(numpy.random.randint(10)))

    def of_torch() -> Task:
        return GlobalStream(lambda: int(torch.randint(10, ())))

    assert fit_with_breaks(Kept(every=4), MODELS["gpt"], of_numpy, ends=13) == fit(MODELS["gpt"], of_numpy)
    with pytest.raises(CannotGoOnError, match="other batches"):
        fit_with_breaks(Kept(every=13), MODELS["gpt"], of_torch, ends=14)


@pytest.mark.parametrize(
    ("model", "task", "message"),
    [
        (lambda: GPT(WORDS, d_model=8, layers=1), Recall, "other parameters"),
        (lambda: GPT(WORDS, d_model=16), Recall, "tensor of shape"),
        (lambda: GPT(WORDS, d_model=8), lambda: Recall(train_max=3), "other batches"),
    ],
)
def test_the_state_of_another_training_is_refused(model: Any, task: Any, message: str) -> None:
    keeper = Kept(every=5)
    fit(lambda: GPT(WORDS, d_model=8), Recall, keeper)
    with pytest.raises(CannotGoOnError, match=message):
        fit(model, task, keeper)
