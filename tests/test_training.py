"""The one loop: what it promises to every task and model."""

import copy
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from harness_plugins.models.lstm import LSTM
from harness_plugins.tasks.farm_agreement import FarmAgreement
from harness_plugins.tasks.recall import Recall
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from harness import Batch, Interface, Metric, Task
from harness.errors import DivergedError, PluginError
from harness.examples import seeded
from harness.schema import Training
from harness.training import Outcome, total_steps, train

CPU = torch.device("cpu")


class Line(Task):
    """Fit y = 2 x: a task whose best parameters are known; a finite set of 8 points."""

    interface = Interface(1, 1, input="vectors", output="numbers")
    metrics: Mapping[str, Metric] = {"loss": Metric("", higher_is_better=False)}
    examples = 8

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        while True:
            x = torch.randn(batch_size, 1, 1, generator=generator)
            yield Batch(x, 2 * x, torch.ones(batch_size, 1, dtype=torch.bool))

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        return (outputs - batch.targets).square().mean()


def fit(training: dict[str, Any], seed: int = 0, model: nn.Module | None = None, task: Task | None = None) -> Outcome:
    torch.manual_seed(0)
    return train(model or nn.Linear(1, 1), task or Line(), Training.model_validate(training), seed, CPU)


def test_it_learns() -> None:
    """A line is fitted; the learning curve falls and ends where the outcome says."""
    model = nn.Linear(1, 1)
    outcome = fit({"steps": 300, "lr": 0.05, "validate_every": 50}, model=model)
    assert model.weight.item() == pytest.approx(2, abs=0.05)
    assert [point["step"] for point in outcome.learning_curve] == [50, 100, 150, 200, 250, 300]
    losses = [point["validation_loss"] for point in outcome.learning_curve]
    assert losses[-1] < losses[0] / 100
    assert outcome.trained.validation_loss == outcome.learning_curve[-1]["validation_loss"]
    assert (outcome.trained.steps, outcome.trained.stopped) == (300, "budget")


