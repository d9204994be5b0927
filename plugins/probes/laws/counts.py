"""How many parameters a model must have, and operations."""

import torch
from pydantic import PositiveInt
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from harness import Skip
from harness.capabilities import Capabilities
from harness.laws import Answer, Case, Known, Laws


def parameters_are_as_stated(case: Case) -> Answer:
    """The model has as many parameters as the argument `parameters` states; shared ones count once."""
    return _counted(case, "parameters", sum(each.numel() for each in case.subject.model.parameters()))


def recurrent_layers_are_as_stated(case: Case) -> Answer:
    """The recurrent layers have as many parameters as the argument `recurrence` states: nn.RNN h (e + h + 2), nn.LSTM
    four times that."""
    modules = [each for each in case.subject.model.modules() if isinstance(each, nn.RNNBase)]
    return _counted(case, "recurrence", sum(each.numel() for module in modules for each in module.parameters()))


def blocks_have_their_formula(case: Case) -> Answer:
    """A block of a transformer has 12 d^2 + 13 d parameters: attention 4 d^2 + 4 d, feed-forward 8 d^2 + 5 d, two norms
    4 d."""
    blocks = getattr(case.subject.model, "blocks", None)
    width = case.expected.get("d_model")
    if not isinstance(blocks, nn.ModuleList) or width is None:
        raise Skip("for a model of `blocks`, whose width the argument `d_model` states")
    counts = {sum(each.numel() for each in block.parameters()) for block in blocks}
    found = max(counts, key=lambda count: abs(count - (12 * width**2 + 13 * width)))
    return Answer(found, 12 * width**2 + 13 * width, 0.0)


def blocks_cost_their_formula(case: Case) -> Answer:
    """In a block of a transformer, T tokens take 24 T d^2 + 4 T^2 d operations of a forward pass: attention's share is
    T / (6 d + T). (Of the longest sequence that the model takes.)"""
    model, width = case.subject.model, case.expected.get("d_model")
    length = Capabilities(model).max_length
    blocks = getattr(model, "blocks", None)
    if not (isinstance(blocks, nn.ModuleList) and width and length):
        raise Skip("for a model of `blocks` and a `max_length`, whose width the argument `d_model` states")
    tokens = torch.zeros(1, length, dtype=torch.long, device=next(model.parameters()).device)
    with FlopCounterMode(display=False) as counter, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        model(tokens)
    expected = 24 * length * width**2 + 4 * length**2 * width
    told = counter.get_flop_counts()
    counts = [sum(told[f"{type(model).__name__}.blocks.{at}"].values()) for at in range(len(blocks))]
    return Answer(max(counts, key=lambda count: abs(count - expected)), expected, 0.0)


def _counted(case: Case, name: str, found: int) -> Answer:
    if (expected := case.expected.get(name)) is None:
        raise Skip(f"nobody says how many there must be (argument `{name}`)")
    return Answer(found, expected, 0.0)


def _gpt(layers: int, heads: int, width: int, parameters: int, length: int = 1024) -> Known:
    """One of the sizes of GPT-2 (Radford et al., 2019), or the largest of GPT-3 (Brown et al., 2020)."""
    return Known(
        f"gpt:layers={layers},heads={heads},d_model={width},max_length={length}",
        vocabulary=50_257,
        arguments={"parameters": parameters, "d_model": width},
    )


class CountLaws(Laws):
    """How many parameters a model must have, and how many operations a block takes, by formula.

    Measures:
        broken: how many laws are broken; the verdict names them.
        laws: what came out for each, what must, how far they are apart, and how far they may be.

    Args:
        parameters: of the whole model.
        recurrence: of its recurrent layers.
        d_model: the width of a transformer's blocks.
    """

    laws = (
        parameters_are_as_stated,
        recurrent_layers_are_as_stated,
        blocks_have_their_formula,
        blocks_cost_their_formula,
    )
    known = (
        Known(
            "gpt:layers=2,heads=2,d_model=64,max_length=15",
            vocabulary=64,
            arguments={"parameters": 105_152, "d_model": 64},
        ),
        _gpt(12, 12, 768, 124_439_808),
        _gpt(24, 16, 1024, 354_823_168),
        _gpt(48, 25, 1600, 1_557_611_200),
        _gpt(96, 96, 12_288, 174_604_259_328, length=2048),
        Known("elman:embedding=100,hidden=200", arguments={"recurrence": 60_400}),
        Known("lstm:embedding=100,hidden=200", arguments={"recurrence": 241_600}),
        Known("elman", "recall", {"parameters": 8_018}),
        Known("lstm", "recall", {"parameters": 26_834}),
        Known("gpt", "recall", {"parameters": 29_888, "d_model": 32}),
    )

    def __init__(
        self,
        *,
        parameters: PositiveInt | None = None,
        recurrence: PositiveInt | None = None,
        d_model: PositiveInt | None = None,
    ) -> None:
        self.expected = {"parameters": parameters, "recurrence": recurrence, "d_model": d_model}
