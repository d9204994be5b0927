"""A model or a task that leaves something changed fails alone; what it keeps for itself is nobody's fault."""

import signal
from pathlib import Path

import pytest
import torch
from small_runs import numbers

from harness.errors import PluginError
from harness.registry import default_registry
from harness.settings import Settings
from harness.targets import find_entry, load_definition
from harness.traces import Traces
from within_trial.deeds import SETTINGS
from within_trial.sources import LEFT, PROBES, TASK, TASK_SOURCE, Write, model_source, run, vandal


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
