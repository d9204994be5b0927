"""`harness check`: what it takes, what it prints and how it ends."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli import main
from harness.registry import default_registry
from harness.testing.installed import check_one

GRU = """
from torch import nn


class GRU(nn.Module):
    def __init__(self, vocab_size: int, width: int = 8):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocab_size)

    def forward(self, tokens):
        return self.head(self.rnn(self.embedding(tokens))[0])


class Needs(GRU):
    def __init__(self, vocab_size: int, width: int):
        super().__init__(vocab_size, width)


class Plain:
    def __init__(self, width: int = 8): ...
"""


def harness(*words: str) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)


def test_a_check_that_hangs_ends(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """With exit code 1, and the line of the plugin in which it was."""
    path = plugin_file("import time\ndef p(subject):\n    pass\ntime.sleep(1000)\n")
    code = "import sys, harness.cli.authors as a; a.PATIENCE = 0.5; sys.argv = sys.argv[1:]; a.check()"
    done = subprocess.run([sys.executable, "-c", code, "check", f"{path}:p"], capture_output=True, encoding="utf-8")
    assert done.returncode == 1
    assert f'"{path}", line 4' in done.stderr


def test_check_reports_files_by_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Model, task and probe are told apart; a failure is exit code 1, with place, meaning and fix."""
    monkeypatch.chdir(tmp_path)
    for kind in ("model", "task", "probe"):
        harness("new", kind, f"acme-{kind}")
    model, task = "acme-model/acme_model/model.py", "acme-task/acme_task/task.py"
    probe = "acme-probe/acme_probe/probe.py"
    result = harness("check", f"./{model}:AcmeModel", f"./{task}:AcmeTask", f"./{probe}:acme_probe")
    assert result.exit_code == 0, result.stdout
    assert re.findall(r"^(\w+) \./\S+: \d+ passed", result.stdout, re.MULTILINE) == ["model", "task", "probe"]
    source = Path(model).read_text(encoding="utf-8").replace("batch_first=True", "batch_first=True, bidirectional=True")
    Path("wrong.py").write_text(source.replace("nn.Linear(width,", "nn.Linear(2 * width,"), encoding="utf-8")
    result = harness("check", "./wrong.py:AcmeModel")
    assert result.exit_code == 1
    assert "failed: causal: it sees the whole sequence" in result.stdout
    assert "where: wrong.py:" in result.stdout
    assert "means: " in result.stdout
    assert "fix:   " in result.stdout


def test_check_as_json() -> None:
    """One entry for each plugin, every check with its status."""
    (report,) = json.loads(harness("check", "accuracy", "--format", "json").stdout)
    assert (report["kind"], report["name"], report["ok"]) == ("probe", "accuracy", True)
    assert {check["status"] for check in report["checks"]} == {"passed"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lstn"], "Did you mean 'lstm'"),
        (["lstm", "--kind", "probe"], "there is no probe 'lstm'"),
        (["./missing.py:GRU"], "there is no file"),
        (["no_such_module:GRU"], "there is no model, task or probe"),
        (["lstm:foo=3"], "it has no argument 'foo'. Arguments: embedding, hidden"),
        (["lstm:hidden=-1"], "'hidden' = -1: input should be greater than 0"),
        (["accuracy:foo=3"], "it has no argument 'foo'. Arguments: none"),
        (["gpt:heads=3"], "divisible"),
        (["{path}:Needs:width=8,depth=2"], "it has no argument 'depth'"),
        (["{path}:GRV"], "there is no 'GRV' in "),
        (["{path}"], "It has: GRU, Needs, Plain."),
        (["{stem}:GRU"], "if the file is meant, {path}:GRU"),
        (["{path}:Plain"], "'Plain' is neither a torch.nn.Module, nor a harness.Task, nor a probe"),
    ],
)
def test_check_explains_a_wrong_request(plugin_file: Callable[..., str], words: list[str], said: str) -> None:
    """Exit code 2, and nothing is checked, not even what is right."""
    path = plugin_file(GRU)
    names = {"path": path, "stem": path.removesuffix(".py")}
    result = harness("check", "accuracy", *(word.format(**names) for word in words))
    assert result.exit_code == 2
    assert said.format(**names) in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "body", "said"),
    [
        ("width: int = 'many'", "", "its own default 'width' = 'many'"),
        ("width: 'Nothing' = 3", "", "name 'Nothing' is not defined"),
        ("*widths: int", "", "takes 'widths' by position"),
        ("width: int = 3", "check_arguments = staticmethod(lambda **arguments: 1 / 0)", "ZeroDivisionError"),
    ],
)
@pytest.mark.parametrize("given", ["", ":depth=2"])
def test_a_broken_plugin_is_reported(
    plugin_file: Callable[..., str], arguments: str, body: str, said: str, given: str
) -> None:
    """Exit code 1 and a report, whether or not (other) arguments were given."""
    path = plugin_file(f"class M:\n    def __init__(self, {arguments}, depth: int = 1): ...\n    {body}\n")
    result = harness("check", f"{path}:M{given}", "--kind", "model")
    assert result.exit_code == 1
    assert said in result.stdout


def test_a_plugin_with_required_arguments_waits_for_them(plugin_file: Callable[..., str]) -> None:
    """The message says what to give; named beside others, it is not passed over."""
    path = plugin_file(GRU)
    for others in ([], ["accuracy"]):
        result = harness("check", f"{path}:Needs", *others)
        assert result.exit_code == 1
        assert "failed" not in result.stdout
        said = f"nothing was checked: it cannot be built without width; check {path}:Needs:width=..."
        assert said in result.stdout
    result = harness("check", f"{path}:Needs:width=8")
    assert (result.exit_code, "nothing was checked" in result.stdout) == (0, False)


def test_what_cannot_be_built_without_arguments_does_not_fail_a_check_of_everything(
    plugin_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something else was checked; if nothing was, that is no success."""
    path = plugin_file(GRU)
    needs, complete = (check_one(default_registry(), "model", f"{path}:{name}") for name in ("Needs", "GRU"))
    for reports, code in (([needs, complete], 0), ([needs], 1), ([], 1)):
        monkeypatch.setattr("harness.testing.installed.check_installed", lambda *a, reports=reports: iter(reports))
        assert harness("check").exit_code == code
