"""What probes of the recurrent state conclude of models whose way to the answer is known."""

from functools import cache

import pytest
import torch
import torch.nn.functional as F
from harness_plugins.models.gpt import GPT
from harness_plugins.models.lstm import LSTM
from harness_plugins.probes.edge_cut import EdgeCut
from harness_plugins.probes.read_out import cross_predicted
from harness_plugins.probes.state_cut import StateCut
from harness_plugins.probes.state_decode import StateDecode
from harness_plugins.tasks.recall import KEYS, VOCABULARY, Recall
from measured import Found, cell, curve, measure, scalar
from torch import Tensor, nn

import harness
from harness import Skip
from harness.measurements import Matrix
from harness.needs import unmet
from harness.subject import Subject

TASK = Recall(train_max=8, distances=[2, 8])
FOLLOWS = "relies on it, the answer follows the state"


class Holds(nn.Module):
    """A latch: its state is the last key; it answers with what it holds, with what came last, or with both."""

    of_state, of_token, of_first = 1.0, 0.0, 0.0

    def initial_state(self, batch_size: int) -> Tensor:
        return torch.zeros(batch_size, KEYS)

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        key = F.one_hot(x.clamp(max=KEYS - 1), KEYS).float()
        state = torch.where((x < KEYS)[:, None], key, state)
        answer = self.of_state * state + self.of_token * F.one_hot(x % KEYS, KEYS).float()
        return F.pad(20 * answer, (0, VOCABULARY - KEYS)), state, {}

    def forward(self, tokens: Tensor) -> Tensor:
        state, outputs = self.initial_state(len(tokens)), []
        for x in tokens.unbind(1):
            output, state, _ = self.step(x, state)
            outputs.append(output)
        return torch.stack(outputs, 1)


class HoldsForNothing(Holds):
    """Holds the key and answers with the token that came last."""

    of_state, of_token = 0.0, 1.0


class Around(nn.Module):
    """A state that holds the key, unheard, and the answer straight from the input: right for the wrong reason."""

    heard = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.state = Holds()

    def forward(self, tokens: Tensor) -> Tensor:
        first = F.one_hot(tokens[:, :1], VOCABULARY).float().expand(-1, tokens.shape[1], -1)
        outputs: Tensor = self.heard * self.state(tokens) + 10 * first
        return outputs


class Outvoted(Around):
    """The same, where the state has the louder voice."""

    heard = 1.0


class Hybrid(nn.Module):
    """An LSTM, and attention over its outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 16)
        self.rnn = nn.LSTM(16, 16, batch_first=True)
        self.heads = nn.Linear(16, 48)
        self.out = nn.Linear(16, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        states = self.rnn(self.embedding(tokens))[0]
        query, key, value = (each[:, None] for each in self.heads(states).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)[:, 0]
        logits: Tensor = self.out(states + mixed)
        return logits


def trained(model: nn.Module, steps: int = 300) -> nn.Module:
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    data = TASK.train(64, torch.Generator().manual_seed(0))
    for _ in range(steps):
        batch = next(data)
        optimizer.zero_grad()
        TASK.loss(model(batch.tokens), batch).backward()
        optimizer.step()
    return model.eval()


@cache
def lstm() -> nn.Module:
    torch.manual_seed(0)
    return trained(LSTM(VOCABULARY, embedding=16, hidden=24))


def cut(model: nn.Module, **arguments: object) -> Found:
    return measure(StateCut(**arguments), model, TASK)  # type: ignore[arg-type]


class TestCut:
    def test_the_answer_of_a_trained_lstm_follows_the_state(self) -> None:
        """Under the exchange the partner's answer is given, under the sham nothing changes, and nothing leaks."""
        found = cut(lstm())
        after = scalar(found, "score_after_cut")
        assert (after.value, after.verdict) == (0.0, FOLLOWS)
        assert after.meaning
        assert scalar(found, "answer_follows").value == scalar(found, "score_after_sham").value == 1.0
        assert curve(found, "follows_state") == curve(found, "untouched") == curve(found, "sham_cut") == [1.0, 1.0]
        assert curve(found, "leak_by_distance") == [0.0, 0.0]
        assert scalar(found, "leak").verdict == "proven"
        assert cell(found, "by_state", "sham", "effect") < 1e-4 < cell(found, "by_state", "whole state", "effect")

    def test_parts_of_the_state(self) -> None:
        """Directions found on other examples carry the answer; what is left carries nothing of it. A part leaks."""
        found = cut(lstm(), cells=[1, 24])
        assert cell(found, "by_state", "answers' directions", "follows") == 1.0
        assert cell(found, "by_state", "all but the answers' directions", "accuracy") == 1.0
        table = found["by_state"]
        assert isinstance(table, Matrix)
        assert table.rows[2:5] == ["layer 1 hidden", "layer 1 cells", "layer 1 cells 1, 24"]
        for part in table.rows[2:5]:
            assert cell(found, "by_state", part, "effect") > 0
            assert cell(found, "by_state", part, "leak") > 0

    def test_what_is_not_there_is_refused(self) -> None:
        with pytest.raises(Skip, match="state_cut:cells=25: layer 1 has 24 cells"):
            cut(lstm(), cells=[25])
        with pytest.raises(Skip, match=r"state_cut:layer=2: the model.s recurrent layers are layer 1"):
            cut(lstm(), layer=2)

    @pytest.mark.parametrize(
        ("model", "words", "leak"),
        [
            (Holds, FOLLOWS, "proven"),
            (HoldsForNothing, "has not learned", "proven"),
            (Around, "not proven: the cut leaks", "not proven"),
            (Outvoted, FOLLOWS, "not proven"),
        ],
    )
    def test_of_models_set_by_hand(self, model: type[nn.Module], words: str, leak: str) -> None:
        """A model that answers another way is not said to follow its state; nor the other way round."""
        found = cut(model())
        assert scalar(found, "score_after_cut").verdict == words
        assert scalar(found, "leak").verdict == leak
        assert scalar(found, "answer_follows").value == (1.0 if words == FOLLOWS else pytest.approx(0.0, abs=0.3))

    def test_layers_one_by_one(self) -> None:
        """Each layer of two is a row of its own; together they are the whole."""
        torch.manual_seed(0)
        table = cut(LSTM(VOCABULARY, embedding=8, hidden=8, layers=2))["by_state"]
        assert isinstance(table, Matrix)
        assert [f"layer {n}{part}" for n in (1, 2) for part in ("", " hidden", " cells")] == table.rows[2:8]
        leaks = [row[table.columns.index("leak")] for row in table.values]
        assert leaks[1] == 0.0 < min(leaks[2:8])

    def test_both_cuts_run_on_a_hybrid(self) -> None:
        """Neither way is the only one."""
        torch.manual_seed(0)
        model = trained(Hybrid(), steps=150)
        for found in (cut(model), measure(EdgeCut(), model, TASK)):
            assert scalar(found, "leak").value > 0
            assert scalar(found, "score_after_cut").verdict

    def test_models_without_a_state_between(self) -> None:
        """Skipped with a reason: attention alone, and layers that read from the end."""
        subject = Subject(GPT(VOCABULARY), TASK, stage="trained", seed=0, device=torch.device("cpu"))
        assert "no state" in unmet(StateCut.needs, subject)
        for probe in (StateCut(), StateDecode()):
            with pytest.raises(Skip, match="layer 1 backward reads from the end"):
                measure(probe, LSTM(VOCABULARY, bidirectional=True), TASK)

    def test_a_cue_that_is_the_query(self) -> None:
        class Same(Recall):
            def evaluate(self, *arguments: object) -> harness.Batch:
                batch = super().evaluate(*arguments)  # type: ignore[arg-type]
                return harness.Batch(batch.tokens, batch.targets, batch.mask, batch.query, batch.query)

        with pytest.raises(Skip, match="the cue is the query itself"):
            measure(StateCut(), Holds(), Same(distances=[2]))


