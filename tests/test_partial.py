"""A training that was interrupted ends as if it had not been, whatever decides its numbers; or it starts over."""

import io
import itertools
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy
import pytest
import torch
from conftest import SHORT
from harness_plugins.models.elman import Elman
from harness_plugins.models.gpt import GPT
from harness_plugins.models.gru import GRU
from harness_plugins.models.lstm import LSTM
from harness_plugins.tasks.farm_agreement import FarmAgreement
from harness_plugins.tasks.recall import Recall
from torch import Tensor, nn

import harness
from harness import Batch, Task, partial
from harness.inventory import CannotGoOnError
from harness.partial import Partial, State
from harness.schema import Record, Training
from harness.store import RunDirectory
from harness.training import Outcome, train

CPU = torch.device("cpu")
WORDS = 128
"""At least as many as the tasks below have."""


class Killed(BaseException):
    """The process ends here."""


class Kept:
    """Keeps a training after every so many steps, as bytes; ends the process after a step."""

    def __init__(self, every: int = 1, ends: int = 0) -> None:
        self.every = every
        self.ends = ends
        self.asked = 0
        self.content = b""

    @classmethod
    def holding(cls, content: bytes) -> "Kept":
        """One that keeps nothing more."""
        kept = cls(every=10**6)
        kept.content = content
        return kept

    def load(self) -> State | None:
        self.asked = 0
        return read(self.content) if self.content else None

    def due(self) -> bool:
        self.asked += 1
        return self.asked % self.every == 0 or self.asked == self.ends

    def save(self, state: State) -> None:
        if self.asked % self.every == 0:
            file = io.BytesIO()
            torch.save(state, file)
            self.content = file.getvalue()
        if self.asked == self.ends:
            raise Killed


def read(content: bytes) -> State:
    state: State = torch.load(io.BytesIO(content), weights_only=True)
    return state


def fit(
    model: Callable[[], nn.Module],
    task: Callable[[], Task],
    keeper: Kept | None = None,
    progress: Callable[[float], None] = lambda share: None,
    **training: Any,
) -> tuple[Any, ...]:
    """Everything that a training leaves, but for its seconds: what a new process would compute."""
    torch.manual_seed(0)
    built = model()
    torch.manual_seed(7)
    numpy.random.seed(7)
    settings = Training.model_validate({"steps": 40, "validate_every": 7, "batch_size": 4} | training)
    outcome: Outcome = train(built, task(), settings, 3, CPU, progress, keeper)
    return (
        {name: value.numpy().tobytes() for name, value in built.state_dict().items()},
        outcome.learning_curve,
        outcome.trained.model_dump(exclude={"seconds"}),
        torch.get_rng_state().tolist(),
        numpy.random.get_state(legacy=False)["state"]["key"].tolist(),
    )


def fit_with_breaks(
    keeper: Kept, model: Callable[[], nn.Module], task: Callable[[], Task], ends: int, **training: Any
) -> tuple[Any, ...]:
    """The same, in processes that end after so many steps each, until one reaches the end."""
    keeper.ends = ends
    for _ in range(20):
        try:
            return fit(model, task, keeper, **training)
        except Killed:
            continue
    raise AssertionError("it never ends")


