"""What probes of a recurrent state find, in figures that algebra gives and in models that nobody changed for them."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from harness_plugins.models.elman import Elman
from harness_plugins.models.gpt import GPT
from harness_plugins.models.gru import GRU
from harness_plugins.models.hand_set import Contraction, HandSet, Integrator, Latch, LSTMByHand
from harness_plugins.models.lstm import LSTM
from harness_plugins.probes.gates import Gates, explained
from harness_plugins.probes.memory_cell import MemoryCell
from harness_plugins.probes.state_jacobian import StateJacobian
from harness_plugins.tasks.adding import Adding
from harness_plugins.tasks.both_seen import BothSeen
from harness_plugins.tasks.noise import Noise
from harness_plugins.tasks.recall import KEYS, Recall
from measured import Found, cell, measure, scalar
from torch import Tensor, nn

import harness
from harness import Interface, Skip
from harness.measurements import Curve
from harness.plan import make_plan
from harness.registry import default_registry
from harness.requests import build_suite, find_suite
from harness.suites import Experiment, Request, Selection, Suite

EXACT = 1e-9
TINY = Recall(train_max=12, distances=[12])


def at(found: Found, name: str, place: float) -> float:
    measured = found[name]
    assert isinstance(measured, Curve)
    return measured.y[list(measured.x).index(place)]


class TestMemoryCell:
    def cell(self, model: type[HandSet], **arguments: Any) -> Found:
        return measure(MemoryCell(**{"draws": 20, **arguments}), model(BothSeen.interface), BothSeen(), examples=1)

    def test_contraction(self) -> None:
        """h3 = [1, 0], h4 = [1/2, 1], h5 = [1/4, 1/2]; right until step 12; float32 is 0 at multiplication 150."""
        found = self.cell(Contraction)
        for step, memory in ((3, (1.0, 0.0)), (4, (0.5, 1.0)), (5, (0.25, 0.5))):
            assert (at(found, "memory 1", step), at(found, "memory 2", step)) == memory
        assert at(found, "least", 12) == 0.001953125
        assert at(found, "least", 13) == 0.0009765625
        assert scalar(found, "last_right_step").value == 12
        assert scalar(found, "zero_after").value == 150
        assert at(found, "fixed_points", 1) == pytest.approx(0.0, abs=EXACT)
        assert at(found, "derivative_at_fixed_points", 1) == pytest.approx(0.5, abs=EXACT)
        assert scalar(found, "gradient_per_step").value == pytest.approx(0.5, abs=EXACT)

    def test_steps_that_no_sequence_has(self) -> None:
        with pytest.raises(Skip, match="sequences have 12 steps, fewer than any that is asked for"):
            measure(MemoryCell(steps=[100]), Contraction(BothSeen.interface), BothSeen(lengths=[12]), examples=1)

    def test_noise(self) -> None:
        """It is bounded in the contraction, and grows with the root of time in the integrator."""
        for model, sd in ((Contraction, 0.05 / math.sqrt(1 - 1 / 4)), (Integrator, 0.05 * math.sqrt(100))):
            probe = MemoryCell(draws=2000, steps=[100])
            found = measure(probe, model(BothSeen.interface), BothSeen(lengths=[100]), examples=1)
            assert at(found, "noise_sd", 100) == pytest.approx(sd, rel=0.05)

    def test_where_every_state_is_fixed_there_is_no_point(self) -> None:
        """An integrator without input stays where it is."""
        found = measure(MemoryCell(draws=2), Integrator(BothSeen.interface), BothSeen(lengths=[12]), examples=1)
        assert scalar(found, "every_state_is_fixed").value == 1
        assert "fixed_points" not in found

    def test_latch(self) -> None:
        """It remembers through noise, and gradient does not see how."""
        found = self.cell(Latch)
        points = [at(found, "fixed_points", number) for number in (1, 2, 3)]
        assert points == pytest.approx([0.007188064, 0.5, 0.992811936], abs=EXACT)
        slopes = [at(found, "derivative_at_fixed_points", number) for number in (1, 2, 3)]
        assert slopes == pytest.approx([0.0713639592, 2.5, 0.0713639592], abs=EXACT)
        assert at(found, "gradient", 100) == pytest.approx(2.2279e-115, rel=1e-4)
        assert scalar(found, "gradient_per_step").value == pytest.approx(0.0713639592, abs=EXACT)
        assert at(found, "right_with_noise", 1004) == 1.0

    def test_lstm_by_hand(self) -> None:
        """Gated, it does both: right on all steps, with noise too, and nearly all of the gradient comes back. Noise
        leaks in as e^-18 a step, and the forget gate lets as much out as it is less than 1."""
        found = self.cell(LSTMByHand, draws=100)
        assert scalar(found, "last_right_step").value == 1004
        assert at(found, "right_with_noise", 1004) == 1.0
        assert at(found, "gradient", 1000) == pytest.approx(0.99999793885, abs=EXACT)
        leak = 1000 * (math.exp(-18) - (1 - 1 / (1 + math.exp(-20))))
        assert at(found, "drift", 1004) == pytest.approx(leak, rel=0.1)

    def test_a_trained_kind_of_model_is_looked_at_too(self) -> None:
        """Also on a task that asks once, which has no right answers at every step."""
        torch.manual_seed(0)
        found = measure(
            MemoryCell(draws=4, steps=[2, 9]), GRU(0, hidden=6, interface=Adding.interface), Adding(length=9)
        )
        assert "last_right_step" not in found
        assert at(found, "derivative_at_fixed_points", 1) < 1
        assert len([name for name in found if name.startswith("memory ")]) == 4

    def test_skips_say_why(self) -> None:
        """Tokens, and models of several layers."""
        with pytest.raises(Skip, match="the task gives tokens"):
            measure(MemoryCell(), LSTM(18))
        with pytest.raises(Skip, match="the model has 2"):
            measure(MemoryCell(), LSTM(0, layers=2, interface=BothSeen.interface), BothSeen(lengths=[12]))


class TestStateJacobian:
    def test_a_linear_network_has_the_power_of_its_matrix(self) -> None:
        """d h_T / d h_0 = W^T, with the Frobenius norm as its size."""
        torch.manual_seed(0)
        model = Elman(0, hidden=5, embedding=3, activation="identity", interface=Interface(4, 4, "vectors", "numbers"))
        found = measure(StateJacobian(), model, Noise(width=4, length=20))
        w: Any = model.rnn.get_parameter("cells.0.weight_hh").detach().double()
        for steps in (1, 2, 20):
            assert at(found, "full", steps) == pytest.approx(w.matrix_power(steps).norm().item(), rel=1e-9)
        assert "direct" not in found

    def test_an_elman_network_never_exceeds_its_bound(self) -> None:
        """In several draws; and the largest stretch of one step with tanh' = 1 is the bound itself."""
        for seed in range(5):
            torch.manual_seed(seed)
            model = Elman(0, hidden=8, spectral_radius=2.0, interface=Interface(4, 4, "vectors", "numbers"))
            found = measure(StateJacobian(), model, Noise(width=4, length=30, deviation=0.05))
            assert scalar(found, "of_bound").verdict == "within the bound"
            assert 0 < scalar(found, "of_bound").value <= 1

    @pytest.mark.parametrize("radius", [0.4, 3.0])
    def test_a_bound_may_leave_the_floats(self, radius: float) -> None:
        """Over 1,000 steps its power is no float, in either direction."""
        model = Elman(0, hidden=4, spectral_radius=radius, interface=Interface(4, 4, "vectors", "numbers"))
        found = measure(StateJacobian(examples=1), model, Noise(width=4, length=1000, deviation=0.05))
        assert scalar(found, "of_bound").verdict in (None, "within the bound")

    def test_bound_is_reached_where_nothing_saturates(self) -> None:
        """With an orthogonal W and no input or bias, every direction is kept: the bound, exactly."""
        model = Elman(0, hidden=8, orthogonal=True, interface=Interface(4, 4, "vectors", "numbers"))
        for name, parameter in model.named_parameters():
            if "weight_hh" not in name:
                nn.init.zeros_(parameter)
        found = measure(StateJacobian(), model, Noise(width=4, length=30))
        assert scalar(found, "of_bound").value == pytest.approx(1.0, abs=1e-4)
        assert at(found, "full", 30) == pytest.approx(math.sqrt(8), rel=1e-5)

    @pytest.mark.parametrize("draws", [range(8), pytest.param(range(8, 40), marks=pytest.mark.slow)])
    @pytest.mark.parametrize("bias", [0.0, 1.0])
    def test_a_cell_passes_more_than_the_product_of_its_gates(self, bias: float, draws: range) -> None:
        """At least twice as much, in each draw."""
        ratios = []
        task = Noise(length=40, deviation=0.05)
        for seed in draws:
            torch.manual_seed(seed)
            model = LSTM(0, hidden=16, forget_bias=bias, interface=task.interface)
            ratios.append(scalar(measure(StateJacobian(examples=1), model, task), "full_to_direct").value)
        assert min(ratios) >= 2

    def test_gates_that_sit_still_pass_their_power(self) -> None:
        """Without weights each gate is the sigmoid of its bias: both ways are sqrt(16) sigmoid(1)^40."""
        task = Noise(length=40)
        model = LSTM(0, hidden=16, interface=task.interface)
        for name, parameter in model.rnn.named_parameters():
            if "weight" in name:
                nn.init.zeros_(parameter)
        found = measure(StateJacobian(), model, task)
        known = 4 / (1 + math.exp(-1)) ** 40
        assert known == pytest.approx(1.45e-5, rel=0.01)
        assert at(found, "direct", 40) == pytest.approx(known, rel=1e-6)
        assert at(found, "full", 40) == pytest.approx(known, rel=1e-6)
        assert scalar(found, "full_to_direct").verdict == "about the product of the gates"

    def test_layers_are_told_apart(self) -> None:
        """Each has measurements of its own, and what reads backward has none."""
        found = measure(StateJacobian(examples=2), LSTM(18, layers=2), TINY)
        assert {"full (layer 1)", "full (layer 2)", "direct (layer 2)"} <= found.keys()
        assert "full" in measure(StateJacobian(examples=2), LSTM(18, bidirectional=True), TINY)


