"""What must be so of a recurrent state."""

import copy
import math

import torch
from harness_plugins.probes.laws.general import BY_DIFFERENCES, GENERAL, STEP
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from harness import Skip
from harness.laws import Answer, Case, Known, Laws, worst
from harness.recurrence import StateLayer, jacobians, replaced, states_of


def _layers(case: Case) -> list[StateLayer]:
    layers = [
        layer for layer in states_of(case.model, case.tokens) if layer.direction == "forward" and not layer.misfit
    ]
    if not layers:
        raise Skip("the model has no state that goes forward step by step")
    return layers


def state_is_all_that_goes_on(case: Case) -> Answer:
    """A sequence that is broken off and goes on from the state that was left gives what it gives in one go."""
    _layers(case)
    at = case.tokens.shape[1] // 2
    layers = states_of(case.model, case.tokens)
    if any(layer.direction == "backward" for layer in layers):
        raise Skip("for models that read forward")
    other = torch.cat([case.changed[:, : at + 1], case.tokens[:, at + 1 :]], 1)  # another past, the same state
    with replaced(case.model, {layer.name: layer.after(at) for layer in layers}, after=at):
        outputs = case.run(other)
    return case.compare(outputs[:, at + 1 :], case.outputs[:, at + 1 :])


def cell_equation(case: Case) -> Answer:
    """c_t = f c_{t-1} + i g and h_t = o tanh(c_t): forget, write, show (Hochreiter and Schmidhuber, 1997; Gers et al.,
    2000)."""
    layer = _with_gates(case, "input", "forget", "candidate", "output")
    gates, cells = layer.gates, layer.cells
    if cells is None or cells.shape != gates["forget"].shape or layer.states.shape != cells.shape:
        raise Skip("for an LSTM whose state is as wide as its cells")
    before = torch.cat([layer.initial[:, None, -cells.shape[2] :], cells[:, :-1]], 1)
    cell = gates["forget"] * before + gates["input"] * gates["candidate"]
    shown = gates["output"] * cells.tanh()
    return case.compare(torch.cat([cells, layer.states], -1), torch.cat([cell, shown], -1).detach().cpu())


def update_gate_keeps(case: Case) -> Answer:
    """h_t = z h_{t-1} + (1 - z) n of a GRU, with the update gate z as PyTorch has it: 1 keeps (Cho et al., 2014)."""
    layer = _with_gates(case, "update", "new")
    before = torch.cat([layer.initial[:, None], layer.states[:, :-1]], 1)
    update = layer.gates["update"]
    return case.compare(layer.states, (update * before + (1 - update) * layer.gates["new"]).detach().cpu())


def _with_gates(case: Case, *names: str) -> StateLayer:
    for layer in _layers(case):
        if all(name in layer.gates for name in names):
            return layer
    raise Skip(f"no layer has the gates {', '.join(names)}")


def jacobian_is_the_slope(case: Case) -> Answer:
    """The Jacobian of a state by an earlier one is what a small step in that one changes, divided by its size."""
    answers = []
    for layer in _layers(case):
        end = min(4, layer.states.shape[1] - 1)
        (jacobian,) = jacobians(layer, [0], end)
        start = layer.after(0).detach()
        direction = torch.ones_like(start) / start.shape[1] ** 0.5
        with torch.no_grad():
            plus, minus = (layer.advance(start + step * direction, 0, end)[-1] for step in (STEP, -STEP))
        found = (jacobian @ direction[..., None]).squeeze(-1)
        answers.append(case.compare(found, ((plus - minus) / (2 * STEP)).cpu(), tolerance=BY_DIFFERENCES))
    return worst(answers)


def state_keeps_its_share(case: Case) -> Answer:
    """At rest, a step keeps that share of each number of a state which the argument `kept` states: after 60 steps its
    60th power is left."""
    kept, steps = case.expected.get("kept"), 60
    if kept is None:
        raise Skip("nobody says what share of its state the model keeps in a step (argument `kept`)")
    if not case.tokens.is_floating_point():
        raise Skip("for a model of vectors, which can be given zeros")
    rest = torch.zeros(1, 2 * steps, case.tokens.shape[2], dtype=torch.float64, device=case.device)
    layer = states_of(case.model, rest)[0]
    (jacobian,) = jacobians(layer, [steps - 1], 2 * steps - 1)
    wide = 0 if layer.cells is None else layer.states.shape[2]
    along = jacobian[..., wide:, wide:].diagonal(dim1=-2, dim2=-1).cpu()
    return case.compare(along / kept**steps, 1.0, tolerance=1e-9)