def dropping(kind: Callable[..., nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(kind(WORDS, hidden=8, layers=2), nn.Dropout(0.2))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "elman": dropping(Elman),
    "gru": dropping(GRU),
    "lstm": dropping(LSTM),
    "gpt": lambda: GPT(WORDS, d_model=8, dropout=0.2),
}

TASKS: dict[str, tuple[Callable[[], Task], dict[str, Any]]] = {
    "endless": (Recall, {"optimizer": "adamw", "weight_decay": 0.1, "warmup": 20, "schedule": "cosine"}),
    "epochs": (
        lambda: FarmAgreement(sentences=30),
        {"optimizer": "adam", "steps": None, "epochs": 5, "weight_decay": 0.01, "clip": None, "schedule": "linear"},
    ),
    "early stop": (Recall, {"optimizer": "adam", "lr": 0.1, "patience": 2, "validate_every": 3, "warmup": 5}),
}


TRAININGS = [(model, task) for model in MODELS for task in TASKS]
TYPICAL = [("elman", "endless"), ("gru", "epochs"), ("lstm", "early stop"), *(("gpt", task) for task in TASKS)]


@pytest.mark.parametrize(
    ("model", "task"),
    [pytest.param(*each, marks=() if each in TYPICAL else pytest.mark.slow) for each in TRAININGS],
)
def test_an_interrupted_training_ends_as_if_it_had_not_been(model: str, task: str) -> None:
    """Bit for bit: parameters, learning curve and random states; with dropout, in the midst of a warm-up, of an epoch,
    between two looks and with a best model before; wherever it ends and whenever it was kept before."""
    built, settings = TASKS[task]
    whole = fit(MODELS[model], built, **settings)
    assert fit(MODELS[model], built, Kept(every=5), **settings) == whole  # to be kept disturbs nothing
    for every, ends in ((4, 13), (7, 32)):
        assert fit_with_breaks(Kept(every), MODELS[model], built, ends=ends, **settings) == whole


@pytest.mark.parametrize("model", ["elman", "lstm"])
def test_so_does_one_with_truncated_back_propagation(model: str) -> None:
    """With dropout, which draws for each chunk."""
    whole = fit(MODELS[model], Recall, truncate=3, schedule="linear")
    assert whole != fit(MODELS[model], Recall, schedule="linear")
    assert fit_with_breaks(Kept(every=4), MODELS[model], Recall, ends=13, truncate=3, schedule="linear") == whole


def test_an_error_in_between_is_an_end_like_any_other() -> None:
    """The last step that was kept counts, and progress goes on from its share."""
    whole, keeper = fit(MODELS["gpt"], Recall), Kept(every=3)
    shares: list[float] = []

    def progress(share: float) -> None:
        shares.append(share)
        if share == 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(MODELS["gpt"], Recall, keeper, progress)
    shares.clear()
    assert fit(MODELS["gpt"], Recall, keeper, shares.append) == whole
    assert shares[0] == 18 / 40
    assert shares == sorted(shares)


def test_seconds_are_those_of_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of training alone: not of keeping it, nor of the steps that were lost."""
    now = 0.0

    class Slow(Kept):
        def save(self, state: State) -> None:
            nonlocal now
            now += 1000.0
            super().save(state)

    class Timed(Recall):
        def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
            nonlocal now
            now += 1.0 if torch.is_grad_enabled() else 0.0
            return super().loss(outputs, batch)

    monkeypatch.setattr("time.perf_counter", lambda: now)
    settings, keeper = Training(steps=40, batch_size=4), Slow(every=10, ends=25)
    with pytest.raises(Killed):
        train(MODELS["gru"](), Timed(), settings, 0, CPU, keeper=keeper)
    now += 500.0
    assert train(MODELS["gru"](), Timed(), settings, 0, CPU, keeper=keeper).trained.seconds == 40


class Peculiar(nn.Module):
    """Keeps things in buffers that no `state_dict` holds, and beside all buffers, and they decide what it computes."""

    unseen: Tensor
    late: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 8)
        self.head = nn.Linear(8, WORDS)
        self.register_buffer("unseen", torch.zeros(8), persistent=False)
        self.register_buffer("late", None)
        self.calls = 0
        self.last: dict[str, Any] = {}
        self.generator = torch.Generator().manual_seed(5)
        self.views = [self.head.weight[0]]  # of a parameter: changes with it
        self.norm: Callable[[Tensor], Tensor] = lambda x: x  # cannot be pickled, and does not change

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.unseen + self.last.get("mean", 0.0)
        if self.training:
            self.calls += 1
            self.unseen += x.detach().mean((0, 1)) * 0.1
            self.late = x.detach()[0, 0] if self.late is None else self.late * 0.5
            self.last = {"mean": x.mean().detach() * 0.1, "at": [self.calls]}
            if self.calls == 20:
                self.head.eval()
        x = x + torch.randn(8, generator=self.generator) / self.calls if self.calls else x
        logits: Tensor = self.head(self.norm(x if self.late is None else x + self.late))
        return logits if self.head.training else logits * 0.5


class Counts(Recall):
    """A task whose loss depends on how often it was asked."""

    asked = 0

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        self.asked += torch.is_grad_enabled()
        return super().loss(outputs, batch) * (1 + self.asked / 10)


@pytest.mark.parametrize(("model", "task"), [(Peculiar, Recall), (MODELS["gru"], Counts)])
def test_what_a_plugin_keeps_beside_its_parameters_goes_on_too(model: Any, task: Any) -> None:
    keeper = Kept(every=2)
    whole = fit(model, task)
    assert fit_with_breaks(keeper, model, task, ends=15) == whole
    assert keeper.content


class Plain(GRU):
    """Calls a function of its own after each pass in training mode."""

    def __init__(self) -> None:
        super().__init__(WORDS, hidden=8)
        self.passes = 0

    def forward(self, tokens: Tensor) -> Tensor:
        outputs = super().forward(tokens)
        if self.training:
            self.passes += 1
            self.after()
        return outputs * self.factor()

    def after(self) -> None:
        """Change something."""

    def factor(self) -> float:
        """What that means for the outputs."""
        return 1.0


class Anneals(Plain):
    """Changes its dropout, which is PyTorch's own module's."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def after(self) -> None:
        self.drop.p *= 0.9

    def factor(self) -> float:
        return self.drop.p


class Freezes(Plain):
    """Stops learning some of its parameters."""

    def after(self) -> None:
        if self.passes == 5:
            next(self.parameters()).requires_grad_(False)


class Layer(nn.Module):
    """Reads what its model writes down."""

    def __init__(self, shared: dict[str, float]) -> None:
        super().__init__()
        self.shared = shared


class Shares(Plain):
    """One dictionary in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = {"passes": 0.0}
        self.layer = Layer(self.shared)

    def after(self) -> None:
        self.shared["passes"] += 1

    def factor(self) -> float:
        return 1 + self.layer.shared["passes"]


class Averages(Plain):
    """Keeps a mean of its head in a list, where no `state_dict` finds it."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = [nn.Linear(1, 1)]

    @torch.no_grad()
    def after(self) -> None:
        self.mean[0].weight += next(self.parameters()).mean()

    def factor(self) -> float:
        return float(self.mean[0].weight.detach())


class Hooks(Plain):
    """Begins to scale what one of its layers gives."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Identity()

    def after(self) -> None:
        if self.passes == 3:
            self.last.register_forward_hook(lambda module, given, output: output * 2)

    def factor(self) -> float:
        return float(self.last(torch.ones(())))


class Swaps(Plain):
    """Replaces a layer without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.last: nn.Module = nn.Identity()

    def after(self) -> None:
        if self.passes == 3:
            self.last = nn.Tanh()

    def factor(self) -> float:
        return float(self.last(torch.ones(())))


class Counter(Plain):
    """Counts in its class."""

    counted: ClassVar[list[float]] = [0.0]

    def after(self) -> None:
        self.counted[0] += 1

    def factor(self) -> float:
        return 1 + self.counted[0]


COUNTED = 0.0


class Global(Plain):
    """Counts in its module."""

    def after(self) -> None:
        global COUNTED
        COUNTED += 1

    def factor(self) -> float:
        return 1 + COUNTED


class Closure(Plain):
    """Counts in a function."""

    def __init__(self) -> None:
        super().__init__()
        counted = 0.0

        def count(by: float) -> float:
            nonlocal counted
            counted += by
            return counted

        self.count = count

    def after(self) -> None:
        self.count(1)

    def factor(self) -> float:
        return 1 + self.count(0)


class Learns(Plain):
    """Takes steps of its own on something that is no parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.ones(8, requires_grad=True)

    def forward(self, tokens: Tensor) -> Tensor:
        if self.training and self.scale.grad is not None:
            with torch.no_grad():
                self.scale -= 0.1 * self.scale.grad
            self.scale.grad = None
        return super().forward(tokens) * self.scale.sum()


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
        monkeypatch.setattr(sys.modules[__name__], "COUNTED", 0.0)
        return model()  # type: ignore[no-any-return]

    whole, keeper = fit(anew, Recall), Kept(every=4, ends=13)
    with suppress(Killed):  # at what cannot be kept, nobody looks a second time
        fit(anew, Recall, keeper)
    assert fit(anew, Recall, Kept.holding(keeper.content)) == whole
    assert bool(keeper.content) == kept


def remembering(value: Any, change: Callable[[Any], object]) -> Callable[[], nn.Module]:
    """A model that keeps something of a kind that cannot be written down, and changes it in each pass."""

    class Remembers(GRU):
        def __init__(self) -> None:
            super().__init__(WORDS, hidden=8)
            self.memory = value()

        def forward(self, tokens: Tensor) -> Tensor:
            change(self.memory)
            return super().forward(tokens)

    return Remembers


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


STATE: State = {"step": 3, "losses": torch.arange(1000.0), "random": random.getstate()}


def test_a_damaged_file_counts_as_absent(tmp_path: Path) -> None:
    """Cut anywhere, with any byte changed, or something else altogether; and nothing in it is ever run."""
    path = tmp_path / "kept.partial"
    kept = Partial(path, "a")
    assert kept.load() is None
    kept.save(STATE)
    whole = path.read_bytes()
    for length in range(0, len(whole), 1 + len(whole) // 50):
        path.write_bytes(whole[:length])
        assert kept.load() is None, length
    found = 0
    for place in range(0, len(whole), 1 + len(whole) // 150):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        state = kept.load()
        found += state is not None  # between the parts of the archive nothing is written
        assert state is None or (state["step"], state["random"]) == (3, STATE["random"])
        assert state is None or torch.equal(state["losses"], STATE["losses"])
    assert found < 20
    torch.save({"origin": kept.origin, "state": {"step": Path}}, path)
    assert kept.load() is None
    path.unlink()
    path.mkdir()
    assert kept.load() is None


def test_a_file_of_another_trial_counts_as_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does one of another version of torch."""
    path = tmp_path / "kept.partial"
    Partial(path, "a").save(STATE)
    assert Partial(path, "a").load() is not None
    assert Partial(path, "b").load() is None
    monkeypatch.setattr(torch, "__version__", "0.1")
    assert Partial(path, "a").load() is None


def test_a_training_is_kept_after_a_minute_and_then_every_minute(tmp_path: Path) -> None:
    """What takes long to write is written less often; a disk that is full stops nothing."""
    now = 0.0

    kept = Partial(tmp_path / "kept.partial", "a", clock=lambda: now)
    now = 1000.0
    kept.load()
    now = 1059.0
    assert not kept.due()
    now = 1060.0
    assert kept.due()
    kept.save(STATE)
    assert not kept.due()
    now += 60
    assert kept.due()

    times = iter([2000.0, 2010.0])  # before and after writing
    kept.clock = lambda: next(times)
    kept.save(STATE)
    assert kept.next == 2010 + 200
    kept.clock = lambda: 3000.0
    kept.path = tmp_path / "missing" / "kept.partial"
    kept.save(STATE)
    assert kept.next == 3060.0


MODEL = """
    import os, random
    import numpy
    from torch import nn

    class M(nn.Module):
        def __init__(self, vocab_size: int) -> None:
            super().__init__()
            self.embedding = nn.Embedding(vocab_size, 8)
            self.drop = nn.Dropout(0.3)
            self.rnn = nn.GRU(8, 8, batch_first=True)
            self.out = nn.Linear(8, vocab_size)

        def forward(self, tokens):
            if self.training and len(tokens) == 7:  # no other batch has that size
                with open(os.environ["STEPS"], "a") as file:
                    file.write("x")
            x = self.drop(self.embedding(tokens))
            if self.training:
                x = x + random.random() + numpy.random.normal()
            return self.out(self.rnn(x)[0])
"""

KILLED = """
import os, signal, sys
from harness import partial
from harness.cli import main

save, saves = partial.Partial.save, 0
def then_die(self, state):
    global saves
    save(self, state)
    saves += 1
    if saves == 5:
        os.kill(os.getpid(), signal.SIGKILL)

partial.Partial.due = lambda self: True
partial.Partial.save = then_die
main()
"""


def command(model: str, out: Path) -> list[str]:
    words = ["run", "--model", model, "--task", SHORT, "--probe", "accuracy", "--probe", "grad_reach", "--seeds=1"]
    training = "steps=12,batch_size=7,validate_every=5,patience=5,warmup=8"
    words += ["--training", training]
    return [*words, "--examples=16", "--executor=local", "--out", str(out)]


def results(out: Path) -> tuple[Any, ...]:
    def told(record: Record) -> str:
        return record.model_dump_json(include={"id", "status", "measurements", "data"})

    checkpoints = {path.name: path.read_bytes() for path in (out / "checkpoints").iterdir()}
    records = list(RunDirectory(out).read_records())
    trained = [record.trained.model_dump(exclude={"seconds"}) for record in records if record.trained]
    return checkpoints, [told(record) for record in records], trained


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
def test_a_run_that_was_killed_goes_on_and_ends_as_if_it_had_not_been(
    tmp_path: Path, plugin_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`harness run`, killed in the midst of training: the same command takes the steps that are left, and checkpoint
    and records are those of a run that nobody killed; nothing else is left in the directory."""
    steps, model, out = tmp_path / "steps", plugin_file(MODEL) + ":M", tmp_path / "killed"
    monkeypatch.setenv("STEPS", str(steps))
    killed = subprocess.run([sys.executable, "-c", KILLED, *command(model, out)], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (kept,) = (out / "checkpoints").iterdir()
    assert kept.suffix == ".partial"
    assert steps.read_text(encoding="utf-8") == "x" * 5

    whole = tmp_path / "whole"
    both = (
        f"import sys; from harness.cli import main; main({command(model, out)}, standalone_mode=False); "
        f"main({command(model, whole)}, standalone_mode=False); sys.exit('sympy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", both], check=True, capture_output=True)
    assert steps.read_text(encoding="utf-8") == "x" * (5 + 7 + 12)
    again = results(out)
    assert again == results(whole)
    assert list(again[0]) == [kept.with_suffix(".safetensors").name]


def test_what_was_kept_of_a_training_that_cannot_go_on_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is built anew and trained from the start, whatever was changed in it before that was noticed."""
    monkeypatch.setattr(partial, "EVERY", 0.0)
    monkeypatch.setattr(Partial, "remove", lambda self: None)
    settings: dict[str, Any] = {"tasks": [SHORT], "seeds": 1, "training": {"steps": 12}, "examples": 16}
    harness.run(["gpt:dropout=0.1"], out=tmp_path, **settings)
    monkeypatch.undo()
    whole = results(tmp_path)
    (path,) = (tmp_path / "checkpoints").glob("*.partial")
    kept = Partial(path, path.stem)
    state = kept.load()
    assert state is not None
    state["random"]["python"] = "nonsense"
    kept.save(state)
    for file in (*(tmp_path / "checkpoints").glob("*.safetensors"), *(tmp_path / "records").iterdir()):
        file.unlink()
    harness.run(["gpt:dropout=0.1"], out=tmp_path, **settings)
    checkpoints, *rest = results(tmp_path)
    whole[0].pop(path.name)
    assert (checkpoints, *rest) == whole