class Foreign(nn.Module):
    """Somebody's model: an LSTM two modules deep, time first."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, 8)
        self.body = nn.ModuleDict({"memory": nn.LSTM(8, 6)})
        self.head = nn.Linear(6, vocab_size)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.body["memory"](self.table(tokens).transpose(0, 1))
        return self.head(states.transpose(0, 1))  # type: ignore[no-any-return]


def keeping(cells: int) -> Foreign:
    """The first cells hold (f = sigmoid(10)), let in what the key is (i = sigmoid(30) there) and little else."""
    torch.manual_seed(0)
    model = Foreign(18)
    memory: Any = model.body["memory"]
    nn.init.zeros_(model.table.weight)
    nn.init.ones_(model.table.weight[:KEYS, 0].data)  # whether it is a key, and which one
    model.table.weight.data[:KEYS, 1] = torch.linspace(-1, 1, KEYS)
    for parameter in memory.parameters():
        nn.init.zeros_(parameter)
    i, f, g = (slice(6 * gate, 6 * gate + cells) for gate in range(3))
    memory.bias_ih_l0.data[i], memory.weight_ih_l0.data[i, 0] = -10.0, 40.0
    memory.bias_ih_l0.data[f] = 10.0
    memory.weight_ih_l0.data[g, 1] = 1.0
    return model


class TestGates:
    def test_cells_that_hold_are_found_in_a_foreign_model(self) -> None:
        found = measure(Gates(), keeping(4), TINY)
        assert scalar(found, "cells_that_hold").value == 4
        assert scalar(found, "holding_forget").value == pytest.approx(1 / (1 + math.exp(-10)), abs=1e-6)
        assert cell(found, "gate_means", "cells that hold", "input, cue") == pytest.approx(1.0, abs=1e-6)
        assert cell(found, "gate_means", "cells that hold", "input, distractors") == pytest.approx(4.5e-5, rel=0.01)
        assert cell(found, "gate_means", "all cells", "forget, cue") == pytest.approx((4 * 0.99995 + 1) / 6, rel=1e-3)

    def test_what_is_written_is_explained(self) -> None:
        """By the distractor, if it alone is written; by the key, if the state writes; and not by chance."""
        torch.manual_seed(0)
        reads = Foreign(18)
        memory: Any = reads.body["memory"]
        nn.init.zeros_(memory.weight_hh_l0)
        found = measure(Gates(), reads, TINY, examples=256)
        assert cell(found, "written_explained", "all cells", "token") == pytest.approx(1.0, abs=1e-6)
        assert cell(found, "written_explained", "all cells", "token, shuffled") < 0.05
        assert cell(found, "written_explained", "all cells", "cue") < 0.05
        remembers = keeping(6)
        memory = remembers.body["memory"]
        memory.bias_ih_l0.data[:6] = 2.0  # gates open, to what is remembered
        memory.weight_hh_l0.data[12:18] = torch.eye(6)
        found = measure(Gates(), remembers, Recall(train_max=2, distances=[1]), examples=256)
        assert cell(found, "written_explained", "all cells", "cue") == pytest.approx(1.0, abs=1e-3)
        assert cell(found, "written_explained", "all cells", "cue, shuffled") < 0.1

    def test_explained_is_the_correlation_ratio(self) -> None:
        """Means 1 and 4 of two classes, 2 within: between 2 * 2 * 1.5^2 = 9 of 9 + 1 = 10... by hand."""
        values = torch.tensor([[0.5], [1.5], [3.5], [4.5]], dtype=torch.float64)
        assert explained(values, torch.tensor([0, 0, 1, 1])) == pytest.approx(9 / 10)
        assert math.isnan(explained(torch.ones(4, 2), torch.tensor([0, 0, 1, 1])))

    def test_a_gru_holds_by_its_update_gate(self) -> None:
        model = GRU(18, hidden=5)
        for name, parameter in model.rnn.named_parameters():
            nn.init.zeros_(parameter)
            if name == "bias_ih_l0":
                parameter.data[5:8] = 10.0
        found = measure(Gates(), model, TINY)
        assert scalar(found, "cells_that_hold").value == 3
        assert cell(found, "gate_means", "cells that hold", "input, cue") == pytest.approx(4.5e-5, rel=0.01)
        assert cell(found, "gate_means", "all cells", "forget, query") == pytest.approx((3 * 0.99995 + 1) / 5, rel=1e-3)

    def test_layers_have_rows_of_their_own(self) -> None:
        found = measure(Gates(), LSTM(18, layers=2), TINY)
        assert 0 < cell(found, "gate_means", "layer 2, all cells", "input, cue") < 1

    def test_vectors_have_no_classes(self) -> None:
        found = measure(Gates(), LSTM(0, interface=Adding.interface), Adding(length=9))
        assert math.isnan(cell(found, "written_explained", "all cells", "cue"))

    def test_without_gates_there_is_nothing_to_see(self) -> None:
        with pytest.raises(Skip, match="layer 1 has pre_activation"):
            measure(Gates(), Elman(18), TINY)


FILE = """
import torch
from torch import nn