def forget_bias_sets_the_half_life(case: Case) -> Answer:
    """With all weights 0, a cell keeps sigmoid(b) of itself in each step, b being the bias of its forget gate: with
    b = 4.968, half of it after 100 steps."""
    share, steps = 0.5, 100
    bias = -math.log(share ** (-1 / steps) - 1)
    found = []
    for module in _modules(case, nn.LSTM):
        width = module.hidden_size
        alone = copy.deepcopy(module)
        with torch.no_grad():
            for name, parameter in alone.named_parameters():
                parameter.zero_()
                if name.startswith("bias_ih"):
                    parameter[width : 2 * width] = bias
            rows = alone.num_layers * (2 if alone.bidirectional else 1)
            cells = torch.ones(rows, 1, width, dtype=torch.float64, device=case.device)
            shape = (1, steps) if alone.batch_first else (steps, 1)
            x = cells.new_zeros(*shape, alone.input_size)
            _, (_, after) = alone(x, (cells.new_zeros(rows, 1, alone.proj_size or width), cells))
        found.append(after.flatten())
    if not found:
        raise Skip("the model has no nn.LSTM with biases")
    return case.compare(torch.cat(found), share, tolerance=1e-12)


def forget_bias_is_the_sum(case: Case) -> Answer:
    """PyTorch adds two bias vectors: the forget gate's bias is their sum, and filling both with 1 makes 2 of it. It is
    what the argument `forget_bias` states (Jozefowicz et al., 2015, advise 1)."""
    wanted = case.expected.get("forget_bias")
    if wanted is None:
        raise Skip("nobody says what the bias is (argument `forget_bias`)")
    found = [_forget_bias(module, layer) for module in _modules(case, nn.LSTM) for layer in range(module.num_layers)]
    if not found:
        raise Skip("the model has no nn.LSTM with biases")
    return case.compare(torch.cat(found), wanted)


def _forget_bias(module: nn.RNNBase, layer: int) -> Tensor:
    width = module.hidden_size  # gates are stacked in the order i, f, g, o
    first, second = (module.get_parameter(f"bias_{kind}_l{layer}") for kind in ("ih", "hh"))
    return (first + second).detach()[width : 2 * width]


def _modules(case: Case, kind: type[nn.RNNBase] = nn.RNNBase) -> list[nn.RNNBase]:
    return [each for each in case.model.modules() if isinstance(each, kind) and each.bias]


def padding_is_not_read(case: Case) -> Answer:
    """Of a packed sequence, the final state is the one at its last valid step, whatever follows it."""
    outputs, final, lengths = _packed(case)
    rows = torch.arange(len(lengths))
    return case.compare(final, outputs[rows, torch.tensor(lengths) - 1])


def batch_first_leaves_final_states(case: Case) -> Answer:
    """`batch_first` does not move the batch of final states: they are `layer batch unit` (1: so it is)."""
    _, final, lengths = _packed(case, whole=True)
    return Answer(float(final.shape[0] == len(lengths)), 1.0, 0.0)


def _packed(case: Case, *, whole: bool = False) -> tuple[Tensor, Tensor, list[int]]:
    """Outputs for whole sequences, and the last layer's final states for the packed ones."""
    found = [module for module in _modules(case) if module.batch_first and not module.bidirectional]
    if not found:
        raise Skip("the model has no nn.RNN, nn.LSTM or nn.GRU that reads forward, batch first")
    module = found[0]
    lengths = [5, 3, 2]
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(3, 5, module.input_size, dtype=torch.float64, generator=generator).to(case.device)
    with torch.no_grad():
        outputs, _ = module(x)
        _, final = module(x if whole else pack_padded_sequence(x, lengths, batch_first=True))
    return outputs.cpu(), (final[0] if isinstance(final, tuple) else final)[-1].cpu(), lengths


class RecurrenceLaws(Laws):
    """The state of any recurrent model: what goes on, what the gates do with it, and how it depends on the past.

    Everything is computed in double precision, in a copy of the model. A law that does not apply is left out.

    Measures:
        broken: how many laws are broken; the verdict names them.
        laws: what came out for each, what must, how far they are apart, and how far they may be.

    Args:
        forget_bias: what the forget gate's bias must be, of a new LSTM.
        kept: what share of its state the model must keep in a step at rest, of a model of vectors.
    """

    needs = ("state",)
    laws = (
        state_is_all_that_goes_on,
        cell_equation,
        update_gate_keeps,
        jacobian_is_the_slope,
        state_keeps_its_share,
        forget_bias_sets_the_half_life,
        forget_bias_is_the_sum,
        padding_is_not_read,
        batch_first_leaves_final_states,
        *GENERAL,
    )
    known = (
        Known("elman", "recall"),
        Known("elman:activation=identity", "recall"),
        Known("lstm", "recall", {"forget_bias": 1.0}),
        Known("lstm:forget_bias=3,layers=2", "recall", {"forget_bias": 3.0}),
        Known("lstm:peephole=true", "recall"),
        Known("gru", "recall"),
        Known("contraction", "both_seen", {"kept": 0.5}),
        Known("integrator", "both_seen", {"kept": 1.0}),
        Known("latch", "both_seen", {"kept": 0.07136395915978}),
        Known("lstm_by_hand", "both_seen", {"kept": 0.9999999979388463}),
    )

    def __init__(self, *, forget_bias: float | None = None, kept: float | None = None) -> None:
        self.expected = {"forget_bias": forget_bias, "kept": kept}
