"""Models of transformers: the probes answer for architectures that nobody here wrote."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import harness as invoke
from conftest import SHORT
from harness_plugins.probes.attention_to_subject import AttentionToSubject
from harness_plugins.probes.edge_cut import EdgeCut, cue_and_sham
from harness_plugins.probes.grad_reach import GradReach
from harness_plugins.probes.input_swap import input_swap
from harness_plugins.probes.position_extrapolation import PositionExtrapolation
from harness_plugins.tasks.recall import Recall
from hf_models import SETTINGS, request, tiny
from measured import Found, column, curve, value

import harness
from harness import Interface, Skip, Task
from harness.attention import attention_patterns, cut, edges_after, observe
from harness.measurements import Matrix, Scalar
from harness.needs import unmet
from harness.subject import Subject

pytest.importorskip("transformers")

from harness_plugins.models.hf import HF

CPU = torch.device("cpu")

ATTENTION = ("gpt2", "llama", "qwen3", "gpt_neox", "opt", "mistral", "gemma2")

HYBRIDS = ("jamba", "recurrent_gemma")

RECALL = Interface(18, 18)

TOKENS = torch.arange(24).view(2, 12) % 18


def measure(probe: Callable[[Subject], Any], model: HF, task: Task | None = None) -> Found:
    task = task or Recall(distances=[2, 5, 10])
    subject = Subject(model, task, stage="trained", seed=0, device=CPU, examples=16)
    assert unmet(getattr(probe, "needs", ()), subject) == ""
    return {measurement.name: measurement for measurement in probe(subject)}


@pytest.mark.parametrize("architecture", ATTENTION)
def test_every_probe_answers_for_a_model_with_attention(architecture: str) -> None:
    """A full cut leaks exactly 0, nothing before it changes, and gradient, attention and swaps are measured."""
    model = tiny(architecture)
    cuts = measure(EdgeCut(), model)
    assert curve(cuts, "leak_by_distance") == [0.0] * 3
    assert set(column(cuts, "by_head", "before")) == {0.0}
    assert max(column(cuts, "by_head", "effect")) > 0 or architecture == "mistral"  # the key is outside its window
    shares = measure(AttentionToSubject(), model)["share_on_cue"]
    assert isinstance(shares, Matrix)
    assert len(shares.values) == 8 + 1
    assert curve(measure(GradReach(), model), "cue_gradient")[0] > 0
    assert len(curve(measure(input_swap, model), "follows_cue")) == 3


@pytest.mark.parametrize("architecture", HYBRIDS)
def test_the_leak_of_a_hybrid_is_reported(architecture: str) -> None:
    """Its recurrence carries the token past the cut; nothing is claimed from such a cut. It is causal all the same."""
    cuts = measure(EdgeCut(), tiny(architecture))
    leak = cuts["leak"]
    assert isinstance(leak, Scalar)
    assert leak.value > 0
    assert leak.verdict == "not proven"
    assert set(column(cuts, "by_head", "before")) == {0.0}


def test_a_model_without_attention_is_skipped_with_the_reason() -> None:
    """Mamba has none; gradient and swaps are measured."""
    model = tiny("mamba")
    subject = Subject(model, Recall(), stage="trained", seed=0, device=CPU)
    assert "no attention" in unmet(EdgeCut.needs, subject)
    assert curve(measure(GradReach(), model), "cue_gradient")[0] > 0
    assert len(curve(measure(input_swap, model), "follows_cue")) == 3


def test_a_model_that_computes_attention_by_hand_shows_it() -> None:
    """It can be looked at, not cut, and the reason is said."""
    model = tiny("bloom")
    shares = curve(measure(AttentionToSubject(), model), "sharpest_share")
    assert all(0 < share < 1 for share in shares)
    pattern = attention_patterns(model, TOKENS)[0]
    assert torch.allclose(pattern.sum(-1), torch.ones(()), atol=1e-5)
    with pytest.raises(Skip, match="computes them by itself"):
        measure(EdgeCut(), model)


def test_capped_attention_is_the_library_s_own() -> None:
    """Gemma 2 through PyTorch's function gives what its own code gives, and shows its patterns."""
    ours, theirs = tiny("gemma2", attn_logit_softcapping=0.05), tiny("gemma2", attn_logit_softcapping=0.05)
    theirs.model.set_attn_implementation("eager")
    assert ours.model.config._attn_implementation == "harness_capped"
    with torch.no_grad():
        assert torch.allclose(ours(TOKENS), theirs(TOKENS), atol=1e-6)
        patterns = theirs.model(input_ids=TOKENS, output_attentions=True).attentions
    for seen, own in zip(attention_patterns(ours, TOKENS), patterns, strict=True):
        assert torch.allclose(seen, own, atol=1e-6)
    plain = tiny("gemma2", attn_logit_softcapping=None)
    assert not torch.allclose(plain(TOKENS), ours(TOKENS), atol=1e-6)  # so that the cap is known to matter


def test_sliding_windows_are_kept() -> None:
    """Each query sees the window's three last tokens and nothing else, observed or cut."""
    pattern = attention_patterns(tiny("mistral"), TOKENS)[0]
    positions = torch.arange(12)
    distance = positions[:, None] - positions
    window = (distance >= 0) & (distance < 3)
    assert (pattern[..., ~window] == 0).all()
    assert (pattern[..., window] > 0).all()


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_an_edge_cut_agrees_with_a_float_mask(architecture: str) -> None:
    """The same edges removed through transformers' own 4-D attention mask, to 1e-5; the cut matters."""
    model = tiny(architecture)
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
    model = tiny(architecture)
    assert model.max_length == limit
    found = measure(PositionExtrapolation(), model, Recall(distances=[5, 22, 23]))
    assert value(found, "limit") == (22 if limit else float("inf"))
    if limit:
        with pytest.raises(ValueError, match="25 tokens, but the model has positions for 24"):
            model(torch.zeros(1, 25, dtype=torch.long))


def test_a_model_is_the_same_whatever_was_checked_before() -> None:
    """Checking the arguments draws no random numbers, and no token has a meaning of its own."""
    first = tiny("opt")
    torch.manual_seed(0)
    HF.check_arguments(path=None, gguf_file=None, config="opt", dtype="float32", hub=False, **SETTINGS["opt"])
    second = HF(RECALL, config="opt", **SETTINGS["opt"]).eval()
    assert torch.equal(first(TOKENS), second(TOKENS))
    assert (first.get_input_embeddings().weight != 0).any(1).all()  # type: ignore[union-attr]


def test_half_precision() -> None:
    """`dtype` is that of weights and outputs."""
    model = tiny("llama", dtype="bfloat16")
    assert model(TOKENS).dtype == torch.bfloat16
    assert curve(measure(EdgeCut(), model), "leak_by_distance") == [0.0] * 3


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


def test_without_transformers_the_fix_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is listed, and asking for it names the extra to install."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert "any causal language model" in " ".join(invoke("list", "models").output.split())
    result = invoke("run", "--model", "hf:config=gpt2")
    assert result.exit_code == 2
    assert 'pip install "sequence-harness[hf]"' in result.output
