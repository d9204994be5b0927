"""Within one trial: what one plugin does reaches no other one, and whoever does it is named."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import numbers

import harness
from harness.errors import PluginError
from harness.registry import default_registry
from harness.results import Results
from harness.settings import Settings
from harness.targets import find_entry, load_definition
from harness.traces import Traces

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With an honest model and an innocent probe."""
    folder = tmp_path_factory.mktemp("within")
    (folder / "honest.py").write_text(model_source(), encoding="utf-8")
    (folder / "look.py").write_text(PROBES + LOOK, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def clean(folder: Path) -> dict[tuple[int, str], str]:
    """What the innocent probe measures where nobody interferes, by seed and stage."""
    results = run(f"{folder}/honest.py:M", folder / "clean", [f"{folder}/look.py:look:turn=-1"], seeds=2)
    assert {record.status for record in results} == {"ok"}
    return {(record.seed, record.stage): numbers(record) for record in results}


SETTINGS = {
    "torch.set_default_dtype(torch.float64)": "default dtype at torch.float64 instead of torch.float32",
    "torch.set_default_device('meta')": "default device at meta instead of None",
    "torch.set_grad_enabled(False)": "gradient mode at False",
    "sys.kept = torch.inference_mode(); sys.kept.__enter__()": "inference mode at True",
    "torch.autocast('cpu', dtype=torch.bfloat16).__enter__()": "autocast on cpu at True",
    "torch.set_autocast_dtype('cpu', torch.float16)": "autocast's dtype on cpu at torch.float16",
    "torch.set_float32_matmul_precision('medium')": "float32 matmul precision at medium",
    "torch.backends.cudnn.deterministic = True": "torch.backends.cudnn.deterministic at True",
    "torch.backends.cudnn.benchmark = True": "torch.backends.cudnn.benchmark at True",
    "torch.backends.mkldnn.enabled = False": "torch.backends.mkldnn.enabled at False",
    "torch.backends.cuda.enable_math_sdp(False)": "torch.backends.cuda.math_sdp_enabled() at False",
    "torch.backends.mha.set_fastpath_enabled(False)": "get_fastpath_enabled() at False",
    "torch.backends.nnpack.set_flags(False)": "nnpack_enabled() at False",
    "torch._C._set_deterministic_algorithms(True, warn_only=True)": "deterministic algorithms",
    "torch.autograd.set_detect_anomaly(True)": "anomaly detection",
    "torch.set_flush_denormal(True)": "flushing of the smallest numbers",
    "import torch.overrides\ntorch.overrides.BaseTorchFunctionMode().__enter__()": "function modes at 1",
    "torch.autograd.graph.saved_tensors_hooks(abs, lambda x: x * 0).__enter__()": "hooks for saved tensors at",
    "os.chdir('/')": "the current folder at /",
}
"""What is left, and how it is called."""

FUNCTIONS = {
    "F.gelu = F.relu": "torch.nn.functional.gelu replaced",
    "torch.tanh = torch.sigmoid": "torch.tanh replaced",
    "torch.Tensor.cumsum = lambda self, dim: self": "Tensor.cumsum replaced",
    "nn.Module.__call__ = lambda self, *a, **k: self.forward(*a)": "Module.__call__ replaced",
    "nn.Module.__getattribute__ = object.__getattribute__": "Module.__getattribute__ replaced",
    "nn.modules.module.register_module_forward_hook(lambda module, args, output: output)": "forward hooks for all",
    "Subject.score = lambda self, batch: {}": "Subject.score replaced",
    "Task.loss = lambda self, outputs, batch: outputs.sum() * 0": "Task.loss replaced",
    "nn.utils.clip_grad_norm_ = lambda parameters, most: torch.zeros(())": "torch.nn.utils.clip_grad_norm_ replaced",
    "for name in ('adam', 'adamw'): setattr(sys.modules[f'torch.optim.{name}'], name, print)": "torch.optim.adam.adam",
    "torch.optim.AdamW.step = torch.optim.Adam.step = lambda self: None": "Adam.step replaced",
    "harness.training._set_learning_rate = lambda *given: None": "harness.training._set_learning_rate replaced",
    "harness.training.seeded = harness.subject.seeded = lambda *given: torch.Generator()": "harness.subject.seeded",
}

CHANGES = {
    "model.register_forward_hook(lambda module, args, output: output * 0)": "forward hooks of the model",
    "model.out.register_forward_pre_hook(lambda module, args: None)": "forward pre hooks of out",
    "model.forward = lambda tokens: 0 * tokens": "forward",
    "model.out.forward = model.out.forward": "out.forward",
    "type(model).forward = lambda self, tokens: tokens": "M.forward",
    "nn.Dropout.forward = lambda self, x: x * 0": "Dropout.forward",
    "type(model).depth = 3": "M.depth",
    "type(task).score = lambda self, outputs, batch: {}": "score",
    "model.dropout.p = 0.9": "dropout.p",
    "model.scale = 7.0": "scale",
    "model.depth = 7": "depth",
    "model.sizes.append(3)": "sizes",
    "random.shuffle(model.words)": "words",
    "model.words[500] = 'other'": "words",
    "model.shift += 1": "shift",
    "model.out.weight.requires_grad_(False)": "out.weight",
    "model.embedding.weight.register_hook(lambda gradient: gradient * 0)": "the hooks of embedding.weight",
    "model.out.weight.register_post_accumulate_grad_hook(print)": "the hooks of out.weight",
    "model.out = nn.Identity()": "the type of out",
    "model.extra = nn.Linear(2, 2)": "the modules of the model",
    "del model.dropout": "dropout",
    "model.__class__ = type('Other', (type(model),), {})": "the type of the model",
    "model.train()": "the mode of the model",
    "model.dropout.train()": "the mode of dropout",
    "task.score = lambda outputs, batch: {}": "the task's score",
    "task.distances = [1]": "the task's distances",
    "task.distances.append(99)": "the task's distances",
}
"""What is changed of the model or the task, and how it is called."""

HARMLESS = [
    "subject.batch(conditions[0]).tokens.zero_()",
    "subject.batch(conditions[0]).targets.fill_(-100)",
    "for numbers in subject.scores(conditions[0]).values(): numbers.zero_()",
    "subject.scores(conditions[0]).clear()",
    "handle = model.register_forward_hook(lambda module, args, output: output * 0)\n"
    "for condition in conditions: subject.scores(condition)\nhandle.remove()",
    "weight = model.out.weight.detach().clone()\nmodel.out.weight.data.zero_()\n"
    "for condition in conditions: subject.scores(condition)\nmodel.out.weight.data.copy_(weight)",
    "torch.manual_seed(5); numpy.random.seed(5); random.seed(5)",
    "torch.set_num_threads(3)",
    "numpy.seterr(all='raise')",
    "warnings.simplefilter('error')",
    "sys.setrecursionlimit(500)",
    "sys.path.insert(0, '/nowhere')",
    "os.environ['PATH'] = '/nowhere'",
    "signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "model(subject.batch(conditions[0]).tokens).sum().backward()",
    "subject.task = subject.model = None",
    "subject.trial.task.arguments['train_max'] = subject.trial.__dict__['seed'] = 7",
    "subject.trial.model.__dict__['label'] = subject.trial.__dict__['id'] = 'other'",
]
"""What is the probe's own, or is put back without a word."""


GUILTY = {**SETTINGS, **FUNCTIONS, **CHANGES}
BODIES = [*GUILTY, *HARMLESS]


@pytest.fixture(scope="module")
def after_all(folder: Path) -> Results:
    """Two trials in which an innocent probe has its turn after each of the others."""
    source = PROBES + "\n".join(vandal(f"v{place}", body) for place, body in enumerate(BODIES))
    (folder / "vandals.py").write_text(source, encoding="utf-8")
    before = Traces()
    turns = range(len(BODIES))
    probes = [each for turn in turns for each in (f"{folder}/vandals.py:v{turn}", f"{folder}/look.py:look:turn={turn}")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        results = run(f"{folder}/honest.py:M", folder / "run", probes, seeds=2)
    assert not before.settings.changes()
    assert before.removed() == ""
    return results


@pytest.mark.parametrize("body", BODIES)
def test_what_one_probe_does_reaches_no_other_one(
    after_all: Results, clean: dict[tuple[int, str], str], body: str
) -> None:
    """The next one measures, bit for bit, what it measures alone, in this trial and in the next one; so does the model
    learn, whatever was done before training."""
    looks = [record for record in after_all if record.probe.label.endswith(f"look:turn={BODIES.index(body)}")]
    assert {(record.seed, record.stage): numbers(record) for record in looks} == clean


@pytest.mark.parametrize("body", BODIES)
def test_who_leaves_something_changed_fails_and_is_named(after_all: Results, body: str) -> None:
    """With what was changed. What is each probe's own, or is put back without a word, is no failure."""
    name = f"vandals.py:v{BODIES.index(body)}"
    records = [record for record in after_all if record.probe.name.endswith(name)]
    assert [record.status for record in records] == 4 * ["failed" if body in GUILTY else "ok"]
    for record in records if body in GUILTY else []:
        assert record.error is not None
        assert name in record.error.message
        assert GUILTY[body] in record.error.message


@pytest.mark.parametrize("body", list(SETTINGS))
def test_a_file_that_changes_settings_on_import_is_refused_by_plans(
    tmp_path: Path, plugin_file: Write, body: str
) -> None:
    """Each time that it is asked for; the other models are planned."""
    top = "import os, sys\n" + body
    name = plugin_file(model_source(top)) + ":M"
    before = Traces()
    for _ in range(2):
        with pytest.raises(PluginError, match=r"plugin\.py") as error:
            load_definition(find_entry(default_registry(), "model", name))
        assert SETTINGS[body] in str(error.value)
    assert before.removed() == ""


@pytest.mark.parametrize(
    ("top", "said"),
    [
        ("nn.Dropout.forward = lambda self, x: x * 0", "Dropout.forward replaced"),
        (
            "from harness_plugins.tasks.recall import Recall; Recall.loss = lambda self, *given: 0",
            "Recall.loss replaced",
        ),
        ("from harness_plugins.tasks.recall import Recall; Recall.train = Recall.validation", "Recall.train replaced"),
    ],
)
def test_a_probe_that_replaces_a_method_when_it_is_imported_is_broken(
    tmp_path: Path, plugin_file: Write, folder: Path, clean: dict[tuple[int, str], str], top: str, said: str
) -> None:
    """Also one of a layer, or of a plugin: training comes after the import, and is as it was."""
    probe = plugin_file(f"{PROBES}\n{top}\n" + vandal("p", "pass"), "p.py") + ":p"
    results = run(f"{folder}/honest.py:M", tmp_path / "run", [probe, f"{folder}/look.py:look:turn=0"])
    broken = [record for record in results if "look" not in record.probe.name]
    assert all(record.error and said in record.error.message for record in broken), broken
    looks = {(0, record.stage): numbers(record) for record in results if "look" in record.probe.name}
    assert looks == {key: found for key, found in clean.items() if key[0] == 0}


@pytest.mark.parametrize("body", [body for body in HARMLESS if "subject.scores(" in body])
def test_scores_are_shared_only_where_nobody_intervenes(
    tmp_path: Path, plugin_file: Write, folder: Path, clean: dict[tuple[int, str], str], body: str
) -> None:
    """A probe that asks for them first, while a hook of its own is at work, changes them for itself alone."""
    probe = plugin_file(PROBES + vandal("p", body), "p.py") + ":p"
    results = run(f"{folder}/honest.py:M", tmp_path / "run", [probe, f"{folder}/look.py:look:turn=0"])
    assert [record.error for record in results if record.error] == []
    looks = {(0, record.stage): numbers(record) for record in results if "look" in record.probe.name}
    assert looks == {key: found for key, found in clean.items() if key[0] == 0}


LEFT = "torch.set_default_dtype(torch.float64)"

GUILTY_MODELS = {
    "import": ({"top": LEFT}, "being imported"),
    "construction": ({"construct": LEFT}, "being constructed"),
    "first outputs": ({"forward": LEFT}, "computing its first outputs"),
    "training": ({"forward": f"if self.training: {LEFT}"}, "training on"),
    "a method of torch": ({"construct": "F.gelu = F.relu"}, "torch.nn.functional.gelu replaced"),
    "its input": ({"forward": "tokens.zero_()"}, "tokens.clone()"),
    "its input, a part": ({"forward": "tokens[:, 0] = 1"}, "tokens.clone()"),
}


@pytest.mark.parametrize("when", GUILTY_MODELS)
def test_a_model_that_leaves_something_changed_fails_alone(
    tmp_path: Path, plugin_file: Write, folder: Path, clean: dict[tuple[int, str], str], when: str
) -> None:
    """All cells that depend on it, with what it was doing; the next trial is as if it had not been there."""
    source, said = GUILTY_MODELS[when]
    name = plugin_file(model_source(**source)) + ":M"
    before = Traces()
    results = run([name, f"{folder}/honest.py:M"], tmp_path / "run", [f"{folder}/look.py:look:turn=-1", "accuracy"])
    assert before.removed() == ""
    failed = [record for record in results if record.status == "failed" and record.probe.name == "accuracy"]
    assert len(failed) == 1
    for record in failed:
        assert record.error is not None
        assert "plugin.py:M" in record.error.message
        assert said in record.error.message
    honest = {record.stage: numbers(record) for record in results.records[3:5]}
    assert honest == {stage: clean[0, stage] for stage in ("initial", "trained")}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no such alarms")
def test_what_would_end_the_process_later_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alarms of all kinds; and in a trial's own process what faulthandler may be about to do, which nobody can see."""
    kinds = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    before, cancelled = Settings.now(), []
    monkeypatch.setattr("faulthandler.cancel_dump_traceback_later", lambda: cancelled.append(True))
    for kind in kinds:
        signal.setitimer(kind, 1000)
    before.put_back()
    assert [signal.getitimer(kind)[0] for kind in kinds] == [0, 0, 0]
    assert cancelled == []
    monkeypatch.setattr("multiprocessing.parent_process", lambda: "the server")
    before.put_back()
    assert cancelled == [True]


@pytest.mark.slow
def test_what_torch_does_to_itself_is_no_plugins_doing() -> None:
    """Its compiler, for example, replaces functions when it is first used."""
    before, model = Traces(), torch.nn.Linear(2, 2)
    torch.compile(model, backend="eager")(torch.zeros(1, 2)).sum().backward()
    torch.optim.AdamW(model.parameters()).step()
    assert before.removed() == ""


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


@pytest.mark.parametrize(
    ("construct", "evaluate", "said"),
    [(LEFT, "pass", "being constructed"), ("pass", LEFT, "making evaluation data")],
)
def test_a_task_that_leaves_something_changed_is_named(
    tmp_path: Path, plugin_file: Write, folder: Path, construct: str, evaluate: str, said: str
) -> None:
    """And not the model, or the probe, that comes next."""
    task = plugin_file(TASK_SOURCE.format(construct=construct, evaluate=evaluate)) + ":T"
    results = run(f"{folder}/honest.py:M", tmp_path / "run", ["accuracy"], tasks=[task])
    assert [record.status for record in results] == ["failed"]
    error = results.records[0].error
    assert error is not None
    assert error.message.startswith(repr(task))
    assert said in error.message
    assert "default dtype" in error.message


HONEST = {
    "a counter": ("self.calls = 0", "self.calls += 1"),
    "a counter of the class": ("pass", "type(self).depth += 0; type(self).calls = getattr(type(self), 'calls', 0) + 1"),
    "the last size": ("self.last = 0", "self.last = tokens.shape[1]"),
    "the last states": ("self.seen = None", "self.seen = self.embedding(tokens)"),
    "a list of states": ("self.seen = []", "self.seen.append(float(tokens.sum()))"),
    "a cache that grows": (
        "self.register_buffer('mask', torch.ones(0), persistent=False)",
        "self.mask = self.mask if len(self.mask) >= tokens.shape[1] else torch.ones(tokens.shape[1])",
    ),
    "a buffer that is saved": ("self.register_buffer('calls', torch.zeros(()))", "self.calls += 1"),
    "threads": ("torch.set_num_threads(2)", "torch.set_num_threads(2)"),
    "variables": ("import os; os.environ['WITHIN_TRIAL'] = '1'", "pass"),
    "warnings": ("import warnings; warnings.simplefilter('ignore')", "pass"),
}


@pytest.mark.parametrize("what", HONEST)
def test_what_a_model_keeps_for_itself_is_no_probes_fault(
    tmp_path: Path, plugin_file: Write, folder: Path, clean: dict[tuple[int, str], str], what: str
) -> None:
    """Counters, caches and the last states change whenever the model runs, and everybody measures."""
    construct, forward = HONEST[what]
    name = plugin_file(model_source(construct=construct, forward=forward)) + ":M"
    probes = [*(f"{folder}/look.py:look:turn={turn}" for turn in range(3)), "accuracy"]
    results = run(name, tmp_path / "run", probes)
    assert [record.error for record in results if record.error] == []
    looks = [(0, record.stage, numbers(record)) for record in results if record.probe.name != "accuracy"]
    assert {((seed, stage), found) for seed, stage, found in looks} == {
        (key, found) for key, found in clean.items() if key[0] == 0
    }


@pytest.mark.parametrize(
    ("forward", "status"),
    [
        ("if self.training: self.shift = self.shift + 0.1", "failed"),
        ("if self.training: self.scale += 0.1", "failed"),
        ("self.shift = torch.randn(8, generator=self.own)", "ok"),
    ],
)
def test_every_probe_looks_at_the_model_that_is_kept(
    tmp_path: Path, plugin_file: Write, forward: str, status: str
) -> None:
    """Whoever is asked for later, or after a probe that has spoilt it, gets the model of the checkpoint; so all do. One
    that has learned something else fails, and one that is different at each call does not."""
    construct = "self.own = torch.Generator().manual_seed(3)"
    name = plugin_file(model_source(construct=construct, forward=forward)) + ":M"
    spoils = plugin_file(PROBES + vandal("p", "model.out.weight.data.zero_()"), "p.py") + ":p"
    together = run(name, tmp_path / "one", ["accuracy", spoils, "grad_reach"], stages="trained")
    run(name, tmp_path / "two", ["accuracy"], stages="trained")
    apart = run(name, tmp_path / "two", ["accuracy", "grad_reach"], stages="trained")
    for probe in ("accuracy", "grad_reach"):
        records = [record for results in (together, apart) for record in results if record.probe.name == probe]
        assert [record.status for record in records] == 2 * [status]
        assert len({numbers(record) for record in records}) == 1
        assert all("self.register_buffer" in record.error.message for record in records if record.error)


@pytest.mark.parametrize("raised", ["SystemExit(3)", "GeneratorExit()", "BaseException('gone')", "Odd('gone')"])
@pytest.mark.parametrize("where", ["import", "construct", "forward", "training", "probe", "evaluate", "notes"])
def test_whatever_is_raised_ends_one_cell(
    tmp_path: Path, plugin_file: Write, folder: Path, where: str, raised: str
) -> None:
    """Exceptions, too, that no `except Exception` catches; only Ctrl-C ends a run."""
    odd = "class Odd(BaseException): ...\n"
    line = f"raise {raised}"
    model, task, probe = f"{folder}/honest.py:M", TASK, f"{folder}/look.py:look:turn=0"
    if where == "probe":
        probe = plugin_file(odd + PROBES + vandal("p", line), "p.py") + ":p"
    elif where == "evaluate":
        task = plugin_file(odd + TASK_SOURCE.format(construct="pass", evaluate=line), "t.py") + ":T"
    elif where == "notes":
        source = TASK_SOURCE.format(construct="pass", evaluate="pass")
        task = plugin_file(f"{odd}{source}\n    @property\n    def notes(self):\n        {line}", "t.py") + ":T"
    else:
        place = {"import": "top", "training": "forward"}.get(where, where)
        line = f"if self.training: {line}" if where == "training" else line
        source = model_source(**{place: line})
        model = plugin_file(odd + source, "m.py") + ":M"
    results = run([model, "lstm:hidden=4"], tmp_path / "run", [probe, "accuracy"], tasks=[task, TASK])
    assert {"failed", "ok"} == {record.status for record in results}
    assert len(results) == (6 if task == TASK else 12)
    kinds = {record.error.type for record in results if record.error}
    assert kinds == ({"PluginError"} if where == "import" else {raised.partition("(")[0]})


def test_training_does_not_depend_on_who_looked_before(tmp_path: Path, plugin_file: Write, folder: Path) -> None:
    """Not even where the model counts its calls, and learns accordingly."""
    forward = "self.calls += 1\n        self.scale = 1.5 + self.calls"
    name = plugin_file(model_source(construct="self.calls = 0", forward=forward)) + ":M"
    source = "def late(subject):\n    yield from look(subject, turn=0)\n"
    late = plugin_file(PROBES + LOOK + source, "late.py") + ":late"
    probes = [f"{folder}/look.py:look:turn=0"]
    run(name, tmp_path / "one", [late])
    run(name, tmp_path / "two", [*probes, late])
    one, two = ([*(tmp_path / each / "checkpoints").iterdir()] for each in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


@pytest.mark.parametrize("end", ["raise Skip('not here')", "1 / 0"])
def test_who_gives_up_halfway_is_cleaned_up_after(
    tmp_path: Path, plugin_file: Write, folder: Path, clean: dict[tuple[int, str], str], end: str
) -> None:
    """Settings, functions and model are put back, also where the probe raised."""
    body = f"{LEFT}\nF.gelu = F.relu\nmodel.register_forward_hook(lambda module, args, output: output * 0)\n{end}"
    probe = plugin_file(PROBES + vandal("p", body), "p.py") + ":p"
    before = Traces()
    results = run(f"{folder}/honest.py:M", tmp_path / "run", [probe, f"{folder}/look.py:look:turn=0"])
    assert before.removed() == ""
    assert [record.status for record in results] == ["failed", "failed", "ok", "ok"]
    assert {(0, record.stage): numbers(record) for record in results if record.status == "ok"} == {
        key: found for key, found in clean.items() if key[0] == 0
    }


def test_a_trial_does_not_depend_on_the_callers_settings(
    tmp_path: Path, folder: Path, clean: dict[tuple[int, str], str]
) -> None:
    """Those of a notebook, for example, which has them again afterwards. A record says with which it was measured."""
    before = Settings.now()
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.set_float32_matmul_precision("medium")
        chosen = Settings.now()
        results = run(f"{folder}/honest.py:M", tmp_path / "run", [f"{folder}/look.py:look:turn=-1"])
        assert Settings.now() == chosen
    finally:
        before.put_back()
    assert {(0, record.stage): numbers(record) for record in results} == {
        key: found for key, found in clean.items() if key[0] == 0
    }
    for record in results:
        settings = record.provenance.settings
        assert settings["dtype"] == "float32"
        assert settings["float32_matmul_precision"] == "highest"
        assert settings["cudnn_tf32"] == "off"