class TestDecode:
    @pytest.mark.parametrize(("model", "words"), [(Holds, "in the state"), (HoldsForNothing, "in the state, not used")])
    def test_in_the_state_and_used_are_two_things(self, model: type[nn.Module], words: str) -> None:
        found = measure(StateDecode(), model(), TASK, examples=256)
        assert scalar(found, "in_state").verdict == words
        assert curve(found, "decoded") == [1.0, 1.0]
        assert max(curve(found, "decoded_shuffled")) < 0.4

    def test_a_state_that_forgets(self) -> None:
        """At initialisation the key fades with the distance."""
        torch.manual_seed(0)
        task = Recall(train_max=4, distances=[2, 4, 30])
        found = measure(StateDecode(), LSTM(VOCABULARY, embedding=16, hidden=16), task, examples=256)
        assert scalar(found, "in_state_beyond").verdict == "not in the state"
        near, _, far = curve(found, "decoded")
        assert near > 0.9 > 0.3 > far

    def test_parts_of_a_trained_lstm(self) -> None:
        found = measure(StateDecode(), lstm(), TASK, examples=256)
        for part in ("whole state", "layer 1 hidden", "layer 1 cells"):
            assert cell(found, "by_part", part, "8") > 0.95

    def test_sequences_count_once(self) -> None:
        """64 sequences of one distractor, however many are drawn; a lone sequence of an answer is not held out."""
        found = measure(StateDecode(), Holds(), Recall(distances=[0, 1], train_min=0), examples=1024)
        assert curve(found, "sequences") == [8.0, 64.0]
        nothing, one = curve(found, "decoded")
        assert nothing != nothing
        assert one == 1.0


class TestReadOut:
    def test_classes_along_a_line_are_told_apart(self) -> None:
        """Where a regression on indicators would never name the one in the middle."""
        labels = torch.arange(3).repeat(20)
        half = torch.arange(60) < 30
        assert torch.equal(cross_predicted(labels.double()[:, None], labels, half), labels)

    def test_noise_is_not_found(self) -> None:
        """As many numbers as examples."""
        generator = torch.Generator().manual_seed(0)
        vectors = torch.randn(200, 100, generator=generator, dtype=torch.float64)
        labels, half = torch.arange(200) % 2, torch.arange(200) // 2 % 2 == 0
        assert abs((cross_predicted(vectors, labels, half) == labels).double().mean().item() - 0.5) < 0.15
