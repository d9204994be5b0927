"""Where a model looks and what it relies on, on models whose answer is known."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hand_set import Blind, LastDistractor, Leaky, Lookup
from harness_plugins.models.gpt import GPT
from harness_plugins.models.lstm import LSTM
from harness_plugins.probes.attention_to_subject import AttentionToSubject
from harness_plugins.probes.edge_cut import EdgeCut
from harness_plugins.probes.input_swap import input_swap
from harness_plugins.probes.position_extrapolation import PositionExtrapolation
from harness_plugins.tasks.farm_agreement import FarmAgreement
from harness_plugins.tasks.recall import VOCABULARY, Recall
from measured import cell, curve, measure, scalar
from torch import Tensor, nn

import harness
from harness import IGNORE, Batch, Condition, Interface, Metric, Skip, Task
from harness.errors import RequestError
from harness.measurements import Matrix


def test_a_head_that_looks_at_the_key_is_found() -> None:
    """Share 1 on the cue at every distance, against a uniform share of 1/(d + 2)."""
    found = measure(AttentionToSubject(), Lookup())
    assert curve(found, "sharpest_share") == pytest.approx([1.0] * 4, abs=1e-5)
    assert scalar(found, "sharpest_head").verdict == "layer 1 head 1"
    assert scalar(found, "times_uniform").value == pytest.approx(12, abs=1e-3)  # trained to d = 20, measured at 10
    assert cell(found, "share_on_cue", "uniform", "40") == pytest.approx(1 / 42)
    assert "share_by_role" not in found  # recall has no roles


def test_shares_by_role_add_up() -> None:
    """Every token before a verb has a role, so that each head's shares sum to 1; so do the uniform ones."""
    found = measure(AttentionToSubject(), GPT(56), FarmAgreement(k_max=3))
    matrix = found["share_by_role"]
    assert isinstance(matrix, Matrix)
    assert matrix.columns == ["bos", "determiner", "subject", "preposition", "distractor"]
    assert [sum(row) for row in matrix.values] == pytest.approx([1.0] * len(matrix.rows), abs=1e-5)
    assert cell(found, "share_by_role", "uniform", "subject") == pytest.approx(1 / 12)


def test_a_model_that_relies_on_the_key_fails_without_it() -> None:
    """Right at every distance, wrong without the key, right with another token cut; and the cut is proven."""
    found = measure(EdgeCut(), Lookup())
    assert curve(found, "untouched") == [1.0] * 4
    assert max(curve(found, "cue_cut")) < 0.05
    assert curve(found, "sham_cut") == [1.0] * 4
    assert curve(found, "leak_by_distance") == [0.0] * 4
    assert scalar(found, "score_after_cut").verdict == "relies on it, at chance without"
    assert (scalar(found, "leak").value, scalar(found, "leak").verdict) == (0.0, "proven")
    assert scalar(found, "score_after_sham").value == 1.0


def test_looking_is_not_relying() -> None:
    """The second head looks at the key as the first one does; cutting it changes nothing, and it is named."""
    found = measure(EdgeCut(), Lookup())
    assert cell(found, "by_head", "layer 1 head 2", "attention") == pytest.approx(1.0, abs=1e-5)
    assert cell(found, "by_head", "layer 1 head 2", "effect") == 0.0
    assert cell(found, "by_head", "layer 1 head 1", "accuracy") < 0.05
    disagreements = scalar(found, "disagreements")
    assert disagreements.value == 1
    assert disagreements.verdict is not None
    assert disagreements.verdict.startswith("layer 1 head 2 looks")


def test_a_way_round_the_cut_is_reported() -> None:
    """A recurrence carries the key past the cut: the leak is not 0, and nothing is claimed."""
    found = measure(EdgeCut(), Leaky())
    assert scalar(found, "leak").value > 0
    assert scalar(found, "leak").verdict == "not proven"
    assert scalar(found, "score_after_cut").verdict == "not proven: the cut leaks"


def test_partial_cuts_leak() -> None:
    """One layer, one head or the query alone: in a model of several layers the token comes through another way."""
    torch.manual_seed(0)
    found = measure(EdgeCut(), GPT(VOCABULARY, layers=2))
    assert scalar(found, "leak").value == 0.0
    for name in ("layer 1", "layer 2", "layer 1 head 1", "query alone"):
        assert cell(found, "by_head", name, "leak") > 0, name
        assert cell(found, "by_head", name, "before") == 0, name


def test_a_model_that_never_learned_is_not_judged() -> None:
    """There is nothing to rely on in a wrong answer."""
    assert scalar(measure(EdgeCut(), Blind()), "score_after_cut").verdict == "has not learned"


@pytest.mark.parametrize("position", get_args(GPT.__init__.__annotations__["position"]))
def test_full_cuts_leak_nothing_whatever_the_positions(position: Any) -> None:
    """Exactly 0 in float32, for every role and distance, and no effect on what came before."""
    torch.manual_seed(0)
    found = measure(EdgeCut(), GPT(56, heads=4, d_model=32, position=position), FarmAgreement(k_max=4), examples=16)
    assert curve(found, "leak_by_distance")[1:] == [0.0] * 4
    table = found["by_role"]
    assert isinstance(table, Matrix)
    for row in table.rows[1:]:
        assert cell(found, "by_role", row, "leak") == 0.0, row
        assert cell(found, "by_role", row, "before") == 0.0, row
        assert cell(found, "by_role", row, "effect") > 0.0, row


