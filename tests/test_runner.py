"""Whatever a plugin does, every cell gets its record, and nothing that was measured is lost or measured twice."""

import io
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import SHORT, SMALL

import harness
from harness import runner
from harness.blame import Aside
from harness.results import Results
from harness.schema import Curve, Record

MODEL = """
    import torch
    from torch import nn

    class M(nn.Module):
        def __init__(self, vocab_size: int) -> None:
            super().__init__()
            {construct}
            self.embedding = nn.Embedding(vocab_size, 8)
            self.out = nn.Linear(8, vocab_size)

        def forward(self, tokens):
            logits = self.out(self.embedding(tokens).cumsum(1))
            {forward}
            return logits
"""


def run(models: list[str], out: Path, **more: Any) -> Results:
    settings: dict[str, Any] = {"tasks": [SHORT], "seeds": 1, "training": SMALL, "examples": 64} | more
    return harness.run(models, out=out, **settings)


def numbers(record: Record) -> str:
    """The measurements as they are written; unlike floats, equal where both are NaN."""
    return record.model_dump_json(include={"measurements"})


def statuses(results: Any) -> list[str]:
    return [record.status for record in results]


def test_a_run_gives_a_record_for_every_cell(tmp_path: Path) -> None:
    """With resolved arguments, parameter count, training outcome, measurements, timing and provenance."""
    results = run(["lstm:hidden=8"], tmp_path, probes=["accuracy", "grad_reach"])
    assert [(r.probe.name, r.stage) for r in results] == [
        ("accuracy", "trained"),
        ("grad_reach", "initial"),
        ("grad_reach", "trained"),
    ]
    record = results.records[0]
    assert record.status == "ok"
    assert record.model.arguments["hidden"] == 8
    assert record.model.distribution == "sequence-harness"
    assert record.model.parameters == 18 * 32 + 4 * 8 * (32 + 8 + 2) + 18 * 9
    assert record.trained is not None
    assert record.trained.steps == SMALL["steps"]
    assert record.data
    assert record.provenance.torch == torch.__version__
    assert results.records[1].trained is None
    assert sorted(p.stem for p in (tmp_path / "records").glob("*.json")) == sorted(r.id for r in results)


def test_the_same_cell_gives_the_same_numbers(tmp_path: Path) -> None:
    """Alone, after others, beside other probes, with another global random state: bit for bit."""
    torch.manual_seed(1)
    alone = run(["lstm:hidden=8"], tmp_path / "a")
    torch.manual_seed(2)
    among = run(["gpt:layers=1", "lstm:hidden=8"], tmp_path / "b", probes=["grad_reach", "accuracy"])
    again = among.filter(model="lstm", probe="accuracy")
    assert numbers(alone.records[0]) == numbers(again.records[0])
    assert alone.records[0].id == again.records[0].id
    assert alone.records[0].data == among.filter(model="gpt").records[0].data


def test_worker_processes_give_the_same_records(tmp_path: Path) -> None:
    """`--jobs 2` changes the wall time and nothing else."""
    options: dict[str, Any] = {"models": ["lstm:hidden=8"], "seeds": 2, "probes": ["accuracy"]}
    one = run(out=tmp_path / "one", jobs=1, **options)
    two = run(out=tmp_path / "two", jobs=2, executor="processes", **options)
    assert [(r.id, numbers(r)) for r in one] == [(r.id, numbers(r)) for r in two]


def test_running_again_measures_nothing_again(tmp_path: Path) -> None:
    """Records are kept, and a second probe reuses the trained model of the first."""
    first = run(["lstm:hidden=8"], tmp_path)
    assert run(["lstm:hidden=8"], tmp_path).records == first.records
    more = run(["lstm:hidden=8"], tmp_path, probes=["accuracy", "grad_reach"])
    assert more.records[0] == first.records[0]
    assert more.records[2].trained == first.records[0].trained  # the seconds too: it was not trained again
    anew = run(["lstm:hidden=8"], tmp_path, fresh=True)
    assert anew.records[0].provenance.finished > first.records[0].provenance.finished


