"""The ledger of one model: nothing is timed, and nothing depends on values, so that weights need not even exist."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.hooks import RemovableHandle

from harness.batches import Interface
from harness.capabilities import Capabilities
from harness.errors import RequestError
from harness.ledger.owners import REST, Owners
from harness.ledger.parts import MIXING, PARTS, parameters_by_part, parts_of
from harness.offers import OffersState
from harness.recurrence import recurrent_modules, state_size
from harness.recurrence.nested import leaves

SHORT = (8, 16, 24, 40)
"""Lengths at which operations of a model that reads token by token are counted, since it would take long at the full
one. They lie on a polynomial of degree two where it does a fixed amount of work for a token, or for a pair of tokens:
three lengths give it, and the last one confirms it. Where it does not, and of all other models, operations are counted
at the full length: only there it shows how wide a window or a chunk is."""

Growth = Literal["constant", "logarithmic", "linear", "other"]

ORDER: dict[Growth, str] = {
    "constant": "all tokens at once",
    "logarithmic": "in about log(length) steps, as a scan does",
    "linear": "token by token",
    "other": "in steps of some other number",
}
"""How a model reads a sequence, by how its longest chain of operations grows with the length."""

ByPart = dict[str, int]
"""A number for each part of a model (`PARTS`)."""

Passes = dict[tuple[str, str], int]
"""Of a forward and a backward pass: operations of each part, as `forward` and as `training`, and `cache` in `bytes`."""


@dataclass(frozen=True)
class Ledger:
    """What a model costs for one sequence.

    An operation is a multiplication or an addition in a product of matrices, an attention or a convolution: 2 m n k for
    (m, k) times (k, n), as in the literature. What is done element by element is not counted.

    Args:
        interface: what the model reads and gives.
        length: of the sequence, in tokens.
        parameters: numbers of each part; shared ones count once.
        forward: operations of a forward pass, by part.
        training: operations of a forward and a backward pass, by part.
        cache_bytes: keys and values of all attention that is left behind after the sequence, in the precision of the
            model; 0 without attention that can be seen.
        state_bytes: states and cells of all recurrent layers; 0 without such.
        exponent: p in operations ~ length^p of a forward pass, from half of the length to it.
        chain_lengths: two short lengths, in tokens.
        chain: the longest chain of operations of PyTorch that wait for one another in a forward pass, at these two.
        growth: how that chain grows with the length: `constant` for what is computed for all tokens at once, `linear`
            for what is computed token by token.
    """

    interface: Interface
    length: int
    parameters: ByPart
    forward: ByPart
    training: ByPart
    cache_bytes: int
    state_bytes: int
    exponent: float
    chain_lengths: tuple[int, int]
    chain: tuple[int, int]
    growth: Growth


def count_costs(model: nn.Module, interface: Interface, length: int) -> Ledger:
    """The ledger of a model that is there.

    Args:
        model: any model; under a `FakeTensorMode`, one without values.
        interface: what it reads and gives.
        length: tokens of the sequence.

    Raises:
        RequestError: the model says that it takes no sequence of that length, or a source and its separator have no
            room in it.
    """
    most = Capabilities(model).max_length
    if most is not None and length > most:
        raise RequestError(
            f"{type(model).__name__} takes {most} tokens at most, and the length is {length}; ask for a shorter one, "
            "or build it for longer sequences (max_length)"
        )
    least = interface.least
    if length < least:
        raise RequestError(
            f"{type(model).__name__} reads a source and a separator, and the length is {length}; give {least} or more"
        )
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))

    def inputs(time: int) -> Tensor:
        if interface.input == "tokens":
            tokens = torch.zeros(1, time, dtype=torch.long, device=device)
            if interface.separator is not None:
                tokens[:, time // 2] = interface.separator
            return tokens
        return torch.zeros(1, time, interface.input_size, device=device, requires_grad=True)

    parts = parts_of(model, inputs(min(8, length)), interface.output_size)

    @cache
    def passes(time: int) -> Passes:
        return _passes(model, inputs(time), parts)

    half = length // 2
    short = (32 if most is None else min(32, most)) // 4
    depths = [_chain(model, inputs(times * short)) for times in (1, 2, 4)] if short >= least else [0, 0, 0]
    growth = _growth(*depths) if short >= least else "other"
    at = partial(_at, passes) if growth == "linear" else passes
    whole = at(length)
    forward = {part: whole["forward", part] for part in PARTS}
    return Ledger(
        interface=interface,
        length=length,
        parameters=parameters_by_part(model, parts),
        forward=forward,
        training={part: whole["training", part] for part in PARTS},
        cache_bytes=whole["cache", "bytes"],
        state_bytes=sum(map(_state, recurrent_modules(model).values())),
        exponent=_exponent(whole, at(half), length / half) if half >= least else math.nan,
        chain_lengths=(2 * short, 4 * short),
        chain=(depths[1], depths[2]),
        growth=growth,
    )


def _at(counted: Callable[[int], Passes], length: int) -> Passes:
    """What is counted at a length: there if it is short, else from short ones (see `SHORT`)."""
    if length <= SHORT[-1]:
        return counted(length)
    at = {time: counted(time) for time in SHORT}
    *through, last = SHORT
    if at[last] == _quadratic(at, through, last):
        return _quadratic(at, through, length)
    return counted(length)


def _quadratic(at: Mapping[int, Passes], through: Sequence[int], x: int) -> Passes:
    """Lagrange's polynomial, in whole numbers."""
    found = dict.fromkeys(at[through[0]], 0.0)
    for here in through:
        others = [each for each in through if each != here]
        top = (x - others[0]) * (x - others[1])
        bottom = (here - others[0]) * (here - others[1])
        for counted, value in at[here].items():
            found[counted] += value * top / bottom
    return {counted: round(value) for counted, value in found.items()}


