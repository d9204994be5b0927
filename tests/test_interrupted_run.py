"""A run that was killed in the midst of training goes on, and leaves what a run leaves that nobody killed."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import SHORT

import harness
from harness import partial
from harness.partial import Partial
from harness.schema import Record
from harness.store import RunDirectory

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