def test_the_seed_decides() -> None:
    """The same seed gives the same numbers, bit for bit; another one gives others; the global state is not asked."""
    losses = []
    for seed, noise in ((1, 0), (1, 99), (2, 0)):
        torch.manual_seed(3)
        model = LSTM(18, hidden=8)
        torch.manual_seed(noise)
        training = Training(steps=10, validate_every=5)
        losses.append(train(model, Recall(train_max=5), training, seed, CPU).trained.loss)
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_it_is_the_loop_that_everybody_writes(optimizer: Literal["adam", "adamw"]) -> None:
    """With PyTorch's own optimiser, on the same data: the same parameters, bit for bit."""
    torch.manual_seed(0)
    ours = LSTM(18, hidden=8)
    theirs = copy.deepcopy(ours)
    task, training = Recall(), Training(steps=5, optimizer=optimizer, lr=0.01, weight_decay=0.1, batch_size=4)
    train(ours, task, training, 0, CPU)

    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optimizer]
    steps = kind(theirs.parameters(), lr=0.01, weight_decay=0.1, fused=True)
    for batch in islice(task.train(4, seeded("train", 0)), 5):
        loss = nn.functional.cross_entropy(theirs(batch.tokens).flatten(0, 1), batch.targets.flatten())
        steps.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        steps.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_a_run_does_not_import_the_compiler(tmp_path: Path) -> None:
    """PyTorch's optimisers would, and it takes as long as importing PyTorch."""
    code = (
        "import sys, harness; harness.run(['gpt'], ['recall'], ['edge_cut', 'grad_reach'], seeds=1, out=sys.argv[1], "
        "training={'steps': 1}); sys.exit(bool({'torch._dynamo', 'sympy'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_warm_up_rises_linearly_and_stays() -> None:
    """The first step of a warm-up over n steps has 1/n of the learning rate; Adam goes 1/n of the way."""
    moved = []
    for warmup in (0, 10):
        torch.manual_seed(0)
        model = nn.Linear(1, 1)
        before = model.weight.item()
        train(model, Line(), Training(steps=1, warmup=warmup, lr=0.1), 0, CPU)
        moved.append(abs(model.weight.item() - before))
    assert moved[1] == pytest.approx(moved[0] / 10, rel=1e-3)


@pytest.mark.parametrize(
    ("schedule", "shares"),
    [
        ("constant", [0.5, 1, 1, 1, 1, 1]),
        ("linear", [0.5, 1, 1, 0.75, 0.5, 0.25]),
        ("cosine", [0.5, 1, 1, (1 + 0.5**0.5) / 2, 0.5, (1 - 0.5**0.5) / 2]),
    ],
)
def test_the_learning_rate_falls_to_zero_by_the_end_of_the_budget(schedule: str, shares: list[float]) -> None:
    """From what it is after warm-up; the step after the last one would have none."""
    seen: list[float] = []

    def spy(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        seen.extend(group["lr"] for group in optimizer.param_groups)

    hook = register_optimizer_step_pre_hook(spy)
    fit({"steps": 6, "warmup": 2, "lr": 0.1, "schedule": schedule})
    hook.remove()
    assert seen == pytest.approx([0.1 * share for share in shares])


def test_gradient_norms_are_told() -> None:
    """As they were before clipping: in the curve the median since the last look, in the end over all steps."""
    norms = []
    model = nn.Linear(1, 1)
    model.weight.data.fill_(3.0)

    class Spied(Line):
        def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
            loss = super().loss(outputs, batch)
            if torch.is_grad_enabled():
                found = torch.autograd.grad(loss, [*model.parameters()], retain_graph=True)
                norms.append(torch.stack([each.square().sum() for each in found]).sum().sqrt().item())
            return loss

    for clip in (2.0, None):
        norms.clear()
        outcome = fit({"steps": 7, "clip": clip, "lr": 0.3, "validate_every": 3}, model=model, task=Spied())
        looks = [point["gradient_norm"] for point in outcome.learning_curve]
        assert looks == pytest.approx([sorted(norms[:3])[1], sorted(norms[3:6])[1], norms[6]])
        trained = outcome.trained
        assert trained.gradient_norm_median == pytest.approx(sorted(norms)[3])
        assert trained.gradient_norm_max == pytest.approx(max(norms))
        assert trained.clipped == (None if clip is None else sum(norm > clip for norm in norms) / 7)
    nothing = fit({"steps": 0}).trained
    assert nothing.gradient_norm_median is nothing.gradient_norm_max is nothing.clipped is None


def test_clipping_bounds_the_gradient() -> None:
    """The optimiser never sees a gradient longer than `clip`."""
    seen = []
    model = nn.Linear(1, 1)
    model.weight.data.fill_(1000.0)

    def spy(*_: Any) -> None:
        seen.append(sum(p.grad.square().sum().item() for p in model.parameters() if p.grad is not None) ** 0.5)

    hook = register_optimizer_step_pre_hook(spy)
    fit({"steps": 3, "clip": 0.5}, model=model)
    fit({"steps": 3, "clip": None}, model=model)
    hook.remove()
    assert seen[:3] == pytest.approx([0.5] * 3, rel=1e-3)
    assert min(seen[3:]) > 100


def test_divergence_is_found_at_its_step() -> None:
    """A loss that is not finite ends training, and the message says at which step, also between two looks."""

    class Explodes(Line):
        calls = 0

        def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
            self.calls += 1
            return super().loss(outputs, batch) * (float("nan") if self.calls == 7 else 1.0)

    with pytest.raises(DivergedError, match="became nan at step 7;"):
        fit({"steps": 20, "validate_every": 10}, task=Explodes())


def test_a_model_that_ends_as_nan_has_diverged() -> None:
    """Also if the last update did it, after the last training loss was computed."""
    model = nn.Linear(1, 1)
    model.weight.register_hook(lambda gradient: gradient * float("nan"))
    with pytest.raises(DivergedError, match="validation loss became nan at step 1;"):
        fit({"steps": 1, "clip": None}, model=model)


def test_early_stop_keeps_the_best_parameters() -> None:
    """With patience, training ends when the validation loss no longer falls, at the best model, not the last one."""

    class Worsens(Line):
        """Trains towards y = 2 x and validates against what the first look saw."""

        def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
            if torch.is_grad_enabled():
                return super().loss(outputs, batch)
            return outputs.square().mean()  # best when nothing is learned

    model = nn.Linear(1, 1)
    model.weight.data.zero_()
    model.bias.data.zero_()
    outcome = fit({"steps": 500, "lr": 0.05, "validate_every": 10, "patience": 3}, model=model, task=Worsens())
    assert (outcome.trained.stopped, outcome.trained.steps) == ("early stop", 40)
    first = outcome.learning_curve[0]["validation_loss"]
    assert outcome.trained.validation_loss == first
    assert model.weight.item() ** 2 < outcome.learning_curve[-1]["validation_loss"]


@pytest.mark.parametrize(("sentences", "batch_size"), [(20, 64), (65, 64), (100, 64), (128, 64)])
def test_epochs_are_passes(sentences: int, batch_size: int) -> None:
    """In five epochs each example is seen five times, whether or not the batch size divides the training set."""
    task = FarmAgreement(sentences=sentences)
    steps = total_steps(Training(steps=None, epochs=5, batch_size=batch_size), task)
    seen: Counter[tuple[int, ...]] = Counter()
    for batch in islice(task.train(batch_size, seeded("train", 0)), steps):
        seen.update(tuple(row[mask].tolist()) for row, mask in zip(batch.tokens, batch.mask, strict=True))
    assert seen.total() == 5 * sentences
    assert all(count % 5 == 0 for count in seen.values())  # a sentence may be in the set more than once


def test_steps_of_epochs() -> None:
    """8 examples are 3 batches of 3, the last one smaller; a fraction of a pass is rounded up to whole batches, unless
    only a float's last digit is above; an endless stream has no epochs."""
    assert total_steps(Training(steps=None, epochs=2, batch_size=3), Line()) == 6
    assert total_steps(Training(steps=None, epochs=0.5, batch_size=3), Line()) == 2
    assert total_steps(Training(steps=None, epochs=1.1), FarmAgreement(sentences=640)) == 11
    with pytest.raises(PluginError, match="endless"):
        total_steps(Training(steps=None, epochs=2), Recall())


def test_a_model_without_parameters_cannot_be_trained() -> None:
    """Said in our words, not in the optimiser's."""
    with pytest.raises(PluginError, match="no parameters to train"):
        fit({"steps": 1}, model=nn.Identity())


def test_streams_are_apart() -> None:
    """Training, validation and test data come from different generators, and from nothing but their names."""
    states = {name: seeded(name, 0).get_state().sum().item() for name in ("train", "validation", "test")}
    assert len(set(states.values())) == 3
    assert torch.equal(seeded("train", 0).get_state(), seeded("train", 0).get_state())
