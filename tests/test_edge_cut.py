"""What edge cuts conclude, with the chance that is in their scores, and what keeps them honest."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hand_set import SHARP, Blind, LastDistractor, Lookup, is_key
from harness_plugins.models.gpt import GPT
from harness_plugins.probes import edge_cut
from harness_plugins.probes.cuts import CutResult, Scores, Untouched, run_cuts
from harness_plugins.probes.edge_cut import EdgeCut, cue_and_sham
from harness_plugins.probes.looks import Looks, Share
from harness_plugins.probes.reliance import disagreements, reliance
from harness_plugins.tasks.farm_agreement import NOUN_IDS, VERB_IDS, FarmAgreement
from harness_plugins.tasks.recall import KEYS, VOCABULARY, Recall
from measured import cell, measure, scalar
from torch import Tensor, nn

import harness
from harness.errors import RequestError
from harness.examples import standard_error
from harness.measurements import Curve, Matrix
from harness.subject import Subject

SHORT = Recall(distances=[2, 5])


def verdict(model: nn.Module, task: harness.Task = SHORT, **settings: Any) -> str | None:
    return scalar(measure(EdgeCut(), model, task, **settings), "score_after_cut").verdict


class TestShams:
    def positions(self, patch: pytest.MonkeyPatch, model: nn.Module) -> list[list[list[bool]]]:
        """Where the sham cuts, condition by condition."""
        found: list[list[list[bool]]] = []

        def spy(subject: Any, batch: Any, untouched: Any, cuts: Any, *rest: Any) -> Any:
            found.extend(each.keys.tolist() for each in cuts if each.name == "sham")
            return run_cuts(subject, batch, untouched, cuts, *rest)

        patch.setattr(edge_cut, "run_cuts", spy)
        measure(EdgeCut(), model, FarmAgreement(k_max=4), examples=16)
        return found

    def test_they_are_the_same_for_all_models(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """However many heads there are to prove a cut of, in every condition."""
        few = self.positions(monkeypatch, GPT(56, layers=1, heads=1))
        assert len(few) == 4
        assert few == self.positions(monkeypatch, GPT(56, layers=3, heads=4))

    def test_only_examples_that_have_one_count(self) -> None:
        """A cue between the first position and the query leaves no other; the other example keeps its sham."""
        tokens = torch.zeros(2, 6, dtype=torch.long)
        cue, query = torch.tensor([1, 1]), torch.tensor([2, 4])
        batch = harness.Batch(tokens, tokens, torch.ones_like(tokens, dtype=torch.bool), cue, query)
        _, sham = cue_and_sham(batch, torch.Generator())
        assert sham.keys.any(1).tolist() == [False, True]
        assert sham.keys[1].int().argmax() in (2, 3)


class Rests(Lookup):
    """Rests the attention of a second call on the first position, and answers the opposite without it."""

    def forward(self, tokens: Tensor) -> Tensor:
        first = (torch.arange(tokens.shape[1]) == 0).float().expand(len(tokens), 1, -1)[..., None]
        rest = F.scaled_dot_product_attention(torch.ones_like(first), SHARP * first, 2 * first - 1, is_causal=True)
        return super().forward(tokens) * rest[:, 0]


class ByPosition(Lookup):
    """Answers with what stands first, key or not."""

    def forward(self, tokens: Tensor) -> Tensor:
        first = (torch.arange(tokens.shape[1]) == 0).float().expand(len(tokens), 1, -1)[..., None]
        kinds = F.one_hot(tokens, VOCABULARY).float()[:, None]
        return F.scaled_dot_product_attention(torch.ones_like(first), SHARP * first, kinds, is_causal=True)[:, 0]


class TestFirstPosition:
    @pytest.mark.parametrize(
        ("model", "words"),
        [
            (Lookup, "harmless"),
            (Rests, "hurts, though it is not the cue"),
            (ByPosition, "not to be told apart from the cue"),
            (Blind, "has not learned"),
        ],
    )
    def test_where_the_cue_always_stands_first(self, model: type[nn.Module], words: str) -> None:
        """It is cut in sequences where the key has changed places with a distractor."""
        found = scalar(measure(EdgeCut(), model()), "first_position_cut")
        assert found.verdict == words
        assert found.headline

    def test_where_the_cue_stands_elsewhere(self) -> None:
        """It is cut as it is; a row beside the roles says with what effect."""
        found = measure(EdgeCut(), GPT(56), FarmAgreement(k_max=2))
        assert cell(found, "by_role", "first position", "leak") == 0.0
        assert cell(found, "by_role", "first position", "effect") == cell(found, "by_role", "bos", "effect") > 0
        assert scalar(found, "first_position_cut").value == cell(found, "by_role", "first position", "accuracy")


class Passes(Lookup):
    """Looks at the key as it should; the answer comes from another way round, straight from the input."""

    def forward(self, tokens: Tensor) -> Tensor:
        return 0 * super().forward(tokens) + F.one_hot(tokens[:, :1], VOCABULARY).expand(-1, tokens.shape[1], -1)


class LooksAndGuesses(Lookup):
    """Looks at the key and answers with something else, given by the last distractor."""

    def forward(self, tokens: Tensor) -> Tensor:
        guess: Tensor = LastDistractor()(tokens)
        return 0 * super().forward(tokens) + guess


class LastNoun(nn.Module):
    """Looks at the subject (by its position) and agrees with the noun before the verb."""

    def forward(self, tokens: Tensor) -> Tensor:
        at = (torch.arange(tokens.shape[1]) == 2).float().expand(len(tokens), 1, -1)[..., None]
        looks = F.scaled_dot_product_attention(torch.ones_like(at), SHARP * at, at, is_causal=True)
        plural = torch.isin(tokens, NOUN_IDS[1])
        logits = torch.zeros(*tokens.shape, 56)
        for number, verbs in enumerate(VERB_IDS):
            logits[..., verbs] = 9.0 * (plural == number).float()[..., None]
        return logits + 0 * looks[:, 0]


class Weak(nn.Module):
    """Sees only what came before, since -100 is added to all other scores; answers with the key."""

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        mask = torch.zeros(length, length).masked_fill(torch.ones(length, length).triu().bool(), -100.0)
        mask[0, 0] = 0.0
        query, key = torch.ones(len(tokens), 1, length, 1), SHARP * is_key(tokens)[:, None, :, None]
        return F.scaled_dot_product_attention(query, key, F.one_hot(tokens, VOCABULARY).float()[:, None], mask)[:, 0]


class TestNothingIsClaimed:
    @pytest.mark.parametrize(
        ("model", "task", "words"),
        [
            (Blind, SHORT, "has not learned"),
            (LooksAndGuesses, SHORT, "has not learned"),
            (LastNoun, FarmAgreement(k_max=3), "has not learned"),
            (Passes, SHORT, "not proven: the cut leaks"),
            (Weak, SHORT, "not proven: the cut opens the future"),
        ],
    )
    def test_of_a_model_that_looks_right_and_answers_another_way(
        self, model: type[nn.Module], task: harness.Task, words: str
    ) -> None:
        """However well it looks at the cue; nor are its heads held against it."""
        found = measure(EdgeCut(), model(), task)
        after_cut = scalar(found, "score_after_cut")
        assert after_cut.verdict == words
        assert max(share for share in _column(found["by_head"], "attention") if not math.isnan(share)) > 0.9
        if words == "has not learned":
            assert scalar(found, "disagreements").value == 0
        else:
            assert scalar(found, "leak").verdict == "not proven"

    def test_after_too_little_training(self) -> None:
        """Less than half of what is recommended: that it has not learned says nothing. What it has learned, it has."""
        assert verdict(Blind(), budget=0.49) == "trained too briefly"
        assert verdict(Blind(), budget=0.5) == "has not learned"
        assert verdict(Lookup(), budget=0.1) == "relies on it, at chance without"

    def test_near_a_threshold(self) -> None:
        """Right for 4 of 8 last distractors is 0.43 of the way to perfect: too few of 64 examples, enough of 4096."""

        class Half(Lookup):
            def forward(self, tokens: Tensor) -> Tensor:
                outputs, last = super().forward(tokens), tokens.roll(1, 1) % KEYS
                return torch.where((last < 4)[..., None], outputs, -outputs)

        assert verdict(Half(), examples=64) == "near the threshold"
        assert verdict(Half(), Recall(distances=[2]), examples=4096) == "has not learned"


def _column(matrix: object, name: str) -> list[float]:
    assert isinstance(matrix, Matrix)
    return [row[matrix.columns.index(name)] for row in matrix.values]


def scores(accuracy: float, error: float = 0.0) -> Scores:
    return Scores({"accuracy": accuracy}, {"accuracy": error})


class TestChance:
    subject = Subject(Lookup(), SHORT, stage="trained", seed=0, device=torch.device("cpu"))

    def outcome(self, before: float, after: float, error: float) -> CutResult:
        return CutResult(scores(after, error), scores(before, error), effect=1.0, leak=0.0, before=0.0, opened=0.0)

    def untouched(self, accuracy: float, error: float) -> Untouched:
        return Untouched(scores(accuracy, error), {}, torch.zeros(1, 1), Looks([], []))

    @pytest.mark.parametrize(
        ("before", "after", "sham", "error", "words"),
        [
            (1.0, 0.125, 1.0, 0.01, "relies on it, at chance without"),
            (1.0, 0.5, 1.0, 0.01, "relies on it"),
            (1.0, 0.3, 1.0, 0.01, "relies on it"),  # whether that is chance cannot be said, but what it relies on can
            (1.0, 0.9, 1.0, 0.01, "does not rely on it"),
            (1.0, 0.8, 1.0, 0.02, "near the threshold"),
            (1.0, 0.8, 1.0, 0.0, "does not rely on it"),
            (1.0, 0.125, 0.2, 0.01, "any cut hurts as much"),
            (1.0, 0.125, 0.55, 0.02, "near the threshold"),
            (1.0, 0.125, 0.55, 0.0, "any cut hurts as much"),
            (0.58, 0.125, 0.58, 0.02, "near the threshold"),
            (1.0, math.nan, 1.0, 0.01, "not proven: a score under the cut is no number"),
        ],
    )
    def test_a_verdict_holds_within_two_standard_errors(
        self, before: float, after: float, sham: float, error: float, words: str
    ) -> None:
        """Of any score; a qualifier that does not hold is left out and takes nothing with it."""
        found = {"cue": self.outcome(before, after, error), "sham": self.outcome(before, sham, error)}
        first, *_ = reliance(self.subject, self.untouched(before, error), found)
        assert first.verdict == words
        assert first.standard_error == error

    @pytest.mark.parametrize(("share", "error", "count"), [(0.9, 0.01, 1), (0.35, 0.01, 1), (0.35, 0.03, 0)])
    def test_so_does_a_disagreement(self, share: float, error: float, count: int) -> None:
        """A head that may or may not look is not named."""
        found = {"layer 1 head 1": self.outcome(1.0, 1.0, 0.01)}
        shares = {"layer 1 head 1": Share(share, error)}
        assert disagreements(self.subject, self.untouched(1.0, 0.01), found, shares, 0.1).value == count

    def test_scores_carry_their_standard_errors(self) -> None:
        """Those of the task, for curves and scalars."""
        found = measure(EdgeCut(), Lookup(), SHORT)
        error = standard_error(torch.ones(64), share=True)
        for name in ("untouched", "sham_cut"):
            measured = found[name]
            assert isinstance(measured, Curve)
            assert measured.standard_errors == pytest.approx([error] * 2)
        assert scalar(found, "score_after_sham").standard_error == pytest.approx(error)
        assert scalar(found, "score_after_cut").standard_error is not None


class Hybrid(nn.Module):
    """A block that mixes with the token before, then one that attends, and again."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(VOCABULARY, 8)
        self.blocks = nn.ModuleList([Mixes(), Attends(), Mixes(), Attends()])

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.embedding(tokens)
        for block in self.blocks:
            x = x + block(x)
        return x @ self.embedding.weight.mT