class Encoder(nn.Module):
    """PyTorch's own transformer, as somebody would write it who has never heard of the harness."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(16, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        out: Tensor = self.out(self.encoder(self.embedding(tokens), mask=mask, is_causal=True))
        return out


def test_a_transformer_that_does_not_know_the_harness() -> None:
    """Is observed and cut like any other; the full cut leaks exactly 0."""
    torch.manual_seed(0)
    found = measure(EdgeCut(), Encoder())
    assert curve(found, "leak_by_distance") == [0.0] * 4
    assert cell(found, "by_head", "layer 2 head 2", "leak") > 0


def test_a_layer_that_does_not_exist_is_an_error() -> None:
    """Never an empty table."""
    with pytest.raises(RequestError, match="edge_cut:layer=3: the model has 2 layers"):
        measure(EdgeCut(layer=3), GPT(VOCABULARY))
    with pytest.raises(RequestError, match="edge_cut:head=9: the model has 2 heads"):
        measure(EdgeCut(head=9), GPT(VOCABULARY))
    chosen = measure(EdgeCut(layer=2, head=1), GPT(VOCABULARY))["by_head"]
    assert isinstance(chosen, Matrix)
    assert chosen.rows == ["nothing", "layer 2 head 1", "query alone", "query alone, sham"]


class ByHand(nn.Module):
    """Computes attention without PyTorch's function, and shows its pattern itself."""

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.zeros(*tokens.shape, VOCABULARY)

    def attention_patterns(self, tokens: Tensor) -> list[Tensor]:
        causal = torch.ones(tokens.shape[1], tokens.shape[1]).tril()
        return [(causal / causal.sum(1, keepdim=True)).expand(len(tokens), 3, -1, -1)]


def test_a_model_may_show_its_patterns_itself() -> None:
    """It can be observed, not cut: that is skipped with the reason."""
    found = measure(AttentionToSubject(), ByHand())
    assert curve(found, "sharpest_share") == pytest.approx([1 / 4, 1 / 7, 1 / 12, 1 / 42])
    with pytest.raises(Skip, match="computes them by itself"):
        measure(EdgeCut(), ByHand())


def test_a_model_without_attention_is_skipped_and_still_answers_swaps(tmp_path: Path) -> None:
    """`attention_to_subject` and `edge_cut` say why; `input_swap` measures."""
    probes = ["attention_to_subject", "edge_cut", "input_swap"]
    task = "recall:train_max=5,distances=[1,5]"
    training = {"steps": 5}
    results = harness.run(["lstm:hidden=8"], [task], probes, seeds=1, out=tmp_path, training=training, examples=32)
    assert [r.status for r in results] == ["skipped", "skipped", "ok"]
    assert all(r.reason and "no attention" in r.reason for r in results.records[:2])


def test_cuts_cost_a_forward_each() -> None:
    """All cuts together cost no more than their number + 2 passes over the examples."""
    rows = []

    class Counting(GPT):
        def forward(self, tokens: Tensor) -> Tensor:
            rows.append(len(tokens))
            return super().forward(tokens)

    examples = 256
    found = measure(EdgeCut(), Counting(56, layers=2, heads=4, d_model=16), FarmAgreement(k_max=3), examples=examples)
    cuts = sum(len(m.rows) - 1 for m in found.values() if isinstance(m, Matrix)) + 2 * 2  # and cue and sham at k = 1, 2
    conditions = 4
    assert sum(rows) / examples <= cuts + 2 * conditions


def test_swapping_the_cue_shows_what_the_answer_follows() -> None:
    """The key, the distractors, or neither."""
    follows = measure(input_swap, Lookup())
    assert curve(follows, "follows_cue") == curve(follows, "keeps_answer") == [1.0] * 4
    assert scalar(follows, "cue_effect").verdict == "follows the cue"
    assert scalar(measure(input_swap, Blind()), "cue_effect").verdict == "has not learned"


def test_swapping_distractors_can_matter() -> None:
    """A model that answers with the last distractor is found out where the distractor gives the answer away."""

    class Cheating(Recall):
        def evaluate(self, *arguments: Any) -> harness.Batch:
            batch = super().evaluate(*arguments)
            batch.tokens[:, -2] = batch.tokens[:, 0] + 8
            return batch

    found = measure(input_swap, LastDistractor(), Cheating(distances=[2, 5, 10]))
    assert curve(found, "untouched") == [1.0] * 3
    assert scalar(found, "cue_effect").verdict == "follows the distractors"
    assert max(curve(found, "keeps_answer")) == 0.0


