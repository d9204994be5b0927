"""Classes and functions that are given as they are, as in a notebook: measured, told from older ones, or refused."""

import importlib
import linecache
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import SHORT
from harness_plugins.models.lstm import LSTM

import harness
from harness import RequestError
from harness.given import object_digest
from harness.plan import make_plan
from harness.registry import default_registry
from harness.requests import build_suite
from harness.store import RunDirectory

QUICK: dict[str, Any] = {"seeds": 1, "examples": 8, "training": {"steps": 1, "batch_size": 4}}

Cell = Callable[..., dict[str, Any]]

LAYER = """
import torch
from torch import nn
WIDTH = 4

class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.write = nn.Linear(WIDTH, size)

    def forward(self, x):
        return self.write(x)
"""
NET = """
class Net(nn.Module):
    def __init__(self, vocab_size: int, *, depth: int = 1):
        super().__init__()
        self.read = nn.Embedding(vocab_size, WIDTH)
        self.last = Layer(vocab_size)

    def forward(self, tokens):
        return self.last(self.read(tokens))
"""
MORE = """
from harness import Scalar
from harness_plugins.tasks.recall import Recall

class Copy(Recall):
    check_arguments = None

    def __init__(self, *, longest: int = 3):
        super().__init__(train_max=longest, distances=[1, longest])

def ones(subject):
    yield Scalar(name="one", unit="", value=1.0)
"""


@pytest.fixture
def cell() -> Cell:
    """Runs cells of one notebook: there is no file, and the text is where Python looks for it."""
    notebook: dict[str, Any] = {"__name__": "__main__"}
    number = 0

    def run(*sources: str, hidden: bool = False) -> dict[str, Any]:
        nonlocal number
        for source in sources:
            number += 1
            name = "<string>" if hidden else f"<cell {number}>"
            if not hidden:
                linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            exec(compile(source, name, "exec"), notebook)
        return notebook

    return run


def trial_id(model: Any) -> str:
    return make_plan(build_suite(model, SHORT, seeds=1), default_registry()).trials[0].trial.id


def test_code_of_a_notebook_is_measured_as_it_stands(cell: Cell, tmp_path: Path) -> None:
    """Model, task and probe; arguments are validated as ever, and tables say the name of the class."""
    here = cell(LAYER, NET, MORE)
    models = [here["Net"], partial(here["Net"], depth=2)]
    results = harness.run(models, here["Copy"], [here["ones"], "accuracy"], out=tmp_path, **QUICK)
    assert [record.status for record in results] == ["ok"] * 4
    assert {(r.model.label, r.task.label) for r in results} == {("Net", "Copy"), ("Net:depth=2", "Copy")}
    assert len(results.filter(model=["Net", "Net:depth=2"], probe="ones")) == 2
    assert [record.model.label for record in harness.load(tmp_path).filter(model="Net:depth=2")] == ["Net:depth=2"] * 2
    assert "Net:depth=2" in results.render()
    aliased = harness.run({"deep": partial(here["Net"], depth=2)}, here["Copy"], out=tmp_path, **QUICK)
    assert aliased.records[0].id in {record.id for record in results}
    with pytest.raises(RequestError, match="Did you mean 'depth'"):
        harness.run(partial(here["Net"], detph=2), out=tmp_path)


@pytest.mark.parametrize(
    "edited",
    [
        [LAYER, NET.replace("depth: int = 1", "depth: int = 2")],
        [LAYER.replace("return self.write(x)", "return -self.write(x)"), NET],
        [LAYER.replace("WIDTH = 4", "WIDTH = 5"), NET],
    ],
)
def test_an_edited_cell_is_measured_anew(cell: Cell, edited: list[str]) -> None:
    """That of the class, and those of what it uses."""
    before = trial_id(cell(LAYER, NET)["Net"])
    assert trial_id(cell(*edited)["Net"]) != before
    assert trial_id(cell(LAYER, NET)["Net"]) == before


