"""Source of models, probes and tasks that change what is not theirs, and of those that do not; and runs of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
from harness.results import Results

MODEL = """
import torch
import torch.nn.functional as F
from torch import nn
{top}

class M(nn.Module):
    depth = 1

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        {construct}
        self.scale = 1.5
        self.sizes = [1, 2]
        self.words = [str(number) for number in range(1000)]
        self.register_buffer("shift", torch.zeros(8), persistent=False)
        self.embedding = nn.Embedding(vocab_size, 8)
        self.dropout = nn.Dropout(0.1)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.out = nn.Linear(8, vocab_size)

    def forward(self, tokens):
        {forward}
        x = self.dropout(self.embedding(tokens)) * self.scale + self.shift
        x = torch.tanh(self.rnn(x)[0]) * self.depth
        return self.out(F.gelu(x))
"""

PROBES = """
import os, random, signal, sys, warnings
import numpy
import torch
import torch.nn.functional as F
from torch import nn
import harness.subject, harness.training
from harness import Scalar, Skip, Subject, Task
"""

LOOK = """
def look(subject, *, turn: int):
    model, task = subject.model, subject.task
    numbers = []
    for condition in task.conditions():
        batch = subject.batch(condition)
        numbers += [batch.tokens.sum(), batch.targets.sum(), model(batch.tokens).double().sum()]
        numbers += [each.double().sum() for each in subject.scores(condition).values()]
        numbers += [torch.cumsum(torch.rand(3), 0).sum(), torch.rand(1).cumsum(0)[0]]
        model.train()
        loss = task.loss(model(batch.tokens), batch)
        numbers += [loss.detach(), torch.autograd.grad(loss, model.embedding.weight)[0].sum()]
        model.eval()
    numbers += [torch.ones(2).mean().dtype.itemsize, numpy.random.rand(), os.getcwd() == "/"]
    for place, value in enumerate(numbers):
        yield Scalar(name=f"number {place}", unit="", value=float(torch.as_tensor(value).detach()))

look.stages = ("initial", "trained")
"""
"""An innocent probe, which sees all that others could have changed. It has its turn as often as it is asked for."""

TASK = "recall:train_max=2,distances=[1,4]"

TINY = {"steps": 2, "batch_size": 4, "validate_every": 2}

Write = Callable[..., str]


def model_source(top: str = "", construct: str = "pass", forward: str = "pass") -> str:
    return MODEL.format(top=top, construct=construct, forward=forward)


def vandal(name: str, body: str) -> str:
    """The source of a probe."""
    lines = ["model, task = subject.model, subject.task", "conditions = task.conditions()", *body.splitlines()]
    inner = "".join(f"    {line}\n" for line in [*lines, "return []"])
    return f'def {name}(subject):\n{inner}\n{name}.stages = ("initial", "trained")\n'


def run(model: str | list[str], out: Path, probes: list[str], **more: Any) -> Results:
    settings: dict[str, Any] = {"tasks": [TASK], "seeds": 1, "training": TINY, "examples": 4} | more
    return harness.run([model] if isinstance(model, str) else model, probes=probes, out=out, **settings)


LEFT = "torch.set_default_dtype(torch.float64)"

TASK_SOURCE = """
import torch
from harness_plugins.tasks.recall import Recall

class T(Recall):
    check_arguments = None

    def __init__(self) -> None:
        {construct}
        super().__init__(train_max=2, distances=[1, 4])

    def evaluate(self, condition, examples, generator):
        {evaluate}
        return super().evaluate(condition, examples, generator)
"""
