"""Whatever a model or a probe does, it costs its own cells: they fail, are skipped or carry a warning, and say why."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import SMALL
from small_runs import MODEL, numbers, run, statuses

from harness import runner
from harness.measurements import Curve


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


@pytest.mark.parametrize(
    ("construct", "said"),
    [
        ("self.lazy = nn.LazyLinear(8)", ""),
        ("self.register_buffer('sparse', torch.eye(3).to_sparse(), persistent=False)", ""),
        (
            "type(self).get_extra_state = lambda self: {'n': 3}",
            "checkpoint: TypeError: _extra_state of its state_dict()",
        ),
        (
            "both = torch.ones(3, 4); self.a, self.b = nn.Parameter(both[:, :2]), nn.Parameter(both[:, 2:])",
            "being written to its checkpoint",
        ),
    ],
)
def test_unusual_parameters_are_kept_or_named(
    tmp_path: Path, plugin_file: Callable[..., str], construct: str, said: str
) -> None:
    """Those that have no size before the first pass, and what no checkpoint can hold."""
    forward = "logits = logits + self.lazy(logits).sum(-1, keepdim=True) if hasattr(self, 'lazy') else logits"
    path = plugin_file(MODEL.format(construct=construct, forward=forward))
    (record,) = run([f"{path}:M"], tmp_path / "run")
    assert (record.status, record.error is None) == (("failed", False) if said else ("ok", True)), record.error
    assert record.error is None or (said in record.error.message and "plugin.py:M" in record.error.message)


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
    construct = "self.register_buffer('trained', torch.tensor(False))"
    path = plugin_file(MODEL.format(construct=construct, forward=forward.strip()))
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
        (
            "from harness import Scalar\nfrom itertools import count\n"
            "def p(subject):\n    for n in count():\n        yield Scalar(name=str(n), unit='', value=n)",
            "it gave more than 100,000 measurements",
        ),
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


def test_measurements_are_validated_before_they_are_written(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """Also those that a probe changed behind the schema's back."""
    source = """
    from harness import Scalar
    def p(subject):
        return [Scalar(name="a", unit="", value=1).model_copy(update={"value": object()})]
    """
    results = run(["lstm:hidden=8"], tmp_path / "run", probes=[plugin_file(source) + ":p", "accuracy"])
    assert statuses(results) == ["failed", "ok"]