def test_a_reloaded_model_measures_the_same(tmp_path: Path) -> None:
    """A checkpoint holds the whole model, shared parameters included."""
    probes = ["accuracy", "grad_reach"]
    together = run(["gpt:layers=1"], tmp_path / "a", probes=probes)
    run(["gpt:layers=1"], tmp_path / "b", probes=probes[:1])
    apart = run(["gpt:layers=1"], tmp_path / "b", probes=probes)
    assert numbers(together.records[2]) == numbers(apart.records[2])


def test_a_torn_record_is_measured_again(tmp_path: Path) -> None:
    """Half a file counts as nothing."""
    first = run(["lstm:hidden=8"], tmp_path)
    path = tmp_path / "records" / f"{first.records[0].id}.json"
    path.write_text(path.read_text(encoding="utf-8")[:50], encoding="utf-8")
    assert numbers(run(["lstm:hidden=8"], tmp_path).records[0]) == numbers(first.records[0])


@pytest.mark.parametrize(
    ("construct", "forward", "said"),
    [
        ("raise ValueError('no room')", "", "being constructed: ValueError: no room"),
        ("", "raise IndexError('too long')", "computing its first outputs: IndexError: too long"),
        ("", "logits = logits * float('nan')", "not finite"),
        ("", "logits = logits[:, -1]", "is expected"),
        ("", "logits = logits.argmax(-1)", "is expected"),
        ("", "if self.training: raise OSError('disk')", "training on"),
        ("", "if self.training: logits = logits / 0", "at step 1;"),
        ("", "if self.training: import sys; sys.exit(0)", "training on"),
    ],
)
def test_a_broken_model_fails_its_own_cells(
    tmp_path: Path, plugin_file: Callable[..., str], construct: str, forward: str, said: str
) -> None:
    """Whatever it does, the message says what it was doing, and the other models are measured."""
    path = plugin_file(MODEL.format(construct=construct or "pass", forward=forward or "pass"))
    results = run([f"{path}:M", "lstm:hidden=8"], tmp_path / "run")
    assert statuses(results) == ["failed", "ok"]
    error = results.records[0].error
    assert error is not None
    assert said in error.message
    assert error.traceback


@pytest.mark.parametrize("distances", [[1, 5, 10], [10]])
@pytest.mark.parametrize("beyond", ["tokens.shape[1] > 9", "tokens.shape[1] > 9 and self.trained"])
def test_what_is_nan_beyond_the_trained_range_is_a_result(
    tmp_path: Path, plugin_file: Callable[..., str], distances: list[int], beyond: str
) -> None:
    """From the start, or after training; also where nothing else is asked. No probe and no report stumbles over it."""
    forward = f"""
            self.trained |= self.training
            x = logits[:, None]
            logits = nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)[:, 0]
            logits = logits * float("nan") if {beyond} else logits
    """
    path = plugin_file(MODEL.format(construct="self.trained = False", forward=forward.strip()))
    probes = ["accuracy", "grad_reach", "edge_cut", "attention_to_subject", "input_swap", "position_extrapolation"]
    task = f"recall:train_max=5,distances={distances}".replace(" ", "")
    results = run([f"{path}:M"], tmp_path / "run", tasks=[task], probes=probes)
    assert [record.error for record in results if record.error] == []
    (scores,) = results.filter(probe="accuracy").records
    loss = [
        value for each in scores.measurements if isinstance(each, Curve) and each.name == "loss" for value in each.y
    ]
    assert [math.isnan(value) for value in loss] == ([False, False, True] if len(distances) > 1 else [])
    assert results.render("csv")


