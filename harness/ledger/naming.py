"""The ledger of a model by name."""

from typing import Any

import torch
from torch import nn

from harness.batches import Interface
from harness.build import build_model
from harness.contracts import Skip
from harness.errors import PluginError, RequestError
from harness.ledger.counting import Ledger, count_costs
from harness.plugin import Plugin, resolve
from harness.registry import Registry, default_registry, plugin_error
from harness.suites import Request
from harness.targets import find_entry, load_definition

FIX = "What it raises at short random input, harness check shows in full."

VOCABULARY = 256
"""Token ids of a model that has no tokenizer, if nobody says how many: one for each byte."""


def ledger(name: str, *, length: int = 256, vocabulary: int | None = None, registry: Registry | None = None) -> Ledger:
    """The ledger of a model that `harness run --model` takes.

    Weights are given no memory where the model can be built without their values: a model of any size is counted
    within seconds.

    Args:
        name: for example `gpt:layers=12,heads=12,d_model=768`, `./gru.py:GRU` or `hf:config=gpt2`.
        length: tokens of the sequence.
        vocabulary: the number of token ids; if not said, those of its tokenizer, or 256. (The width of a vector, of a
            model that reads only vectors.)
        registry: where names are looked up; what is installed, if not said.

    Raises:
        RequestError: there is no such model, its arguments are wrong, or it takes no sequence of that length.
        PluginError: it raised.
    """
    registry = registry or default_registry()
    request = Request.model_validate(name)
    entry = find_entry(registry, "model", request.name)
    plugin = resolve(load_definition(entry), request)
    interface = _interface(plugin, vocabulary)
    try:
        return _without_values(plugin, interface, length)
    except RequestError:
        raise
    except Exception:  # it computes with its values: as rare as it is hard to foresee
        try:
            return count_costs(build_model(plugin, interface, seed=0).eval(), interface, length)
        except (RequestError, PluginError):
            raise
        except Skip as reason:
            raise RequestError(f"model {str(request)!r} cannot be counted: {reason}") from None
        except Exception as error:
            raise plugin_error(entry, "being counted", error, FIX) from error


def _without_values(plugin: Plugin, interface: Interface, length: int) -> Ledger:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with torch.random.fork_rng(devices=[]), FakeTensorMode():
        model: Any = plugin.construct(vocab_size=interface.input_size, interface=interface)
        if not isinstance(model, nn.Module):
            raise TypeError  # built with its values it is refused in words
        return count_costs(model.eval(), interface, length)


def _interface(plugin: Plugin, vocabulary: int | None) -> Interface:
    accepts = plugin.says.accepts
    if vocabulary is None and plugin.pretrained:
        tokenizer = plugin.tokenizer()
        vocabulary = None if tokenizer is None else int(tokenizer.size)
    size = VOCABULARY if vocabulary is None else vocabulary
    if "tokens" in accepts:
        return Interface(size, size, separator=size - 1 if plugin.says.sees == "source" else None)
    return Interface(size, size, input="vectors", output="numbers")
