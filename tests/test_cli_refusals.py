"""A request that cannot be carried out: what was wrong and what to write instead, before anything is trained."""

import sys
from pathlib import Path

import pytest
from commands import QUICK, harness
from commands import elsewhere as elsewhere  # the fixture


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


def test_bench_says_how_to_time_other_models() -> None:
    """It is a suite, and takes no models."""
    result = harness("bench", "--model", "gru")
    assert result.exit_code == 2
    assert "harness run --model gru --probe speed" in result.stderr