def test_swaps_respect_agreement() -> None:
    """The partner's subject has the other number, so that an oracle of the old answer is always wrong afterwards."""

    class FirstNoun(nn.Module):
        """Agrees with the noun at position 2, perfectly."""

        def forward(self, tokens: Tensor) -> Tensor:
            from harness_plugins.tasks.farm_agreement import NOUN_IDS, VERB_IDS

            plural = torch.isin(tokens[:, 2], NOUN_IDS[1]).long()
            logits = torch.zeros(*tokens.shape, 56)
            logits.scatter_(2, VERB_IDS[plural][:, None].expand(-1, tokens.shape[1], -1), 9.0)
            return logits

    found = measure(input_swap, FirstNoun(), FarmAgreement(k_max=3))
    assert curve(found, "follows_cue") == curve(found, "keeps_answer") == [1.0] * 3
    assert scalar(found, "cue_effect").value == 1.0


def test_extrapolation_is_measured_up_to_where_it_ends() -> None:
    """A position table that ends is a limit with a reason, and no failure; scores up to there are kept."""
    found = measure(PositionExtrapolation(), GPT(VOCABULARY, max_length=12))
    scores = curve(found, "score")
    assert [score == score for score in scores] == [True, True, True, False]
    limit = scalar(found, "limit")
    assert limit.value == 10
    assert limit.verdict is not None
    assert limit.verdict.startswith("at 40 (42 tokens): ValueError")
    assert scalar(measure(PositionExtrapolation(), LSTM(VOCABULARY)), "limit").value == float("inf")


def test_extrapolation_names_the_longest_good_length() -> None:
    """And flags a score below chance beyond the trained range."""

    class Short(Lookup):
        """Right up to 10 distractors; beyond, it says the same wrong thing always."""

        def forward(self, tokens: Tensor) -> Tensor:
            logits = super().forward(tokens)
            if tokens.shape[1] > 12:
                logits[..., VOCABULARY - 1] = 100.0
            return logits

    found = measure(PositionExtrapolation(), Short(), Recall(train_max=5, distances=[2, 5, 10, 40]), examples=512)
    assert scalar(found, "longest_good").value == 10
    assert scalar(found, "worst_beyond").verdict == "below chance"
    elsewhere = measure(PositionExtrapolation(at=[3, 8, 15]), Short(), Recall(train_max=5))
    assert scalar(elsewhere, "longest_good").value == 8


class Repeats(Task):
    """Every token is to be repeated, and at the last place the first one: most targets are not about the cue."""

    interface = Interface(18, 18)
    metrics = {"accuracy": Metric("share", 1 / 18, 1.0)}  # noqa: RUF012

    def conditions(self) -> list[Condition]:
        return [Condition(10.0, True)]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        tokens = torch.randint(18, (examples, 10), generator=generator)
        targets = tokens.clone()
        targets[:, 0], targets[:, -1] = IGNORE, tokens[:, 0]
        first = torch.zeros(examples, dtype=torch.long)
        return Batch(tokens, targets, torch.ones_like(tokens).bool(), first, first + 9)

    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        asked = batch.targets != IGNORE
        return {"accuracy": ((outputs.argmax(-1) == batch.targets) & asked).float().sum(1) / asked.sum(1)}


class Copies(nn.Module):
    """Repeats, and never looks back."""

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(tokens, 18).float()


def test_what_is_right_elsewhere_does_not_follow_the_cue() -> None:
    """Nine of ten targets are right whatever the cue is; the one at the query is not."""
    found = measure(input_swap, Copies(), Repeats())
    assert scalar(found, "cue_effect").verdict == "has not learned"
    assert curve(found, "untouched")[0] < 0.2


class Placed(Recall):
    """Recall in sequences of two lengths, whose score needs the place of the question."""

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        batch = super().evaluate(condition, examples, generator)
        at = torch.arange(examples) % 2 + batch.tokens.shape[1] - 2
        rows = torch.arange(examples)
        tokens, targets = batch.tokens.clone(), torch.full_like(batch.targets, IGNORE)
        tokens[rows, at], targets[rows, at] = batch.tokens[:, -1], batch.tokens[:, 0]
        tokens[at < at.max(), -1] = VOCABULARY - 1
        return replace(batch, tokens=tokens, targets=targets, query=at, extra={"at": at})

    def score(self, outputs: Tensor, batch: Batch) -> dict[str, Tensor]:
        assert batch.extra is not None
        rows, at = torch.arange(len(batch)), batch.extra["at"]
        right = outputs[rows, at].argmax(-1) == batch.targets[rows, at]
        return {"accuracy": right.float()}

    def summarise(self, scores: Mapping[str, Tensor]) -> dict[str, float]:
        return {"accuracy": scores["accuracy"].mean().item()}


class Told(Placed):
    """Says that places are no answers."""

    def with_answers_of(self, batch: Batch, partner: Tensor) -> Batch:
        return replace(super().with_answers_of(batch, partner), extra=batch.extra)


def test_a_task_may_say_what_is_no_answer() -> None:
    """By default all that the score needs comes from the partner; the place of the question stays where it is."""
    assert curve(measure(input_swap, Lookup(), Told(distances=[5])), "follows_cue") == [1.0]
    assert curve(measure(input_swap, Lookup(), Placed(distances=[5])), "follows_cue")[0] < 0.8