USES = """
import collections, contextvars, functools, os, threading, types
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple
import numpy

@dataclass
class Size:
    width: int = 3
    kind: str = "plain"

class Pair(NamedTuple):
    width: int
    def twice(self):
        return 2 * self.width

class Word(str):
    pass

class Child:
    def __init__(self, number, parent=None):
        self.number, self.parent = number, parent
        self.children = [] if parent else [Child(number + 1, self)]

def linked(number):
    made = [number]
    return made + [made.append(made) or made]

def grow(x: torch.Tensor) -> torch.Tensor:
    return x * 2

def shrink(x: torch.Tensor) -> torch.Tensor:
    return x / 2

def normed(value):
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(value)
    return nn.utils.parametrizations.weight_norm(layer)

def times(number):
    def around(function):
        @functools.wraps(function)
        def wrapped(x):
            return number * function(x)
        return wrapped
    return around

def orthogonal(weight):
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.data = weight
    return nn.utils.parametrizations.orthogonal(layer, use_trivialization=False)

class Base(nn.Module):
    def __init__(self, vocab_size: int):
        super().__init__()
        self.read = nn.Embedding(vocab_size, vocab_size)
        self.used = USED

    def forward(self, tokens):
        return self.read(tokens)

def make(width, base=nn.Module):
    class Net(base):
        kept = width
        def __init__(self, vocab_size: int):
            super().__init__()
            self.read = nn.Embedding(vocab_size, width)
            self.last = nn.Linear(width, vocab_size)

        def forward(self, tokens):
            return self.last(self.read(tokens))
    return Net
"""


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Size(3)", "Size(4)"),
        ("[Size(3)]", "[Size(4)]"),
        ("{'a', 'b'}", "{'a', 'c'}"),
        ("numpy.zeros(5000)", "numpy.arange(5000) // 2500"),
        ("torch.zeros(3)", "torch.zeros(4)"),
        ("torch.zeros(3, dtype=torch.bfloat16)", "torch.ones(3, dtype=torch.bfloat16)"),
        ("functools.partial(nn.Linear, 3)", "functools.partial(nn.Linear, 4)"),
        ("lambda x: x + 1", "lambda x: x + 2"),
        ("functools.cache(lambda x: x + 1)", "functools.cache(lambda x: x + 2)"),
        ("SimpleNamespace(width=3)", "SimpleNamespace(width=4)"),
        ("nn.ParameterList([torch.ones(1)])", "nn.ParameterList([torch.zeros(1)])"),
        ("make(3)", "make(4)"),
        ("nn.functional.relu", "nn.functional.gelu"),
        ("torch.exp", "torch.tanh"),
        ("Pair(3)", "Pair(4)"),
        ("Word('a')", "Word('b')"),
        ("collections.defaultdict(lambda: 0)", "collections.defaultdict(lambda: 1)"),
        ("10**5000", "10**5001"),
        ("linked(1)", "linked(2)"),
        ("Child(1)", "Child(2)"),
        ("{'f': functools.cache(lambda x: x + 1)}", "{'f': functools.cache(lambda x: x + 2)}"),
        ("times(2)(grow)", "times(3)(grow)"),
        ("torch.no_grad()(lambda x: x + 1)", "torch.no_grad()(lambda x: x + 2)"),
        ("torch.ones(1, dtype=torch.cfloat).conj()", "torch.zeros(1, dtype=torch.cfloat).conj()"),
        ("normed(1.0)", "normed(2.0)"),
        ("torch.jit.script(grow)", "torch.jit.script(shrink)"),
        ("torch.jit.script(nn.ReLU())", "torch.jit.script(nn.ReLU6())"),
        ("torch.library.custom_op('given::one', grow, mutates_args=())", "grow"),
        ("torch.ops.aten.add", "torch.ops.aten.mul"),
        ("orthogonal(torch.eye(2))", "orthogonal(-torch.eye(2))"),
        ("torch.finfo(torch.float32)", "torch.finfo(torch.float16)"),
        ("types.MappingProxyType({'a': 1})", "types.MappingProxyType({'a': 2})"),
        ("open(os.devnull, encoding='utf-8')", "open(__import__('harness').__file__, encoding='utf-8')"),
        ("torch.empty(3, device='meta')", "torch.empty(4, device='meta')"),
        ("torch.eye(3).to_sparse()", "torch.ones(3, 3).to_sparse()"),
        ("contextvars.ContextVar('a')", "contextvars.ContextVar('b')"),
    ],
)
def test_whatever_a_model_uses_counts(cell: Cell, one: str, other: str) -> None:
    """By its content, which is the same each time that it is made."""
    first, again, changed = (trial_id(cell(LAYER, USES, f"USED = {each}")["Base"]) for each in (one, one, other))
    assert first == again != changed


