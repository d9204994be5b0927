"""States are replaced on the way, and later steps go on from the new ones."""

import pytest
import torch
from recurrent import BATCH, EXACT, FORMS, HIDDEN, KINDS, TIME, is_cut, largest, vectors, wrapped

from harness.recurrence import observe, replaced, states_of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["plain", "time first", "given state"])
def test_later_steps_go_on_from_a_replaced_state(kind: str, form: str) -> None:
    """All layers' states replaced after a position are the other example's past; before it nothing changes."""
    model, x = wrapped(kind, **FORMS[form]), vectors()
    for after in (0, 4, TIME - 2):
        is_cut(model, x, vectors().flip(0), after)


def test_each_example_may_have_its_own_position() -> None:
    model, x = wrapped("LSTM"), vectors()
    after = torch.tensor([0, 3, 1, 7, 4])
    other = vectors().flip(0)
    first = torch.arange(TIME) <= after[:, None]
    with torch.no_grad():
        wanted = model(torch.where(first[:, :, None], other, x))
    states = {layer.name: layer.after(after) for layer in states_of(model, other)}
    with torch.no_grad(), replaced(model, states, after=after):
        found = model(x)
    assert largest(found[~first], wanted[~first]) < EXACT


def test_in_packed_sequences_and_backward_layers() -> None:
    """A backward layer goes on to earlier positions; the last state of a packed sequence is the one it ends with."""
    lengths = torch.tensor([3, 9, 1, 9, 4])
    model, x = wrapped("GRU", lengths=lengths, bidirectional=True, num_layers=1), vectors()
    with torch.no_grad():
        own = model(x)
    forward, backward = states_of(model, x)
    assert (forward.name, backward.name) == ("layer 1", "layer 1 backward")
    zero = torch.zeros(1, HIDDEN)
    with torch.no_grad(), replaced(model, {backward.name: zero}, after=2):
        found = model(x)
    assert largest(found[..., :HIDDEN], own[..., :HIDDEN]) < EXACT
    assert largest(found[:, 2:], own[:, 2:]) < EXACT
    assert largest(found[1, :2, HIDDEN:], own[1, :2, HIDDEN:]) > 1e-3
    with torch.no_grad(), replaced(model, {forward.name: zero}, after=lengths - 1):
        model(x)
    assert largest(model.final[0], torch.zeros(BATCH, HIDDEN)) == 0


def test_a_change_below_a_layer_that_reads_backward_reaches_all_positions() -> None:
    model, x = wrapped("LSTM", bidirectional=True), vectors()
    with torch.no_grad():
        own = model(x)
        with replaced(model, {"layer 1": torch.zeros(1, 2 * HIDDEN)}, after=5):
            found = model(x)
    assert largest(found[:, 0], own[:, 0]) > 0
    assert states_of(model, x), "nothing stays behind"


def test_single_cells_and_subspaces_are_replaced_alone() -> None:
    model, x = wrapped("LSTM", num_layers=1), vectors()
    (layer,) = states_of(model, x)
    given = torch.randn(BATCH, 2 * HIDDEN, dtype=torch.float64)
    where = torch.arange(2 * HIDDEN) == HIDDEN + 1
    one_hot = where.double()[:, None] * 7
    results = []
    for each in (where, one_hot):
        with torch.no_grad(), replaced(model, {layer.name: given}, after=2, where=each):
            results.append(model(x))
    by_hand = torch.where(where, given, layer.after(2))
    with torch.no_grad(), replaced(model, {layer.name: by_hand}, after=2):
        results.append(model(x))
    assert largest(results[0], results[2]) < EXACT
    assert largest(results[1], results[2]) < EXACT
    with torch.no_grad(), replaced(model, {layer.name: layer.after(2)}, after=2), observe(model) as seen:
        assert largest(model(x), layer.states) < EXACT
    assert largest(seen.layers[0].carried, layer.carried) < EXACT
