"""What a person types and sees."""

import json
import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import SHORT

from harness.cli import common, main
from harness.cli.common import terminal_width
from harness.cli.planned import plan_data, plan_lines
from harness.execution import Progress
from harness.plan import make_plan
from harness.registry import Broken, Origin, default_registry
from harness.requests import build_suite, find_suite
from harness.schema import Record
from harness.store import RunDirectory
from harness.suites import Suite
from harness.vocabulary import FORMATS

QUICK = ["--task", SHORT, "--seeds", "1", "--training", "steps=5,batch_size=8", "--examples", "32", "--jobs", "1"]


def harness(*words: str) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go to `runs/` in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)


def test_a_run_ends_with_a_table_and_the_next_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records' folder, a table with the model, and what to do next."""
    monkeypatch.setattr(common, "PATIENCE", math.inf)
    result = harness("run", "--model", "lstm:hidden=8", "--probe", "grad_reach", *QUICK)
    assert result.exit_code == 0
    assert "lstm:hidden=8" in result.stdout
    assert "at initialisation" in result.stdout
    assert "harness report runs/lstm+recall" in result.stdout
    assert len(list(Path("runs/lstm+recall/records").glob("*.json"))) == 2
    assert result.stderr == ""  # no progress bar where there is no terminal


def test_without_a_terminal_a_line_says_each_tenth_of_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For logs; nothing of what is over within a few seconds."""
    told = {}
    for patience in (0.0, math.inf):
        monkeypatch.setattr(common, "PATIENCE", patience)
        with common.progress() as report:
            for done in range(1, 41):
                report(Progress(done / 10, 4, 5.0 * done, 200))
        told[patience] = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in told[0.0]] == [f"{tenth}0%" for tenth in range(1, 10)]
    assert "trial 2.0 of 4, step 100 of 200" in told[0.0][4]
    assert told[math.inf] == []


def test_a_run_offers_its_page_or_writes_it() -> None:
    """`--page` alone writes into the run directory, and says where."""
    pytest.importorskip("altair", reason="a page needs the extra `page`")
    words = ("run", "--model", "lstm:hidden=8", "--out", "there", *QUICK)
    offered = harness(*words).stdout.strip().split("\n")[-1]
    assert "harness report there --format html --out page.html" in offered
    for place, file in (([], Path("there/page.html")), (["here.html"], Path("here.html"))):
        result = harness(*words, "--page", *place)
        assert result.exit_code == 0
        assert str(file) in result.stdout.strip().split("\n")[-1]
        assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    data = harness(*words, "--format", "csv", "--page")
    assert "page" not in data.stdout
    assert "there/page.html" in data.stderr


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (["missing/page.html"], "there is no folder 'missing'"),
        (["folder.html"], "could not be written"),
        ([f"{'x' * 300}.html"], "could not be written"),
        ([f"{'x' * 300}/page.html"], "there is no folder"),
        (["page.txt"], "does not end in .html"),
        ([], "sequence-harness[page]"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused_before_anything_runs(
    place: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is trained for it; `--page` before a suite does not take that for its file."""
    pytest.importorskip("altair", reason="a page needs the extra `page`")
    Path("folder.html").mkdir()
    if not place:
        for name in [name for name in sys.modules if name.startswith("harness.page")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "jinja2", None)
    result = harness("run", "--model", "lstm:hidden=8", "--out", "there", *QUICK, "--page", *place)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not Path("there").exists()


def test_report_shows_a_finished_run_again() -> None:
    """The same tables, from the records alone."""
    ran = harness("run", "--model", "lstm:hidden=8", "--out", "there", *QUICK)
    shown = harness("report", "there")
    assert shown.exit_code == 0
    assert shown.stdout.strip() in ran.stdout


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_offered(form: str) -> None:
    """text, markdown, latex, csv and json, from run and report alike."""
    ran = harness("run", "--model", "lstm:hidden=8", "--out", "there", "--format", form, *QUICK)
    shown = harness("report", "there", "--format", form)
    assert ran.exit_code == shown.exit_code == 0
    assert "lstm:hidden=8" in shown.stdout.replace("\\", "")
    if form != "text":
        assert ran.stdout == shown.stdout