class Theirs(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.table = nn.Embedding(vocab_size, 8)
        self.lstm = nn.LSTM(8, 6, batch_first=True)
        self.head = nn.Linear(6, vocab_size)

    def forward(self, tokens):
        return self.head(self.lstm(self.table(tokens))[0])
"""


def test_models_in_files_are_seen_and_those_without_a_state_skipped(tmp_path: Path) -> None:
    """A file plugin on `nn.LSTM` gets all that the built-in one does; a GPT is skipped with the reason."""
    (tmp_path / "theirs.py").write_text(FILE, encoding="utf-8")
    results = harness.run(
        models=[str(tmp_path / "theirs.py") + ":Theirs", "gpt"],
        tasks=["recall:train_max=5,distances=[1,5]"],
        probes=["gates", "state_jacobian"],
        training={"steps": 2},
        seeds=1,
        examples=16,
        out=tmp_path / "run",
    )
    status = {(record.model.name == "gpt", record.status) for record in results.records}
    assert status == {(True, "skipped"), (False, "ok")}
    assert all("no state" in (record.reason or "") for record in results.records if record.status == "skipped")


def test_gpt_is_a_model_without_state() -> None:
    """The need itself."""
    from harness.needs import unmet
    from harness.subject import Subject

    subject = Subject(GPT(18), TINY, stage="initial", seed=0, device=torch.device("cpu"), examples=8)
    assert "no state" in unmet(Gates.needs, subject)


def test_training_that_is_truncated_shows_no_gradient_beyond_its_chunk(tmp_path: Path) -> None:
    """Exactly 0 where the cue lies in an earlier chunk, and as without truncation where it does not."""
    results = harness.run(
        models="lstm",
        tasks="recall:train_max=9,distances=[2,9]",
        probes="grad_reach:examples=8",
        training={"steps": 2, "truncate": 5},
        seeds=1,
        examples=16,
        out=tmp_path / "run",
    )
    for record in results.records:
        found = {measurement.name: measurement for measurement in record.measurements}
        assert at(found, "reach_in_training", 9) == 0
        assert at(found, "reach", 9) > 0
        assert at(found, "reach_in_training", 2) == pytest.approx(at(found, "reach", 2), rel=1e-5)


def selection(model: str, probe: str) -> Selection:
    return Selection(model=Request(name=model), probe=Request(name=probe), metric="anything")


class TestSeedsOfAnExperiment:
    def suite(self) -> Suite:
        many = Experiment(
            models=[Request(name="elman", alias="small")], probes=[Request(name="state_jacobian")], seeds=40
        )
        return Suite(experiments=[many, Experiment(models=[Request(name="lstm")])])

    def test_each_has_its_own(self) -> None:
        suite = self.suite()
        assert [suite.seeds_of(each) for each in suite.experiments] == [40, 3]
        assert suite.seeds_for(selection("small", "state_jacobian")) == 40
        assert suite.seeds_for(selection("lstm", "accuracy")) == 3

    def test_they_are_planned(self) -> None:
        assert len(make_plan(self.suite(), default_registry()).trials) == 43

    def test_the_user_wins(self) -> None:
        fewer = build_suite(suite=self.suite(), seeds=2)
        assert len(make_plan(fewer, default_registry()).trials) == 4


def test_the_suite_says_where_its_figures_come_from() -> None:
    """Every claim has a source, and all that can be tested without training is."""
    suite = find_suite("memory")
    assert all(claim.source for claim in suite.claims)
    assert {"hand-set cells", "Jacobians", "inside the LSTM", "adding", "truncated training"} <= {
        claim.source for claim in suite.claims
    }
