"""`harness check`: what it takes, what it prints and how it ends."""

import faulthandler
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import harness
from hanging import Hangs
from hanging import hangs as hangs  # the fixture

from harness.registry import default_registry
from harness.testing import apart
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


ENDS = """
import os, time
from pathlib import Path
from torch import nn


def hangs(place):
    Path(place).touch()
    time.sleep(10**6)


class Hangs(nn.Embedding):
    def __init__(self, vocab_size: int, place: str):
        super().__init__(vocab_size, vocab_size)
        self.place = place

    def forward(self, tokens):
        hangs(self.place)


class Dies(Hangs):
    def forward(self, tokens):
        os._exit(0)
"""
IMPORTED = "from pathlib import Path\nimport time\nPath({place!r}).touch()\ntime.sleep(10**6)\n"


@pytest.mark.parametrize(
    ("source", "name", "kind", "said"),
    [
        (IMPORTED, "p", "plugin", r"no answer in 3600 s \(--timeout\) in the check 'loads'"),
        (ENDS, "Hangs:place={place}", "model", r"no answer in 3600 s \(--timeout\) in the check '\w+'"),
        (ENDS, "Dies:place={place}", "model", r"the process died \(it ended with exit code 0\) in the check '\w+'"),
    ],
)
def test_a_plugin_that_hangs_or_ends_the_process_fails_by_itself(
    plugin_file: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hangs: Hangs,
    source: str,
    name: str,
    kind: str,
    said: str,
) -> None:
    """With exit code 1 and a sentence that names the check; the others are checked."""
    monkeypatch.chdir(tmp_path)  # its path may have a comma
    place = Path("place")
    hangs(apart, place)
    named = f"{plugin_file(source.replace('{place!r}', repr(str(place))))}:{name.format(place=place)}"
    result = harness("check", named, "accuracy", "--format", "json")
    assert result.exit_code == 1
    reports = {report["kind"]: report for report in json.loads(result.stdout)}
    assert reports["probe"]["ok"]
    (failed,) = reports[kind]["checks"]
    assert (reports[kind]["name"], failed["check"], failed["status"]) == (named, "answers", "failed")
    assert re.fullmatch(said, failed["message"])
    assert "Traceback" not in result.stderr


def test_the_line_that_hangs_is_found(tmp_path: Path) -> None:
    """In what Python writes of all threads: the innermost line of the main one that is neither ours nor Python's."""
    plugin, places = tmp_path / "plugin.py", tmp_path / "places"
    others = threading.Event()
    threading.Thread(target=others.wait, daemon=True).start()
    with places.open("w", encoding="utf-8") as file:
        code = compile("import json\n\njson.loads('[1]', object_hook=print, parse_int=dump)", str(plugin), "exec")
        exec(code, {"dump": eval("lambda text: write(file)", {"write": faulthandler.dump_traceback, "file": file})})
    others.set()
    assert apart.place_of_hang(places).endswith(f"{plugin.name}:3")
    assert apart.place_of_hang(tmp_path / "none") == ""


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
        (["lstm", "--timeout", "0"], "timeout is a number of seconds above 0"),
        (["lstm", "--timeout", "nan"], "timeout is a number of seconds above 0"),
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
        monkeypatch.setattr("harness.testing.apart.check_apart", lambda *a, reports=reports: iter(reports))
        assert harness("check").exit_code == code