def test_json_is_one_array_of_records() -> None:
    """With the fields that others rely on."""
    harness("run", "--model", "lstm:hidden=8", "--out", "there", *QUICK)
    (record,) = json.loads(harness("report", "there", "--format", "json").stdout)
    assert Record.model_validate(record).status == "ok"
    assert record["model"]["name"] == "lstm"
    assert record["model"]["parameters"] > 0
    assert record["model"]["arguments"]["hidden"] == 8
    assert {"training", "stage", "seed", "timing", "provenance"} <= record.keys()
    curve = next(m for m in record["measurements"] if m["name"] == "accuracy")
    assert curve["kind"] == "curve"
    assert len(curve["x"]) == len(curve["y"]) == 3


WRONG = [
    (["run", "--model", "lstn"], "Did you mean 'lstm'"),
    (["run", "--model", "lstm:hiden=3"], "Did you mean 'hidden'"),
    (["run", "--model", "lstm:hidden=-1"], "greater than 0"),
    (["run", "--model", "lstm", "--seeds", "0"], "x>=1"),
    (["run", "--model", "lstm", "--task", "recal"], "Did you mean 'recall'"),
    (["run", "--model", "lstm", "--probe", "acuracy"], "Did you mean 'accuracy'"),
    (["run", "--model", "lstm", "--training", "stpes=3"], "Did you mean 'steps'"),
    (["run", "--model", "lstm", "--training", "steps"], "write key=value"),
    (["run", "--model", "lstm", "--device", "gpu"], "choose cpu or cuda"),
    (["run", "--model", "lstm", "--out", "a-file"], "choose another (--out"),
    (["run"], "nothing to measure"),
    (["run", "no-such-suite"], "there is no suite 'no-such-suite'"),
    (["run", "missing.toml"], "cannot read the suite 'missing.toml'"),
    (["run", "broken.toml"], "is not TOML"),
    (["run", "unknown.toml"], "Did you mean 'seeds'"),
    (["run", "recall", "--model", "lstm", "--task", "recall"], "leave out the tasks, or the suite"),
    (["run", "recall", "--task", "recall", "--probe", "accuracy"], "leave out the tasks and probes, or the suite"),
    (["run", "gpt"], "give it with --model gpt"),
    (["run", "wrong-claim.toml"], "`at` gives 2 numbers"),
    (["run", "..toml"], "becomes a folder"),
    (["run", "--model", "lstm", "--training", "lr=inf"], "lr: should be a finite number (received 'inf')"),
    (["run", "--model", "lstm", "--training", "steps=true"], "steps: should be a number (received True)"),
    (["run", "--model", "lstm", "--training", "epochs=2"], "has no end; give steps instead"),
    (["show", "suite", "gpt", "--format", "json"], "there is no suite 'gpt'"),
    (["report", "nowhere"], "there is no run in"),
    (["show", "model", "lstn"], "Did you mean 'lstm'"),
    (["rnu"], "Did you mean 'run'"),
    (["run", "--modell", "lstm"], "--model"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_request_is_explained_and_costs_nothing(words: list[str], said: str) -> None:
    """One screen, exit code 2, no traceback, nothing trained."""
    Path("a-file").write_text("", encoding="utf-8")
    Path("broken.toml").write_text("[[experiments]", encoding="utf-8")
    Path("..toml").write_text("[[experiments]]\nmodels = ['lstm']\n", encoding="utf-8")
    claim = "text = 'c'\nprobe = 'accuracy'\nmetric = 'accuracy'\nat = [1, 10]\ncomparison = '>'\nvalue = 0.5\n"
    Path("wrong-claim.toml").write_text(f"[[experiments]]\nmodels = ['lstm']\n[[claims]]\n{claim}", encoding="utf-8")
    Path("unknown.toml").write_text("sedes = 3\n[[experiments]]\nmodels = ['lstm']\n", encoding="utf-8")
    result = harness(*words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) < 15
    assert not list(Path.cwd().rglob("*.json"))


PAIRS = "good\tbad\tsubject\tverb\nThe keys are here\tThe keys is here\t1\t2\nThe dog is here\tThe dog are here\t1\t2\n"
SUITE = "[[experiments]]\nmodels = ['lstm']\n"
MADE = {
    "pairs/a.tsv": PAIRS,
    "none.tsv": PAIRS.replace("\t1\t2", "\t-1\t2"),
    "model/model.safetensors": "",
    "gru.py": "from torch import nn\nclass GRU(nn.Module):\n    def __init__(self, vocab_size: int): ...\n",
    "mixer.py": "from torch import nn\nclass Mixer(nn.Module):\n    def __init__(self, width: int): ...\n",
    "syntax.py": "class M:\n  def (\n",
    "no-list.toml": "[[experiments]]\nmodels = 'lstm'\n",
    "no-table.toml": "[experiments]\nmodels = ['lstm']\n",
    "no-training.toml": f"{SUITE}training = 'fast'\n",
    "nothing.toml": "[[experiments]]\nmodels = []\n",
    "second.toml": f"{SUITE}[[experiments]]\nmodels = ['gpt', 3]\n",
    "no-alias.toml": "[[experiments]]\nmodels = [{name = 'lstm', alias = ''}]\n",
    "seeds.toml": f"seeds = 10000000\n{SUITE}",
}
SAID = [
    ("--model lstm --task minimal_pairs:file=pairs", "'pairs' is a folder; name the file in it"),
    ("--model lstm --task minimal_pairs:file=pairs/a.tsv,first_index=1", "first_index=0 instead of first_index=1"),
    ("--model lstm --task minimal_pairs:file=none.tsv", "subject = '-1', where a number is expected, 0 or more"),
    ("--model hf:path=model/model.safetensors", "is a file; give its folder: path=model"),
    ("--model lstm --task recall:train_max=0", "train_min = 1 is larger than train_max = 0; give both"),
    (
        "--model lstm --task ./gru.py:GRU",
        "a torch.nn.Module, which is no task; give it as a model: --model ./gru.py:GRU",
    ),
    ("--model ./mixer.py:Mixer", "(a mixer? --model backbone:mixer=./mixer.py:Mixer)"),
    ("--model lstm --probe ./gru.py:GRU", "which is no probe; give it as a model"),
    ("--model lstm gpt", "'gpt' was read as a suite, since no option stands before it; for another model, repeat"),
    ("gru.py", "is Python, not a suite; if a model is in it: --model ./gru.py:NAME"),
    ("./gru.py:GRU", "--model ./gru.py:GRU"),
    ("--model lstm:hidden", "to set an argument of lstm, write lstm:hidden=VALUE"),
    ("--model lstm:=", "to set an argument of lstm, write lstm:ARGUMENT=VALUE"),
    ("--model /dev/stdin:X", "there is no model '/dev/stdin:X'. Known models"),
    ("--model lstm --task lstm", "there is no task 'lstm'; there is a model of that name: --model lstm"),
    ("--model lstm,gpt", "for several, repeat the option: --model lstm --model gpt"),
    ("--model lstm --stage initial", "accuracy looks at the stage 'trained' only; asked for: initial"),
    ("--model lstm --task recall:distances=[1,a]", "'a' is no number"),
    ("--model lstm --task recall:distances=[1,2", "the bracket is open; write ]"),
    ("--model lstm --task recall:distances=5", "a list is expected; write distances=[5]"),
    ("--model lstm --training steps=20,epochs=2", "(set the other one to none); received steps=20, epochs=2\n"),
    (
        "--model acme_gru.model:GRU",
        "no module 'acme_gru' can be imported from here. A file needs no import: ./acme",
    ),
    ("--model lstm --training=", "--training is empty; write SETTING=VALUE"),
    ("--model lstm --out=", "it is empty; name a folder"),
    ("--model lstm --seeds 10000000", "10,000,000 seeds make 10,000,000 cells or more"),
    ("no-list.toml", 'experiment 1, models: a list is expected: models = ["lstm"]'),
    ("no-table.toml", "experiments: write each as a table under [[experiments]]"),
    ("no-training.toml", "experiment 1, training: a table is expected, for example training = {steps = 200}"),
    ("nothing.toml", "experiment 1, models: it is empty; give at least one"),
    ("second.toml", "experiment 2, model 2: name a plugin"),
    ("latin-1.toml", "is not UTF-8 (byte 12); save it as UTF-8"),
    ("no-alias.toml", "the alias is empty"),
    ("seeds.toml", "10,000,000 seeds make"),
]


@pytest.mark.parametrize(("words", "said"), SAID, ids=[words for words, _ in SAID])
def test_a_careless_request_hears_what_to_write_instead(words: str, said: str) -> None:
    """What was received and what would be right, before anything is trained or written."""
    for name, text in MADE.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    Path("latin-1.toml").write_bytes("summary = 'é'\n".encode("latin-1"))
    before = set(Path.cwd().rglob("*"))
    result = harness("run", *words.split())
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert {path for path in set(Path.cwd().rglob("*")) - before if "__pycache__" not in path.parts} == set()


def test_a_request_of_broken_code_alone_ends_at_once() -> None:
    """With file, line and error, said once; no record is written. Beside a model that can run it fails alone."""
    Path("broken.py").write_text("class M:\n  def (\n", encoding="utf-8")
    result = harness("run", "--model", "./broken.py:M", "--out", "there", *QUICK)
    assert result.exit_code == 1
    assert result.stderr.count("SyntaxError") == 1
    assert "broken.py, line 2" in result.stderr
    assert result.stdout == ""
    assert not Path("there").exists()
    Path("probe.py").write_text("def p(:\n", encoding="utf-8")
    result = harness("run", "--model", "lstm:hidden=4", "--probe", "./probe.py:p", "--out", "there", *QUICK)
    assert result.exit_code == 1
    assert "probe.py, line 1" in result.stderr
    assert not Path("there").exists()
    both = harness("run", "--model", "./broken.py:M", "--model", "lstm:hidden=4", "--out", "there", *QUICK)
    assert both.exit_code == 1
    assert len(list(Path("there/records").glob("*.json"))) == 2


def test_records_that_cannot_be_read_are_not_said_to_be_missing() -> None:
    """Where none can be read, there is nothing else to report."""
    Path("there/records").mkdir(parents=True)
    Path("there/records/0123456789abcdef.json").write_text("{", encoding="utf-8")
    result = harness("report", "there")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "1 of 1 record files cannot be read" in result.stderr


def test_bench_says_how_to_time_other_models() -> None:
    """It is a suite, and takes no models."""
    result = harness("bench", "--model", "gru")
    assert result.exit_code == 2
    assert "harness run --model gru --probe speed" in result.stderr


def test_a_file_of_the_current_folder_is_not_taken_for_the_harness() -> None:
    """Nor for torch: not even by the server that worker processes come from."""
    Path("harness.py").write_text("open('executed', 'w')", encoding="utf-8")
    command = Path(sys.executable).parent / "harness"
    words = ["run", "--model", "lstm:hidden=4", *QUICK[:-1], "2", "--probe", "accuracy", "--probe", "grad_reach"]
    done = subprocess.run([command, *words], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert not Path("executed").exists()


def test_python_runs_the_package() -> None:
    """As `python -m harness`."""
    command = [sys.executable, "-m", "harness", "--version"]
    assert subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.startswith("harness, ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("word", ["list", "--help"])
def test_output_that_cannot_be_written_is_one_sentence(word: str) -> None:
    """As on a full disk."""
    command = Path(sys.executable).parent / "harness"
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run([command, word], stdout=full, stderr=subprocess.PIPE, encoding="utf-8", check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["Error: the output cannot be written: No space left on device"]


def test_ctrl_c_twice_ends_as_once() -> None:
    """Whoever is impatient is told the same, with the same exit code."""
    code = """
        import os, signal
        from harness.cli import main
        from harness.cli.showing import schema
        from harness.executors import start
        schema.callback = start.stop = lambda **given: os.kill(os.getpid(), signal.SIGINT)
        main(["schema"])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="no shell that closes files")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_files_may_be_closed(closed: str) -> None:
    """As a service or a cron job may start a program: it runs, in processes of its own, and reports."""
    command = Path(sys.executable).parent / "harness"
    words = ["run", "--model", "lstm:hidden=4", *QUICK[:-1], "1", "--out", "there"]
    for each in (words, ["report", "there"]):
        done = subprocess.run(
            ["sh", "-c", f'"$@" {closed}', "sh", command, *each], capture_output=True, encoding="utf-8", check=False
        )
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert len(list(RunDirectory(Path("there")).read_records())) == 1


def test_failed_cells_are_exit_code_1(plugin_file: Callable[..., str]) -> None:
    """And the report says why; skipped ones are no failure."""
    broken = plugin_file("def p(subject):\n    raise OSError('no disk')", "broken.py") + ":p"
    result = harness("run", "--model", "lstm:hidden=8", "--probe", broken, "--probe", "accuracy", *QUICK)
    assert result.exit_code == 1
    assert "no disk" in " ".join(result.stdout.split())
    skipping = plugin_file("from harness import Skip\ndef p(subject):\n    raise Skip('no gates')", "skips.py") + ":p"
    result = harness("run", "--model", "lstm:hidden=8", "--probe", skipping, *QUICK)
    assert result.exit_code == 0
    assert "no gates" in " ".join(result.stdout.split())


def test_a_dry_run_prints_trials_and_cells() -> None:
    """And writes nothing."""
    words = ["--model", "lstm", "--model", "gpt:position=none", "--probe", "grad_reach", "--seeds", "2", "--dry-run"]
    result = harness("run", *words)
    assert "4 trials, 8 cells" in result.stdout
    assert "gpt:position=none on recall, seed 1, 1000 steps, lr 0.001" in result.stdout
    assert not Path("runs").exists()


def test_a_large_plan_fits_on_a_screen() -> None:
    """What is crossed with what, with all counts; every id is there as JSON, alone on standard output."""
    grid: dict[str, list[Any]] = {"lr": [1e-3, 1e-2], "hidden": [4, 8]}
    asked = build_suite(["lstm", "elman", "ngram"], ["recall", "copy"], ["accuracy", "grad_reach"], seeds=5, grid=grid)
    plan = make_plan(asked, default_registry())
    lines = [*plan_lines(plan)]
    assert len(lines) < 10 < 90 == len(plan.trials)
    told = " ".join(lines)
    for words in ("lstm, elman on recall, copy: 80 trials", "seeds 0-4", "lr 0.001, 0.01", "hidden 4, 8", "grad_reach"):
        assert words in told
    assert not any(planned.trial.id in told for planned in plan.trials)
    listed = json.loads(plan_data(plan, "there"))
    assert [each["id"] for each in listed["trials"]] == [planned.trial.id for planned in plan.trials]
    assert {cell["id"] for each in listed["trials"] for cell in each["cells"]} == {cell.id for cell in plan.cells}
    printed = harness("run", "--model", "lstm", "--seeds", "1", "--dry-run", "--format", "json")
    assert len(json.loads(printed.stdout)["trials"]) == 1
    assert "1 trial, 1 cell" in printed.stderr


def test_ways_of_training_are_repeated_like_all_else() -> None:
    """None of them is lost; settings that belong together stand in one option."""
    words = ["run", "--model", "lstm", "--task", SHORT, "--seeds", "1", "--dry-run"]
    planned = harness(*words, "--training", "steps=7,lr=1e-3", "--training", "steps=7,lr=1e-2").stdout
    assert "2 trials, 2 cells" in planned
    assert "7 steps, lr 0.001" in planned
    assert "7 steps, lr 0.01" in planned


def test_one_is_not_counted_as_many() -> None:
    """In a dry run and after a run."""
    words = ["run", "--model", "lstm:hidden=4", "--task", SHORT, "--seeds", "1", "--training", "steps=1"]
    planned = harness(*words, "--dry-run").stdout
    assert ", 1 step, lr" in planned
    assert "1 trial, 1 cell;" in planned
    assert "\n1 record is in runs" in harness(*words, "--examples", "8").stdout
    epochs = ["run", "--model", "lstm", "--task", "farm_agreement", "--training", "epochs=1", "--dry-run"]
    assert ", 1 epoch, lr" in harness(*epochs).stdout


@pytest.mark.parametrize(("columns", "width"), [("20", 40), ("40", 40), ("60", 60), ("100", 100), ("300", 140)])
def test_text_fits_the_terminal(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 40 columns up to what reads well."""
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width() == width
    assert max(map(len, harness("list").stdout.splitlines())) <= width
    reason = f"importing it raised OSError: {'x' * 150} " + 9 * "and more "
    monkeypatch.setattr(default_registry(), "broken", [Broken(Origin("acme", "acme-gru", "1.0"), reason)])
    listed = harness("list").stdout
    assert max(map(len, listed.splitlines())) <= width
    assert f"entry point 'acme' of acme-gru 1.0: {reason}".replace(" ", "") in "".join(listed.split())


def test_list_shows_all_kinds_and_where_they_come_from() -> None:
    """As a table and as JSON, all kinds or one."""
    text = harness("list").stdout
    assert all(word in text for word in ("lstm", "recall", "grad_reach", "sequence-harness"))
    content = json.loads(harness("list", "models", "--format", "json").stdout)
    assert {item["kind"] for item in content["plugins"]} == {"model"}
    assert content["broken"] == []


def test_a_kind_without_plugins_is_listed_as_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the built-in plugins themselves are broken: the list is what then tells."""
    monkeypatch.setattr(default_registry(), "all", lambda kind: [])
    listed = harness("list")
    assert listed.exit_code == 0
    assert listed.stdout.count("none") == 5


def test_show_explains_a_plugin() -> None:
    """Arguments with types and defaults, needs, stages, source; as JSON too."""
    text = harness("show", "model", "gpt").stdout
    assert "one of learned, sinusoidal, none, rope, alibi" in text
    assert "harness_plugins.models.gpt:GPT" in text
    content = json.loads(harness("show", "probe", "grad_reach", "--format", "json").stdout)
    assert content["stages"] == ["initial", "trained"]
    assert content["arguments"] == [{"name": "examples", "type": "int > 0", "required": False, "default": 64}]


def test_show_a_suite() -> None:
    """What it crosses and claims; as JSON whole, ready to be run."""
    assert "claims" in harness("show", "suite", "recall").stdout
    shown = Suite.model_validate_json(harness("show", "suite", "recall", "--format", "json").stdout)
    assert shown == find_suite("recall")


def test_the_schema_describes_records() -> None:
    """It is JSON Schema, and its descriptions say what each field means."""
    schema: dict[str, Any] = json.loads(harness("schema").stdout)
    assert {"status", "measurements", "provenance"} <= schema["properties"].keys()
    assert schema["$defs"]["Timing"]["properties"]["probe"]["description"]
    assert "claims" in json.loads(harness("schema", "suite").stdout)["properties"]


def test_the_command_is_installed() -> None:
    """`harness` is on the path beside the interpreter and knows its version."""
    command = Path(sys.executable).parent / "harness"
    done = subprocess.run([command, "--version"], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.startswith("harness, version ")


@pytest.mark.parametrize(
    "words", [["list"], ["list", "--format", "json"], ["--help"], ["run", "--help"], ["schema"], ["report", "there"]]
)
def test_light_commands_do_not_import_torch(words: list[str]) -> None:
    """What only lists, explains itself or reads records stays fast."""
    harness("run", "--model", "lstm:hidden=8", "--out", "there", *QUICK)
    assert "torch" not in _imported(f"from harness.cli import main; main({words!r}, standalone_mode=False)")


def test_listing_imports_no_more_than_it_needs() -> None:
    """Neither the schema of records, nor what prints tables, nor the other commands."""
    assert not {"pydantic", "tabulate", "harness.cli.running"} & _imported(
        "from harness.cli import main; main(['list'], standalone_mode=False)"
    )


def test_the_check_for_torch_can_fail() -> None:
    """`harness show` has to import the plugin, so that torch must be seen."""
    words = ["show", "model", "lstm"]
    assert "torch" in _imported(f"from harness.cli import main; main({words!r}, standalone_mode=False)")


def _imported(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint('\\nMODULES', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        encoding="utf-8",
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    return set(done.stdout.rpartition("MODULES")[2].split())
