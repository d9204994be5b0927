"""Models as they are written in earnest, with habits that must not be taken for mischief: every probe measures them,
and gives the same numbers whether it is asked for at once or later."""

from pathlib import Path
from typing import Any

import pytest
import torch
from harness_plugins.models.gru import GRU
from harness_plugins.tasks.recall import Recall
from small_runs import numbers, run
from torch import Tensor, nn

from harness.checkpoints import make_room
from harness.schema import Training
from harness.training import train

MODELS = """
import torch
from torch import nn


class Plain(nn.Module):
    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, 8)
        self.prepare()
        self.out = nn.Linear(8, vocab_size)

    def prepare(self):
        pass

    def mix(self, x):
        return x

    def forward(self, tokens):
        return self.out(self.mix(self.embedding(tokens).cumsum(1)))


class GrowingTable(Plain):
    persistent = True

    def prepare(self):
        self.longest = 0

    def mix(self, x):
        if x.shape[1] > self.longest:
            self.longest = x.shape[1]
            table = torch.arange(1.0, self.longest + 1).reciprocal()[:, None]
            self.register_buffer("table", table, persistent=self.persistent)
        return x * self.table[: x.shape[1]]


class GrowingCache(GrowingTable):
    persistent = False


class FirstBatch(Plain):
    def prepare(self):
        self.register_buffer("mean", None)
        self.register_buffer("seen", None)

    def mix(self, x):
        if self.training and self.mean is None:
            self.mean, self.seen = x.detach().mean((0, 1)), torch.tensor(x.numel())
        return x if self.mean is None else x - self.mean


class Merging(Plain):
    def prepare(self):
        self.inner, self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)
        self.merged = False

    def train(self, mode=True):
        if self.merged is mode:
            self.inner.weight.data += self.b.weight @ self.a.weight * (-1 if mode else 1)
            self.merged = not mode
        return super().train(mode)

    def mix(self, x):
        return self.inner(x) if self.merged else self.inner(x) + self.b(self.a(x))


class Caching(Plain):
    def prepare(self):
        self.inner, self.cached = nn.Linear(8, 8), None

    def train(self, mode=True):
        self.cached = None
        return super().train(mode)

    def mix(self, x):
        if self.training or torch.is_grad_enabled():
            return x @ self.inner.weight.tanh()
        self.cached = self.inner.weight.detach().tanh() if self.cached is None else self.cached
        return x @ self.cached


class ShortWords(Plain):
    def prepare(self):
        self.embedding = nn.Embedding(self.embedding.num_embeddings, 8, max_norm=1.0)


class AlwaysDropping(Plain):
    def prepare(self):
        self.dropout = nn.Dropout(0.1)

    def mix(self, x):
        self.dropout.train()
        return self.dropout(x)


class Scripted(Plain):
    def prepare(self):
        self.inner = torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)))

    def mix(self, x):
        return self.inner(x.flatten(0, 1)).view_as(x)
"""

NAMES = [part.partition("(")[0] for part in MODELS.split("\nclass ")[2:]]


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_all_probes_measure_them_in_any_order(tmp_path: Path) -> None:
    """Tables that grow, weights that are merged or cached while evaluating, norms that are kept, scripted parts."""
    file = tmp_path / "models.py"
    file.write_text(MODELS, encoding="utf-8")
    models = [f"{file}:{name}" for name in NAMES]
    # longer sequences than any in training come first, without gradients
    few: dict[str, Any] = {"examples": 8, "training": {"steps": 12, "lr": 0.2, "validate_every": 1, "patience": 2}}
    together = run(models, tmp_path / "together", probes=["accuracy", "grad_reach"], **few)
    run(models, tmp_path / "apart", probes=["grad_reach"], **few)
    apart = run(models, tmp_path / "apart", probes=["accuracy", "grad_reach"], **few)
    problems = {(each.model.name, each.probe.name): each.error.message for each in together if each.error}
    assert not problems
    assert {each.id: numbers(each) for each in together} == {each.id: numbers(each) for each in apart}
    assert len(together) == 3 * len(models)


def test_the_best_model_of_an_early_stop_may_have_shorter_buffers() -> None:
    """Such as all losses until then, or a table that has grown since."""

    class Remembering(GRU):
        steps: Tensor

        def forward(self, tokens: Tensor) -> Tensor:
            if self.training:
                self.steps = torch.cat([self.steps, torch.ones(1)])
            return super().forward(tokens)

    task = Recall(train_max=2)
    model = Remembering(task.interface.input_size, hidden=4)
    model.register_buffer("steps", torch.zeros(0))
    settings = Training(steps=40, batch_size=4, lr=1.0, validate_every=1, patience=2)
    outcome = train(model, task, settings, 0, torch.device("cpu"))
    assert outcome.trained.stopped == "early stop"
    assert len(model.steps) == outcome.trained.steps - 2


@pytest.mark.parametrize(
    ("now", "shape"), [(torch.zeros(3, 2), (5, 2)), (None, (5, 2)), (None, ()), (torch.ones(2), (2,))]
)
def test_there_is_room_for_buffers_that_were_made_later(now: Tensor | None, shape: tuple[int, ...]) -> None:
    """Of their shape and kind; what has room stays, and names of nothing are left to those who load."""
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[0].register_buffer("table", now)
    wanted = torch.ones(shape, dtype=torch.int64 if now is None else torch.float32)
    state = {**model.state_dict(), "0.table": wanted}
    make_room(model, [*state, "0.other", "gone.table"], state.__getitem__)
    assert now is None or now.shape != wanted.shape or model[0].get_buffer("table") is now
    model.load_state_dict(state)
    assert torch.equal(model[0].get_buffer("table"), wanted)
    assert model[0].get_buffer("table").dtype == wanted.dtype
