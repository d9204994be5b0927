"""What a recurrent state can and cannot do, in figures that algebra gives: cells set by hand, in float64."""

import math
from itertools import pairwise

import pytest
import torch
from harness_plugins.models.hand_set import Contraction, HandSet, Integrator, Latch, LSTMByHand
from harness_plugins.tasks.both_seen import BothSeen
from torch import Tensor

from harness import Batch, run
from harness.examples import seeded
from harness.recurrence import StateLayer, direct_path, jacobians, states_of

LENGTH = 1004
DRAWS = 400


def batch(noise: float = 0.0, examples: int = 1, group: str = "") -> Batch:
    """The longest sequences of the task, with the ones at steps 3 and 4."""
    task = BothSeen(noise=noise)
    condition = next(each for each in task.conditions() if each.x == LENGTH and each.group == group)
    return task.evaluate(condition, examples, seeded("hand-set"))


def built(model: type[HandSet]) -> HandSet:
    return model(BothSeen.interface).double().eval()


def states(model: type[HandSet], tokens: Tensor) -> StateLayer:
    (layer,) = states_of(built(model), tokens.double())
    return layer


def right(model: type[HandSet], given: Batch) -> Tensor:
    """Whether each answer is right, `batch time`."""
    with torch.no_grad():
        return built(model)(given.tokens.double()).argmax(-1) == given.targets


def test_the_contraction_forgets_at_a_constant_rate() -> None:
    """h3 = [1, 0], h4 = [1/2, 1], h5 = [1/4, 1/2]; the last right answer is at step 12."""
    given = batch()
    h = states(Contraction, given.tokens).states[0]
    assert h[2:5].tolist() == [[1.0, 0.0], [0.5, 1.0], [0.25, 0.5]]
    assert h[11].min().item() == pytest.approx(0.001953125, abs=1e-12)
    assert h[12].min().item() == pytest.approx(0.0009765625, abs=1e-12)
    answers = right(Contraction, given)[0]
    assert answers[:12].all()
    assert not answers[12:].any()


def test_the_contraction_is_exactly_zero_in_float32() -> None:
    """After 150 multiplications by 1/2 and not after 149: the smallest number is 2^-149."""
    model = Contraction(BothSeen.interface).eval()
    (layer,) = states_of(model, batch().tokens)
    assert layer.states[0, 2 + 149, 0].item() > 0
    assert layer.states[0, 2 + 150, 0].item() == 0


def test_noise_stays_bounded_in_the_contraction_and_grows_in_the_integrator() -> None:
    """0.05 / sqrt(1 - 1/4) against 0.05 sqrt(1000)."""
    given = batch(noise=0.05, examples=DRAWS)
    contraction = states(Contraction, given.tokens).after(999)
    assert contraction.std().item() == pytest.approx(0.05 / math.sqrt(1 - 1 / 4), rel=0.05)
    integrator = states(Integrator, given.tokens).after(999)
    assert (integrator - 1).std().item() == pytest.approx(0.05 * math.sqrt(1000), rel=0.05)


def test_the_latch_holds_through_noise_and_shows_no_gradient() -> None:
    """Fixed points, the derivative there, and its power over 100 steps, by the Jacobian between states."""
    given = batch(noise=0.05, examples=50)
    assert right(Latch, given)[:, 3:].all()
    h = states(Latch, batch().tokens)
    assert h.states[0, -1].tolist() == pytest.approx([0.992811936, 0.992811936], abs=1e-9)
    low = states(Latch, torch.zeros(1, 50, 2))
    assert low.states[0, -1].tolist() == pytest.approx([0.007188064, 0.007188064], abs=1e-9)
    one, hundred = jacobians(h, [LENGTH - 2, LENGTH - 101], end=LENGTH - 1)[:, 0].diagonal(dim1=1, dim2=2)
    assert one.tolist() == pytest.approx([0.0713639592] * 2, abs=1e-9)
    assert hundred.tolist() == pytest.approx([2.2279e-115] * 2, rel=1e-4)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_the_lstm_set_by_hand_is_right_at_every_step(noise: float) -> None:
    """Both where the answer turns to yes and where it stays no."""
    for group in ("", "one"):
        assert right(LSTMByHand, batch(noise, 20, group)).all()


def test_the_gradient_along_the_cell_is_nearly_one_after_1000_steps() -> None:
    """sigmoid(20)^1000, as the direct path and as the whole Jacobian of the cells."""
    layer = states(LSTMByHand, batch().tokens)
    wanted = 0.99999793885
    assert direct_path(layer, [3], end=1003)[0, 0].tolist() == pytest.approx([wanted] * 2, abs=1e-9)
    cells = jacobians(layer, [3], end=1003)[0, 0][2:, 2:].diagonal()
    assert cells.tolist() == pytest.approx([wanted] * 2, abs=1e-9)


def test_noise_makes_the_lstm_drift_a_little() -> None:
    """By 1004 e^-18 in the mean: what the input gate lets through."""
    layer = states(LSTMByHand, torch.zeros(1, 1, 2))
    assert layer.cells is not None
    noise = 0.05 * torch.randn(2_000_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    through = (40 * noise - 20).sigmoid().mean().item()
    assert 1004 * through == pytest.approx(1004 * math.exp(-18), rel=0.05)


def test_noise_decides_between_the_cells_over_distance() -> None:
    """Share right at steps 12, 100 and 1004: contraction and integrator lose, latch and LSTM do not."""
    given = batch(noise=0.05, examples=DRAWS)
    shares = {m: right(m, given)[:, [11, 99, 1003]].double().mean(0).tolist() for m in (Contraction, Integrator)}
    assert all(share < 0.35 for share in shares[Contraction])
    assert shares[Integrator][0] > 0.97
    assert all(near > far for near, far in pairwise(shares[Integrator]))
    assert all(right(m, given)[:, 3:].all() for m in (Latch, LSTMByHand))


def test_they_run_without_training() -> None:
    """By name, in a run; the accuracy under each length is what algebra says."""
    results = run(
        models=["contraction", "lstm_by_hand"], tasks=["both_seen:lengths=[12,13]"], probes=["accuracy"], seeds=1
    )
    found = {record.model.name: record for record in results.records}
    assert {record.status for record in found.values()} == {"ok"}
    for name, wanted in (("contraction", [1.0, 0.0]), ("lstm_by_hand", [1.0, 1.0])):
        curve = next(each for each in found[name].measurements if each.name == "accuracy")
        assert getattr(curve, "y") == wanted  # noqa: B009 - one of several kinds