def test_what_a_class_has_from_the_function_around_it_counts(cell: Cell) -> None:
    """Values and classes."""
    made = cell(LAYER, USES, "USED = 1")
    make, base = made["make"], made["Base"]
    ids = [trial_id(each) for each in (make(3), make(3), make(4), make(3, base))]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


@pytest.mark.parametrize("wrapped", ["times(2)(grow)", "[times(2)(grow)]"])
def test_what_a_function_is_wrapped_in_counts(cell: Cell, wrapped: str) -> None:
    """Not only what it wraps."""
    edited = USES.replace("return number * function(x)", "return number + function(x)")
    first, again, changed = (trial_id(cell(LAYER, each, f"USED = {wrapped}")["Base"]) for each in (USES, USES, edited))
    assert first == again != changed


def test_an_older_one_of_the_same_name_counts(cell: Cell) -> None:
    """Where the notebook has kept it."""
    f, g, later = "def f(x): return x + 1", "def f(x): return x + 2", "def f(x): return x + 3"
    ids = [trial_id(cell(LAYER, USES, a, "OLD = f", b, "USED = [OLD, f]")["Base"]) for a, b in ((f, later), (g, later))]
    assert ids[0] != ids[1]


def test_a_class_without_a_module_is_measured() -> None:
    """As `exec` and `runpy` leave it."""
    source = "class Empty:\n    pass\n"
    linecache.cache["<gone>"] = (len(source), None, source.splitlines(keepends=True), "<gone>")
    here: dict[str, Any] = {"__name__": "gone"}
    exec(compile(f"{source}def f(): return Empty", "<gone>", "exec"), here)
    assert object_digest(here["Empty"]) == object_digest(here["Empty"])