class Mixes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, 1, 0))[:, :-1]


class Attends(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], is_causal=True)[:, 0]


class TestNames:
    def rows(self, **arguments: Any) -> Sequence[str]:
        table = measure(EdgeCut(**arguments), Hybrid(), SHORT)["by_head"]
        assert isinstance(table, Matrix)
        return table.rows

    def test_layers_of_a_hybrid_are_named_by_their_path(self) -> None:
        """Its second block is not layer 1; one is chosen by that name."""
        alone = ["query alone", "query alone, sham"]
        names = ["blocks.1", "blocks.3", "blocks.1 head 1", "blocks.3 head 1"]
        assert self.rows() == ["nothing", *names, *alone]
        assert self.rows(layer="blocks.3", head=1) == ["nothing", "blocks.3 head 1", *alone]
        with pytest.raises(RequestError, match=r"edge_cut:layer=1: the model has 2 layers: blocks\.1, blocks\.3"):
            self.rows(layer=1)

    def test_layers_of_a_plain_model_keep_their_numbers(self) -> None:
        """By number or by name."""
        for layer in (2, "layer 2"):
            table = measure(EdgeCut(layer=layer, head=1), GPT(VOCABULARY), SHORT)["by_head"]
            assert isinstance(table, Matrix)
            assert table.rows[1] == "layer 2 head 1"