def test_a_model_that_does_not_import_fails_its_own_cells(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """The plan goes on without it."""
    results = run([plugin_file("1 / 0") + ":M", "lstm:hidden=8"], tmp_path / "run")
    assert statuses(results) == ["failed", "ok"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def p(subject):\n    raise KeyError('head 9')", "KeyError: 'head 9' (at plugin.py:2)"),
        ("def p(subject):\n    return [1.0]", "a probe yields Scalar, Curve, Matrix or Pattern"),
        ("from harness import Scalar\ndef p(subject):\n    return [Scalar(name='a', unit='', value=1)] * 2", "twice"),
        ("def p(subject): ...\np.needs = ('atention',)", "Did you mean 'attention'"),
        ("from harness import Scalar\ndef p(subject):\n    return [Scalar(name=[], unit='', value=1)]", "plugin.py:3"),
    ],
)
def test_a_broken_probe_fails_its_own_cells(
    tmp_path: Path, plugin_file: Callable[..., str], source: str, said: str
) -> None:
    """The other probes of the trial are measured, on the same trained model."""
    results = run(["lstm:hidden=8"], tmp_path / "run", probes=[plugin_file(source) + ":p", "accuracy"])
    assert statuses(results) == ["failed", "ok"]
    assert results.records[0].error is not None
    assert said in results.records[0].error.message


