"""Which layer made an attention call, and whether its pattern can be read token by token."""

import torch
import torch.nn.functional as F
from harness_plugins.models.gpt import GPT
from harness_plugins.tasks.recall import VOCABULARY
from torch import Tensor, nn

from harness.attention import look, observe
from harness.attention.seen import calling_module, layer_names

TOKENS = torch.randint(VOCABULARY, (3, 8), generator=torch.Generator().manual_seed(0))


class Attend(nn.Module):
    """Causal attention of a token to itself and what came before, by one head; several calls if asked."""

    def __init__(self, calls: int = 1) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.calls):
            x = F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], is_causal=True)[:, 0]
        return x


class Stack(nn.Module):
    """An embedding and blocks."""

    def __init__(self, *blocks: nn.Module, name: str = "blocks") -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 8)
        self.name = name
        setattr(self, name, nn.ModuleList(blocks))

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.embedding(tokens)
        for block in getattr(self, self.name):
            x = x + block(x)
        return x @ self.embedding.weight.mT


def names(model: nn.Module) -> list[str]:
    return [layer.name for layer in look(model, TOKENS).layers(TOKENS)]


def test_blocks_that_attend_once_each_are_numbered() -> None:
    """From 1, whatever the blocks are called."""
    assert names(GPT(VOCABULARY, layers=3)) == ["layer 1", "layer 2", "layer 3"]
    assert names(Stack(Attend(), Attend())) == ["layer 1", "layer 2"]
    assert names(Stack(Attend())) == ["layer 1"]
    heads = [head for layer in look(GPT(VOCABULARY), TOKENS).layers(TOKENS) for head in layer.head_names]
    assert heads == ["layer 1 head 1", "layer 1 head 2", "layer 2 head 1", "layer 2 head 2"]


def test_where_calls_are_no_layers_the_module_is_named() -> None:
    """Some blocks do not attend, a module attends twice, every head makes a call of its own, one block serves
    twice, numbers within numbers."""
    assert names(Stack(nn.Linear(8, 8), Attend(), nn.Linear(8, 8), Attend())) == ["blocks.1", "blocks.3"]
    assert names(Stack(nn.Linear(8, 8), Attend())) == ["blocks.1"]
    assert names(Stack(Attend(calls=2))) == ["blocks.0 call 1", "blocks.0 call 2"]
    assert names(Stack(Attend(), Attend(), name="heads")) == ["heads.0", "heads.1"]
    shared = Attend()
    assert names(Stack(shared, shared)) == ["blocks.0 call 1", "blocks.0 call 2"]
    assert layer_names(["blocks.0.self", "blocks.0.cross", "blocks.1.self", "blocks.1.cross"])[1] == "blocks.0.cross"
    assert names(nn.Sequential(Stack(Attend(), Attend()))) == ["0.blocks.0", "0.blocks.1"]
    assert layer_names(["", ""]) == ["call 1", "call 2"]
    assert layer_names(["attention"]) == ["layer 1"]
    assert layer_names([]) == []


def test_the_calling_module_is_the_innermost_registered_one() -> None:
    """What is no part of the outermost module is left out; outside of modules there is none."""

    class Hides(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = [Attend()]

        def forward(self, tokens: Tensor) -> Tensor:
            attended: Tensor = self.hidden[0](F.one_hot(tokens, 8).float())
            return attended

    with observe() as seen:
        nn.Sequential(Hides())(TOKENS % 8)
        x = torch.ones(1, 1, 2, 2)
        F.scaled_dot_product_attention(x, x, x)
    assert seen.modules == ["0", ""]
    assert calling_module() == ""


def test_what_does_not_line_up_with_the_tokens_is_a_misfit() -> None:
    """An added position, heads folded into the examples, another memory; each with its shape."""

    def misfit(queries: Tensor, keys: Tensor) -> str:
        with observe() as seen:
            F.scaled_dot_product_attention(queries, keys, keys)
        return seen.layers(TOKENS)[0].misfit

    assert misfit(torch.ones(3, 2, 8, 4), torch.ones(3, 2, 8, 4)) == ""
    for queries, keys, shape in (
        ((3, 2, 9, 4), (3, 2, 9, 4), (3, 2, 9, 9)),
        ((6, 8, 4), (6, 8, 4), (6, 1, 8, 8)),
        ((3, 2, 8, 4), (3, 2, 5, 4), (3, 2, 8, 5)),
    ):
        reason = misfit(torch.ones(queries), torch.ones(keys))
        assert reason.startswith(f"layer 1 has attention of shape {shape}, not (examples, heads, time, time) = (3, ")