def _passes(model: nn.Module, inputs: Tensor, parts: Mapping[str, str]) -> Passes:
    counter = FlopCounterMode(
        display=False, custom_mapping={torch.ops.aten.convolution_backward: _convolution_backward}
    )
    counter.mod_tracker = Owners(model, parts)  # type: ignore[assignment]  # of which it asks for the parents alone
    # without gradients PyTorch fuses whole layers
    with _step_by_step(), torch.enable_grad(), counter:
        with _Caches(model) as caches:
            outputs: Tensor = model(inputs.detach())  # training asks for no gradient of its data
        forward = _by_part(counter)
        if outputs.requires_grad:  # those of a table of counts carry no gradient
            outputs.sum().backward()
    for parameter in model.parameters():
        parameter.grad = None
    training = _by_part(counter)
    return {
        **{("forward", part): operations for part, operations in forward.items()},
        **{("training", part): operations for part, operations in training.items()},
        ("cache", "bytes"): caches.taken,
    }


def _by_part(counter: FlopCounterMode) -> ByPart:
    """What was counted until now."""
    counted = counter.get_flop_counts()
    found = dict.fromkeys(PARTS, 0)
    # what no part did: among it the output layer, where that is a product with the embedding's own matrix
    rest = "other" if counted.get("output") else "output"
    for part, by_kind in counted.items():
        for kind, operations in by_kind.items():
            of_activations = part in ("attention", REST) and kind in _OF_ACTIVATIONS
            found[MIXING if of_activations else rest if part == REST else part] += operations
    return found


def _convolution_backward(
    back: Sequence[int], given: Sequence[int], weight: Sequence[int], *settings: Any, out_shape: Any = None
) -> int:
    """The two products of a convolution's gradients, each as large as the convolution itself. PyTorch's own formula
    takes grouped ones (each channel by itself) for whole ones, which are hundreds of times as large."""
    transposed, wanted = settings[4], settings[7]
    places = math.prod((given if transposed else back)[2:])
    return 2 * given[0] * places * math.prod(weight) * sum(map(bool, wanted[:2]))


_OF_ACTIVATIONS = (torch.ops.aten.bmm, torch.ops.aten.baddbmm)
"""Weights are the same for all examples, so that a product for each example is one of activations alone."""


class _Caches(TorchFunctionMode):
    """Adds up the keys and values that attention is given, but not in what has a state, which holds them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.taken = 0
        self._inside = 0
        self._stateful = [*recurrent_modules(model).values()]
        self._hooks: list[RemovableHandle] = []

    def __enter__(self) -> "_Caches":
        for module in self._stateful:
            self._hooks.append(module.register_forward_pre_hook(lambda *_: self._step(1)))
            self._hooks.append(module.register_forward_hook(lambda *_: self._step(-1), always_call=True))
        super().__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        super().__exit__(*raised)

    def _step(self, inwards: int) -> None:
        self._inside += inwards

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self._inside and func in (F.scaled_dot_product_attention, F.multi_head_attention_forward):
            key, value = args[1:3] if len(args) > 2 else (kwargs["key"], kwargs["value"])
            self.taken += key.nbytes + value.nbytes
        return func(*args, **kwargs)


def _exponent(whole: Passes, half: Passes, ratio: float) -> float:
    most, least = (sum(each for (which, _), each in passes.items() if which == "forward") for passes in (whole, half))
    return math.log(most / least) / math.log(ratio) if least else math.nan


def _state(module: Any) -> int:
    """Bytes of a recurrent module's state for one sequence."""
    if isinstance(module, OffersState):
        return sum(leaf.nbytes for leaf in leaves(module.initial_state(1)))
    return state_size(module) * int(next(module.parameters()).element_size())


def _chain(model: nn.Module, inputs: Tensor) -> int:
    """The longest chain in the graph of a forward pass."""
    with _step_by_step(), torch.enable_grad():
        outputs: Tensor = model(inputs)
    depth: dict[object, int] = {None: 0}
    last: Any = outputs.grad_fn
    waiting = [last]
    while waiting:
        node = waiting[-1]
        before = [each for each, _ in node.next_functions] if node is not None else []
        unknown = [each for each in before if each not in depth]
        if unknown:
            waiting.extend(unknown)
            continue
        waiting.pop()
        depth.setdefault(node, 1 + max((depth[each] for each in before), default=0))
    return depth[last]


def _growth(first: int, second: int, third: int) -> Growth:
    """From the chain at a length, twice and four times that length."""
    if first == second == third:
        return "constant"
    steps = (second - first, third - second)
    if steps[0] > 0 and abs(steps[1] - 2 * steps[0]) <= 0.1 * steps[1]:
        return "linear"
    return "logarithmic" if steps[0] > 0 and abs(steps[1] - steps[0]) <= 0.1 * steps[1] else "other"


@contextmanager
def _step_by_step() -> Iterator[None]:
    """Recurrent layers and attention as products of matrices, of which fused kernels do not tell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about devices that are not here
        rnn = torch.backends.mkldnn.flags(enabled=False), torch.backends.cudnn.flags(enabled=False)
        with rnn[0], rnn[1], sdpa_kernel(SDPBackend.MATH):
            yield