def test_a_failed_cell_is_tried_again(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """What failed for want of a file or memory can be run again by the same command; what is ok stays."""
    flag = tmp_path / "flag"
    source = f"""
    from pathlib import Path
    from harness import Scalar
    def p(subject):
        Path({str(flag)!r}).read_text()
        yield Scalar(name="a", unit="", value=1)
    """
    probe = plugin_file(source) + ":p"
    first = run(["lstm:hidden=8"], tmp_path / "run", probes=[probe, "accuracy"])
    flag.write_text("there", encoding="utf-8")
    second = run(["lstm:hidden=8"], tmp_path / "run", probes=[probe, "accuracy"])
    assert (statuses(first), statuses(second)) == (["failed", "ok"], ["ok", "ok"])
    assert first.records[1] == second.records[1]


def test_what_cannot_be_asked_is_skipped_without_training(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """A need that is not met, or a reason the probe itself gives: `skipped`, with the reason."""
    needs = "def p(subject): ...\np.needs = ('roles',)"
    says = "from harness import Skip\ndef q(subject):\n    raise Skip('no gates')"
    probes = [plugin_file(needs, "a.py") + ":p", plugin_file(says, "b.py") + ":q"]
    results = run(["lstm:hidden=8"], tmp_path / "run", probes=probes)
    assert statuses(results) == ["skipped", "skipped"]
    assert [r.reason for r in results] == ["the task names no token roles", "no gates"]
    only = run(["lstm:hidden=8"], tmp_path / "only", probes=probes[:1])
    assert only.records[0].trained is None
    assert not list((tmp_path / "only" / "checkpoints").iterdir())


def test_a_task_with_vectors_skips_models_of_tokens(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """An interface that does not fit is no failure of either side; a model that accepts vectors is measured."""
    task = """
    import torch
    from harness import Batch, Condition, Interface, Metric, Task

    class Sum(Task):
        interface = Interface(2, 1, input="vectors", output="numbers")
        metrics = {"error": Metric("", higher_is_better=False)}
        def train(self, batch_size, generator):
            while True:
                yield self.evaluate(None, batch_size, generator)
        def conditions(self):
            return [Condition(3, inside=True)]
        def evaluate(self, condition, examples, generator):
            x = torch.rand(examples, 3, 2, generator=generator)
            return Batch(x, x.sum(-1, keepdim=True), torch.ones(examples, 3, dtype=torch.bool))
        def loss(self, outputs, batch):
            return (outputs - batch.targets).square().mean()
        def score(self, outputs, batch):
            return {"error": (outputs - batch.targets).square().mean((1, 2))}
    """
    model = """
    from torch import nn
    from harness import Interface
    class M(nn.Linear):
        accepts = ("vectors",)
        def __init__(self, interface: Interface) -> None:
            super().__init__(interface.input_size, interface.output_size)
    """
    tokens = """
    from torch import nn
    class Tokens(nn.Embedding):
        def __init__(self, vocab_size: int) -> None:
            super().__init__(vocab_size, vocab_size)
    """
    models = [plugin_file(tokens, "tokens.py") + ":Tokens", plugin_file(model, "m.py") + ":M"]
    tasks = [plugin_file(task, "t.py") + ":Sum"]
    results = run(models, tmp_path / "run", tasks=tasks, probes=["accuracy", "grad_reach"])
    assert {r.reason for r in results.filter(model=models[0])} == {"the task gives vectors, the model accepts tokens"}
    assert set(statuses(results.filter(model=models[1]))) == {"ok"}


def test_events_reach_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracking service can be a plugin: it hears of trials, and of records that are on disk."""
    from harness.registry import default_registry

    heard: list[str] = []

    class Logger:
        @harness.hookimpl
        def harness_trial_started(self, trial: Any) -> None:
            heard.append(f"trial {trial.seed}")

        @harness.hookimpl
        def harness_record_written(self, record: Record) -> None:
            assert (tmp_path / "records" / f"{record.id}.json").exists()
            heard.append(record.status)

    manager = default_registry().manager
    plugin = Logger()
    manager.register(plugin)
    try:
        run(["lstm:hidden=8"], tmp_path)
    finally:
        manager.unregister(plugin)
    assert heard == ["trial 0", "ok"]


def test_results_filter_and_become_rows(tmp_path: Path) -> None:
    """As a library: results are records that can be narrowed down and turned into a data frame's rows."""
    results = run(["lstm:hidden=8", "lstm:hidden=4"], tmp_path, probes=["accuracy"])
    assert len(results.filter(model="lstm")) == 2
    assert [r.model.arguments["hidden"] for r in results.filter(model="lstm:hidden=4")] == [4]
    row = next(row for row in results.rows() if row["measurement"] == "accuracy")
    assert (row["model"], row["seed"], row["x"]) == ("lstm:hidden=8", 0, 1)
    assert "lstm:hidden=8" in str(results)


@pytest.mark.parametrize("steps", [0, SMALL["steps"]])
@pytest.mark.parametrize("change", ["parameter.zero_()", "parameter.data.zero_()", "parameter.data = parameter + 1"])
def test_a_probe_cannot_change_what_the_next_one_measures(
    tmp_path: Path, plugin_file: Callable[..., str], steps: int, change: str
) -> None:
    """One that leaves other weights, or training mode, behind fails; the model is as it was for all others."""
    source = f"""
    import torch
    def vandal(subject):
        with torch.no_grad():
            for parameter in subject.model.parameters():
                {change}
        subject.model.train()
        return []
    vandal.stages = ("initial", "trained")
    """
    vandal = plugin_file(source) + ":vandal"
    training = {**SMALL, "steps": steps}
    alone = run(["lstm:hidden=8"], tmp_path / "alone", training=training)
    beside = run(["lstm:hidden=8"], tmp_path / "beside", probes=[vandal, "accuracy"], training=training)
    assert statuses(beside) == ["failed", "failed", "ok"]
    assert beside.records[0].error is not None
    assert "it changed the model" in beside.records[0].error.message
    assert numbers(beside.records[2]) == numbers(alone.records[0])


def test_a_probe_that_fails_halfway_leaves_the_model_as_it_was(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """Whatever it had changed by then, a layer that it took out included."""
    source = """
    def vandal(subject):
        del subject.model.out
        raise ValueError("too late")
    """
    vandal = plugin_file(source) + ":vandal"
    model = plugin_file(MODEL.format(construct="pass", forward="pass"), "m.py") + ":M"
    alone = run([model], tmp_path / "alone")
    beside = run([model], tmp_path / "beside", probes=[vandal, "accuracy"])
    assert statuses(beside) == ["failed", "ok"]
    assert beside.records[0].error is not None
    assert "ValueError: too late" in beside.records[0].error.message
    assert numbers(beside.records[1]) == numbers(alone.records[0])


def test_a_probe_knows_how_much_training_there_was(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """Steps taken over steps that the task and the model class recommend, the model's advice first; 1 before training,
    and for a model that comes with its weights. Also after an early stop, and where a checkpoint is measured later."""
    source = """
    from harness import Scalar
    def budget(subject):
        return [Scalar(name="budget", unit="share", value=subject.budget)]
    budget.stages = ("initial", "trained")
    """
    advised = (
        MODEL.format(construct="pass", forward="pass")
        + """
        recommended_training = {"steps": 40}
    class Whole(M):
        @staticmethod
        def pretrained():
            return True
    """
    )
    path = plugin_file(advised, "m.py")
    probe = plugin_file(source) + ":budget"

    def budgets(model: str, task: str = SHORT, **training: Any) -> list[Any]:
        results = run([model], tmp_path / "run", tasks=[task], probes=[probe], training=SMALL | training)
        return [record.measurements[0].value for record in results]  # type: ignore[union-attr]

    assert budgets("lstm:hidden=4") == [1.0, 20 / 1000]
    assert budgets(f"{path}:M") == [1.0, 20 / 40]
    assert budgets(f"{path}:Whole") == [1.0]
    assert budgets("lstm:hidden=4", "farm_agreement:sentences=100") == [1.0, 20 / (5 * 2)]
    early: dict[str, Any] = {"steps": 1000, "patience": 1, "validate_every": 1, "lr": 10.0}
    assert budgets("lstm:hidden=4", **early)[1] < 0.1
    run(["lstm:hidden=5"], tmp_path / "run")
    assert budgets("lstm:hidden=5") == [1.0, 20 / 1000]


def test_a_model_that_is_no_fair_subject_is_said_to_be(
    tmp_path: Path, plugin_file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One that sees the future, and prints: in every record of its trial, and when more is measured later."""
    ahead = "print('forward'); logits = logits + logits.mean(1, keepdim=True)"
    probes = [plugin_file("def p(subject):\n    1 / 0", "p.py") + ":p", "attention_to_subject", "grad_reach"]
    models = [plugin_file(MODEL.format(construct="pass", forward=ahead)) + ":M", "lstm:hidden=8"]
    results = run(models, tmp_path / "run", probes=probes)
    assert statuses(results) == 2 * ["failed", "skipped", "ok", "ok"]
    said = [[warning[:16] for warning in record.warnings] for record in results]
    assert said == 4 * [["it is not causal"]] + 4 * [[]]
    (more,) = run(models[:1], tmp_path / "run", probes=["accuracy"]).records
    assert more.warnings == results.records[0].warnings
    assert "forward" not in capsys.readouterr().out


def test_seeds_that_make_no_difference_are_said_to_be(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """Of a model that seeds itself, and not of one that comes with its weights."""
    source = MODEL.format(construct="torch.manual_seed(0)", forward="pass")
    path = plugin_file(source + "        pass\n    class Whole(M):\n        pretrained = staticmethod(lambda: True)")
    seeded, whole = run([f"{path}:M", f"{path}:Whole"], tmp_path / "run")
    assert [warning[:18] for warning in seeded.warnings] == ["its weights do not"]
    assert whole.warnings == []


def test_looking_for_warnings_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a number nor, whatever goes wrong there, a status."""
    probes = ["accuracy", "grad_reach"]
    looked = run(["gpt:layers=1"], tmp_path / "a", probes=probes)

    def broken(*_: Any) -> list[str]:
        torch.manual_seed(99)
        raise MemoryError

    monkeypatch.setattr(runner, "inspect", broken)
    without = run(["gpt:layers=1"], tmp_path / "b", probes=probes)
    assert statuses(without) == ["ok", "ok", "ok"]
    assert [*map(numbers, looked)] == [*map(numbers, without)]


def test_no_second_model_is_kept_in_memory(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """Neither a copy nor gradients: a model may take all the memory there is for one."""
    source = """
    import gc
    import torch
    from harness import Scalar
    def copies(subject):
        gc.collect()
        tensors = [each for each in gc.get_objects() if type(each) in (torch.Tensor, torch.nn.Parameter)]
        places = {each.data_ptr() for each in tensors if each.shape == (7 * 4, 7)}
        return [Scalar(name="copies", unit="", value=len(places))]
    copies.stages = ("initial", "trained")
    """
    results = run(["lstm:hidden=7"], tmp_path / "run", probes=[plugin_file(source) + ":copies"])
    assert [record.measurements[0].value for record in results] == [1, 1]  # type: ignore[union-attr]


def test_a_progress_bar_gives_way_to_what_plugins_print(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal its line is erased first, once for each line that is printed; elsewhere nothing is added."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, erase in ((Terminal(), "\r\x1b[K"), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stream)
        aside: Any = Aside()
        print("loss", 0.5, file=aside)
        print("done", file=aside, flush=True)
        assert stream.getvalue() == f"{erase}loss 0.5\n{erase}done\n"


def test_a_listener_that_fails_is_only_warned_about(tmp_path: Path) -> None:
    """A tracking service that is down costs no measurement."""
    from harness.registry import default_registry

    class Down:
        @harness.hookimpl
        def harness_trial_started(self, trial: Any) -> None:
            raise ConnectionError("no route")

        @harness.hookimpl
        def harness_record_written(self, record: Record) -> None:
            raise ConnectionError("no route")

    manager, plugin = default_registry().manager, Down()
    manager.register(plugin)
    try:
        with pytest.warns(UserWarning, match="ConnectionError: no route"):
            results = run(["lstm:hidden=8"], tmp_path)
    finally:
        manager.unregister(plugin)
    assert statuses(results) == ["ok"]


def test_a_listener_that_leaves_something_changed_is_only_warned_about(tmp_path: Path) -> None:
    """Neither settings, nor what it does to the trial and the record that it is shown, reach a result."""
    from harness.registry import default_registry

    class Careless:
        @harness.hookimpl
        def harness_trial_started(self, trial: Any) -> None:
            torch.set_default_dtype(torch.float64)
            torch.nn.LSTM.forward = lambda self, x: x  # type: ignore[assignment]
            trial.model.arguments["hidden"] = trial.__dict__["seed"] = 7

        @harness.hookimpl
        def harness_record_written(self, record: Record) -> None:
            record.__dict__["measurements"] = []

    (alone,) = run(["lstm:hidden=8"], tmp_path / "alone")
    manager, plugin = default_registry().manager, Careless()
    manager.register(plugin)
    try:
        with pytest.warns(UserWarning, match="default dtype"):
            (record,) = run(["lstm:hidden=8"], tmp_path / "run")
    finally:
        manager.unregister(plugin)
    assert (record.id, record.error, record.measurements) == (alone.id, None, alone.measurements)


def test_a_damaged_checkpoint_is_trained_again(tmp_path: Path) -> None:
    """Half a file of parameters is no model; the numbers come out as before."""
    first = run(["gpt:layers=1"], tmp_path)
    (checkpoint,) = (tmp_path / "checkpoints").glob("*.safetensors")
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    (record,) = (tmp_path / "records").glob("*.json")
    record.unlink()
    again = run(["gpt:layers=1"], tmp_path)
    assert statuses(again) == ["ok"]
    assert numbers(again.records[0]) == numbers(first.records[0])


def test_measurements_are_validated_before_they_are_written(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """Also those that a probe changed behind the schema's back."""
    source = """
    from harness import Scalar
    def p(subject):
        return [Scalar(name="a", unit="", value=1).model_copy(update={"value": object()})]
    """
    results = run(["lstm:hidden=8"], tmp_path / "run", probes=[plugin_file(source) + ":p", "accuracy"])
    assert statuses(results) == ["failed", "ok"]