def test_what_has_no_content_is_refused(cell: Cell, tmp_path: Path) -> None:
    """Before anything is written, with what to do instead; what is only called like a value of the notebook is not
    meant."""
    with pytest.raises(RequestError, match=r"'Base' uses 'USED', whose content can be no part of an id.* argument"):
        harness.run(cell(LAYER, USES, "USED = threading.Lock()")["Base"], SHORT, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    deep = "USED = []\nfor _ in range(100_000): USED = [USED]"
    for used in (deep, "USED = (x for x in [])"):
        with pytest.raises(RequestError, match="'Base' uses 'USED', whose content can be no part"):
            trial_id(cell(LAYER, USES, used)["Base"])
    assert trial_id(cell(LAYER, NET, "x = tokens = threading.Lock()")["Net"])


def test_what_a_model_does_not_use_does_not_count(cell: Cell) -> None:
    """Neither another cell nor another line of its own cell, such as the call of the run."""
    before = trial_id(cell(LAYER, NET)["Net"])
    assert trial_id(cell("OTHER = 5", f"{NET}\nseeds = 7\n")["Net"]) == before


def test_a_module_of_ones_own_counts(
    cell: Cell, plugin_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By its text, where the class uses it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    ids = set()
    for name, width in (("own_one", 3), ("own_two", 4)):
        plugin_file(f"class Own:\n    def width(self): return {width}\ndef width(): return Own().width()", f"{name}.py")
        for used in ("own.width()", "OWN.width()"):
            cells = LAYER, f"import {name} as own\nOWN = own.Own()", NET.replace("WIDTH", used)
            ids.add(trial_id(cell(*cells)["Net"]))
    assert len(ids) == 4


def test_what_other_processes_would_not_find_is_refused(cell: Cell, tmp_path: Path) -> None:
    """Before anything is written; timing, which needs another process too, says why it is skipped."""
    here = cell(LAYER, NET, MORE)
    for models, tasks, probes in ((here["Net"], SHORT, "accuracy"), ("lstm", here["Copy"], "accuracy")):
        with pytest.raises(
            RequestError, match=r"known to this process alone.*executor='local', or ask for it by its file"
        ):
            harness.run(models, tasks, probes, executor="processes", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    (timed,) = harness.run(here["Net"], SHORT, "speed", out=tmp_path, **QUICK)
    assert timed.status == "skipped"
    assert "Net is known to this process alone" in str(timed.reason)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda here: here["Net"](8), r"'Net' is given as an object; give the class, .*functools.partial\(Net, "),
        (lambda here: [here["Net"](8)], "give the class"),
        (lambda here: partial(here["Net"], 8), r"arguments by name with functools.partial\(Net"),
        (lambda here: lambda vocab_size: None, "needs a name .* def instead of lambda"),
        (lambda here: [here["Net"], here["Again"]], "two models are called 'Net'"),
        (lambda here: here["lstm"], "there is a model 'lstm' already"),
        (lambda here: here["Hidden"], "the text of model 'Hidden' cannot be found"),
    ],
)
def test_what_cannot_be_given_is_refused(cell: Cell, make: Callable[..., Any], said: str, tmp_path: Path) -> None:
    """In one sentence that says what to give instead."""
    again = cell(LAYER, NET)["Net"]
    here = {**cell(NET, NET.replace("class Net", "class lstm")), "Again": again}
    here |= {"Hidden": cell(NET.replace("class Net", "class Hidden"), hidden=True)["Hidden"]}
    with pytest.raises(RequestError, match=said):
        harness.run(make(here), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_other_text_is_not_taken_for_that_of_a_class(
    cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text without a file has one name for all of it, and Python 3.13 keeps that of `python -c` under it."""
    other = "print('something else')\n"
    monkeypatch.setitem(linecache.cache, "<string>", (len(other), None, [other], "<string>"))
    cell(LAYER)
    hidden = cell(NET.replace("class Net", "class Hidden"), hidden=True)["Hidden"]
    with pytest.raises(RequestError, match="the text of model 'Hidden' cannot be found"):
        harness.run(hidden, out=tmp_path / "run")


def test_what_can_be_imported_is_found_everywhere(tmp_path: Path) -> None:
    """Under the name that the command line has for it, in worker processes too."""
    name = "harness_plugins.models.lstm:LSTM"
    assert trial_id(partial(LSTM, hidden=4)) == trial_id(f"{name}:hidden=4")
    results = harness.run(
        partial(LSTM, hidden=4), SHORT, jobs=2, executor="processes", out=tmp_path, **QUICK | {"seeds": 2}
    )
    assert [(record.model.label, record.status) for record in results] == [(f"{name}:hidden=4", "ok")] * 2


def test_so_is_what_is_imported_from_a_file_beside_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the script, or the notebook, runs in its own folder."""
    (tmp_path / "nets_beside.py").write_text(
        "from harness_plugins.models.lstm import LSTM as Base\n\nclass Net(Base): ...\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    net = importlib.import_module("nets_beside").Net
    results = harness.run(net, SHORT, executor="processes", out=tmp_path / "run", **QUICK)
    assert [(record.model.label, record.status) for record in results] == [("nets_beside:Net", "ok")]


def test_a_model_that_changes_what_it_uses_is_told_so(cell: Cell, tmp_path: Path) -> None:
    """Its next trial would begin with what this one has left."""
    forward = "def forward(self, tokens):\n"
    source = "cache = []\n" + NET.replace(forward, forward + "        cache.append(len(tokens))\n")
    results = harness.run(cell(LAYER, source)["Net"], SHORT, out=tmp_path, **QUICK | {"seeds": 2})
    assert [record.status for record in results] == ["ok", "failed"]
    assert results.records[1].error is not None
    assert "has to be made inside of it" in results.records[1].error.message


def test_the_suite_of_given_code_is_kept(cell: Cell, tmp_path: Path) -> None:
    """As any other, so that reports in later processes have its order."""
    harness.run(cell(LAYER, NET)["Net"], SHORT, out=tmp_path, **QUICK)
    kept = RunDirectory(tmp_path).read_suite()
    assert kept is not None
    assert str(kept.experiments[0].models[0]) == "Net"
