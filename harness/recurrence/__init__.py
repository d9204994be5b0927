"""The state of any recurrent model, without its help: seen, replaced and differentiated, from outside.

Every `nn.RNN`, `nn.LSTM`, `nn.GRU` (with projections, dropout between layers, packed sequences, in both directions) and
every `nn.RNNCell`, `nn.LSTMCell`, `nn.GRUCell` called step by step can be looked into, anywhere in a model. While a
context is open its computation is made again from its weights, step by step, and must give what the module gives (to
1e-12 in float64), or a `RequestError` names it. A cell written by hand, a state-space model or linear attention offers
its state (`harness.offers.OffersState`), and is seen in the same way by stepping.

    for layer in states_of(model, tokens):  # a StateLayer for each layer and direction
        layer.name, layer.states, layer.cells, layer.gates["forget"]  # each `batch time width`

    there = {layer.name: layer.after(cue)[partner] for layer in states_of(model, tokens)}
    with replaced(model, there, after=cue):
        logits = model(tokens)  # what comes after the cue goes on from the state of the partner
    with replaced(model, {"layer 1": start}, after=-1):
        logits = model(tokens)  # begins with another state

    jacobians(layer, [-1, 0], end=9)  # of the state after position 9, by the first and by that after position 0

Positions count from 0. What is carried from step to step is one vector for each example: the states, then the cells.
"""

from harness.recurrence.jacobians import direct_path, jacobians
from harness.recurrence.layers import StateLayer
from harness.recurrence.seeing import Seen, observe, recurrent_modules, replaced, state_size, states_of

__all__ = [
    "Seen",
    "StateLayer",
    "direct_path",
    "jacobians",
    "observe",
    "recurrent_modules",
    "replaced",
    "state_size",
    "states_of",
]
